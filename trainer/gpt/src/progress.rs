//! Progress on the terminal: a bar, or plain lines where there is none.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Time between plain lines.
const QUIET: Duration = Duration::from_secs(10);

/// The display of one run.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    steps: u64,
    first_step: u64,
    started: Instant,
    last_line: Option<Instant>,
}

impl Progress {
    /// Starts the display at `step` of `steps`.
    #[must_use]
    pub fn new(step: u64, steps: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(steps).with_position(step);
            let template = "{bar:30} {pos}/{len}  {msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        Self {
            bar,
            steps,
            first_step: step,
            started: Instant::now(),
            last_line: None,
        }
    }

    /// Shows the state after a step.
    pub fn update(&mut self, step: u64, loss: f64, tokens_per_s: f64) {
        let due = match (&self.bar, self.last_line) {
            (Some(_), _) | (None, None) => true,
            (None, Some(last)) => last.elapsed() >= QUIET,
        };
        if !due {
            return;
        }
        let done = (step - self.first_step).max(1) as f64;
        let left = self.steps.saturating_sub(step) as f64;
        let eta = (self.started.elapsed().as_secs_f64() / done * left) as u64;
        let text = format!(
            "loss {loss:.4}  {tokens_per_s:.0} tokens/s  {:02}:{:02} left",
            eta / 60,
            eta % 60
        );
        match &self.bar {
            Some(bar) => {
                bar.set_position(step);
                bar.set_message(text);
            }
            None => {
                crate::say!("step {step}/{}  {text}", self.steps);
                self.last_line = Some(Instant::now());
            }
        }
    }

    /// Prints a line above the bar.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| crate::say!("{text}")),
            None => crate::say!("{text}"),
        }
    }

    /// Ends the display.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
