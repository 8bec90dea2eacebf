//! `export` as a person types it.

mod common;

use std::path::Path;

use checkpoint::{AlignedBytes, Checkpoint, Corpus, Split, score, synthetic};
use common::{Folder, printed, refused};
use runtime::{Config, Model};

const EXPORT: &str = env!("CARGO_BIN_EXE_export");

#[test]
fn newest_run_is_exported_with_a_report() {
    let folder = Folder::new("newest");
    folder.save("old", "best.ckpt", &folder.checkpoint(1));
    std::thread::sleep(std::time::Duration::from_millis(20));
    let mut checkpoint = folder.checkpoint(2);
    checkpoint.run = "new".to_string();
    folder.save("new", "best.ckpt", &checkpoint);
    folder.save("new", "last.ckpt", &folder.checkpoint(3));
    let text = printed(&folder.run(EXPORT, &["-o", "model.bin"]));

    let bytes = AlignedBytes::read(&folder.path.join("model.bin")).unwrap();
    let model = Model::from_bytes(&bytes).unwrap();
    let provenance = model.header().provenance;
    assert_eq!((provenance.run, provenance.step), ("new", 300));
    assert_eq!(provenance.dev_f32, 4.5);
    let corpus = Corpus::from_file(&folder.path.join("text.txt")).unwrap();
    let tokens = corpus.tokens(&checkpoint.vocabulary().unwrap()).unwrap();
    let dev = score::in_window(&model, &tokens[Split::of(tokens.len()).dev]).unwrap();
    assert_eq!(provenance.dev_blob, dev as f32);

    for expected in [
        "checkpoint    runs/new/best.ckpt, averaged weights of step 300",
        "layers.1.w_down           16 x 24    int8",
        &format!("loss on dev   4.5000 as f32, {dev:.4} as blob"),
        &format!("RAM           {} bytes", model.config().state_bytes()),
        "pico          fits;",
        "qemu          fits;",
        &format!("wrote         model.bin, {} bytes", bytes.len()),
        "/firmware/qemu && CHAPBOOK_MODEL=",
    ] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
}

#[test]
fn four_bits_are_made_of_a_run_and_shown() {
    let folder = Folder::new("int4");
    folder.save("one", "best.ckpt", &folder.checkpoint(1));
    let text = printed(&folder.run(EXPORT, &["one", "--bits", "4", "-o", "small.bin"]));
    assert!(
        text.contains("layers.0.w_qkv            32 x 16 int4/16"),
        "{text}"
    );
    assert!(
        text.contains("layers.0.w_down           16 x 24 int4/24"),
        "{text}"
    );
    assert!(
        text.contains("w_embed                   13 x 16    int8"),
        "{text}"
    );
    let mixed = [
        "one",
        "--bits=4",
        "--group=8",
        "--w8=w_o,w_up",
        "-o",
        "mixed.bin",
    ];
    let text = printed(&folder.run(EXPORT, &mixed));
    assert!(
        text.contains("layers.1.w_o              16 x 16    int8"),
        "{text}"
    );
    assert!(
        text.contains("layers.1.w_down           16 x 24  int4/8"),
        "{text}"
    );
    printed(&folder.run(EXPORT, &["one", "-o", "large.bin"]));
    assert!(folder.read("small.bin").len() < folder.read("large.bin").len());
    // A layout and back.
    printed(&folder.run(EXPORT, &["mixed.bin", "--layout", "m4", "-o", "m4.bin"]));
    printed(&folder.run(EXPORT, &["m4.bin", "-o", "back.bin"]));
    assert_eq!(folder.read("back.bin"), folder.read("mixed.bin"));
}

#[test]
fn four_bits_that_cannot_be_made_are_refused() {
    let folder = Folder::new("int4-refused");
    folder.save("one", "best.ckpt", &folder.checkpoint(1));
    printed(&folder.run(EXPORT, &["one", "-o", "one.bin"]));
    for (arguments, expected) in [
        (
            ["one", "--bits=4", "--group=12"],
            "possible are 8, 16, 24 and 32",
        ),
        (
            ["one", "--bits=4", "--w8=w_embed"],
            "they are w_qkv, w_o, w_up, w_down",
        ),
        (["one", "--bits=8", "--group=8"], "add --bits 4"),
        (
            ["one.bin", "--bits=4", "--group=8"],
            "needs the float weights",
        ),
    ] {
        let error = refused(&folder.run(EXPORT, &[&arguments[..], &["-o", "out.bin"]].concat()));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn losses_of_byte_pairs_are_per_token() {
    let folder = Folder::new("unit");
    let mut checkpoint = folder.checkpoint(1);
    folder.save("chars", "best.ckpt", &checkpoint);
    let config = Config {
        vocab_size: 400,
        ..checkpoint.config
    };
    checkpoint = Checkpoint {
        vocab: synthetic::byte_pairs(400),
        ..synthetic::checkpoint(config, 1)
    };
    folder.save("pairs", "best.ckpt", &checkpoint);
    let text = folder.path.join("text.txt");
    for (run, unit) in [("chars", "nats per character"), ("pairs", "nats per token")] {
        let export = [run, "-o", "unit.bin", "--data", text.to_str().unwrap()];
        let said = printed(&folder.run(EXPORT, &export));
        assert!(said.contains(unit), "{said}");
        let said = printed(&folder.run(env!("CARGO_BIN_EXE_inspect"), &["unit.bin"]));
        assert!(said.contains(unit), "{said}");
    }
}

#[test]
fn run_may_be_a_name_a_folder_or_a_file() {
    let folder = Folder::new("names");
    let file = folder.save("one", "best.ckpt", &folder.checkpoint(1));
    for (index, argument) in ["one", "runs/one", file.to_str().unwrap()]
        .iter()
        .enumerate()
    {
        let output = format!("{index}.bin");
        printed(&folder.run(EXPORT, &[argument, "-o", &output]));
        assert_eq!(folder.read(&output), folder.read("0.bin"));
    }
}

#[test]
fn averaged_weights_are_the_ones_exported() {
    let folder = Folder::new("ema");
    let mut checkpoint = folder.checkpoint(1);
    folder.save("ema", "last.ckpt", &checkpoint);
    printed(&folder.run(EXPORT, &["ema", "-o", "ema.bin"]));
    // Other raw weights change nothing, as long as there is an average.
    checkpoint.weights = folder.checkpoint(2).weights;
    folder.save("ema", "last.ckpt", &checkpoint);
    printed(&folder.run(EXPORT, &["ema", "-o", "same.bin"]));
    assert_eq!(folder.read("same.bin"), folder.read("ema.bin"));
    checkpoint.ema.clear();
    folder.save("ema", "last.ckpt", &checkpoint);
    let text = printed(&folder.run(EXPORT, &["ema", "-o", "raw.bin"]));
    assert!(text.contains("last.ckpt, weights of step 300"), "{text}");
    assert_ne!(folder.read("raw.bin"), folder.read("ema.bin"));
}

#[test]
fn missing_text_leaves_the_loss_open_and_says_how_to_close_it() {
    let folder = Folder::new("text");
    folder.save("run", "best.ckpt", &folder.checkpoint(1));
    let here = folder.path.join("text.txt");
    let elsewhere = folder.path.join("moved.txt");
    std::fs::rename(&here, &elsewhere).unwrap();
    let text = printed(&folder.run(EXPORT, &["-o", "a.bin"]));
    assert!(text.contains("not measured as blob"), "{text}");
    assert!(text.contains("name it with --data FILE"), "{text}");
    let text = printed(&folder.run(EXPORT, &["-o", "b.bin", "--data", "moved.txt"]));
    assert!(!text.contains("not measured"), "{text}");
    std::fs::write(&here, "another text").unwrap();
    let error = refused(&folder.run(EXPORT, &["-o", "c.bin", "--data", "text.txt"]));
    assert!(
        error.contains("is not the text that was trained on"),
        "{error}"
    );
    assert!(!folder.path.join("c.bin").exists());
}

#[test]
fn blob_of_the_current_version_is_upgraded_to_itself() {
    let folder = Folder::new("upgrade");
    folder.save("run", "best.ckpt", &folder.checkpoint(1));
    printed(&folder.run(EXPORT, &["-o", "old.bin"]));
    let text = printed(&folder.run(EXPORT, &["old.bin", "-o", "new.bin"]));
    assert!(text.contains("the bytes stay the same"), "{text}");
    assert_eq!(folder.read("new.bin"), folder.read("old.bin"));
    // A dump of a flash region is longer than its blob; the rest is dropped.
    let mut dump = folder.read("old.bin");
    dump.resize(dump.len() + 1000, 0xff);
    std::fs::write(folder.path.join("dump.bin"), dump).unwrap();
    printed(&folder.run(EXPORT, &["dump.bin", "-o", "new.bin"]));
    assert_eq!(folder.read("new.bin"), folder.read("old.bin"));
}

#[test]
fn layout_is_rewritten_and_comes_back() {
    let folder = Folder::new("layout");
    folder.save("run", "best.ckpt", &folder.checkpoint(1));
    printed(&folder.run(EXPORT, &["-o", "plain.bin"]));
    printed(&folder.run(EXPORT, &["-o", "direct.bin", "--layout", "m4"]));
    let output = folder.run(EXPORT, &["plain.bin", "-o", "m4.bin", "--layout", "m4"]);
    let text = printed(&output);
    assert!(text.contains("rewritten in the m4 layout"), "{text}");
    assert_eq!(folder.read("m4.bin"), folder.read("direct.bin"));
    assert_ne!(folder.read("m4.bin"), folder.read("plain.bin"));
    printed(&folder.run(EXPORT, &["m4.bin", "-o", "back.bin"]));
    assert_eq!(folder.read("back.bin"), folder.read("plain.bin"));
    let output = folder.run(EXPORT, &["plain.bin", "-o", "x.bin", "--layout", "m5"]);
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("known are plain, m0, m4, rv32"), "{error}");
}

#[test]
fn blob_of_an_older_version_is_upgraded() {
    let folder = Folder::new("older");
    folder.save("one", "best.ckpt", &folder.checkpoint(1));
    printed(&folder.run(EXPORT, &["one", "-o", "new.bin"]));
    let old = synthetic::version_1(&folder.read("new.bin"));
    std::fs::write(folder.path.join("old.bin"), &old[..]).unwrap();
    let text = printed(&folder.run(EXPORT, &["old.bin", "-o", "upgraded.bin"]));
    assert!(
        text.contains("format version 1, upgraded to 3; weights and losses are kept"),
        "{text}"
    );
    assert_eq!(folder.read("upgraded.bin"), folder.read("new.bin"));
}

#[test]
fn blobs_that_cannot_be_upgraded_are_refused() {
    let folder = Folder::new("refused");
    folder.save("run", "best.ckpt", &folder.checkpoint(1));
    printed(&folder.run(EXPORT, &["-o", "good.bin"]));
    let good = folder.read("good.bin");
    let mut later = good.clone();
    later[8] = 99;
    let mut damaged = good.clone();
    damaged[good.len() / 2] ^= 1;
    for (bytes, expected) in [
        (later, "format version 99"),
        (damaged, "CRC-32"),
        (good[..good.len() - 1].to_vec(), "bytes"),
    ] {
        std::fs::write(folder.path.join("bad.bin"), bytes).unwrap();
        let error = refused(&folder.run(EXPORT, &["bad.bin", "-o", "out.bin"]));
        assert!(
            error.contains("bad.bin") && error.contains(expected),
            "{error}"
        );
        assert!(!folder.path.join("out.bin").exists());
    }
}

#[test]
fn bad_input_is_named_with_what_was_expected() {
    let folder = Folder::new("bad-input");
    let error = refused(&folder.run(EXPORT, &[]));
    assert!(error.contains("no trained run"), "{error}");
    assert!(error.contains("cargo run --release -p trainer"), "{error}");

    folder.save("hamlet", "best.ckpt", &folder.checkpoint(1));
    let error = refused(&folder.run(EXPORT, &["macbeth"]));
    assert!(error.contains("macbeth is no run"), "{error}");
    assert!(error.contains("hamlet"), "{error}");
    let error = refused(&folder.run(EXPORT, &["text.txt"]));
    assert!(error.contains("neither a checkpoint"), "{error}");
    std::fs::create_dir(folder.path.join("empty")).unwrap();
    let error = refused(&folder.run(EXPORT, &["empty"]));
    assert!(error.contains("neither best.ckpt nor last.ckpt"), "{error}");
    let error = refused(&folder.run(EXPORT, &["-o", "empty"]));
    assert!(error.contains("is a folder"), "{error}");
    for option in ["-o", "--safetensors"] {
        let error = refused(&folder.run(EXPORT, &[option, "fimware/model.bin"]));
        assert!(error.contains("there is no folder fimware"), "{error}");
        assert!(!folder.path.join("fimware").exists());
    }

    let mut checkpoint = folder.checkpoint(1);
    checkpoint.ema[3].data[7] = f32::NAN;
    let name = checkpoint.ema[3].name.clone();
    let file = folder.save("nan", "best.ckpt", &checkpoint);
    let error = refused(&folder.run(EXPORT, &["nan", "-o", "nan.bin"]));
    assert!(error.contains(&name) && error.contains("NaN"), "{error}");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 9]).unwrap();
    let error = refused(&folder.run(EXPORT, &["nan"]));
    assert!(error.contains("truncated: expected"), "{error}");
}

#[test]
fn script_runs_from_any_folder() {
    let folder = Folder::new("script");
    folder.save("run", "best.ckpt", &folder.checkpoint(1));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("export");
    printed(&folder.run(script.to_str().unwrap(), &["-o", "here.bin"]));
    assert!(folder.path.join("here.bin").is_file());
}
