//! The float reference: a decoder-only Transformer over any burn backend.
//!
//! Fields carry the tensor names of [`runtime::Config`], so that a checkpoint is a walk over the
//! module and export is a loop, not a mapping.

use block::Dropout;
use burn::module::{Module, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{FloatDType, Int, Tensor};
use runtime::{Activation, Config, Norm, Position};

use crate::ops::{self, Ops, Targets};
use crate::precision;
use crate::tables::Tables;

/// One block: attention and feed-forward part, each behind a norm and a residual connection.
///
/// # Shapes
///
/// Matrices are `[out, in]`; `w_qkv` holds the rows of queries, keys and values in that order.
#[derive(Module, Debug)]
pub struct Layer<B: Backend> {
    /// Gain of the norm before attention, `[d_model]`.
    pub g_attn: Param<Tensor<B, 1>>,
    /// Bias of the norm before attention, `[d_model]`.
    pub b_attn: Option<Param<Tensor<B, 1>>>,
    /// Queries, keys and values, `[(n_head + 2 n_kv_head) head_dim, d_model]`.
    pub w_qkv: Param<Tensor<B, 2>>,
    /// Bias of `w_qkv`.
    pub b_qkv: Option<Param<Tensor<B, 1>>>,
    /// Output projection of attention, `[d_model, n_head head_dim]`.
    pub w_o: Param<Tensor<B, 2>>,
    /// Bias of `w_o`.
    pub b_o: Option<Param<Tensor<B, 1>>>,
    /// Gain of the norm before the feed-forward part, `[d_model]`.
    pub g_ffn: Param<Tensor<B, 1>>,
    /// Bias of the norm before the feed-forward part, `[d_model]`.
    pub b_ffn: Option<Param<Tensor<B, 1>>>,
    /// Gate of `SwiGLU`, `[d_ff, d_model]`.
    pub w_gate: Option<Param<Tensor<B, 2>>>,
    /// Bias of `w_gate`.
    pub b_gate: Option<Param<Tensor<B, 1>>>,
    /// First matrix of the feed-forward part, `[d_ff, d_model]`.
    pub w_up: Param<Tensor<B, 2>>,
    /// Bias of `w_up`.
    pub b_up: Option<Param<Tensor<B, 1>>>,
    /// Second matrix of the feed-forward part, `[d_model, d_ff]`.
    pub w_down: Param<Tensor<B, 2>>,
    /// Bias of `w_down`.
    pub b_down: Option<Param<Tensor<B, 1>>>,
}

/// The whole model.
#[derive(Module, Debug)]
pub struct Gpt<B: Backend> {
    /// Embedding, `[vocab_size, d_model]`.
    pub w_embed: Param<Tensor<B, 2>>,
    /// Trained positions, `[context_len, d_model]`.
    pub w_pos: Option<Param<Tensor<B, 2>>>,
    /// The blocks.
    pub layers: Vec<Layer<B>>,
    /// Gain of the last norm, `[d_model]`.
    pub g_final: Param<Tensor<B, 1>>,
    /// Bias of the last norm, `[d_model]`.
    pub b_final: Option<Param<Tensor<B, 1>>>,
    /// Head, `[vocab_size, d_model]`, when it is not tied to the embedding.
    pub w_out: Option<Param<Tensor<B, 2>>>,
    /// Bias of the head, `[vocab_size]`.
    pub b_out: Option<Param<Tensor<B, 1>>>,
}

fn zeros<B: Backend, const D: usize>(shape: [usize; D], device: &B::Device) -> Param<Tensor<B, D>> {
    Param::from_tensor(Tensor::zeros(shape, device))
}

impl<B: Backend> Layer<B> {
    fn zeroed(config: &Config, device: &B::Device) -> Self {
        let d = usize::from(config.d_model);
        let d_ff = usize::from(config.d_ff);
        let bias = |on: bool, len: usize| on.then(|| zeros([len], device));
        let gated = config.activation == Activation::SwiGlu;
        Self {
            g_attn: zeros([d], device),
            b_attn: bias(config.norm_bias, d),
            w_qkv: zeros([config.qkv_dim(), d], device),
            b_qkv: bias(config.attn_bias, config.qkv_dim()),
            w_o: zeros([d, d], device),
            b_o: bias(config.attn_bias, d),
            g_ffn: zeros([d], device),
            b_ffn: bias(config.norm_bias, d),
            w_gate: gated.then(|| zeros([d_ff, d], device)),
            b_gate: bias(gated && config.ff_bias, d_ff),
            w_up: zeros([d_ff, d], device),
            b_up: bias(config.ff_bias, d_ff),
            w_down: zeros([d, d_ff], device),
            b_down: bias(config.ff_bias, d),
        }
    }
}

impl<B: Backend> Gpt<B> {
    /// Returns a model of zeros with the shape of `config`; values come from
    /// [`params::with_values`](crate::params::with_values).
    #[must_use]
    pub fn zeroed(config: &Config, device: &B::Device) -> Self {
        let d = usize::from(config.d_model);
        let vocab_size = usize::from(config.vocab_size);
        let n_pos = usize::from(config.context_len);
        Self {
            w_embed: zeros([vocab_size, d], device),
            w_pos: (config.position == Position::Learned).then(|| zeros([n_pos, d], device)),
            layers: (0..config.n_layer)
                .map(|_| Layer::zeroed(config, device))
                .collect(),
            g_final: zeros([d], device),
            b_final: config.norm_bias.then(|| zeros([d], device)),
            w_out: (!config.tied).then(|| zeros([vocab_size, d], device)),
            b_out: config.head_bias.then(|| zeros([vocab_size], device)),
        }
    }

    /// Returns the head's matrix: `w_out`, or the embedding when they are tied.
    #[must_use]
    pub fn head(&self) -> Tensor<B, 2> {
        self.w_out.as_ref().unwrap_or(&self.w_embed).val()
    }
}

impl<B: Ops> Gpt<B> {
    /// Returns the residual stream before the first block: embedding and position.
    ///
    /// # Shapes
    ///
    /// - `tokens`: `[batch, len]`, `len` at most that of `tables`
    /// - result: `[batch, len, d_model]`
    pub fn embed(
        &self,
        config: &Config,
        tables: &Tables<B>,
        tokens: Tensor<B, 2, Int>,
    ) -> Tensor<B, 3> {
        let [batch, len] = tokens.dims();
        let d = usize::from(config.d_model);
        // rows of the embedding, [batch len, d_model]
        let rows = self.w_embed.val().select(0, tokens.reshape([batch * len]));
        let mut x = rows.reshape([batch, len, d]);
        if config.embed_scale {
            x = x.mul_scalar((d as f32).sqrt());
        }
        if let Some(w_pos) = &self.w_pos {
            x = x + w_pos.val().slice(0..len).unsqueeze();
        }
        if let Some(sines) = &tables.sines {
            let sines = precision::to(sines.clone().slice(0..len), precision::of(&x));
            x = x + sines.unsqueeze();
        }
        x
    }

    /// Returns the residual stream after the last block; shapes as in [`Gpt::embed`].
    pub fn trunk(
        &self,
        config: &Config,
        tables: &Tables<B>,
        tokens: Tensor<B, 2, Int>,
        dropout: Option<Dropout>,
    ) -> Tensor<B, 3> {
        let mut x = self.embed(config, tables, tokens);
        for (index, layer) in self.layers.iter().enumerate() {
            let dropout = dropout.map(|dropout| Dropout {
                layer: index as u32,
                ..dropout
            });
            x = B::layer(layer, config, tables, x, dropout);
        }
        x
    }

    /// Returns what every head attends to, layer by layer: `[batch, n_head, len, len]`, a row per
    /// query that sums to 1 over the keys.
    pub fn attention(
        &self,
        config: &Config,
        tables: &Tables<B>,
        tokens: Tensor<B, 2, Int>,
    ) -> Vec<Tensor<B, 4>> {
        let mut x = self.embed(config, tables, tokens);
        let mut shares = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            shares.push(ops::attention_shares(layer, config, tables, x.clone()));
            x = B::layer(layer, config, tables, x, None);
        }
        shares
    }

    /// Returns the logits of every position, `[batch, len, vocab_size]`.
    pub fn logits(
        &self,
        config: &Config,
        tables: &Tables<B>,
        tokens: Tensor<B, 2, Int>,
    ) -> Tensor<B, 3> {
        let x = self.trunk(config, tables, tokens, None);
        let h = norm(config.norm, x, &self.g_final, self.b_final.as_ref());
        linear(h, self.head(), self.b_out.as_ref())
    }

    /// Returns the loss of every target in nats, `[batch, len]`; for scoring.
    pub fn nll(
        &self,
        config: &Config,
        tables: &Tables<B>,
        tokens: Tensor<B, 2, Int>,
        targets: Tensor<B, 2, Int>,
    ) -> Tensor<B, 2> {
        let x = self.trunk(config, tables, tokens, None);
        B::head_nll(self, config, x, targets)
    }

    /// Returns the sum of the targets' losses in nats times `scale`, `[1]`; for training, see
    /// [`Ops::head_loss`].
    pub fn loss(
        &self,
        config: &Config,
        tables: &Tables<B>,
        (tokens, targets): (Tensor<B, 2, Int>, Targets<B>),
        scale: f32,
        dropout: Option<Dropout>,
    ) -> Tensor<B, 1> {
        let x = self.trunk(config, tables, tokens, dropout);
        B::head_loss(self, config, x, targets, scale)
    }
}

/// Normalises the last axis of `x` and applies gain and bias.
pub fn norm<B: Backend>(
    kind: Norm,
    x: Tensor<B, 3>,
    gain: &Param<Tensor<B, 1>>,
    bias: Option<&Param<Tensor<B, 1>>>,
) -> Tensor<B, 3> {
    let dtype = precision::of(&x);
    let x = precision::to(x, FloatDType::F32);
    let x = match kind {
        Norm::LayerNorm => {
            let mean = x.clone().mean_dim(2);
            x - mean
        }
        Norm::RmsNorm => x,
    };
    let mean_square = (x.clone() * x.clone()).mean_dim(2);
    let gain = precision::to(gain.val(), FloatDType::F32);
    let scaled = x / mean_square.add_scalar(NORM_EPS).sqrt() * gain.unsqueeze();
    let normed = match bias {
        Some(bias) => scaled + precision::to(bias.val(), FloatDType::F32).unsqueeze(),
        None => scaled,
    };
    precision::to(normed, dtype)
}

/// Added to the mean square before its root, in both norms; the runtime's value.
pub const NORM_EPS: f32 = 1e-5;

/// Multiplies every row of `x` by the transpose of `w` and adds the bias.
pub fn linear<B: Backend>(
    x: Tensor<B, 3>,
    w: Tensor<B, 2>,
    bias: Option<&Param<Tensor<B, 1>>>,
) -> Tensor<B, 3> {
    let [batch, len, width] = x.dims();
    let [out, _] = w.dims();
    // one [batch len, in] x [in, out] product instead of `batch` small ones
    let y = x.reshape([batch * len, width]).matmul(w.transpose());
    let y = y.reshape([batch, len, out]);
    match bias {
        Some(bias) => y + bias.val().unsqueeze(),
        None => y,
    }
}
