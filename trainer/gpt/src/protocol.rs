//! nanoGPT's way of scoring, to compare with its published losses.
//!
//! The mean of random batches scores some characters twice and others never; it is for comparison
//! only. Drawn with a fixed seed, it is at least the same every time.

use anyhow::{Context, Result, bail};
use checkpoint::{Checkpoint, Corpus, Split};
use serde::Serialize;

use crate::eval::float;
use crate::evaluation::mean;
use crate::request::EvalArgs;
use crate::rng::{self, Purpose};
use crate::run::deployed;

/// Batches that are drawn.
const BATCHES: usize = 200;
/// Windows of a batch, as in nanoGPT's configuration for a CPU.
const BATCH: usize = 12;
/// Seed of nanoGPT's runs.
const SEED: u64 = 1337;

/// The JSON of `trainer eval --protocol nanogpt --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What the losses are counted in.
    pub unit: &'static str,
    /// Mean of the batches' losses.
    pub val: f64,
    /// Standard error of `val`.
    pub val_error: f64,
    /// Batches drawn.
    pub batches: usize,
    /// Windows of each.
    pub batch: usize,
    /// Length of a window.
    pub context_len: u16,
    /// Run.
    pub run: String,
    /// Step that the weights come from.
    pub step: u64,
}

/// Scores the float weights of a run, not their average, on random windows of val and prints it.
///
/// # Errors
///
/// A missing run or text, or a text whose val is shorter than a window.
pub(crate) fn nanogpt(args: &EvalArgs) -> Result<()> {
    if let Some(blob) = &args.blob {
        bail!(
            "--protocol nanogpt scores the float weights of a run; drop --blob {}",
            blob.display()
        );
    }
    let from = deployed(args.run.as_deref())?;
    let corpus = match &args.data {
        Some(path) => Corpus::open(path)?,
        None => Corpus::reopen(&from.corpus_name, &from.corpus_sha256)?,
    };
    let tokens = corpus.tokens(&from.vocabulary()?)?;
    let val = &tokens[Split::of(tokens.len()).val];
    let report = score(&from, val)?;
    if args.json {
        crate::say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        crate::say!(
            "run {}, step {}: {:.4} {}, standard error {:.4}, on {BATCHES} random \
             batches of {BATCH} x {} characters of val",
            report.run,
            report.step,
            report.val,
            report.unit,
            report.val_error,
            report.context_len
        );
    }
    Ok(())
}

fn score(from: &Checkpoint, val: &[u16]) -> Result<Report> {
    let len = usize::from(from.config.context_len);
    let room = val
        .len()
        .checked_sub(len)
        .filter(|&room| room > 0)
        .with_context(|| {
            format!(
                "val has {} characters, but a window needs {}",
                val.len(),
                len + 1
            )
        })?;
    let key = rng::key(SEED, Purpose::Order, 0);
    let starts: Vec<usize> = (0..(BATCHES * BATCH) as u64)
        .map(|i| rng::below(key, i, room))
        .collect();
    let (evaluator, shards, weights) = float(from, &from.weights)?;
    let losses = evaluator.windows(&shards, &weights, val, &starts, len);
    let batches: Vec<f64> = losses.chunks(BATCH * len).map(mean).collect();
    let n = batches.len() as f64;
    let val = batches.iter().sum::<f64>() / n;
    let spread: f64 = batches.iter().map(|batch| (batch - val).powi(2)).sum();
    Ok(Report {
        unit: checkpoint::score::unit(from.vocabulary()?.vocab()),
        val,
        val_error: (spread / (n - 1.0) / n).sqrt(),
        batches: BATCHES,
        batch: BATCH,
        context_len: from.config.context_len,
        run: from.run.clone(),
        step: from.step,
    })
}
