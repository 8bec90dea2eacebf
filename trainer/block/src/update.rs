//! The update of a step on slices: global norm, `AdamW`, moving average.
//!
//! # Numerics
//!
//! Plain f32 operations in one order, without fused multiply-adds: the bits are the same on every
//! machine.

use pulp::Arch;

/// Returns the square root of the sum of all squares, summed in f64.
///
/// Squares go to 16 running sums by position in their slice, slice after slice; the order does not
/// depend on the machine.
#[must_use]
pub fn global_norm(grads: &[&[f32]]) -> f64 {
    const SUMS: usize = 16;
    let mut sums = [0.0_f64; SUMS];
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for grad in grads {
                let (whole, rest) = grad.as_chunks::<SUMS>();
                for chunk in whole {
                    for i in 0..SUMS {
                        sums[i] += f64::from(chunk[i]) * f64::from(chunk[i]);
                    }
                }
                for (sum, &g) in sums.iter_mut().zip(rest) {
                    *sum += f64::from(g) * f64::from(g);
                }
            }
        },
    );
    sums.iter().sum::<f64>().sqrt()
}

/// One step of `AdamW` with decoupled weight decay and bias correction, as in torch.
#[derive(Clone, Copy, Debug)]
pub struct AdamW {
    /// Learning rate of this step.
    pub lr: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Weight decay; a step takes `lr * weight_decay` of a weight.
    pub weight_decay: f64,
    /// Number of this step, from 1.
    pub step: u64,
    /// Factor of the gradients: what clipping leaves of them.
    pub grad_scale: f32,
}

impl AdamW {
    /// Updates weights and moments in place.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn update(
        &self,
        weights: &mut [f32],
        grads: &[f32],
        moment_1: &mut [f32],
        moment_2: &mut [f32],
    ) {
        let n = weights.len();
        assert!(
            grads.len() == n && moment_1.len() == n && moment_2.len() == n,
            "lengths differ"
        );
        let power = |beta: f64| 1.0 - beta.powf(self.step as f64);
        let step_size = (self.lr / power(self.beta1)) as f32;
        let root = power(self.beta2).sqrt() as f32;
        let keep = (1.0 - self.lr * self.weight_decay) as f32;
        let (beta1, beta2) = (self.beta1 as f32, self.beta2 as f32);
        let (rest1, rest2) = ((1.0 - self.beta1) as f32, (1.0 - self.beta2) as f32);
        let (eps, scale) = (self.eps as f32, self.grad_scale);
        Arch::new().dispatch(
            #[inline(always)]
            || {
                let moments = moment_1.iter_mut().zip(moment_2);
                for ((w, &g), (m, v)) in weights.iter_mut().zip(grads).zip(moments) {
                    let g = g * scale;
                    *m = beta1 * *m + rest1 * g;
                    *v = beta2 * *v + rest2 * (g * g);
                    *w = keep * *w - step_size * (*m / (v.sqrt() / root + eps));
                }
            },
        );
    }
}

/// Moves an average towards the weights: `average += (1 - decay) * (weights - average)`.
///
/// # Panics
///
/// If the lengths differ.
pub fn move_average(average: &mut [f32], weights: &[f32], decay: f64) {
    assert!(average.len() == weights.len(), "lengths differ");
    let share = (1.0 - decay) as f32;
    Arch::new().dispatch(
        #[inline(always)]
        || {
            average
                .iter_mut()
                .zip(weights)
                .for_each(|(a, &w)| *a += share * (w - *a));
        },
    );
}
