//! Multi-head attention, by hand ("Attention Is All You Need", section 3.2).

use block::{Dropout, Site};
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, activation};
use gpt::dropout::drop_out;

use crate::mask::Mask;

/// Queries from one sequence attend to keys and values of another, or of the same.
#[derive(Module, Debug)]
pub struct Attention<B: Backend> {
    /// Projection to queries, `[d_model, d_model]`.
    pub query: Linear<B>,
    /// Projection to keys, `[d_model, d_model]`.
    pub key: Linear<B>,
    /// Projection to values, `[d_model, d_model]`.
    pub value: Linear<B>,
    /// Projection of the joined heads, `[d_model, d_model]`.
    pub output: Linear<B>,
    n_head: usize,
    scaled: bool,
}

impl<B: Backend> Attention<B> {
    /// Creates the projections; values come from [`init`](crate::init).
    #[must_use]
    pub fn new(d_model: usize, n_head: usize, device: &B::Device) -> Self {
        let linear = || LinearConfig::new(d_model, d_model).init(device);
        Self {
            query: linear(),
            key: linear(),
            value: linear(),
            output: linear(),
            n_head,
            scaled: true,
        }
    }

    /// Leaves out the division of the scores by `sqrt(head_dim)`; only to show what it is for.
    #[must_use]
    pub fn without_scale(mut self) -> Self {
        self.scaled = false;
        self
    }

    /// Attends.
    ///
    /// # Shapes
    ///
    /// - `x`: `[batch, queries, d_model]`
    /// - `memory`: `[batch, keys, d_model]`; `x` itself in self-attention
    /// - result: `[batch, queries, d_model]`
    pub fn forward(
        &self,
        x: Tensor<B, 3>,
        memory: Tensor<B, 3>,
        mask: &Mask<B>,
        dropout: Option<Dropout>,
    ) -> Tensor<B, 3> {
        let probs = self.probabilities(x, memory.clone(), mask);
        let value = split_heads(self.value.forward(memory), self.n_head);
        let joined = merge_heads(drop_out(probs, dropout, Site::Attention).matmul(value));
        self.output.forward(joined)
    }

    /// Returns how much each query takes of each key, `[batch, n_head, queries, keys]`.
    pub fn probabilities(
        &self,
        x: Tensor<B, 3>,
        memory: Tensor<B, 3>,
        mask: &Mask<B>,
    ) -> Tensor<B, 4> {
        let query = split_heads(self.query.forward(x), self.n_head);
        let key = split_heads(self.key.forward(memory), self.n_head);
        let head_dim = query.dims()[3];
        let mut scores = query.matmul(key.transpose());
        if self.scaled {
            scores = scores.mul_scalar(1.0 / (head_dim as f32).sqrt());
        }
        activation::softmax(scores + mask.bias.clone(), 3) * mask.visible.clone()
    }
}

/// Cuts the width into heads: `[batch, len, d_model]` to `[batch, n_head, len, head_dim]`.
pub fn split_heads<B: Backend>(x: Tensor<B, 3>, n_head: usize) -> Tensor<B, 4> {
    let [batch, len, d_model] = x.dims();
    x.reshape([batch, len, n_head, d_model / n_head])
        .swap_dims(1, 2)
}

/// Joins the heads again; the inverse of [`split_heads`].
pub fn merge_heads<B: Backend>(x: Tensor<B, 4>) -> Tensor<B, 3> {
    let [batch, n_head, len, head_dim] = x.dims();
    x.swap_dims(1, 2).reshape([batch, len, n_head * head_dim])
}
