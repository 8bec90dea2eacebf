//! What a command asks for.

use std::path::PathBuf;
use std::time::Duration;

/// What `trainer train` was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainArgs {
    /// Preset, named or implied by the model; `None` is the device's default.
    pub preset: Option<String>,
    /// Fields set on the command line, in order.
    pub overrides: Vec<(String, String)>,
    /// Text to train on; `None` is tiny Shakespeare.
    pub data: Option<PathBuf>,
    /// Run whose weights, shape and vocabulary the training starts from, by name or folder.
    pub init: Option<String>,
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
    /// Workers of the run.
    pub workers: usize,
    /// Address where the other workers, being processes, join.
    pub listen: Option<String>,
    /// Address of the run to work for.
    pub join: Option<String>,
    /// How long another process may say nothing before it counts as gone.
    pub patience: Duration,
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
    /// How to score.
    pub protocol: Protocol,
    /// Prints JSON.
    pub json: bool,
}

/// How a text is scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Every transition of val once, in fresh windows of the deployed context.
    #[default]
    EveryTransition,
    /// nanoGPT's: the mean of random batches of val.
    NanoGpt,
}

/// What `trainer sample` was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleArgs {
    /// Run; `None` is the newest.
    pub run: Option<String>,
    /// Text to continue; `None` is that of the samples of a training.
    pub prompt: Option<String>,
    /// Temperature.
    pub temperature: f32,
    /// Seed.
    pub seed: u64,
    /// Characters to make.
    pub len: usize,
}

/// What `trainer compare` was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareArgs {
    /// Runs.
    pub runs: Vec<String>,
    /// Where the curves go; `None` is `compare.svg` beside the runs.
    pub svg: Option<PathBuf>,
    /// Largest distance between training losses of the same step.
    pub within: Option<f64>,
}

/// What `trainer report` was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportArgs {
    /// Run; `None` is the newest.
    pub run: Option<String>,
    /// Text that the run was trained on; `None` is where it was then.
    pub data: Option<PathBuf>,
    /// Prompt of the attention maps.
    pub prompt: Option<String>,
}

/// What `trainer attention` was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionArgs {
    /// Run; `None` is the newest.
    pub run: Option<String>,
    /// Prompt; `None` is that of the samples of a training.
    pub prompt: Option<String>,
    /// Layer, counted from 0; `None` is all.
    pub layer: Option<usize>,
    /// Head, counted from 0; `None` is all.
    pub head: Option<usize>,
    /// Where the drawing goes; `None` is `attention.svg` in the folder of the run.
    pub svg: Option<PathBuf>,
}
