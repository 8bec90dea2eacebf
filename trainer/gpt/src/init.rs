//! Initial weights: gains 1, biases 0, matrices by one of two rules.

use runtime::Config;
use serde::{Deserialize, Serialize};

use crate::params::Entry;
use crate::rng::{self, Purpose};

/// Rule for the matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Init {
    /// `w_o` and `w_down` 0, so that every block starts as the identity; the embedding, the
    /// positions and the head normal with deviation 0.02, or `d_model^-1/2` when the embedding is
    /// multiplied by `sqrt(d_model)` on its way in; the other matrices with `in^-1/2`.
    #[default]
    Identity,
    /// GPT-2's and nanoGPT's: all normal with deviation 0.02, `w_o` and `w_down` with that divided
    /// by `sqrt(2 n_layer)`.
    Gpt2,
}

impl Init {
    /// Returns the standard deviation of a matrix of `width` columns.
    fn deviation(self, config: &Config, field: &str, width: usize) -> f64 {
        const SMALL: f64 = 0.02;
        let residual = matches!(field, "w_o" | "w_down");
        let vocabulary = matches!(field, "w_embed" | "w_pos" | "w_out");
        match self {
            Self::Gpt2 if residual => SMALL / (2.0 * f64::from(config.n_layer)).sqrt(),
            Self::Gpt2 => SMALL,
            Self::Identity if residual => 0.0,
            Self::Identity if vocabulary && !config.embed_scale => SMALL,
            Self::Identity => (width as f64).powf(-0.5),
        }
    }
}

/// Returns the initial values of `entries` as one flat vector.
#[must_use]
pub fn weights(init: Init, config: &Config, entries: &[Entry], seed: u64) -> Vec<f32> {
    let mut flat = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let field = entry.name.rsplit('.').next().unwrap_or(&entry.name);
        let deviation = match entry.shape.as_slice() {
            [_, width] => init.deviation(config, field, *width),
            _ => 0.0,
        };
        let mean = if field.starts_with("g_") { 1.0 } else { 0.0 };
        let key = rng::key(seed, Purpose::Weights, index as u64);
        flat.extend((0..entry.len() as u64).map(|i| {
            if deviation == 0.0 {
                mean
            } else {
                (deviation * rng::normal(key, i)) as f32
            }
        }));
    }
    flat
}
