//! What a run will need, told before it starts.

use std::time::Instant;

use crate::backend::TrainBackend;
use crate::evaluation::host;
use crate::optimizer::global_norm;
use crate::training::Trainer;

/// Vectors as long as the model: weights, average, two moments, decay, gradients.
const VECTORS: u64 = 6;

/// Measures one step without taking it and says what all of them need.
pub fn say<B: TrainBackend>(trainer: &mut Trainer<B>) {
    let started = Instant::now();
    let (_, grads) = trainer.gradients();
    // reading a number waits for a device that computes on its own
    let _ = host(global_norm(&grads));
    let seconds = started.elapsed().as_secs_f64();
    let settings = &trainer.settings;
    let state = VECTORS * 4 * settings.model.n_params();
    let left = seconds * settings.steps.saturating_sub(trainer.step) as f64;
    crate::say!(
        "needs: {} MiB for weights, averages, moments and gradients; {:.0} ms a step, so about \
         {} for {} steps",
        state >> 20,
        1e3 * seconds,
        duration(left),
        settings.steps
    );
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
