//! What a command asks for.

use std::path::PathBuf;

/// What `trainer train` was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainArgs {
    /// Preset, named or implied by the model; `None` is the device's default.
    pub preset: Option<String>,
    /// Fields set on the command line, in order.
    pub overrides: Vec<(String, String)>,
    /// Text to train on; `None` is tiny Shakespeare.
    pub data: Option<PathBuf>,
    /// Runs to learn from, by name or folder.
    pub teachers: Vec<String>,
    /// `auto`, `cpu` or `cuda`.
    pub device: String,
    /// Run to continue; empty is the newest.
    pub resume: Option<String>,
    /// Name of the run.
    pub name: Option<String>,
    /// Threads; `None` is all cores.
    pub threads: Option<usize>,
    /// Board that the model must fit.
    pub board: Option<String>,
}

/// What `trainer eval` was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalArgs {
    /// Run; `None` is the newest.
    pub run: Option<String>,
    /// Blob to score.
    pub blob: Option<PathBuf>,
    /// Text to score on; `None` is the run's.
    pub data: Option<PathBuf>,
    /// Prints JSON.
    pub json: bool,
}

/// What `trainer sample` was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleArgs {
    /// Run; `None` is the newest.
    pub run: Option<String>,
    /// Text to continue; `\n` in it is a newline.
    pub prompt: String,
    /// Temperature.
    pub temperature: f32,
    /// Seed.
    pub seed: u64,
    /// Characters to make.
    pub len: usize,
}
