//! What the argument of a tool means: a run, a checkpoint or a blob.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use checkpoint::{AlignedBytes, Checkpoint, file, runs};
use runtime::format;

use crate::paths;

/// A file that holds a model.
#[derive(Debug)]
pub enum Input {
    /// Float weights, with the file that they come from.
    Checkpoint(PathBuf, Box<Checkpoint>),
    /// The bytes of a blob, not yet checked, with their file.
    Blob(PathBuf, AlignedBytes),
}

/// Finds and reads the model that `argument` names: a run by name or folder, a checkpoint or a
/// blob; the newest run if it is missing.
///
/// # Errors
///
/// A name that is none of these, a run without a checkpoint, or a file that cannot be read.
pub fn open(argument: Option<&Path>) -> anyhow::Result<Input> {
    let path = match argument {
        None => runs::best_checkpoint(&runs::newest(&runs::MODELS)?)?,
        Some(argument) => locate(argument)?,
    };
    let bytes = AlignedBytes::read_blob(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.starts_with(&format::MAGIC) {
        return Ok(Input::Blob(path, bytes));
    }
    if file::is_checkpoint(&bytes) {
        let checkpoint = Checkpoint::load(&path)?;
        return Ok(Input::Checkpoint(path, Box::new(checkpoint)));
    }
    bail!(
        "{} is neither a checkpoint (starts with CHAPCKPT) nor a blob (starts with CHAPBOOK); \
         found {:?}",
        path.display(),
        String::from_utf8_lossy(&bytes[..bytes.len().min(8)])
    );
}

/// Reads the blob that `named` names, or the one that boards embed; of a file that is no blob only its
/// start.
///
/// # Errors
///
/// A file that cannot be read.
pub fn blob(named: Option<&Path>) -> anyhow::Result<(PathBuf, AlignedBytes)> {
    let (path, advice) = match named {
        Some(path) => (path.to_path_buf(), "check the name, or "),
        None => (paths::embedded_blob(), ""),
    };
    let bytes = AlignedBytes::read_blob(&path).with_context(|| {
        format!(
            "cannot read {}; {advice}make a blob with tools/export",
            path.display()
        )
    })?;
    Ok((path, bytes))
}

/// Returns the file behind an argument; the name of a run wins over a path of the same spelling.
fn locate(argument: &Path) -> anyhow::Result<PathBuf> {
    let run = argument.to_str().and_then(|name| runs::dir(name).ok());
    if let Some(run) = run.filter(|run| run.is_dir()) {
        return Ok(runs::best_checkpoint(&run)?);
    }
    if argument.is_dir() {
        return Ok(runs::best_checkpoint(argument)?);
    }
    if argument.is_file() {
        return Ok(argument.to_path_buf());
    }
    Err(no_such_model(argument))
}

fn no_such_model(argument: &Path) -> anyhow::Error {
    let names: Vec<String> = runs::holding(&runs::MODELS)
        .iter()
        .filter_map(|run| Some(run.file_name()?.to_string_lossy().into_owned()))
        .collect();
    let known = if names.is_empty() {
        "there are none; train one with `cargo run --release -p trainer`".to_string()
    } else {
        names.join(", ")
    };
    anyhow!(
        "{} is no run, checkpoint or blob; expected a file, a folder or the name of a run (newest \
         first: {known})",
        argument.display()
    )
}
