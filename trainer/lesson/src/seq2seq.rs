//! The encoder-decoder Transformer ("Attention Is All You Need", figure 1).

use block::Dropout;
use burn::module::Module;
use burn::nn::{LayerNorm, LayerNormConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, activation};

use crate::embedding::{PAD, TokenEmbedding};
use crate::layers::{DecoderLayer, EncoderLayer, NormOrder, Sight, Width};
use crate::mask::Mask;

/// Shape of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Layers of the encoder and of the decoder, each.
    pub n_layer: usize,
    /// Widths of a layer.
    pub width: Width,
    /// Tokens, the three special ones included.
    pub vocab_size: usize,
    /// Where the norms stand.
    pub norm: NormOrder,
}

/// Encoder and decoder over one embedding.
#[derive(Module, Debug)]
pub struct Seq2Seq<B: Backend> {
    /// Embedding of source and target, and the head.
    pub embedding: TokenEmbedding<B>,
    /// Layers of the encoder.
    pub encoder: Vec<EncoderLayer<B>>,
    /// Layers of the decoder.
    pub decoder: Vec<DecoderLayer<B>>,
    /// Norm behind the encoder, with norms in front of the sub-layers.
    pub encoder_norm: Option<LayerNorm<B>>,
    /// Norm behind the decoder, with norms in front of the sub-layers.
    pub decoder_norm: Option<LayerNorm<B>>,
}

/// A source as the decoder sees it.
#[derive(Clone, Debug)]
pub struct Memory<B: Backend> {
    /// The encoder's output, `[batch, source, d_model]`.
    pub states: Tensor<B, 3>,
    /// Hides the source's padding.
    pub mask: Mask<B>,
}

impl Shape {
    /// Returns the number of parameters.
    #[must_use]
    pub fn n_params(&self) -> usize {
        let Width {
            d_model: d, d_ff, ..
        } = self.width;
        let norm = 2 * d;
        let attention = 4 * (d * d + d);
        let feed_forward = d * d_ff + d_ff + d_ff * d + d;
        let encoder = attention + feed_forward + 2 * norm;
        let decoder = encoder + attention + norm;
        let last = match self.norm {
            NormOrder::Post => 0,
            NormOrder::Pre => 2 * norm,
        };
        self.vocab_size * d + self.n_layer * (encoder + decoder) + last
    }
}

impl<B: Backend> Seq2Seq<B> {
    /// Creates the model; values come from [`init`](crate::init).
    #[must_use]
    pub fn new(shape: &Shape, device: &B::Device) -> Self {
        let d_model = shape.width.d_model;
        let last = || {
            let pre = shape.norm == NormOrder::Pre;
            pre.then(|| LayerNormConfig::new(d_model).init(device))
        };
        Self {
            embedding: TokenEmbedding::new(shape.vocab_size, d_model, device),
            encoder: (0..shape.n_layer)
                .map(|_| EncoderLayer::new(shape.width, device))
                .collect(),
            decoder: (0..shape.n_layer)
                .map(|_| DecoderLayer::new(shape.width, device))
                .collect(),
            encoder_norm: last(),
            decoder_norm: last(),
        }
    }

    /// The order of the norms, told by the last ones.
    fn order(&self) -> NormOrder {
        match self.encoder_norm {
            Some(_) => NormOrder::Pre,
            None => NormOrder::Post,
        }
    }

    /// Reads the source, `[batch, source]`, of which row `i` has `lengths[i]` tokens and then
    /// padding.
    pub fn encode(
        &self,
        source: Tensor<B, 2, Int>,
        lengths: &[usize],
        dropout: Option<Dropout>,
    ) -> Memory<B> {
        let [_, len] = source.dims();
        let mask = Mask::padding(lengths, len, &source.device());
        let mut x = self.embedding.forward(source);
        for (index, layer) in self.encoder.iter().enumerate() {
            x = layer.forward(self.order(), x, &mask, at(dropout, index));
        }
        Memory {
            states: normed(self.encoder_norm.as_ref(), x),
            mask,
        }
    }

    /// Returns the logits after each token of the target, `[batch, target, vocab_size]`.
    ///
    /// `target` is `[batch, target]` and starts with `BOS`; row `i` has `lengths[i]` tokens.
    pub fn decode(
        &self,
        target: Tensor<B, 2, Int>,
        lengths: &[usize],
        memory: &Memory<B>,
        dropout: Option<Dropout>,
    ) -> Tensor<B, 3> {
        let sight = sight(&target, lengths, memory);
        let mut x = self.embedding.forward(target);
        for (index, layer) in self.decoder.iter().enumerate() {
            // each decoder layer has the masks of two layers, behind those of the encoder
            let place = self.encoder.len() + 2 * index;
            x = layer.forward(self.order(), x, &sight, at(dropout, place));
        }
        self.embedding.logits(normed(self.decoder_norm.as_ref(), x))
    }

    /// Returns how much each target takes of each source, for each layer of the decoder
    /// `[batch, n_head, target, source]`; the arguments are those of [`decode`](Self::decode).
    pub fn look(
        &self,
        target: Tensor<B, 2, Int>,
        lengths: &[usize],
        memory: &Memory<B>,
    ) -> Vec<Tensor<B, 4>> {
        let sight = sight(&target, lengths, memory);
        let mut x = self.embedding.forward(target);
        let mut shares = Vec::new();
        for layer in &self.decoder {
            shares.push(layer.look(self.order(), x.clone(), &sight));
            x = layer.forward(self.order(), x, &sight, None);
        }
        shares
    }
}

fn sight<B: Backend>(
    target: &Tensor<B, 2, Int>,
    lengths: &[usize],
    memory: &Memory<B>,
) -> Sight<B> {
    let [_, len] = target.dims();
    Sight {
        target: Mask::causal(lengths, len, &target.device()),
        memory: memory.states.clone(),
        source: memory.mask.clone(),
    }
}

fn normed<B: Backend>(norm: Option<&LayerNorm<B>>, x: Tensor<B, 3>) -> Tensor<B, 3> {
    match norm {
        Some(norm) => norm.forward(x),
        None => x,
    }
}

fn at(dropout: Option<Dropout>, index: usize) -> Option<Dropout> {
    dropout.map(|dropout| Dropout {
        layer: index as u32,
        ..dropout
    })
}

/// Returns the sum of the losses of the targets that are no padding, in nats, `[1]`.
///
/// # Shapes
///
/// - `logits`: `[batch, len, vocab_size]`
/// - `targets`: `[batch, len]`
pub fn loss<B: Backend>(logits: Tensor<B, 3>, targets: Tensor<B, 2, Int>) -> Tensor<B, 1> {
    let kept = targets.clone().not_equal_elem(PAD).float();
    // the loss of padding is finite, so that a product with 0 is 0
    (losses(logits, targets) * kept).sum()
}

/// Returns the loss of every target in nats, `[batch, len]`; shapes as in [`loss`].
pub fn losses<B: Backend>(logits: Tensor<B, 3>, targets: Tensor<B, 2, Int>) -> Tensor<B, 2> {
    let [batch, len] = targets.dims();
    activation::log_softmax(logits, 2)
        .gather(2, targets.unsqueeze_dim(2))
        .reshape([batch, len])
        .neg()
}
