//! Embedding, positions and head over one matrix ("Attention Is All You Need", 3.4 and 3.5).

use burn::module::{Module, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use gpt::tables::{HIDDEN, angle};

/// Token of padding: its embedding is zero, its row has no gradient, it is never predicted.
pub const PAD: i32 = 0;
/// Token before a target.
pub const BOS: i32 = 1;
/// Token behind a target.
pub const EOS: i32 = 2;
/// First token of a character.
pub const FIRST_CHAR: i32 = 3;

/// One matrix that reads tokens and predicts them.
#[derive(Module, Debug)]
pub struct TokenEmbedding<B: Backend> {
    /// `[vocab_size, d_model]`.
    pub weight: Param<Tensor<B, 2>>,
}

impl<B: Backend> TokenEmbedding<B> {
    /// Creates the matrix; values come from [`init`](crate::init).
    #[must_use]
    pub fn new(vocab_size: usize, d_model: usize, device: &B::Device) -> Self {
        Self {
            weight: Param::from_tensor(Tensor::zeros([vocab_size, d_model], device)),
        }
    }

    /// Returns `sqrt(d_model)` times the tokens' rows plus sinusoidal positions; of padding only
    /// the positions.
    ///
    /// # Shapes
    ///
    /// - `tokens`: `[batch, len]`
    /// - result: `[batch, len, d_model]`
    pub fn forward(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let [batch, len] = tokens.dims();
        let [_, d_model] = self.weight.dims();
        let flat = tokens.reshape([batch * len]);
        let kept = flat.clone().not_equal_elem(PAD).float();
        let rows = self.weight.val().select(0, flat);
        let rows = rows
            * kept
                .reshape([batch * len, 1])
                .mul_scalar((d_model as f32).sqrt());
        rows.reshape([batch, len, d_model]) + positions(len, d_model, &self.weight.device())
    }

    /// Returns the logits, `[batch, len, vocab_size]`; that of padding is far below all others.
    pub fn logits(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let [vocab_size, _] = self.weight.dims();
        let mut bias = vec![0.0; vocab_size];
        bias[PAD as usize] = HIDDEN;
        let bias = Tensor::<B, 1>::from_data(TensorData::new(bias, [vocab_size]), &x.device());
        let [batch, len, d_model] = x.dims();
        let logits = x
            .reshape([batch * len, d_model])
            .matmul(self.weight.val().transpose());
        logits.reshape([batch, len, vocab_size]) + bias.unsqueeze()
    }
}

/// Returns the sinusoidal positions, `[1, len, d_model]`.
pub fn positions<B: Backend>(len: usize, d_model: usize, device: &B::Device) -> Tensor<B, 3> {
    let value = |i: usize| {
        let (pos, col) = (i / d_model, i % d_model);
        let angle = angle(pos, col / 2, d_model, 10_000.0);
        let wave = if col.is_multiple_of(2) {
            angle.sin()
        } else {
            angle.cos()
        };
        wave as f32
    };
    let values: Vec<f32> = (0..len * d_model).map(value).collect();
    Tensor::from_data(TensorData::new(values, [1, len, d_model]), device)
}
