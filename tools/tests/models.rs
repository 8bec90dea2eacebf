//! The table of the committed models is that of their reports, and the reports are about the blobs.

mod common;

use common::{Folder, printed};

#[test]
fn the_committed_models_are_those_of_the_table() {
    let folder = Folder::new("models");
    printed(&folder.run(env!("CARGO_BIN_EXE_models"), &["--check"]));
}
