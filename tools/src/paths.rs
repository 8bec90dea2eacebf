//! Paths as the person at the keyboard would type them.

use std::path::{Path, PathBuf};

use anyhow::bail;
use checkpoint::runs;

/// Returns the blob that boards embed unless told otherwise.
#[must_use]
pub fn default_blob() -> PathBuf {
    runs::repository().join("firmware/model/model.bin")
}

/// Returns the blob that boards embed: the exported one, or else the committed one.
#[must_use]
pub fn embedded_blob() -> PathBuf {
    let exported = default_blob();
    if exported.exists() {
        exported
    } else {
        exported.with_file_name("pocket.bin")
    }
}

/// Checks that a path to write to, as it was typed, is a file in a folder that exists.
///
/// # Errors
///
/// A folder, or a path into a folder that is missing.
pub fn check_output(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        bail!("{} is a folder; name a file", path.display());
    }
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => bail!(
            "cannot write {}: there is no folder {}; make it first, or name another",
            path.display(),
            folder.display()
        ),
        _ => Ok(()),
    }
}

/// Writes a path relative to the current folder if it lies below.
#[must_use]
pub fn display(path: &Path) -> String {
    let current = std::env::current_dir().unwrap_or_default();
    let below = path
        .strip_prefix(&current)
        .ok()
        // a path from the root down is short without it already, and would look like a relative one
        .filter(|_| current.parent().is_some());
    let short = below.unwrap_or(path);
    if short.as_os_str().is_empty() {
        ".".to_string()
    } else {
        short.display().to_string()
    }
}

/// Returns the command that boots a blob on the emulated board.
#[must_use]
pub fn boot_command(blob: &Path) -> String {
    let board = display(&runs::repository().join("firmware/qemu"));
    let board = quote(&board);
    if blob == default_blob() {
        return format!("cd {board} && cargo run --release");
    }
    // The command changes folder, so a relative path would point elsewhere.
    let blob = std::path::absolute(blob).unwrap_or_else(|_| blob.to_path_buf());
    let blob = quote(&blob.display().to_string());
    format!("cd {board} && CHAPBOOK_MODEL={blob} cargo run --release")
}

/// Quotes a word for a POSIX shell if it needs quotes.
fn quote(word: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "-_./+,:@%".contains(char);
    if word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
