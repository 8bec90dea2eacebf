//! Progress on the terminal: a bar, or plain lines where there is none.

use std::collections::VecDeque;
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
    /// Characters in a step.
    tokens: f64,
    started: Instant,
    pace: Pace,
    last_line: Option<Instant>,
}

impl Progress {
    /// Starts the display at `step` of `steps`, of `tokens` characters each.
    #[must_use]
    pub fn new(step: u64, steps: u64, tokens: usize) -> Self {
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
            tokens: tokens as f64,
            started: Instant::now(),
            pace: Pace::default(),
            last_line: None,
        }
    }

    /// Shows the state after a step.
    pub fn update(&mut self, step: u64, loss: f64) {
        self.pace.note(self.started.elapsed().as_secs_f64(), step);
        let due = match (&self.bar, self.last_line) {
            (Some(_), _) | (None, None) => true,
            (None, Some(last)) => last.elapsed() >= QUIET,
        };
        if !due {
            return;
        }
        let text = match self.pace.steps_per_s() {
            None => format!("loss {loss:.4}  measuring the speed"),
            Some(rate) => format!(
                "loss {loss:.4}  {:.0} tokens/s  {} left",
                rate * self.tokens,
                clock(self.steps.saturating_sub(step) as f64 / rate)
            ),
        };
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

/// Writes seconds as minutes and seconds, with hours where there are any.
fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes:02}:{seconds:02}")
    }
}

/// Steps over the last minute or two: evaluations are in it, and what else the machine does.
#[derive(Debug, Default)]
struct Pace {
    /// Seconds and steps, oldest first, at least a second apart.
    marks: VecDeque<(f64, u64)>,
    last: (f64, u64),
}

impl Pace {
    /// Seconds that are looked back on.
    const SPAN: f64 = 120.0;
    /// Seconds without which nothing is said.
    const LEAST: f64 = 2.0;

    /// Notes that `step` was done at `seconds`.
    fn note(&mut self, seconds: f64, step: u64) {
        // the first step fills buffers and is no measure
        self.last = (seconds, step);
        if self.marks.back().is_none_or(|&(at, _)| seconds - at >= 1.0) {
            self.marks.push_back((seconds, step));
        }
        while self.marks.len() > 1 && seconds - self.marks[1].0 >= Self::SPAN {
            self.marks.pop_front();
        }
    }

    fn steps_per_s(&self) -> Option<f64> {
        let &(from, first) = self.marks.front()?;
        let (seconds, steps) = (self.last.0 - from, self.last.1 - first);
        (seconds >= Self::LEAST && steps > 0).then(|| steps as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::{Pace, clock};

    #[test]
    fn nothing_is_said_before_there_is_a_measure() {
        let mut pace = Pace::default();
        assert_eq!(pace.steps_per_s(), None);
        pace.note(5.0, 1);
        assert_eq!(pace.steps_per_s(), None);
        pace.note(6.0, 2);
        assert_eq!(pace.steps_per_s(), None);
    }

    #[test]
    fn a_slow_first_step_and_evaluations_leave_the_estimate_within_a_fifth() {
        // 10 steps/s, the first takes 4 s, every 50th is followed by 1 s of evaluation
        let (mut pace, mut at, steps) = (Pace::default(), 4.0, 2_000);
        let mut times = Vec::new();
        let mut estimates = Vec::new();
        for step in 1..=steps {
            pace.note(at, step);
            times.push(at);
            if let Some(rate) = pace.steps_per_s() {
                estimates.push((step, at + (steps - step) as f64 / rate));
            }
            at += if step % 50 == 0 { 1.1 } else { 0.1 };
        }
        let end = times[steps as usize - 1];
        for (step, estimate) in estimates {
            let (left, estimated) = (
                end - times[step as usize - 1],
                estimate - times[step as usize - 1],
            );
            // the last half minute may end before the next evaluation
            let fair = (estimated - left).abs() <= 0.2 * left || left < 30.0;
            assert!(fair || step < 60, "step {step}: {estimated} for {left}");
        }
    }

    #[test]
    fn hours_are_written_when_there_are_any() {
        assert_eq!(clock(61.4), "01:01");
        assert_eq!(clock(3_725.0), "1:02:05");
    }
}
