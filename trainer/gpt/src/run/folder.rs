//! Folders of runs, and what to do where there is none.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use checkpoint::{Checkpoint, runs};

use crate::presets::PRESETS;

/// Finds the folder of a run by its name, by its path, or the newest.
///
/// # Errors
///
/// No such run, with the way to one.
pub fn run_dir(run: Option<&str>) -> Result<PathBuf> {
    let Some(run) = run else {
        return Ok(runs::newest(&runs::MODELS)?);
    };
    let path = Path::new(run);
    if path.is_dir() {
        return Ok(path.to_path_buf());
    }
    if path.is_file() {
        bail!(
            "{run} is a file; expected the name or the folder of a run, which has the float weights"
        );
    }
    let dir = runs::dir(run)?;
    if !dir.is_dir() {
        bail!(
            "there is no run {run}: {} does not exist; {}",
            dir.display(),
            instead(run)
        );
    }
    Ok(dir)
}

/// Returns the way to a run that is missing.
fn instead(run: &str) -> String {
    if PRESETS.iter().any(|preset| preset.name == run) {
        // where a blob of that name is committed it is no run
        return format!(
            "train it with `cargo run --release -p trainer -- {run} --name {run}` (a committed blob \
             has no float weights, so it can neither teach nor be trained on)"
        );
    }
    let names: Vec<String> = runs::holding(&runs::MODELS)
        .iter()
        .filter_map(|dir| Some(dir.file_name()?.to_string_lossy().into_owned()))
        .collect();
    if names.is_empty() {
        return "there is none yet; train one with `cargo run --release -p trainer`".to_owned();
    }
    format!("the runs are, newest first: {}", names.join(", "))
}

/// Reads what a run deploys: the best checkpoint, or the last of a run that has no best yet.
///
/// # Errors
///
/// No such run, or a checkpoint that cannot be read.
pub fn deployed(run: Option<&str>) -> Result<Checkpoint> {
    Ok(Checkpoint::load(&runs::best_checkpoint(&run_dir(run)?)?)?)
}

/// Returns the path of a file that a training leaves in the folder of its run.
///
/// # Errors
///
/// A run without it, such as an imported one.
pub(crate) fn trained(dir: &Path, file: &str) -> Result<PathBuf> {
    let path = dir.join(file);
    if path.is_file() {
        return Ok(path);
    }
    if Checkpoint::load(&runs::best_checkpoint(dir)?)?.is_imported() {
        bail!(
            "{} is an imported run, without the {file} of a training; it can be exported, sampled \
             and scored",
            dir.display()
        );
    }
    bail!(
        "{} has no {file}; expected the whole folder of a run",
        dir.display()
    );
}
