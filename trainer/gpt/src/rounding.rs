//! Weights as the blob stores them, for a training that knows its rounding.
//!
//! In the last steps of a run the forward pass sees rounded weights while the gradient goes straight
//! through to the float ones (Bengio, Léonard, Courville, "Estimating or Propagating Gradients Through
//! Stochastic Neurons"). The whole vector is rounded once a step, so the passes themselves stay as
//! they are.

use core::ops::Range;

use checkpoint::stored;
use runtime::{Kind, Layout};

use crate::params::Entry;
use crate::settings::Settings;
use crate::shards::Shards;

/// How each tensor of a model is stored.
#[derive(Clone, Debug)]
pub struct Rounding {
    tensors: Vec<Tensor>,
}

#[derive(Clone, Debug)]
struct Tensor {
    range: Range<usize>,
    cols: usize,
    kind: Kind,
}

impl Rounding {
    /// Rounds as a blob of these settings does.
    #[must_use]
    pub fn new(settings: &Settings, entries: &[Entry]) -> Self {
        let specs = settings.model.tensors_in(settings.kinds(), Layout::Plain);
        let specs: Vec<_> = specs.map(|spec| (spec.to_string(), spec)).collect();
        let tensors = entries.iter().filter_map(|entry| {
            let (_, spec) = specs.iter().find(|(name, _)| *name == entry.name)?;
            Some(Tensor {
                range: entry.range(),
                cols: spec.cols as usize,
                kind: spec.kind,
            })
        });
        Self {
            tensors: tensors.collect(),
        }
    }

    /// Returns the flat vector with every tensor rounded. One that is not finite stays as it is: the
    /// step that meets it names it.
    #[must_use]
    pub fn apply(&self, shards: &Shards, flat: &[f32]) -> Vec<f32> {
        let parts = shards.map(self.tensors.len(), |index| {
            let tensor = &self.tensors[index];
            let values = &flat[tensor.range.clone()];
            stored(tensor.kind, values, tensor.cols).unwrap_or_else(|_| values.to_vec())
        });
        parts.concat()
    }
}
