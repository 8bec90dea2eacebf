//! stories260K, a model of llama2.c that every port runs.
//!
//! The files are other people's and not in this repository: `CHAPBOOK_PEERS` names their folder, or
//! else it is `shared/peers` beside the repository. A test without them says so and passes.

use std::path::PathBuf;

use checkpoint::{Checkpoint, runs};
use import::{llama2c, tokenizer};

/// Returns the folder of the files; says so when there is none.
#[must_use]
pub fn peers() -> Option<PathBuf> {
    let folder = std::env::var_os("CHAPBOOK_PEERS")
        .map_or_else(|| runs::repository().join("../shared/peers"), PathBuf::from);
    let found = folder.join("stories260K.bin").is_file();
    if !found {
        println!("skipped: {} has no stories260K.bin", folder.display());
    }
    found.then_some(folder)
}

/// Returns stories260K as imported, where its files are.
///
/// # Panics
///
/// If the files are there and are not those.
#[must_use]
pub fn stories() -> Option<Checkpoint> {
    let folder = peers()?;
    let read = |name: &str| std::fs::read(folder.join(name)).expect("the folder has both files");
    let pieces = read("tok512.bin");
    let guest = llama2c::read(&read("stories260K.bin"), |size| {
        tokenizer::vocabulary(&pieces, size)
    });
    Some(guest.expect("stories260K").into_checkpoint("stories260K"))
}
