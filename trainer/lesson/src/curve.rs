//! Models side by side: how each one's loss falls, drawn over steps and over time.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use gpt::backend::TrainBackend;
use gpt::evaluation::mean;
use gpt::training::Trainer;
use gpt::{chart, cpu_time, say};
use serde::{Deserialize, Serialize};

use crate::char_lm::{CharLm, Family};
use crate::learner::Learner;

/// Evaluations of a model.
const POINTS: u64 = 12;

/// A model in training whose losses on dev and val can be asked for.
pub trait Contestant {
    /// Returns the number of parameters.
    fn n_params(&self) -> usize;
    /// Takes a step; returns its training loss.
    ///
    /// # Errors
    ///
    /// A loss that is not finite.
    fn step(&mut self) -> Result<f64>;
    /// Returns the loss on dev of the averaged weights.
    fn dev(&mut self) -> f64;
    /// Returns the loss on val of the averaged weights.
    ///
    /// # Errors
    ///
    /// Never, for weights of the model itself.
    fn val(&self) -> Result<f64>;
}

impl<B: TrainBackend, F: Family> Contestant for Learner<B, CharLm<F>> {
    fn n_params(&self) -> usize {
        self.n_params()
    }

    fn step(&mut self) -> Result<f64> {
        Ok(self.step()?.loss)
    }

    fn dev(&mut self) -> f64 {
        self.scored(|problem, net, shards, device| problem.dev::<B>(net, shards, device))
    }

    fn val(&self) -> Result<f64> {
        Ok(self.scored(|problem, net, shards, device| problem.val::<B>(net, shards, device)))
    }
}

impl<B: TrainBackend> Contestant for Trainer<B> {
    fn n_params(&self) -> usize {
        self.settings.model.n_params() as usize
    }

    fn step(&mut self) -> Result<f64> {
        Ok(self.step()?.loss)
    }

    fn dev(&mut self) -> f64 {
        self.evaluate();
        self.record.dev_ema
    }

    fn val(&self) -> Result<f64> {
        let now = self.to_checkpoint("", false);
        Ok(mean(&self.score(&now, &self.text.val)?))
    }
}

/// State of a model after some steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Steps taken.
    pub step: u64,
    /// Seconds of training, of the processor where the system tells them: what else runs on the
    /// machine does not count then.
    pub seconds: f64,
    /// Mean training loss since the point before.
    pub train: f64,
    /// Loss on dev.
    pub dev: f64,
}

/// How a model fared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name for table and legend.
    pub name: String,
    /// Parameters.
    pub n_params: usize,
    /// Its way.
    pub points: Vec<Point>,
    /// Loss on val at the end; `None` if the model did not get there.
    pub val: Option<f64>,
}

impl Curve {
    /// Trains a model to the end, or until its loss is not finite, and records its way.
    ///
    /// # Errors
    ///
    /// Never, for a model that is scored with its own weights.
    pub fn record(name: &str, model: &mut dyn Contestant, steps: u64) -> Result<Self> {
        let mut curve = Self {
            name: name.to_owned(),
            n_params: model.n_params(),
            points: Vec::new(),
            val: None,
        };
        let every = (steps / POINTS).max(1);
        let (mut seconds, mut sum, mut count) = (0.0, 0.0, 0_u32);
        for step in 1..=steps {
            let started = (Instant::now(), cpu_time::seconds());
            match model.step() {
                Ok(loss) => sum += loss,
                Err(error) => {
                    say!("{name}: {error}");
                    return Ok(curve);
                }
            }
            let of_processor = cpu_time::seconds()
                .zip(started.1)
                .map(|(end, start)| end - start);
            seconds += of_processor.unwrap_or_else(|| started.0.elapsed().as_secs_f64());
            count += 1;
            if step.is_multiple_of(every) || step == steps {
                let point = Point {
                    step,
                    seconds,
                    train: sum / f64::from(count),
                    dev: model.dev(),
                };
                say!(
                    "{name:14} step {step:5}  train {:.4}  dev {:.4}  {seconds:.0} CPU-s",
                    point.train,
                    point.dev
                );
                curve.points.push(point);
                (sum, count) = (0.0, 0);
            }
        }
        curve.val = Some(model.val()?);
        Ok(curve)
    }

    /// Returns the last point; NaN losses if there is none.
    #[must_use]
    pub fn end(&self) -> Point {
        let nothing = Point {
            step: 0,
            seconds: 0.0,
            train: f64::NAN,
            dev: f64::NAN,
        };
        self.points.last().copied().unwrap_or(nothing)
    }

    /// Returns the loss on dev after `seconds` of training, straight between the points; NaN
    /// before the first.
    #[must_use]
    pub fn dev_after(&self, seconds: f64) -> f64 {
        if self.end().seconds <= seconds {
            return self.end().dev;
        }
        let pair = self
            .points
            .windows(2)
            .find(|pair| (pair[0].seconds..=pair[1].seconds).contains(&seconds));
        pair.map_or(f64::NAN, |pair| {
            let share = (seconds - pair[0].seconds) / (pair[1].seconds - pair[0].seconds);
            pair[0].dev + share * (pair[1].dev - pair[0].dev)
        })
    }
}

/// Draws the losses on dev over the steps and, below, over the time; nothing while there is no loss.
///
/// # Errors
///
/// A file that cannot be written.
pub fn draw(path: &Path, curves: &[Curve]) -> Result<()> {
    let over = |x: fn(&Point) -> f64| -> Vec<chart::Curve> {
        let line = |(number, curve): (usize, &Curve)| {
            let points = curve.points.iter().map(|point| (x(point), point.dev));
            chart::Curve::new(number, &curve.name, points)
        };
        curves.iter().enumerate().map(line).collect()
    };
    let panels: [(&str, &[chart::Curve]); 2] = [
        ("steps", &over(|point| point.step as f64)),
        ("CPU-seconds of training", &over(|point| point.seconds)),
    ];
    match chart::stacked(&panels)? {
        Some(svg) => {
            std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))
        }
        None => Ok(()),
    }
}
