//! Tiny Shakespeare, taken from a published package and restored to its exact bytes.
//!
//! The text is not committed. The package `femto-gpt` 0.2.0 ships it as `dataset.txt`, less the
//! two trailing spaces on each of two lines. `trainer/corpus/Cargo.toml` depends on that package,
//! so cargo fetches it like any other dependency, and `cargo metadata` says where it lies.

use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;
use sha2::{Digest, Sha256};

use crate::corpus::hex;
use crate::durable::write_durably;
use crate::runs;

/// Name of the corpus in reports and checkpoints.
pub(crate) const NAME: &str = "tiny-shakespeare";
const SHA256: &str = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed";
const LEN: usize = 1_115_394;
const PACKAGE: &str = "femto-gpt";
/// Lines, counted from 1, that end in two spaces in the original and in none in the package.
const STRIPPED_LINES: [(usize, &str); 2] = [(2478, "And"), (2479, "Twice being")];
const WAY_OUT: &str = "or name a text of your own with --data FILE";

/// Returns the verified text from the cache, or fetches and caches it.
pub(crate) fn find() -> Result<String, String> {
    let cache = runs::repository().join(".cache/tiny-shakespeare.txt");
    if let Ok(bytes) = std::fs::read(&cache)
        && let Ok(text) = verify(bytes)
    {
        return Ok(text);
    }
    let text = restore(&dataset()?)?;
    let text = verify(text.into_bytes())?;
    // A cache that cannot be written costs a second each time, which is no reason to stop.
    let _ = write_durably(&cache, text.as_bytes());
    Ok(text)
}

fn verify(bytes: Vec<u8>) -> Result<String, String> {
    let sha256 = hex(&Sha256::digest(&bytes));
    if bytes.len() != LEN || sha256 != SHA256 {
        return Err(format!(
            "the tiny Shakespeare found is not the original: expected {LEN} bytes with SHA-256 \
             {SHA256}, found {} bytes with SHA-256 {sha256}; remove the folder of {PACKAGE}-0.2.0 \
             under ~/.cargo/registry/src and try again, {WAY_OUT}",
            bytes.len()
        ));
    }
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// Asks cargo to fetch the package and reads its text.
fn dataset() -> Result<String, String> {
    let manifest = manifest()?;
    let metadata = MetadataCommand::new()
        .manifest_path(&manifest)
        .current_dir(manifest.parent().unwrap_or(Path::new(".")))
        .other_options(vec!["--locked".to_string()])
        .exec()
        .map_err(|error| {
            // cargo explains itself in several lines; errors here are one line.
            let reason = error.to_string().lines().collect::<Vec<_>>().join("; ");
            format!(
                "cannot fetch tiny Shakespeare, which the package {PACKAGE} ships: {reason}; \
                 check that `cargo fetch --manifest-path {}` works, {WAY_OUT}",
                manifest.display()
            )
        })?;
    let package = metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == PACKAGE)
        .ok_or_else(|| format!("{} does not depend on {PACKAGE}", manifest.display()))?;
    let path = package.manifest_path.with_file_name("dataset.txt");
    std::fs::read_to_string(&path).map_err(|error| {
        format!(
            "cannot read {path}: {error}; remove its folder so that cargo unpacks it again, \
             {WAY_OUT}"
        )
    })
}

fn manifest() -> Result<PathBuf, String> {
    let path = runs::repository().join("trainer/corpus/Cargo.toml");
    if path.is_file() {
        return Ok(path);
    }
    Err(format!(
        "cannot find tiny Shakespeare: there is no {}; start the program in the repository, \
         {WAY_OUT}",
        path.display()
    ))
}

/// Puts back the two spaces that each of [`STRIPPED_LINES`] lost.
fn restore(dataset: &str) -> Result<String, String> {
    let mut text = String::with_capacity(LEN);
    let mut expected = STRIPPED_LINES.into_iter().peekable();
    // The package has an LF after each line, whatever git made of it elsewhere.
    for (index, line) in dataset.split_inclusive('\n').enumerate() {
        let line = line.strip_suffix('\n').unwrap_or(line);
        text.push_str(line);
        if let Some((_, known)) = expected.next_if(|&(number, _)| number == index + 1) {
            if line != known {
                return Err(format!(
                    "the text in {PACKAGE} is not the expected one: line {} is {line:?}, expected \
                     {known:?}; {WAY_OUT}",
                    index + 1
                ));
            }
            text.push_str("  ");
        }
        text.push('\n');
    }
    Ok(text)
}
