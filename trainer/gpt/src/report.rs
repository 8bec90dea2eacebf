//! The report of a run: one HTML file that needs nothing beside it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use checkpoint::{Checkpoint, Corpus, Split, runs};
use runtime::Kind;

use crate::metrics::{self, Line};
use crate::request::ReportArgs;
use crate::run::{run_dir, trained};
use crate::{attention, chart, eval, evaluation, html, sample};

/// Name of the report in the folder of its run.
pub const FILE: &str = "report.html";
/// Temperatures of the samples.
pub const TEMPERATURES: [f32; 3] = [0.5, 0.8, 1.2];
/// Characters of a sample.
const SAMPLE_LEN: usize = 500;
/// Characters of val that the attention maps are drawn of unless a prompt is given.
const DEFAULT_PROMPT: usize = 32;

/// What a report is made of.
#[derive(Debug)]
pub struct Input<'a> {
    /// The weights that are deployed.
    pub best: &'a Checkpoint,
    /// The numbers of the run.
    pub lines: &'a [Line],
    /// Val.
    pub val: &'a [u16],
    /// Losses of the deployed float weights on `val`, in windows of `context_len`.
    pub losses: &'a [f32],
    /// Prompt of the attention maps.
    pub prompt: Option<&'a str>,
}

/// Makes the report of a run that has a checkpoint.
///
/// # Errors
///
/// A missing run or text, or a prompt that the model cannot read.
pub fn report(args: &ReportArgs) -> Result<()> {
    let dir = run_dir(args.run.as_deref())?;
    trained(&dir, runs::METRICS)?;
    let best = Checkpoint::load(&runs::best_checkpoint(&dir)?)?;
    let (name, sha256) = (&best.corpus_name, &best.corpus_sha256);
    let corpus = Corpus::of_run(args.data.as_deref(), name, sha256)?;
    let tokens = corpus.tokens(&best.vocabulary()?)?;
    let val = &tokens[Split::of(tokens.len()).val];
    let (evaluator, shards, weights) = eval::float(&best, best.deployed())?;
    let path = write(
        &dir,
        &Input {
            best: &best,
            lines: &metrics::read(&dir)?,
            val,
            losses: &evaluator.nll(&shards, &weights, val),
            prompt: args.prompt.as_deref(),
        },
    )?;
    crate::say!("wrote {}", path.display());
    Ok(())
}

/// Makes the samples of a run, one per temperature.
///
/// # Errors
///
/// Weights that make no blob.
pub fn samples(best: &Checkpoint) -> Result<Vec<(f32, String)>> {
    let prompt = sample::known(sample::PROMPT, &best.vocabulary()?);
    TEMPERATURES
        .iter()
        .map(|&temperature| {
            let text = sample::from_checkpoint(best, &prompt, temperature, best.seed, SAMPLE_LEN)?;
            Ok((temperature, text))
        })
        .collect()
}

/// Writes the report into the folder of its run and returns its path.
///
/// # Errors
///
/// A prompt that the model cannot read, or a file that cannot be written.
pub fn write(dir: &Path, input: &Input<'_>) -> Result<PathBuf> {
    let path = dir.join(FILE);
    std::fs::write(&path, render(input)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn render(input: &Input<'_>) -> Result<String> {
    let best = input.best;
    let none = || "<p>No numbers yet.</p>".to_owned();
    let curves = chart::run(input.lines)?.unwrap_or_else(none);
    let positions = chart::positions(&by_position(input.losses, best.config.context_len.into()))?;
    let texts: String = samples(best)?
        .iter()
        .map(|(temperature, text)| {
            format!(
                "<p>Temperature {temperature}</p>\n<pre>{}</pre>\n",
                html::escape(text)
            )
        })
        .collect();
    let prompt = match input.prompt {
        Some(prompt) => prompt.to_owned(),
        None => default_prompt(best, input.val)?,
    };
    let maps = attention::maps(best, &prompt)?;
    let attention = format!(
        "<p>Every head on {}: a row says how a character divides its attention among those before \
         it.</p>\n<div class=\"wide\">{}</div>",
        html::escape(&format!("{prompt:?}")),
        maps.to_svg()
    );
    Ok(html::page(
        &format!("Run {}", best.run),
        &[
            ("Losses", losses(input)),
            ("Curves", curves),
            ("Samples", texts),
            (
                "Loss by position in the window",
                positions.unwrap_or_else(none),
            ),
            ("Attention", attention),
            ("Quantisation", quantisation(best)?),
            ("Settings", settings(&best.settings)),
        ],
    ))
}

fn losses(input: &Input<'_>) -> String {
    let best = input.best;
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    html::table(&[
        row("nats per character", "loss".to_owned()),
        row(
            "val, deployed float weights",
            format!("{:.4}", evaluation::mean(input.losses)),
        ),
        row("dev, weights", format!("{:.4}", best.dev_f32)),
        row("dev, averaged weights", format!("{:.4}", best.dev_ema)),
        row("step of the deployed weights", best.step.to_string()),
        row("seconds of training", format!("{:.0}", best.seconds)),
        row("parameters", best.config.n_params().to_string()),
        row("text", best.corpus_name.clone()),
    ])
}

/// Returns the mean loss at each position of a window.
fn by_position(losses: &[f32], context_len: usize) -> Vec<f64> {
    (0..context_len.min(losses.len()))
        .map(|pos| {
            let values: Vec<f32> = losses
                .iter()
                .skip(pos)
                .step_by(context_len)
                .copied()
                .collect();
            evaluation::mean(&values)
        })
        .collect()
}

fn default_prompt(best: &Checkpoint, val: &[u16]) -> Result<String> {
    let vocab = best.vocabulary()?;
    let limit = attention::MAX_PROMPT.min(best.config.context_len.into());
    let longest = DEFAULT_PROMPT.min(limit).min(val.len());
    // Byte pairs begin with a token of their own, and a character that was cut between its bytes
    // comes back as another.
    let fits = |text: &String| vocab.encode(text).is_ok_and(|tokens| tokens.len() <= limit);
    let mut texts = (0..=longest).rev().map(|len| vocab.decode(&val[..len]));
    Ok(texts.find(fits).unwrap_or_default())
}

fn quantisation(best: &Checkpoint) -> Result<String> {
    let head = ["tensor", "shape", "format", "bytes", "largest error"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(sample::blob(best)?.tensors.iter().map(|tensor| {
        let error = match tensor.kind {
            Kind::U32 => "exact".to_owned(),
            _ => format!("{:.6}", tensor.max_error),
        };
        vec![
            tensor.name.clone(),
            format!("{} x {}", tensor.rows, tensor.cols),
            format!("{:?}", tensor.kind),
            tensor.len.to_string(),
            error,
        ]
    }));
    Ok(html::table(&rows))
}

/// Writes the settings of a run, JSON, as a table.
#[must_use]
pub fn settings(json: &str) -> String {
    let mut rows = vec![vec!["setting".to_owned(), "value".to_owned()]];
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(json) {
        Ok(fields) => rows.extend(fields.iter().map(|(name, value)| {
            let value = value.as_str().map_or(value.to_string(), str::to_owned);
            vec![name.clone(), value]
        })),
        Err(_) => rows.push(vec!["unreadable".to_owned(), json.to_owned()]),
    }
    html::table(&rows)
}

#[cfg(test)]
mod tests {
    use super::by_position;

    #[test]
    fn a_short_last_window_counts_at_its_positions_only() {
        let losses = [1.0, 2.0, 3.0, 3.0, 4.0];
        assert_eq!(by_position(&losses, 3), [2.0, 3.0, 3.0]);
    }
}
