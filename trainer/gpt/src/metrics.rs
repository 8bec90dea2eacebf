//! The run's numbers: one JSON object a line.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use checkpoint::runs;
use serde::{Deserialize, Serialize};

use crate::chart;

/// Numbers of one step; the losses on dev only where they were computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Steps done.
    pub step: u64,
    /// Mean training loss since the line before, nats per character.
    pub train: f64,
    /// Learning rate of the last step.
    pub lr: f64,
    /// Global norm of the last gradients.
    pub grad_norm: f64,
    /// Training speed since the line before.
    pub tokens_per_s: f64,
    /// Seconds of training.
    pub seconds: f64,
    /// Loss of the weights on dev.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev_f32: Option<f64>,
    /// Loss of the averaged weights on dev.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev_ema: Option<f64>,
}

/// The metrics file of a run and its lines.
#[derive(Debug)]
pub struct Metrics {
    dir: PathBuf,
    lines: Vec<Line>,
}

impl Metrics {
    /// Opens the metrics of a run that has done `step` steps; later lines are dropped, they belong
    /// to steps that will be taken again.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn open(dir: &Path, step: u64) -> Result<Self> {
        let path = dir.join(runs::METRICS);
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<Line> = old
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|line: &Line| line.step <= step)
            .collect();
        let mut text = String::new();
        for line in &lines {
            text += &serde_json::to_string(line)?;
            text.push('\n');
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self {
            dir: dir.to_owned(),
            lines,
        })
    }

    /// Appends a line.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn push(&mut self, line: Line) -> Result<()> {
        let path = self.dir.join(runs::METRICS);
        let mut file = std::fs::OpenOptions::new().append(true).open(&path)?;
        writeln!(file, "{}", serde_json::to_string(&line)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        self.lines.push(line);
        Ok(())
    }

    /// Draws training loss, loss on dev and learning rate over the steps.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn draw(&self) -> Result<()> {
        let path = self.dir.join(runs::LOSS);
        match chart::run(&self.lines)? {
            Some(svg) => std::fs::write(&path, svg)
                .with_context(|| format!("cannot write {}", path.display())),
            None => Ok(()),
        }
    }

    /// Returns the numbers so far.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }
}

/// Reads the numbers of a run.
///
/// # Errors
///
/// A file that is missing or holds something else.
pub fn read(dir: &Path) -> Result<Vec<Line>> {
    let path = dir.join(runs::METRICS);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}; expected a run", path.display()))?;
    text.lines()
        .enumerate()
        .map(|(i, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("line {} of {} is no numbers", i + 1, path.display()))
        })
        .collect()
}
