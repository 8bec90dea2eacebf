//! A model that a board cannot embed is refused by its build, in one line.

use std::path::Path;
use std::process::Command;

/// Has cargo build a board around a model that it cannot take, and returns the lines of errors.
fn refused(board: &str, model: &str) -> Vec<String> {
    let firmware = Path::new(env!("CARGO_MANIFEST_DIR")).join("../firmware");
    let output = Command::new("cargo")
        .args(["build", "--release", "--quiet"])
        .current_dir(firmware.join(board))
        .env("CHAPBOOK_MODEL", model)
        .output()
        .unwrap();
    assert!(!output.status.success(), "{board} was built with {model}");
    let said = String::from_utf8(output.stderr).unwrap();
    let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
    lines.retain(|line| !line.is_empty() && !line.starts_with("warning: "));
    lines
}

#[test]
#[ignore = "needs the targets of the boards"]
fn a_model_that_cannot_be_embedded_is_said_in_one_line() {
    let cases = [
        ("qemu", "no/such.bin", "CHAPBOOK_MODEL names no/such.bin"),
        ("examples", "none", "an example has its model within it"),
        (
            "blackpill",
            "../model/large.bin",
            " bytes and this board has room for 421888; choose a smaller model",
        ),
    ];
    for (board, model, expected) in cases {
        let said = refused(board, model);
        let [why, end] = said.as_slice() else {
            panic!("expected two lines, found {said:#?}");
        };
        assert!(
            why.starts_with("error: ") && why.contains(expected),
            "{why}"
        );
        assert_eq!(end, "error: build script logged errors");
    }
}
