//! Run folders: `runs/NAME/` at the top of the repository.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::lesson::LessonCheckpoint;

/// The trainer's settings, JSON.
pub const CONFIG: &str = "config.json";
/// How the run was made, see [`Origin`](crate::Origin).
pub const ORIGIN: &str = "origin.json";
/// One JSON object per evaluation.
pub const METRICS: &str = "metrics.jsonl";
/// The loss curve.
pub const LOSS: &str = "loss.svg";
/// The newest checkpoint, optimiser state included.
pub const LAST: &str = "last.ckpt";
/// The checkpoint whose averaged weights are best on dev, without optimiser state.
pub const BEST: &str = "best.ckpt";
/// Checkpoints of a GPT; the first that is there is the one to use.
pub const MODELS: [&str; 2] = [BEST, LAST];
/// As [`LAST`], of a model of the lesson.
pub const LESSON_LAST: &str = "last.lesson";
/// As [`BEST`], of a model of the lesson.
pub const LESSON_BEST: &str = "best.lesson";
/// Text made at the end of training.
pub const SAMPLES: &str = "samples.txt";
/// What the teachers of a run expect, see [`SoftTargets`](crate::SoftTargets).
pub const TEACHER: &str = "teacher.bin";
/// Environment variable that names another folder for the runs.
pub const RUNS_VARIABLE: &str = "CHAPBOOK_RUNS";

/// Returns the top of the repository: where this crate was compiled, if that folder still exists,
/// else the current folder.
#[must_use]
pub fn repository() -> PathBuf {
    let compiled = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .filter(|top| top.join("Cargo.toml").is_file());
    compiled.map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Returns the folder of all runs: `CHAPBOOK_RUNS`, else `runs` at the top of the repository.
#[must_use]
pub fn root() -> PathBuf {
    std::env::var_os(RUNS_VARIABLE).map_or_else(|| repository().join("runs"), PathBuf::from)
}

/// Returns the folder of a run, which need not exist.
///
/// # Errors
///
/// [`RunError::BadName`] for a name that could leave the folder of the runs or that a shell would
/// have to quote.
pub fn dir(name: &str) -> Result<PathBuf, RunError> {
    let allowed = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    let fits = (1..=64).contains(&name.len()) && name.chars().all(allowed);
    if !fits || name.starts_with(['.', '-']) {
        return Err(RunError::BadName(name.to_string()));
    }
    Ok(root().join(name))
}

/// Lists the runs that hold one of the files, the newest such file first.
#[must_use]
pub fn holding(files: &[&str]) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root()) else {
        return Vec::new();
    };
    let mut runs: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some((newest_of(&path, files)?, path))
        })
        .collect();
    // The name decides between runs of the same instant, so that the order is always the same.
    runs.sort_by(|a, b| b.cmp(a));
    runs.into_iter().map(|(_, path)| path).collect()
}

/// Returns the run whose checkpoint, one of `files`, was written last; an imported one only where no run
/// was trained.
///
/// # Errors
///
/// [`RunError::NoRun`] if no run holds such a checkpoint.
pub fn newest(files: &[&str]) -> Result<PathBuf, RunError> {
    let mut runs = holding(files);
    if runs.is_empty() {
        return Err(RunError::NoRun(root()));
    }
    // A training writes its settings first; an import has none.
    let trained = runs.iter().position(|run| run.join(CONFIG).is_file());
    Ok(runs.swap_remove(trained.unwrap_or(0)))
}

/// Returns the checkpoint of a run to use: [`BEST`], or [`LAST`] of a run that has no best yet.
///
/// # Errors
///
/// [`RunError::Lesson`] or [`RunError::NoCheckpoint`] if the folder holds neither.
pub fn best_checkpoint(run: &Path) -> Result<PathBuf, RunError> {
    MODELS
        .iter()
        .map(|name| run.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| {
            let run = run.to_path_buf();
            let lesson = [LESSON_BEST, LESSON_LAST].iter();
            let mut files = lesson.map(|name| run.join(name));
            match files.find_map(|path| LessonCheckpoint::load(&path).ok()) {
                Some(LessonCheckpoint { model, .. }) => RunError::Lesson { run, model },
                None => RunError::NoCheckpoint(run),
            }
        })
}

fn newest_of(run: &Path, files: &[&str]) -> Option<SystemTime> {
    files
        .iter()
        .filter_map(|name| run.join(name).metadata().ok()?.modified().ok())
        .max()
}

/// Why a run was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// The name is not fit for a folder.
    BadName(String),
    /// There is no run; the folder that was searched.
    NoRun(PathBuf),
    /// The folder is that of a model of the lesson, where a GPT's is expected.
    Lesson {
        /// The folder.
        run: PathBuf,
        /// The model.
        model: String,
    },
    /// The folder holds no checkpoint.
    NoCheckpoint(PathBuf),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName(name) => write!(
                f,
                "{name:?} is no name for a run; use up to 64 letters, digits, `-`, `_` and `.`, \
                 starting with a letter, a digit or `_`"
            ),
            Self::NoRun(root) => write!(
                f,
                "there is no trained run under {}; train one with `cargo run --release -p trainer`",
                root.display()
            ),
            Self::Lesson { run, model } => write!(
                f,
                "{} is a run of {model}, a model of the lesson, and this is for a GPT's: no board runs \
                 {model}. Its training leaves {SAMPLES} and a report there; go on with it by \
                 `cargo run --release -p trainer -- {model} --resume`",
                run.display()
            ),
            Self::NoCheckpoint(run) => {
                write!(
                    f,
                    "{} holds neither {BEST} nor {LAST}; expected the folder of a run",
                    run.display()
                )
            }
        }
    }
}

impl std::error::Error for RunError {}
