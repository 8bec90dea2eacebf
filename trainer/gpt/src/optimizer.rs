//! `AdamW`, global-norm clipping, weight average and learning rate, on flat vectors.
//!
//! burn's clipping works per tensor and its `AdamW` defaults differ from torch's, so both are
//! written out here; on one flat vector they are a few lines.

use core::ops::Range;

use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};

use crate::params::Entry;
use crate::settings::Settings;

/// Weights with everything that moves with them.
#[derive(Clone, Debug)]
pub struct State<B: Backend> {
    /// Weights.
    pub weights: Tensor<B, 1>,
    /// Exponential moving average of the weights.
    pub ema: Tensor<B, 1>,
    /// First moment of the gradients.
    pub moment_1: Tensor<B, 1>,
    /// Second moment of the gradients.
    pub moment_2: Tensor<B, 1>,
    /// Weight decay of each tensor, and where it lies: that of the settings for matrices, else 0.
    pub(crate) decays: Vec<(Range<usize>, f64)>,
    /// The same for each element.
    decay: Tensor<B, 1>,
}

/// Copies a host vector to a device.
pub fn upload<B: Backend>(values: Vec<f32>, device: &B::Device) -> Tensor<B, 1> {
    let len = values.len();
    Tensor::from_data(TensorData::new(values, [len]), device)
}

impl<B: Backend> State<B> {
    /// Creates the state of step 0: the average equals the weights, the moments are zero.
    #[must_use]
    pub fn new(
        weights: Vec<f32>,
        entries: &[Entry],
        settings: &Settings,
        device: &B::Device,
    ) -> Self {
        let decays: Vec<_> = entries
            .iter()
            .map(|entry| {
                let matrix = entry.shape.len() == 2;
                let decay = if matrix { settings.weight_decay } else { 0.0 };
                (entry.range(), decay)
            })
            .collect();
        let each =
            |(range, decay): &(Range<usize>, f64)| core::iter::repeat_n(*decay as f32, range.len());
        let decay = decays.iter().flat_map(each).collect();
        let weights = upload(weights, device);
        Self {
            ema: weights.clone(),
            moment_1: weights.zeros_like(),
            moment_2: weights.zeros_like(),
            decay: upload(decay, device),
            decays,
            weights,
        }
    }

    /// Applies one step of `AdamW` and moves the average, with plain burn operations.
    ///
    /// `norm` is that of the gradients, which are clipped; `step` counts from 0. The update is
    /// torch's: decoupled decay first, moments with bias correction, `eps` added to the corrected
    /// root.
    pub fn update(
        &mut self,
        grads: Tensor<B, 1>,
        norm: Tensor<B, 1>,
        settings: &Settings,
        step: u64,
    ) {
        let grads = clip(grads, norm, settings.clip);
        let lr = learning_rate(settings, step) as f32;
        let (beta_1, beta_2) = (settings.beta1 as f32, settings.beta2 as f32);
        let t = i32::try_from(step + 1).unwrap_or(i32::MAX);
        let correct_1 = (1.0 - settings.beta1.powi(t)) as f32;
        let correct_2 = (1.0 - settings.beta2.powi(t)) as f32;

        self.moment_1 = self.moment_1.clone() * beta_1 + grads.clone() * (1.0 - beta_1);
        self.moment_2 = self.moment_2.clone() * beta_2 + grads.clone() * grads * (1.0 - beta_2);
        let root = (self.moment_2.clone() / correct_2).sqrt() + settings.eps as f32;
        let update = self.moment_1.clone() / correct_1 / root;
        let weights = self.weights.clone();
        let shrunk = weights.clone() - weights * self.decay.clone() * lr;
        self.weights = shrunk - update * lr;

        let keep = average_decay(settings, step) as f32;
        self.ema = self.ema.clone() * keep + self.weights.clone() * (1.0 - keep);
    }
}

/// Returns the decay of the weight average at a step.
///
/// The ramp lets the average forget the initial weights quickly.
#[must_use]
pub fn average_decay(settings: &Settings, step: u64) -> f64 {
    let ramp = (step + 1) as f64 / (step + 10) as f64;
    settings.ema_decay.min(ramp)
}

/// Returns the Euclidean norm of all gradients together.
pub fn global_norm<B: Backend>(grads: &Tensor<B, 1>) -> Tensor<B, 1> {
    (grads.clone() * grads.clone()).sum().sqrt()
}

/// Scales the gradients so that their global norm is at most `max_norm`.
pub fn clip<B: Backend>(grads: Tensor<B, 1>, norm: Tensor<B, 1>, max_norm: f64) -> Tensor<B, 1> {
    let factor = (norm + 1e-6).recip() * max_norm as f32;
    grads * factor.clamp_max(1.0)
}

/// Returns the learning rate of a step: linear warm-up, then half a cosine.
#[must_use]
pub fn learning_rate(settings: &Settings, step: u64) -> f64 {
    let warmup = settings.warmup.min(settings.steps);
    if step < warmup {
        return settings.lr * (step + 1) as f64 / (warmup + 1) as f64;
    }
    let span = (settings.steps - warmup).max(1) as f64;
    let progress = ((step - warmup) as f64 / span).min(1.0);
    let cosine = 0.5 * (1.0 + (core::f64::consts::PI * progress).cos());
    settings.lr * (settings.min_lr_ratio + (1.0 - settings.min_lr_ratio) * cosine)
}
