//! `inspect` on good and on damaged blobs.

mod common;

use checkpoint::AlignedBytes;
use common::{Folder, printed, refused};
use runtime::{Model, format};

const EXPORT: &str = env!("CARGO_BIN_EXE_export");
const INSPECT: &str = env!("CARGO_BIN_EXE_inspect");

/// A folder with `good.bin`.
fn exported(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.save("run", "best.ckpt", &folder.checkpoint(1));
    printed(&folder.run(EXPORT, &["-o", "good.bin"]));
    folder
}

#[test]
fn everything_in_the_header_is_printed() {
    let folder = exported("inspect");
    let bytes = AlignedBytes::read(&folder.path.join("good.bin")).unwrap();
    let model = Model::from_bytes(&bytes).unwrap();
    let text = printed(&folder.run(INSPECT, &["good.bin"]));
    let header = model.header();
    let mut expected = vec![
        format!("{} bytes", bytes.len()),
        format!("format version {}", format::FORMAT_VERSION),
        format!("{:08x}, correct", model.crc()),
        "n_layer 2, n_head 2, n_kv_head 1".to_string(),
        "Rope positions (rope_base 1000), RmsNorm, Relu2".to_string(),
        "tied yes".to_string(),
        "head_bias yes".to_string(),
        format!("{:?}", str::from_utf8(header.vocab).unwrap()),
        "run synthetic, step 300, seed 1".to_string(),
        "4.5000 as f32".to_string(),
        format!("{:016x}; passed here", header.golden.logits_hash),
        "\"ROMEO:\\n".to_string(),
        "pico          fits;".to_string(),
    ];
    expected.extend(model.config().tensors().map(|spec| spec.to_string()));
    for expected in expected {
        assert!(text.contains(&expected), "no {expected:?} in\n{text}");
    }
}

#[test]
fn bytes_behind_the_blob_are_told_and_not_read() {
    let folder = exported("inspect-surplus");
    let good = folder.read("good.bin");
    assert!(!printed(&folder.run(INSPECT, &["good.bin"])).contains("warning"));
    std::fs::write(folder.path.join("long.bin"), [&good[..], &[7; 9]].concat()).unwrap();
    let text = printed(&folder.run(INSPECT, &["long.bin"]));
    assert!(
        text.contains("warning       9 bytes behind the blob"),
        "{text}"
    );
    // a hole behind it, longer than any memory
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(folder.path.join("long.bin"));
    file.unwrap().set_len(1 << 42).unwrap();
    printed(&folder.run(INSPECT, &["long.bin"]));
}

#[test]
fn damage_is_said_with_expected_and_found() {
    let folder = exported("inspect-damage");
    let good = folder.read("good.bin");
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let flipped = good[600] ^ 0x10;
    for (bytes, expected) in [
        (changed(600, flipped), "CRC-32 should be"),
        (good[..100].to_vec(), "only 100 are there"),
        (good[..10].to_vec(), "only 10 are there"),
        (Vec::new(), "only 0 are there"),
        (changed(8, 9), "format version 9"),
        (changed(0, b'X'), "not a Chapbook model"),
        (vec![0xff; 64], "nothing but erased memory is here"),
    ] {
        std::fs::write(folder.path.join("bad.bin"), bytes).unwrap();
        let output = folder.run(INSPECT, &["bad.bin"]);
        let error = refused(&output);
        assert!(error.contains(expected), "{error}");
        // What can be read without trust is printed all the same.
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("bad.bin"), "{text}");
    }
}

#[test]
fn wrong_self_test_is_a_failure() {
    let folder = exported("inspect-golden");
    let bytes = AlignedBytes::read(&folder.path.join("good.bin")).unwrap();
    let model = Model::from_bytes(&bytes).unwrap();
    let mut header = *model.header();
    // The lowest bit only, so that the encoded length stays the same.
    header.golden.logits_hash ^= 1;
    let mut wrong = AlignedBytes::zeroed(bytes.len());
    let sections = format::encode(&header, model.layout(), &mut wrong).unwrap();
    wrong[sections.tensors].copy_from_slice(model.tensor_bytes());
    format::seal(&mut wrong);
    std::fs::write(folder.path.join("wrong.bin"), &*wrong).unwrap();
    let output = folder.run(INSPECT, &["wrong.bin"]);
    assert!(refused(&output).contains("the self-test failed"));
}

#[test]
fn other_files_are_told_apart() {
    let folder = Folder::new("inspect-long");
    let file = std::fs::File::create(folder.path.join("long")).unwrap();
    // more than any memory, and all of it a hole
    file.set_len(1 << 42).unwrap();
    let output = folder.run(INSPECT, &["long"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("4398046511104 bytes"));
    assert!(refused(&output).contains("long: "));

    let folder = exported("inspect-other");
    let error = refused(&folder.run(INSPECT, &["runs/run/best.ckpt"]));
    assert!(
        error.contains("is a checkpoint") && error.contains("tools/export"),
        "{error}"
    );
    let error = refused(&folder.run(INSPECT, &["nowhere.bin"]));
    assert!(
        error.contains("cannot read nowhere.bin; check the name"),
        "{error}"
    );
}
