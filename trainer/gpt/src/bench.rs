//! `trainer bench`: speed of training, alone and beside the same model in torch.
//!
//! The two take turns of a fixed number of steps, A B A B, so that whatever else the machine does
//! slows both. Seconds are those of the clock and those that the system gave to the process: on a
//! shared machine the latter are the steadier.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use checkpoint::Corpus;
use serde::Serialize;

use crate::backend::TrainBackend;
use crate::bench::torch::Torch;
use crate::settings::Settings;
use crate::training::{Text, Trainer};
use crate::{cpu_time, presets};

mod torch;

/// Steps before the first turn, which fill buffers and caches.
const WARM_UP: u64 = 3;

/// What `trainer bench` was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchArgs {
    /// Presets; none are those that are compared with torch.
    pub presets: Vec<String>,
    /// Fields set on the command line, in order.
    pub overrides: Vec<(String, String)>,
    /// Text; `None` is tiny Shakespeare.
    pub data: Option<PathBuf>,
    /// `auto`, `cpu` or `cuda`.
    pub device: String,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Steps in a turn.
    pub steps: u64,
    /// Turns of each.
    pub rounds: usize,
    /// Python interpreter with torch.
    pub torch: Option<PathBuf>,
    /// Prints JSON.
    pub json: bool,
}

/// A turn: what one side did and what it took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Turn {
    /// Characters per second of the clock.
    pub tokens_per_s: f64,
    /// Characters per second of the processor; `None` where the system does not tell.
    pub tokens_per_cpu_s: Option<f64>,
}

impl Turn {
    fn new(tokens: f64, seconds: f64, cpu_seconds: Option<f64>) -> Self {
        Self {
            tokens_per_s: tokens / seconds,
            tokens_per_cpu_s: cpu_seconds
                .filter(|&seconds| seconds > 0.0)
                .map(|seconds| tokens / seconds),
        }
    }
}

/// Middle and ends of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let (&min, &max) = (values.first()?, values.last()?);
        let median = 0.5 * (values[(n - 1) / 2] + values[n / 2]);
        Some(Self { median, min, max })
    }
}

/// The measurement of one preset at one number of threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Preset.
    pub preset: String,
    /// Parameters of the model.
    pub n_params: u64,
    /// Threads of either side.
    pub threads: usize,
    /// Steps in a turn.
    pub steps: u64,
    /// Characters in a step.
    pub tokens: usize,
    /// Turns of the trainer.
    pub trainer: Vec<Turn>,
    /// Turns of torch.
    pub torch: Vec<Turn>,
    /// Trainer / torch by the clock, turn by turn.
    pub ratio: Option<Spread>,
    /// The same by the processor's time.
    pub cpu_ratio: Option<Spread>,
}

/// Measures and prints.
///
/// # Errors
///
/// An unknown preset or setting, or an interpreter that was named and has no torch.
pub fn bench<B: TrainBackend>(args: &BenchArgs, device: &B::Device) -> Result<()> {
    if args.steps == 0 || args.rounds == 0 || args.threads.contains(&0) {
        bail!("--steps, --rounds and --threads must be at least 1");
    }
    let corpus = match &args.data {
        Some(path) => Corpus::from_file(path)?,
        None => Corpus::tiny_shakespeare()?,
    };
    let python = match torch::find(args.torch.as_deref()) {
        Ok(python) => Some(python),
        Err(reason) if args.torch.is_none() => {
            if !args.json {
                crate::say!("without torch: {reason}");
            }
            None
        }
        Err(reason) => return Err(reason),
    };
    if !args.json {
        crate::say!(
            "{:12} {:>7} {:>17} {:>17} {:>22} {:>22}",
            "characters/s",
            "threads",
            "trainer (CPU)",
            "torch (CPU)",
            "ratio (min to max)",
            "CPU ratio"
        );
    }
    let mut rows = Vec::new();
    for name in &args.presets {
        let settings = presets::find(name)?.settings.with(&args.overrides)?;
        for &threads in &args.threads {
            let context_len = usize::from(settings.model.context_len);
            let text = Text::new(&corpus, context_len, settings.train_on_dev)?;
            let trainer = Trainer::<B>::new(settings, text, threads, device)?;
            // the other side knows no sliding window
            let same = settings.train_len == context_len;
            let python = python.as_ref().filter(|_| same);
            let torch = match python {
                Some(python) => Some(Torch::start(python, &trainer.settings, threads)?),
                None => None,
            };
            let row = measure(name, threads, trainer, torch, args)?;
            if !args.json {
                print(&row);
            }
            rows.push(row);
        }
    }
    if args.json {
        crate::say!("{}", serde_json::to_string_pretty(&rows)?);
    }
    Ok(())
}

fn measure<B: TrainBackend>(
    name: &str,
    threads: usize,
    mut trainer: Trainer<B>,
    mut torch: Option<Torch>,
    args: &BenchArgs,
) -> Result<Row> {
    let settings = trainer.settings;
    let tokens = settings.batch * settings.train_len;
    take(&mut trainer, WARM_UP)?;
    if let Some(torch) = &mut torch {
        torch.turn(WARM_UP, tokens)?;
    }
    let mut row = Row {
        preset: name.to_owned(),
        n_params: settings.model.n_params(),
        threads,
        steps: args.steps,
        tokens,
        trainer: Vec::new(),
        torch: Vec::new(),
        ratio: None,
        cpu_ratio: None,
    };
    for _ in 0..args.rounds {
        row.trainer.push(take(&mut trainer, args.steps)?);
        if let Some(torch) = &mut torch {
            row.torch.push(torch.turn(args.steps, tokens)?);
        }
    }
    let pairs = || row.trainer.iter().zip(&row.torch);
    row.ratio = Spread::of(pairs().map(|(a, b)| a.tokens_per_s / b.tokens_per_s));
    row.cpu_ratio =
        Spread::of(pairs().filter_map(|(a, b)| Some(a.tokens_per_cpu_s? / b.tokens_per_cpu_s?)));
    Ok(row)
}

/// Takes steps and times them.
fn take<B: TrainBackend>(trainer: &mut Trainer<B>, steps: u64) -> Result<Turn> {
    let (start, cpu) = (Instant::now(), cpu_time::seconds());
    for _ in 0..steps {
        trainer.advance()?;
    }
    trainer.flush()?;
    let cpu = cpu_time::seconds().zip(cpu).map(|(end, start)| end - start);
    let Settings {
        batch, train_len, ..
    } = trainer.settings;
    let tokens = (steps as usize * batch * train_len) as f64;
    Ok(Turn::new(tokens, start.elapsed().as_secs_f64(), cpu))
}

fn print(row: &Row) {
    let median = |turns: &[Turn], value: fn(&Turn) -> Option<f64>| {
        Spread::of(turns.iter().filter_map(value))
            .map_or(String::new(), |spread| format!("{:.0}", spread.median))
    };
    let side = |turns: &[Turn]| {
        if turns.is_empty() {
            return "-".to_owned();
        }
        let clock = median(turns, |turn| Some(turn.tokens_per_s));
        format!("{clock} ({})", median(turns, |turn| turn.tokens_per_cpu_s))
    };
    let ratio = |spread: Option<Spread>| {
        spread.map_or("-".to_owned(), |Spread { median, min, max }| {
            format!("{median:.2} ({min:.2} to {max:.2})")
        })
    };
    crate::say!(
        "{:12} {:>7} {:>17} {:>17} {:>22} {:>22}",
        row.preset,
        row.threads,
        side(&row.trainer),
        side(&row.torch),
        ratio(row.ratio),
        ratio(row.cpu_ratio)
    );
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_middle_of_an_even_series_lies_between() {
        let spread = Spread::of([3.0, 1.0, 2.0, 8.0].into_iter()).unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.5, 8.0));
        assert_eq!(Spread::of(std::iter::empty()), None);
    }
}
