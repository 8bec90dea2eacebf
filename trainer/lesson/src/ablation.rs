//! A GPT of the lesson's own layers, with a switch for each thing that the texts warn about.

use block::Dropout;
use burn::module::Module;
use burn::nn::{LayerNorm, LayerNormConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor};
use gpt::settings::Settings;

use crate::char_lm::Family;
use crate::embedding::{FIRST_CHAR, TokenEmbedding};
use crate::layers::{EncoderLayer, NormOrder, Width};
use crate::mask::Mask;

/// What is left out or done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ablation {
    /// Nothing.
    None,
    /// Scores are not divided by `sqrt(head_dim)`.
    NoScale,
    /// The learning rate starts at its peak.
    NoWarmup,
    /// Gradients are not clipped.
    NoClip,
    /// Norms behind the residual connection.
    PostNorm,
    /// A query sees the key behind it, which is the character that it is to predict.
    WrongMask,
}

impl Ablation {
    /// All, the complete recipe first.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::NoScale,
        Self::NoWarmup,
        Self::NoClip,
        Self::PostNorm,
        Self::WrongMask,
    ];

    /// Returns what a table calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "complete",
            Self::NoScale => "no 1/sqrt(d)",
            Self::NoWarmup => "no warm-up",
            Self::NoClip => "no clipping",
            Self::PostNorm => "post-norm",
            Self::WrongMask => "wrong mask",
        }
    }

    /// Returns the settings of the optimiser with this left out.
    #[must_use]
    pub fn settings(self, settings: Settings) -> Settings {
        match self {
            Self::NoWarmup => Settings {
                warmup: 0,
                ..settings
            },
            Self::NoClip => Settings {
                clip: f64::from(f32::MAX),
                ..settings
            },
            _ => settings,
        }
    }
}

/// Shape of a small GPT with an ablation.
#[derive(Clone, Copy, Debug)]
pub struct SmallGpt {
    /// Layers.
    pub n_layer: usize,
    /// Widths of a layer.
    pub width: Width,
    /// Characters.
    pub vocab_size: usize,
    /// What is left out.
    pub ablation: Ablation,
}

/// Embedding, layers with a causal mask, head.
#[derive(Module, Debug)]
pub struct SmallGptNet<B: Backend> {
    /// Embedding and head.
    pub embedding: TokenEmbedding<B>,
    /// Layers.
    pub layers: Vec<EncoderLayer<B>>,
    /// Last norm.
    pub last_norm: LayerNorm<B>,
}

impl Family for SmallGpt {
    type Net<B: Backend> = SmallGptNet<B>;

    fn net<B: Backend>(&self, device: &B::Device) -> SmallGptNet<B> {
        let layer = |_| {
            let mut layer = EncoderLayer::new(self.width, device);
            if self.ablation == Ablation::NoScale {
                layer.attention = layer.attention.without_scale();
            }
            layer
        };
        let tokens = self.vocab_size + FIRST_CHAR as usize;
        SmallGptNet {
            embedding: TokenEmbedding::new(tokens, self.width.d_model, device),
            layers: (0..self.n_layer).map(layer).collect(),
            last_norm: LayerNormConfig::new(self.width.d_model).init(device),
        }
    }

    fn logits<B: Backend>(
        &self,
        net: &SmallGptNet<B>,
        tokens: Tensor<B, 2, Int>,
        dropout: Option<Dropout>,
    ) -> Tensor<B, 3> {
        let [batch, len] = tokens.dims();
        let ahead = usize::from(self.ablation == Ablation::WrongMask);
        let mask = Mask::of([1, len, len], &tokens.device(), |_, query, key| {
            key <= query + ahead
        });
        let order = match self.ablation {
            Ablation::PostNorm => NormOrder::Post,
            _ => NormOrder::Pre,
        };
        let mut x = net.embedding.forward(tokens.add_scalar(FIRST_CHAR));
        for (index, layer) in net.layers.iter().enumerate() {
            let dropout = dropout.map(|dropout| Dropout {
                layer: index as u32,
                ..dropout
            });
            x = layer.forward(order, x, &mask, dropout);
        }
        let all = self.vocab_size + FIRST_CHAR as usize;
        let logits = net.embedding.logits(net.last_norm.forward(x));
        // the special tokens do not occur in a text
        logits.slice([0..batch, 0..len, FIRST_CHAR as usize..all])
    }
}
