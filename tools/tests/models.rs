//! The table of the committed models is that of their reports, and the reports are about the blobs.

use std::process::Command;

#[test]
fn the_committed_models_are_those_of_the_table() {
    let models = env!("CARGO_BIN_EXE_models");
    let output = Command::new(models).arg("--check").output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
}
