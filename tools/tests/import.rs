//! `import` makes runs that the other tools take, and says what is wrong.

mod common;

use checkpoint::runs;
use common::{Folder, printed, refused};

const EXPORT: &str = env!("CARGO_BIN_EXE_export");
const IMPORT: &str = env!("CARGO_BIN_EXE_import");

#[test]
fn what_export_writes_import_reads() {
    let folder = Folder::new("import");
    folder.save("run", "best.ckpt", &folder.checkpoint(1));
    let blob = |name: &str| {
        printed(&folder.run(EXPORT, &[name, "-o", "model.bin"]));
        folder.read("model.bin")
    };
    let before = blob("run");
    let said = printed(&folder.run(EXPORT, &["run", "--safetensors", "own.safetensors"]));
    assert!(said.contains("own.safetensors, "), "{said}");
    assert!(said.contains("and own.json"), "{said}");
    let said = printed(&folder.run(IMPORT, &["own.safetensors"]));
    assert!(said.contains("wrote         runs/own/best.ckpt"), "{said}");
    assert!(said.contains("tools/export own"), "{said}");
    assert_eq!(blob("own"), before);
    // it is the newest run, but one that was trained here comes first
    let newest = || printed(&folder.run(EXPORT, &["-o", "model.bin"]));
    let said = newest();
    assert!(
        said.contains("runs/own/best.ckpt, imported, weights of step 300"),
        "{said}"
    );
    let settings = folder.path.join("runs/run").join(runs::CONFIG);
    std::fs::write(settings, "{}").unwrap();
    let said = newest();
    assert!(said.contains("runs/run/best.ckpt, averaged"), "{said}");

    let again = refused(&folder.run(IMPORT, &["own.safetensors"]));
    assert!(again.contains("choose another name with --name"), "{again}");
    printed(&folder.run(IMPORT, &["own.safetensors", "--name", "second"]));
    let run = folder.path.join("runs/second").join(runs::BEST);
    assert!(run.is_file());
}

#[test]
fn a_context_is_shortened_and_never_stretched() {
    let folder = Folder::new("context");
    folder.save("run", "best.ckpt", &folder.checkpoint(1));
    let export = |context: &str| folder.run(EXPORT, &["run", "-o", "m.bin", "--context", context]);
    printed(&export("5"));
    let bytes = checkpoint::AlignedBytes::from(folder.read("m.bin").as_slice());
    let model = runtime::Model::from_bytes(&bytes).unwrap();
    assert_eq!(model.config().context_len, 5);
    for context in ["0", "17"] {
        let said = refused(&export(context));
        assert!(said.contains("the context can be 1 to 16 tokens"), "{said}");
    }
}

#[test]
fn files_that_are_no_model_are_refused() {
    let folder = Folder::new("import-errors");
    std::fs::write(folder.path.join("short.bin"), [0; 100]).unwrap();
    std::fs::write(folder.path.join("tok.bin"), [0; 4]).unwrap();
    std::fs::write(folder.path.join("ckpt.pt"), b"PK\x03\x04").unwrap();
    std::fs::write(folder.path.join("no.safetensors"), b"\x02\0\0\0\0\0\0\0{}").unwrap();
    let run = |arguments: &[&str]| refused(&folder.run(IMPORT, arguments));
    assert!(run(&["short.bin"]).contains("--tokenizer FILE"));
    let said = run(&["short.bin", "--tokenizer", "tok.bin"]);
    assert!(said.contains("dim: expected 1 to 16384, found 0"), "{said}");
    assert!(run(&["ckpt.pt"]).contains("--meta FILE"));
    let said = run(&["ckpt.pt", "--meta", "tok.bin"]);
    assert!(said.contains("a whole zip archive"), "{said}");
    assert!(run(&["no.safetensors"]).contains("needs a description"));
    assert!(run(&["absent.bin"]).contains("cannot read absent.bin"));
    let file = std::fs::File::create(folder.path.join("huge")).unwrap();
    file.set_len(1 << 42).unwrap();
    let said = run(&["huge"]);
    assert!(
        said.contains("4398046511104 bytes; expected at most"),
        "{said}"
    );
    #[cfg(unix)]
    {
        let said = run(&["/dev/zero"]);
        assert!(said.contains("a device; expected a file"), "{said}");
        let said = refused(&folder.run(EXPORT, &["/dev/zero"]));
        assert!(said.contains("/dev/zero"), "{said}");
    }
    // nothing is left of what failed
    assert!(!folder.path.join("runs/short").exists());
}
