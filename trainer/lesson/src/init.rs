//! Initial weights of the lesson's models: one rule by kind of tensor.
//!
//! - gains of norms 1, biases 0;
//! - embeddings normal with deviation `d_model^-1/2`, so that they enter at 1;
//! - other matrices normal with deviation `(2 / (in + out))^1/2` (Glorot).

use gpt::params::Entry;
use gpt::rng::{self, Purpose};

/// Returns the initial values of `entries` as one flat vector; `special` overrules the rule for
/// single elements of a tensor.
#[must_use]
pub fn weights(
    entries: &[Entry],
    seed: u64,
    special: impl Fn(&str, usize) -> Option<f32>,
) -> Vec<f32> {
    let mut flat = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let (mean, deviation) = match entry.shape.as_slice() {
            [_, width] if entry.name.contains("embedding") => (0.0, (*width as f64).powf(-0.5)),
            [rows, cols] => (0.0, (2.0 / (rows + cols) as f64).sqrt()),
            _ if entry.name.ends_with("gamma") => (1.0, 0.0),
            _ => (0.0, 0.0),
        };
        let key = rng::key(seed, Purpose::Weights, index as u64);
        let value = |i| {
            let rule = || (mean + deviation * rng::normal(key, i)) as f32;
            special(&entry.name, i as usize).unwrap_or_else(rule)
        };
        flat.extend((0..entry.len() as u64).map(value));
    }
    flat
}
