//! Settings of the models of the lesson, and what the optimiser reads of them.

use anyhow::{Result, bail};
use gpt::presets;
use gpt::settings::Settings;
use serde::{Deserialize, Serialize};

/// Length, optimiser and seed of a run; the names are those of the GPT's settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Sequences per step.
    pub batch: usize,
    /// Parts of a batch, one per thread at most.
    pub shards: usize,
    /// Optimiser steps.
    pub steps: u64,
    /// Peak learning rate.
    pub lr: f64,
    /// Last learning rate as a fraction of the peak.
    pub min_lr_ratio: f64,
    /// Steps of linear warm-up.
    pub warmup: u64,
    /// Decoupled weight decay of matrices.
    pub weight_decay: f64,
    /// Largest global norm of the gradients.
    pub clip: f64,
    /// Dropout.
    pub dropout: f32,
    /// Decay of the weight average.
    pub ema_decay: f64,
    /// Seed of weights, order and dropout.
    pub seed: u64,
    /// Steps between evaluations.
    pub eval_every: u64,
}

/// Fields of [`Recipe`] that the command line sets, with their help.
pub const RECIPE_FIELDS: &[(&str, &str)] = &[
    ("batch", "Sequences per step"),
    ("shards", "Parts of a batch, one per thread at most"),
    ("steps", "Optimiser steps"),
    ("lr", "Peak learning rate"),
    ("min_lr_ratio", "Last learning rate / peak"),
    ("warmup", "Steps of linear warm-up"),
    ("weight_decay", "AdamW: decay of matrices"),
    ("clip", "Largest global norm of the gradients"),
    ("dropout", "Dropout"),
    ("ema_decay", "Decay of the weight average"),
    ("seed", "Seed of weights, order and dropout"),
    ("eval_every", "Steps between evaluations"),
];

impl Recipe {
    /// Returns the form that the GPT's optimiser reads; the shape in it says nothing.
    ///
    /// # Errors
    ///
    /// Values out of range.
    pub fn checked(&self, train_len: usize) -> Result<Settings> {
        let base = presets::find("test")?.settings;
        let settings = Settings {
            train_len: usize::from(base.model.context_len),
            batch: self.batch,
            shards: self.shards,
            steps: self.steps,
            lr: self.lr,
            min_lr_ratio: self.min_lr_ratio,
            warmup: self.warmup,
            weight_decay: self.weight_decay,
            clip: self.clip,
            dropout: self.dropout,
            ema_decay: self.ema_decay,
            seed: self.seed,
            eval_every: self.eval_every,
            ..base
        };
        settings.validate()?;
        Ok(Settings {
            train_len,
            ..settings
        })
    }
}

/// Checks the shape of attention.
///
/// # Errors
///
/// A width that is no multiple of the heads, or an odd one.
pub fn check_heads(d_model: usize, n_head: usize) -> Result<()> {
    if n_head == 0 || d_model == 0 || !d_model.is_multiple_of(n_head) || !d_model.is_multiple_of(2)
    {
        bail!("d_model is {d_model} with {n_head} heads; expected an even multiple of n_head");
    }
    Ok(())
}
