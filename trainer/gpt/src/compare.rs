//! `trainer compare`: runs beside each other, as a table and as curves.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use checkpoint::runs::{self, RunError};

use crate::chart;
use crate::metrics::{self, Line};
use crate::request::CompareArgs;
use crate::run::{run_dir, trained};
use crate::settings::Settings;

/// A run as its folder shows it.
struct Run {
    dir: PathBuf,
    name: String,
    settings: Settings,
    lines: Vec<Line>,
}

impl Run {
    fn open(run: &str) -> Result<Self> {
        let dir = run_dir(Some(run))?;
        if let Err(error @ RunError::Lesson { .. }) = runs::best_checkpoint(&dir) {
            return Err(error.into());
        }
        let path = trained(&dir, runs::CONFIG)?;
        let json = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let lines = metrics::read(&dir)?;
        if lines.is_empty() {
            bail!("{run} has no numbers yet; let it train for a while");
        }
        Ok(Self {
            name: name(&dir),
            dir: dir.canonicalize()?,
            settings: Settings::from_json(&json)?,
            lines,
        })
    }

    fn best(&self) -> Option<(u64, f64)> {
        let evaluated = self.lines.iter();
        evaluated
            .filter_map(|line| Some((line.step, line.dev_ema?)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

fn name(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or(dir.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Prints a table of the runs, draws their curves, and checks how far their losses lie apart if
/// that is asked for.
///
/// # Errors
///
/// A missing run, a chart that cannot be written, or losses too far apart.
pub fn compare(args: &CompareArgs) -> Result<()> {
    let runs: Vec<Run> = args
        .runs
        .iter()
        .map(|run| Run::open(run))
        .collect::<Result<_>>()?;
    for (i, run) in runs.iter().enumerate() {
        if runs[..i].iter().any(|other| other.dir == run.dir) {
            bail!("{} is named twice; name another run beside it", run.name);
        }
    }
    let width = runs
        .iter()
        .map(|run| run.name.len())
        .max()
        .unwrap_or(0)
        .max(4);
    crate::say!(
        "{:width$} {:>10} {:>8} {:>8} {:>14} {:>9} {:>9}",
        "run",
        "parameters",
        "step",
        "train",
        "dev (step)",
        "tokens/s",
        "seconds"
    );
    for run in &runs {
        let Some(last) = run.lines.last() else {
            continue;
        };
        let dev = match run.best() {
            Some((step, loss)) => format!("{loss:.4} ({step})"),
            None => "-".to_owned(),
        };
        crate::say!(
            "{:width$} {:>10} {:>8} {:>8.4} {dev:>14} {:>9.0} {:>9.0}",
            run.name,
            run.settings.model.n_params(),
            last.step,
            last.train,
            last.tokens_per_s,
            last.seconds
        );
    }
    if runs.iter().any(|run| run.settings.train_on_dev) {
        crate::say!("note: a run that trains on dev has seen it; its dev loss says little");
    }
    let curves = runs
        .iter()
        .map(|run| (run.name.as_str(), run.lines.as_slice()));
    if let Some(svg) = chart::runs(curves)? {
        let path = args.svg.clone().unwrap_or_else(default_svg);
        std::fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
        crate::say!("curves: {}", path.display());
    }
    match args.within {
        Some(within) => check(&runs, within),
        None => Ok(()),
    }
}

fn default_svg() -> PathBuf {
    runs::root().join("compare.svg")
}

/// Checks that the training losses of all runs lie within `within` of those of the first.
fn check(runs: &[Run], within: f64) -> Result<()> {
    let Some((first, others)) = runs.split_first() else {
        return Ok(());
    };
    let losses: HashMap<u64, f64> = first
        .lines
        .iter()
        .map(|line| (line.step, line.train))
        .collect();
    for run in others {
        let mut common = 0;
        for line in &run.lines {
            let Some(expected) = losses.get(&line.step) else {
                continue;
            };
            common += 1;
            let apart = (line.train - expected).abs();
            // also for a NaN
            if apart.is_nan() || apart > within {
                bail!(
                    "at step {} the loss is {:.6} in {} and {expected:.6} in {}: {apart:.6} apart, \
                     allowed are {within}",
                    line.step,
                    line.train,
                    run.name,
                    first.name
                );
            }
        }
        if common == 0 {
            bail!("{} and {} have no step in common", first.name, run.name);
        }
        crate::say!(
            "{common} losses of {} are within {within} of those of {}",
            run.name,
            first.name
        );
    }
    Ok(())
}
