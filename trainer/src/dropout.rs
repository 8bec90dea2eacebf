//! Dropout as a function of (seed, step, layer, site, shard), independent of threads and backend.
//!
//! It acts on the output of each part before the residual addition ("Attention Is All You Need",
//! section 5.4).

use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};

use crate::rng::{self, Purpose};

/// Dropout of one shard in one step.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// Probability of zeroing an element.
    pub rate: f32,
    /// Seed of the run.
    pub seed: u64,
    /// Step of the run.
    pub step: u64,
    /// Shard of the batch.
    pub shard: u64,
}

/// Factors of one site: 0 for a dropped element, `1 / (1 - rate)` for a kept one.
#[derive(Clone, Debug)]
pub struct Mask {
    /// The factors, row-major.
    pub factors: Vec<f32>,
    /// `[batch, len, d_model]`.
    pub shape: [usize; 3],
}

/// The masks of one block.
#[derive(Clone, Debug)]
pub struct Masks {
    /// On the output of attention.
    pub attention: Mask,
    /// On the output of the feed-forward part.
    pub feed_forward: Mask,
}

impl Mask {
    /// Copies the mask to a device.
    pub fn to_tensor<B: Backend>(&self, device: &B::Device) -> Tensor<B, 3> {
        Tensor::from_data(TensorData::new(self.factors.clone(), self.shape), device)
    }
}

impl Dropout {
    /// Returns the masks of block `layer`.
    #[must_use]
    pub fn masks(&self, layer: usize, shape: [usize; 3]) -> Masks {
        Masks {
            attention: self.mask(2 * layer as u64, shape),
            feed_forward: self.mask(2 * layer as u64 + 1, shape),
        }
    }

    fn mask(&self, site: u64, shape: [usize; 3]) -> Mask {
        let step_key = rng::key(self.seed, Purpose::Dropout, self.step);
        let key = rng::draw(rng::draw(step_key, site), self.shard);
        let keep = 1.0 / (1.0 - self.rate);
        // an element is dropped when its 64 bits, read as a fraction, are below the rate
        let threshold = (f64::from(self.rate) * (u64::MAX as f64)) as u64;
        let factors = (0..shape.iter().product::<usize>() as u64)
            .map(|i| if rng::draw(key, i) < threshold { 0.0 } else { keep })
            .collect();
        Mask { factors, shape }
    }
}
