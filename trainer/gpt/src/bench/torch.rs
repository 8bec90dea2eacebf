//! The other side of the measurement: a Python process that trains the same model in torch.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::Turn;
use crate::settings::Settings;

/// The model in torch.
const SCRIPT: &str = include_str!("../../../bench/torch_model.py");

/// A running script.
#[derive(Debug)]
pub(super) struct Torch {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What the script says to a turn.
#[derive(Deserialize)]
struct Answer {
    seconds: f64,
    cpu_seconds: f64,
}

/// Finds an interpreter with torch: the one asked for, that of `PYTHON`, or `python3`.
///
/// # Errors
///
/// An interpreter that does not start or has no torch.
pub(super) fn find(asked: Option<&Path>) -> Result<PathBuf> {
    let python = asked
        .map(Path::to_owned)
        .or_else(|| std::env::var_os("PYTHON").map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from("python3"));
    let probe = Command::new(&python)
        .args(["-c", "import torch"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", python.display()))?;
    if !probe.success() {
        bail!(
            "`{0} -c 'import torch'` fails; install it (`{0} -m pip install torch numpy`), or name \
             another interpreter with --torch or PYTHON",
            python.display()
        );
    }
    Ok(python)
}

impl Torch {
    /// Starts the script on a model; returns when it is ready.
    ///
    /// # Errors
    ///
    /// A script that ends early; its own message is on standard error.
    pub(super) fn start(python: &Path, settings: &Settings, threads: usize) -> Result<Self> {
        let mut child = Command::new(python)
            .args(["-c", SCRIPT])
            // a thread that waits for work must not take it from the other side
            .env("OMP_WAIT_POLICY", "passive")
            .env("OMP_NUM_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", python.display()))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.context("the script has no pipes")?;
        let mut torch = Self {
            child,
            input,
            output: BufReader::new(output),
        };
        torch.tell(&format!(
            "{}\n{threads}\n",
            serde_json::to_string(settings)?
        ))?;
        torch.answer()?;
        Ok(torch)
    }

    /// Takes steps of `tokens` characters.
    ///
    /// # Errors
    ///
    /// A script that ended or said something else.
    pub(super) fn turn(&mut self, steps: u64, tokens: usize) -> Result<Turn> {
        self.tell(&format!("{steps}\n"))?;
        let line = self.answer()?;
        let answer: Answer =
            serde_json::from_str(&line).with_context(|| format!("torch says {line:?}"))?;
        Ok(Turn::new(
            steps as f64 * tokens as f64,
            answer.seconds,
            Some(answer.cpu_seconds),
        ))
    }

    fn tell(&mut self, text: &str) -> Result<()> {
        self.input
            .write_all(text.as_bytes())
            .and_then(|()| self.input.flush())
            .context("the torch script has ended; its message is above")
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the torch script has ended; its message is above");
        }
        Ok(line)
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        // a script that is gone already needs no end
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
