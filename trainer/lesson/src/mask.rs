//! Which keys a query may see.

use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use gpt::tables::HIDDEN;

/// A mask of attention scores, broadcast over the heads.
#[derive(Clone, Debug)]
pub struct Mask<B: Backend> {
    /// Added to the scores: 0 where a query sees a key, else [`HIDDEN`]; `[batch, 1, queries, keys]`.
    pub bias: Tensor<B, 4>,
    /// Multiplied with the probabilities: 1 or 0. A row that sees nothing is all zeros this way
    /// and not uniform.
    pub visible: Tensor<B, 4>,
}

impl<B: Backend> Mask<B> {
    /// Makes a mask of a rule over (row of the batch, query, key).
    #[must_use]
    pub fn of(
        [batch, queries, keys]: [usize; 3],
        device: &B::Device,
        sees: impl Fn(usize, usize, usize) -> bool,
    ) -> Self {
        let pick = |yes: f32, no: f32| -> Tensor<B, 4> {
            let mut values = Vec::with_capacity(batch * queries * keys);
            for row in 0..batch {
                for query in 0..queries {
                    values
                        .extend((0..keys).map(|key| if sees(row, query, key) { yes } else { no }));
                }
            }
            Tensor::from_data(TensorData::new(values, [batch, 1, queries, keys]), device)
        };
        Self {
            bias: pick(0.0, HIDDEN),
            visible: pick(1.0, 0.0),
        }
    }

    /// Hides the keys from `lengths[row]` on: padding, for queries that see everything else.
    #[must_use]
    pub fn padding(lengths: &[usize], keys: usize, device: &B::Device) -> Self {
        // one row of queries serves all of them
        Self::of([lengths.len(), 1, keys], device, |row, _, key| {
            key < lengths[row]
        })
    }

    /// Hides padding and everything behind the query.
    #[must_use]
    pub fn causal(lengths: &[usize], len: usize, device: &B::Device) -> Self {
        Self::of([lengths.len(), len, len], device, |row, query, key| {
            key <= query && key < lengths[row]
        })
    }

    /// Returns the mask of one row for `n` rows.
    #[must_use]
    pub fn repeated(&self, n: usize) -> Self {
        Self {
            bias: self.bias.clone().repeat_dim(0, n),
            visible: self.visible.clone().repeat_dim(0, n),
        }
    }
}
