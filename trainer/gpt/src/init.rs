//! Initial weights: one rule for every configuration.
//!
//! - gains 1, biases 0;
//! - `w_o` and `w_down` 0, so that every block starts as the identity;
//! - the embedding, the positions and the head normal with deviation 0.02, or `d_model^-1/2` when
//!   the embedding is multiplied by `sqrt(d_model)` on its way in;
//! - the other matrices normal with deviation `in^-1/2`.

use runtime::Config;

use crate::params::Entry;
use crate::rng::{self, Purpose};

/// Returns the initial values of `entries` as one flat vector.
#[must_use]
pub fn weights(config: &Config, entries: &[Entry], seed: u64) -> Vec<f32> {
    let mut flat = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let field = entry.name.rsplit('.').next().unwrap_or(&entry.name);
        let deviation = match (field, entry.shape.as_slice()) {
            ("w_o" | "w_down", _) => 0.0,
            ("w_embed" | "w_pos" | "w_out", [_, width]) if config.embed_scale => {
                (*width as f64).powf(-0.5)
            }
            ("w_embed" | "w_pos" | "w_out", _) => 0.02,
            (_, [_, width]) => (*width as f64).powf(-0.5),
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
