//! The layers of encoder and decoder ("Attention Is All You Need", section 3.1).

use block::{Dropout, Site};
use burn::module::Module;
use burn::nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, activation};
use gpt::dropout::drop_out;
use serde::{Deserialize, Serialize};

use crate::attention::Attention;
use crate::mask::Mask;

/// Where the norm of a sub-layer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NormOrder {
    /// `norm(x + f(x))`, the paper's.
    Post,
    /// `x + f(norm(x))`, with one more norm behind the last layer.
    Pre,
}

/// Widths of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// Width of the residual stream.
    pub d_model: usize,
    /// Heads.
    pub n_head: usize,
    /// Width of the feed-forward part.
    pub d_ff: usize,
}

/// Adds a sub-layer to the residual stream, with its norm where `order` says.
fn residual<B: Backend>(
    order: NormOrder,
    norm: &LayerNorm<B>,
    x: Tensor<B, 3>,
    (dropout, site): (Option<Dropout>, Site),
    f: impl FnOnce(Tensor<B, 3>) -> Tensor<B, 3>,
) -> Tensor<B, 3> {
    match order {
        NormOrder::Post => norm.forward(x.clone() + drop_out(f(x), dropout, site)),
        NormOrder::Pre => x.clone() + drop_out(f(norm.forward(x)), dropout, site),
    }
}

/// Position-wise feed-forward network (section 3.3): two matrices with a `ReLU` between.
#[derive(Module, Debug)]
pub struct FeedForward<B: Backend> {
    /// `[d_model, d_ff]`.
    pub up: Linear<B>,
    /// `[d_ff, d_model]`.
    pub down: Linear<B>,
}

impl<B: Backend> FeedForward<B> {
    fn new(width: Width, device: &B::Device) -> Self {
        Self {
            up: LinearConfig::new(width.d_model, width.d_ff).init(device),
            down: LinearConfig::new(width.d_ff, width.d_model).init(device),
        }
    }

    /// Works on each position alone, `[batch, len, d_model]`.
    pub fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        self.down.forward(activation::relu(self.up.forward(x)))
    }
}

/// Self-attention and feed-forward part. With a causal mask it is the layer of a GPT.
#[derive(Module, Debug)]
pub struct EncoderLayer<B: Backend> {
    /// Self-attention.
    pub attention: Attention<B>,
    /// Its norm.
    pub attention_norm: LayerNorm<B>,
    /// Feed-forward part.
    pub feed_forward: FeedForward<B>,
    /// Its norm.
    pub feed_forward_norm: LayerNorm<B>,
}

impl<B: Backend> EncoderLayer<B> {
    /// Creates a layer; values come from [`init`](crate::init).
    #[must_use]
    pub fn new(width: Width, device: &B::Device) -> Self {
        let norm = || LayerNormConfig::new(width.d_model).init(device);
        Self {
            attention: Attention::new(width.d_model, width.n_head, device),
            attention_norm: norm(),
            feed_forward: FeedForward::new(width, device),
            feed_forward_norm: norm(),
        }
    }

    /// Runs the layer on `[batch, len, d_model]`.
    pub fn forward(
        &self,
        order: NormOrder,
        x: Tensor<B, 3>,
        mask: &Mask<B>,
        dropout: Option<Dropout>,
    ) -> Tensor<B, 3> {
        let site = (dropout, Site::AttentionOutput);
        let x = residual(order, &self.attention_norm, x, site, |x| {
            self.attention.forward(x.clone(), x, mask, dropout)
        });
        let site = (dropout, Site::FeedForwardOutput);
        residual(order, &self.feed_forward_norm, x, site, |x| {
            self.feed_forward.forward(x)
        })
    }
}

/// Masked self-attention, attention to the encoder's output, feed-forward part.
#[derive(Module, Debug)]
pub struct DecoderLayer<B: Backend> {
    /// Masked self-attention and the feed-forward part.
    pub own: EncoderLayer<B>,
    /// Attention to the encoder's output.
    pub cross: Attention<B>,
    /// Its norm.
    pub cross_norm: LayerNorm<B>,
}

/// What a decoder sees: its own past and the encoder's output.
#[derive(Clone, Debug)]
pub struct Sight<B: Backend> {
    /// Mask of the target.
    pub target: Mask<B>,
    /// The encoder's output, `[batch, source, d_model]`.
    pub memory: Tensor<B, 3>,
    /// Mask of the source.
    pub source: Mask<B>,
}

impl<B: Backend> DecoderLayer<B> {
    /// Creates a layer; values come from [`init`](crate::init).
    #[must_use]
    pub fn new(width: Width, device: &B::Device) -> Self {
        Self {
            own: EncoderLayer::new(width, device),
            cross: Attention::new(width.d_model, width.n_head, device),
            cross_norm: LayerNormConfig::new(width.d_model).init(device),
        }
    }

    /// Runs the layer on `[batch, target, d_model]`; `dropout` of layer `l` uses the masks of `l`
    /// and of `l + 1`.
    pub fn forward(
        &self,
        order: NormOrder,
        x: Tensor<B, 3>,
        sight: &Sight<B>,
        dropout: Option<Dropout>,
    ) -> Tensor<B, 3> {
        let second = dropout.map(|dropout| Dropout {
            layer: dropout.layer + 1,
            ..dropout
        });
        let own = &self.own;
        let x = self.past(order, x, sight, dropout);
        let site = (second, Site::AttentionOutput);
        let x = residual(order, &self.cross_norm, x, site, |x| {
            self.cross
                .forward(x, sight.memory.clone(), &sight.source, second)
        });
        let site = (dropout, Site::FeedForwardOutput);
        residual(order, &own.feed_forward_norm, x, site, |x| {
            own.feed_forward.forward(x)
        })
    }

    /// Returns how much each target takes of each source, `[batch, n_head, target, source]`; `x` is
    /// what [`forward`](Self::forward) takes.
    pub fn look(&self, order: NormOrder, x: Tensor<B, 3>, sight: &Sight<B>) -> Tensor<B, 4> {
        let x = self.past(order, x, sight, None);
        let x = match order {
            NormOrder::Post => x,
            NormOrder::Pre => self.cross_norm.forward(x),
        };
        self.cross
            .probabilities(x, sight.memory.clone(), &sight.source)
    }

    /// The first sub-layer, masked self-attention.
    fn past(
        &self,
        order: NormOrder,
        x: Tensor<B, 3>,
        sight: &Sight<B>,
        dropout: Option<Dropout>,
    ) -> Tensor<B, 3> {
        let (own, site) = (&self.own, (dropout, Site::AttentionOutput));
        residual(order, &own.attention_norm, x, site, |x| {
            own.attention.forward(x.clone(), x, &sight.target, dropout)
        })
    }
}
