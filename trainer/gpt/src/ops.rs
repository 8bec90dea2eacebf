//! The two large pieces of the forward pass that a backend may fuse.

use block::{Dropout, Site};
use burn::tensor::backend::Backend;
use burn::tensor::{FloatDType, Int, Tensor, activation};
use runtime::{Activation, Config, Position};

use crate::dropout::drop_out;
use crate::model::{Gpt, Layer, linear, norm};
use crate::precision;
use crate::tables::Tables;

/// What a model should predict.
#[derive(Clone, Debug)]
pub struct Targets<B: Backend> {
    /// The tokens that follow in the text, `[batch, len]`.
    pub tokens: Tensor<B, 2, Int>,
    /// Distributions to learn instead, `[batch, len, vocab_size]`; see [`crate::teacher`].
    pub soft: Option<Tensor<B, 3>>,
}

/// A backend with its way of computing a block and the loss.
///
/// The default methods are the reference: plain burn operations, differentiated one by one.
pub trait Ops: Backend {
    /// Runs one block on the residual stream, `[batch, len, d_model]`.
    fn layer(
        layer: &Layer<Self>,
        config: &Config,
        tables: &Tables<Self>,
        x: Tensor<Self, 3>,
        dropout: Option<Dropout>,
    ) -> Tensor<Self, 3> {
        plain_layer(layer, config, tables, x, dropout)
    }

    /// Returns the sum of the losses of the text's tokens in nats times `scale`, `[1]`; with soft
    /// targets its gradients are those of the cross-entropy against them.
    fn head_loss(
        model: &Gpt<Self>,
        config: &Config,
        x: Tensor<Self, 3>,
        targets: Targets<Self>,
        scale: f32,
    ) -> Tensor<Self, 1> {
        plain_head_loss(model, config, x, targets) * scale
    }

    /// Returns the losses of the targets in nats, `[batch, len]`; for scoring, not for training.
    fn head_nll(
        model: &Gpt<Self>,
        config: &Config,
        x: Tensor<Self, 3>,
        targets: Tensor<Self, 2, Int>,
    ) -> Tensor<Self, 2> {
        plain_head_nll(model, config, x, targets)
    }
}

/// Runs one block with plain burn operations.
///
/// # Panics
///
/// If the layer has another shape than `config` gives it.
pub fn plain_layer<B: Backend>(
    layer: &Layer<B>,
    config: &Config,
    tables: &Tables<B>,
    x: Tensor<B, 3>,
    dropout: Option<Dropout>,
) -> Tensor<B, 3> {
    let qkv = projected(layer, config, x.clone());
    let att = attention(config, tables, qkv, dropout);
    let y = linear(att, layer.w_o.val(), layer.b_o.as_ref());
    let x = x + drop_out(y, dropout, Site::AttentionOutput);

    let h = norm(config.norm, x.clone(), &layer.g_ffn, layer.b_ffn.as_ref());
    let up = linear(h.clone(), layer.w_up.val(), layer.b_up.as_ref());
    let u = match config.activation {
        Activation::Gelu => activation::gelu(up),
        Activation::Relu => activation::relu(up),
        Activation::Relu2 => {
            let r = activation::relu(up);
            r.clone() * r
        }
        Activation::SwiGlu => {
            let w_gate = layer.w_gate.as_ref().expect("SwiGLU has w_gate");
            activation::silu(linear(h, w_gate.val(), layer.b_gate.as_ref())) * up
        }
    };
    let y = linear(u, layer.w_down.val(), layer.b_down.as_ref());
    x + drop_out(y, dropout, Site::FeedForwardOutput)
}

/// Returns what each head of a block attends to, `[batch, n_head, len, len]`.
pub(crate) fn attention_shares<B: Backend>(
    layer: &Layer<B>,
    config: &Config,
    tables: &Tables<B>,
    x: Tensor<B, 3>,
) -> Tensor<B, 4> {
    shares(config, tables, projected(layer, config, x)).0
}

/// Queries, keys and values of the normed residual stream.
fn projected<B: Backend>(layer: &Layer<B>, config: &Config, x: Tensor<B, 3>) -> Tensor<B, 3> {
    let h = norm(config.norm, x, &layer.g_attn, layer.b_attn.as_ref());
    linear(h, layer.w_qkv.val(), layer.b_qkv.as_ref())
}

/// Causal attention over the rows of `w_qkv`: `[batch, len, qkv_dim]` to `[batch, len, d_model]`.
fn attention<B: Backend>(
    config: &Config,
    tables: &Tables<B>,
    qkv: Tensor<B, 3>,
    dropout: Option<Dropout>,
) -> Tensor<B, 3> {
    let [batch, len, _] = qkv.dims();
    let (n_head, n_kv) = (usize::from(config.n_head), usize::from(config.n_kv_head));
    let (head_dim, group) = (config.head_dim(), n_head / n_kv);
    let (probs, v) = shares(config, tables, qkv);
    let att = drop_out(probs, dropout, Site::Attention)
        .reshape([batch, n_kv, group * len, len])
        .matmul(v)
        .reshape([batch, n_head, len, head_dim]);
    att.swap_dims(1, 2).reshape([batch, len, n_head * head_dim])
}

/// Returns how each query divides its attention, `[batch, n_head, len, len]`, and the values,
/// `[batch, n_kv_head, len, head_dim]`.
fn shares<B: Backend>(
    config: &Config,
    tables: &Tables<B>,
    qkv: Tensor<B, 3>,
) -> (Tensor<B, 4>, Tensor<B, 4>) {
    let dtype = precision::of(&qkv);
    let [batch, len, _] = qkv.dims();
    let (n_head, n_kv) = (usize::from(config.n_head), usize::from(config.n_kv_head));
    let head_dim = config.head_dim();
    let group = n_head / n_kv;
    // [batch, heads, len, head_dim], heads: queries, keys, values
    let heads = qkv
        .reshape([batch, len, n_head + 2 * n_kv, head_dim])
        .swap_dims(1, 2);
    let mut qk = heads.clone().slice([0..batch, 0..n_head + n_kv]);
    if config.position == Position::Rope {
        let (cos, sin, swap) = tables.rope(len);
        let [cos, sin, swap] = [cos, sin, swap].map(|table| precision::to(table, dtype));
        let turned = qk.clone().matmul(swap);
        qk = qk * cos + turned * sin;
    }
    let q = qk.clone().slice([0..batch, 0..n_head]);
    let k = qk.slice([0..batch, n_head..n_head + n_kv]);
    let v = heads.slice([0..batch, n_head + n_kv..n_head + 2 * n_kv]);
    // a group of query heads shares a key head: its queries are stacked along the positions
    let q = q.reshape([batch, n_kv, group * len, head_dim]);
    let scores = q
        .matmul(k.transpose())
        .mul_scalar(1.0 / (head_dim as f32).sqrt())
        .reshape([batch, n_head, len, len]);
    let scores = precision::to(scores, FloatDType::F32) + tables.mask(len);
    (precision::to(activation::softmax(scores, 3), dtype), v)
}

/// Runs last norm, head and cross-entropy with plain burn operations.
pub fn plain_head_nll<B: Ops>(
    model: &Gpt<B>,
    config: &Config,
    x: Tensor<B, 3>,
    targets: Tensor<B, 2, Int>,
) -> Tensor<B, 2> {
    nll(log_probs(model, config, x), targets)
}

/// [`Ops::head_loss`] with plain burn operations, before its factor.
pub fn plain_head_loss<B: Ops>(
    model: &Gpt<B>,
    config: &Config,
    x: Tensor<B, 3>,
    targets: Targets<B>,
) -> Tensor<B, 1> {
    let log_probs = log_probs(model, config, x);
    let hard = nll(log_probs.clone(), targets.tokens).sum();
    match targets.soft {
        Some(soft) => {
            let soft = (log_probs * soft).sum().neg();
            // the value of the one with the gradient of the other
            hard.detach() + soft.clone() - soft.detach()
        }
        None => hard,
    }
}

fn log_probs<B: Ops>(model: &Gpt<B>, config: &Config, x: Tensor<B, 3>) -> Tensor<B, 3> {
    let h = norm(config.norm, x, &model.g_final, model.b_final.as_ref());
    let logits = linear(h, model.head(), model.b_out.as_ref());
    activation::log_softmax(precision::to(logits, FloatDType::F32), 2)
}

fn nll<B: Ops>(log_probs: Tensor<B, 3>, tokens: Tensor<B, 2, Int>) -> Tensor<B, 2> {
    let picked = log_probs.gather(2, tokens.clone().unsqueeze_dim(2)).neg();
    picked.reshape(tokens.dims())
}
