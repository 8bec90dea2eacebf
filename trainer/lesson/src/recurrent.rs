//! `trainer rnn`: a recurrent network on a text, with the protocol of `lesson`.

use anyhow::{Result, bail};
use checkpoint::{Corpus, LessonCheckpoint};
use gpt::backend::TrainBackend;
use gpt::run::new_name;
use gpt::training::Text;
use serde::{Deserialize, Serialize};

use crate::char_lm::CharLm;
use crate::learner::Learner;
use crate::rnn::{Cell, RnnShape};
use crate::run;
use crate::settings::{RECIPE_FIELDS, Recipe};

/// Name of the model on the command line.
pub const MODEL: &str = "rnn";

/// Settings of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Kind of cell.
    pub cell: Cell,
    /// Parameters; the width of the state is the one that comes closest.
    pub n_params: usize,
    /// Characters of a training sequence, and of a scored window.
    pub train_len: usize,
    /// Length, optimiser and seed.
    #[serde(flatten)]
    pub recipe: Recipe,
}

/// Fields that the command line sets besides those of the recipe.
pub const FIELDS: &[(&str, &str)] = &[
    ("cell", "rnn, gru or lstm"),
    (
        "n_params",
        "Parameters; the state is made as wide as they allow",
    ),
    ("train_len", "Characters of a sequence"),
];

/// The size, protocol and budget of the preset `lesson`.
pub const DEFAULT: Settings = Settings {
    cell: Cell::Lstm,
    n_params: 103_809,
    train_len: 64,
    recipe: Recipe {
        batch: 32,
        shards: 2,
        steps: 8_000,
        lr: 3e-3,
        min_lr_ratio: 0.001,
        warmup: 100,
        weight_decay: 0.01,
        clip: 1.0,
        dropout: 0.0,
        ema_decay: 0.998,
        seed: 1,
        eval_every: 1_000,
    },
};

/// Trains, or goes on with a run.
///
/// # Errors
///
/// Settings, text or run that cannot be used, a loss that is not finite, a file that cannot be
/// written.
pub fn train<B: TrainBackend>(args: &run::Args, device: &B::Device) -> Result<()> {
    let from = args.from(MODEL)?;
    let settings: Settings = match &from {
        Some(from) => serde_json::from_str(&from.settings)?,
        None => gpt::settings::replaced(&DEFAULT, &[FIELDS, RECIPE_FIELDS], &args.overrides)?,
    };
    if settings.train_len == 0 {
        bail!("train_len must be at least 1");
    }
    let corpus: Corpus = args.corpus(from.as_ref())?;
    let text = Text::new(&corpus, settings.train_len, false)?;
    let recipe = settings.recipe.checked(settings.train_len)?;
    if recipe.dropout > 0.0 {
        bail!("dropout is not part of the recurrent networks; drop --dropout");
    }
    let threads = args.threads_of(&recipe)?;
    let shape = RnnShape::of_size(settings.cell, text.vocab.len(), settings.n_params);
    gpt::say!("{:?} with a state of {}", settings.cell, shape.d_hidden);
    let blank = match &from {
        Some(from) => from.clone(),
        None => LessonCheckpoint {
            corpus_name: corpus.name.clone(),
            corpus_sha256: corpus.sha256,
            ..run::blank(
                MODEL,
                serde_json::to_string_pretty(&settings)?,
                new_name(
                    args.name.as_deref(),
                    &format!("{:?}", settings.cell).to_lowercase(),
                )?,
            )
        },
    };
    let problem = CharLm::new(shape, text, &recipe)?;
    let mut learner = Learner::<B, _>::new(recipe, problem, threads, device)?;
    if let Some(from) = &from {
        learner.restore(from)?;
    }
    run::train(&mut learner, &blank, (args.workers, threads), device)
}
