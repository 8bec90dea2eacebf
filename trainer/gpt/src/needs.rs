//! What a run will need, told before it starts.

use std::time::Instant;

use crate::backend::TrainBackend;
use crate::evaluation::host;
use crate::optimizer::global_norm;
use crate::settings::Settings;
use crate::training::Trainer;

/// Vectors as long as the model: weights, average, two moments, decay, gradients.
const VECTORS: u64 = 6;
/// Seconds that are spent on measuring, unless a step takes longer.
const SPAN: f64 = 1.0;
/// Most steps that are measured.
const MOST: usize = 50;
/// A forward pass as part of a step: the way back takes twice as long.
const FORWARD: f64 = 1.0 / 3.0;

/// Measures steps without taking them and says what all of them need.
pub fn say<B: TrainBackend>(trainer: &mut Trainer<B>) {
    let mut step = || {
        let started = Instant::now();
        let (_, grads) = trainer.gradients();
        // reading a number waits for a device that computes on its own
        let _ = host(global_norm(&grads));
        started.elapsed().as_secs_f64()
    };
    // the first fills buffers and caches, and is no measure
    let cold = step();
    let mut warm = Vec::new();
    while warm.is_empty() || (warm.iter().sum::<f64>() < SPAN - cold && warm.len() < MOST) {
        warm.push(step());
    }
    let seconds = median(warm);
    let settings = &trainer.settings;
    let state = VECTORS * 4 * settings.model.n_params();
    let held_out = (trainer.text.dev.len(), trainer.text.val.len());
    let left = total(settings, trainer.step, held_out, seconds);
    crate::say!(
        "needs: {} MiB for weights, averages, moments and gradients; {:.0} ms a step, so about \
         {} for {} steps, {} on dev and one on val",
        state >> 20,
        1e3 * seconds,
        duration(left),
        settings.steps - trainer.step,
        match evaluations(settings, trainer.step) {
            1 => "one evaluation".to_owned(),
            n => format!("{n} evaluations"),
        }
    );
}

/// Returns the middle one of some values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns how often dev is scored from `step` to the end.
fn evaluations(settings: &Settings, step: u64) -> u64 {
    settings.steps.div_ceil(settings.eval_every) - step / settings.eval_every
}

/// Returns the seconds from `step` to the end: the steps, the evaluations on dev between them and the
/// one on val behind them, of texts of these lengths.
fn total(settings: &Settings, step: u64, (n_dev, n_val): (usize, usize), seconds: f64) -> f64 {
    let per_token = FORWARD * seconds / (settings.batch * settings.train_len) as f64;
    let n_eval = evaluations(settings, step);
    // weights, average, and the average rounded
    let passes = if settings.quantize_aware > 0.0 { 3 } else { 2 };
    let scored = (n_eval * passes) as f64 * n_dev as f64 + n_val as f64;
    seconds * (settings.steps - step) as f64 + per_token * scored
}

fn duration(seconds: f64) -> String {
    if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else if seconds < 7_200.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3_600.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{median, total};
    use crate::presets;

    #[test]
    fn evaluations_are_part_of_the_time() {
        let settings = presets::find("small").unwrap().settings;
        // 14,000 steps of 24 sequences of 128, an evaluation of two passes every 1,000
        let steps = 14_000.0 * 0.02;
        let evaluations = 28.0 * (0.02 / 3.0) * (3_072.0 * 10.0 / 3_072.0);
        let whole = total(&settings, 0, (30_720, 0), 0.02);
        assert!((whole - steps - evaluations).abs() < 1e-9, "{whole}");
        let half = total(&settings, 7_000, (30_720, 0), 0.02);
        assert!((2.0 * half - whole).abs() < 1e-9, "{half}");
        assert_eq!(total(&settings, 14_000, (30_720, 0), 0.02), 0.0);
        // one pass over val, as long as ten batches
        let last = total(&settings, 14_000, (30_720, 30_720), 0.02);
        assert!((last - 10.0 * 0.02 / 3.0).abs() < 1e-9, "{last}");
    }

    #[test]
    fn a_slow_step_among_many_does_not_count() {
        assert_eq!(median(vec![1.0, 9.0, 1.2, 1.1, 0.9]), 1.1);
    }
}
