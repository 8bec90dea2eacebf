//! Shape of a model, its validation and every size that follows from it.

use serde::{Deserialize, Serialize};

/// How a token learns where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[serde(rename_all = "lowercase")]
pub enum Position {
    /// Fixed sines and cosines added to the embedding ("Attention Is All You Need", section 3.5).
    Sinusoidal,
    /// A trained table `w_pos` added to the embedding.
    Learned,
    /// Rotation of query and key pairs (2i, 2i+1) by an angle that grows with the position
    /// (`RoFormer`, section 3.2; the pairing of llama2.c).
    Rope,
}

/// Normalisation before attention, before the feed-forward part and before the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// Mean removed, divided by the standard deviation.
    LayerNorm,
    /// Divided by the root of the mean square.
    RmsNorm,
}

/// Non-linearity of the feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// `x * Phi(x)` with the exact error function.
    Gelu,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2`.
    Relu2,
    /// `silu(w_gate h) * (w_up h)`.
    SwiGlu,
}

/// Everything that fixes the shape of a decoder-only Transformer.
///
/// The same value is the trainer's model configuration, the header of the blob and the source of
/// every buffer size in the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Config {
    /// Transformer blocks.
    pub n_layer: u16,
    /// Query heads.
    pub n_head: u16,
    /// Key and value heads; divides `n_head`.
    pub n_kv_head: u16,
    /// Width of the residual stream; a multiple of `n_head`.
    pub d_model: u16,
    /// Width of the feed-forward part.
    pub d_ff: u16,
    /// Positions that attention can see, the current one included; the length of `kv_cache`.
    pub context_len: u16,
    /// Tokens.
    pub vocab_size: u16,
    /// Kind of position information.
    pub position: Position,
    /// Base of the rotary angles; used with [`Position::Rope`] only.
    pub rope_base: u32,
    /// Kind of normalisation.
    pub norm: Norm,
    /// Non-linearity of the feed-forward part.
    pub activation: Activation,
    /// The head shares its matrix with the embedding.
    pub tied: bool,
    /// The embedding is multiplied by `sqrt(d_model)` ("Attention Is All You Need", section 3.4).
    pub embed_scale: bool,
    /// `w_qkv` and `w_o` have biases.
    pub attn_bias: bool,
    /// The matrices of the feed-forward part have biases.
    pub ff_bias: bool,
    /// Norms have biases.
    pub norm_bias: bool,
    /// The head has a bias.
    pub head_bias: bool,
}

/// Why a [`Config`] describes no model that the runtime can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ConfigError {
    /// A dimension is zero; the name is the field's.
    Zero(&'static str),
    /// A dimension is above what the runtime supports.
    TooLarge {
        /// The field.
        field: &'static str,
        /// Largest supported value.
        max: u32,
        /// Value found.
        found: u32,
    },
    /// `d_model` is not a multiple of `n_head`.
    HeadsDoNotDivideModel {
        /// Value found.
        d_model: u16,
        /// Value found.
        n_head: u16,
    },
    /// `n_head` is not a multiple of `n_kv_head`.
    KvHeadsDoNotDivideHeads {
        /// Value found.
        n_head: u16,
        /// Value found.
        n_kv_head: u16,
    },
    /// Rotary positions need an even `head_dim`, sinusoidal ones an even `d_model`.
    OddAngleWidth {
        /// Value found.
        d_model: u16,
        /// Value found.
        n_head: u16,
    },
    /// Rotary positions need a `rope_base` of at least 2.
    RopeBaseTooSmall {
        /// Value found.
        found: u32,
    },
    /// `d_model / n_head` is above [`MAX_HEAD_DIM`](crate::ops::MAX_HEAD_DIM).
    HeadTooWide {
        /// Value found.
        head_dim: u16,
    },
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Zero(field) => write!(f, "{field} is 0; it must be at least 1"),
            Self::TooLarge { field, max, found } => {
                write!(f, "{field} is {found}; at most {max} is supported")
            }
            Self::HeadsDoNotDivideModel { d_model, n_head } => write!(
                f,
                "d_model is {d_model} and n_head {n_head}; d_model must be a multiple of n_head"
            ),
            Self::KvHeadsDoNotDivideHeads { n_head, n_kv_head } => write!(
                f,
                "n_head is {n_head} and n_kv_head {n_kv_head}; n_head must be a multiple of n_kv_head"
            ),
            Self::OddAngleWidth { d_model, n_head } => write!(
                f,
                "d_model is {d_model} and n_head {n_head}; rotary positions need an even \
                 d_model / n_head, sinusoidal ones an even d_model"
            ),
            Self::HeadTooWide { head_dim } => write!(
                f,
                "d_model / n_head is {head_dim}; at most {} is supported",
                crate::ops::MAX_HEAD_DIM
            ),
            Self::RopeBaseTooSmall { found } => {
                write!(f, "rope_base is {found}; it must be at least 2")
            }
        }
    }
}

impl core::error::Error for ConfigError {}

/// Largest `d_model` and `d_ff`; keeps every `i32` dot product of int8 vectors exact.
pub const MAX_WIDTH: u16 = 16_384;
/// Largest `context_len`; keeps the attention-weighted sum of int8 values exact in `i32`.
pub const MAX_CONTEXT: u16 = 8_192;
/// Largest `n_layer`.
pub const MAX_LAYER: u16 = 256;

impl Config {
    /// Checks that the dimensions fit together and are within the runtime's limits.
    ///
    /// # Errors
    ///
    /// The first rule that is broken, see [`ConfigError`].
    pub const fn validate(&self) -> Result<(), ConfigError> {
        let sizes = [
            ("n_layer", self.n_layer, MAX_LAYER),
            ("n_head", self.n_head, MAX_WIDTH),
            ("n_kv_head", self.n_kv_head, MAX_WIDTH),
            ("d_model", self.d_model, MAX_WIDTH),
            ("d_ff", self.d_ff, MAX_WIDTH),
            ("context_len", self.context_len, MAX_CONTEXT),
            ("vocab_size", self.vocab_size, u16::MAX),
        ];
        let mut i = 0;
        while i < sizes.len() {
            let (field, value, max) = sizes[i];
            if value == 0 {
                return Err(ConfigError::Zero(field));
            }
            if value > max {
                return Err(ConfigError::TooLarge {
                    field,
                    max: max as u32,
                    found: value as u32,
                });
            }
            i += 1;
        }
        if !self.d_model.is_multiple_of(self.n_head) {
            return Err(ConfigError::HeadsDoNotDivideModel {
                d_model: self.d_model,
                n_head: self.n_head,
            });
        }
        if !self.n_head.is_multiple_of(self.n_kv_head) {
            return Err(ConfigError::KvHeadsDoNotDivideHeads {
                n_head: self.n_head,
                n_kv_head: self.n_kv_head,
            });
        }
        if self.head_dim() > crate::ops::MAX_HEAD_DIM {
            return Err(ConfigError::HeadTooWide {
                head_dim: self.d_model / self.n_head,
            });
        }
        let angles_fit = match self.position {
            Position::Sinusoidal => self.d_model.is_multiple_of(2),
            Position::Rope => (self.d_model / self.n_head).is_multiple_of(2),
            Position::Learned => true,
        };
        if !angles_fit {
            return Err(ConfigError::OddAngleWidth {
                d_model: self.d_model,
                n_head: self.n_head,
            });
        }
        if matches!(self.position, Position::Rope) && self.rope_base < 2 {
            return Err(ConfigError::RopeBaseTooSmall {
                found: self.rope_base,
            });
        }
        Ok(())
    }

    /// Returns the width of one head, `d_model / n_head`; 0 without heads.
    #[must_use]
    pub const fn head_dim(&self) -> usize {
        match self.d_model.checked_div(self.n_head) {
            Some(head_dim) => head_dim as usize,
            None => 0,
        }
    }

    /// Returns the width of all keys (or values) of a position, `n_kv_head * head_dim`.
    #[must_use]
    pub const fn kv_dim(&self) -> usize {
        self.n_kv_head as usize * self.head_dim()
    }

    /// Returns the rows of `w_qkv`: queries, keys, values.
    #[must_use]
    pub const fn qkv_dim(&self) -> usize {
        self.d_model as usize + 2 * self.kv_dim()
    }

    /// Returns the number of angles that a position needs: half of `d_model` for sinusoidal
    /// positions, half of `head_dim` for rotary ones, none for learned ones.
    #[must_use]
    pub const fn n_angle(&self) -> usize {
        match self.position {
            Position::Sinusoidal => self.d_model as usize / 2,
            Position::Rope => self.head_dim() / 2,
            Position::Learned => 0,
        }
    }

    /// Returns the number of trained parameters.
    #[must_use]
    pub const fn n_params(&self) -> u64 {
        let (d, ff, vocab) = (
            self.d_model as u64,
            self.d_ff as u64,
            self.vocab_size as u64,
        );
        let qkv = self.qkv_dim() as u64;
        let norm = d * (1 + self.norm_bias as u64);
        let up = match self.activation {
            Activation::SwiGlu => 2,
            _ => 1,
        };
        let attention = qkv * d + d * d + (qkv + d) * self.attn_bias as u64;
        let feed_forward = (up + 1) * d * ff + (up * ff + d) * self.ff_bias as u64;
        let position = match self.position {
            Position::Learned => self.context_len as u64 * d,
            _ => 0,
        };
        let head = vocab * d * !self.tied as u64 + vocab * self.head_bias as u64;
        vocab * d
            + position
            + self.n_layer as u64 * (2 * norm + attention + feed_forward)
            + norm
            + head
    }

    /// Returns the multiply-accumulates of the matrices for one token, attention excluded.
    #[must_use]
    pub const fn n_mac(&self) -> u64 {
        let (d, ff) = (self.d_model as u64, self.d_ff as u64);
        let up = match self.activation {
            Activation::SwiGlu => 2,
            _ => 1,
        };
        let layer = self.qkv_dim() as u64 * d + d * d + (up + 1) * d * ff;
        self.n_layer as u64 * layer + self.vocab_size as u64 * d
    }

    /// Returns the RAM of a [`Session`](crate::Session) in `u32` words, `kv_cache` included.
    #[must_use]
    pub const fn state_words(&self) -> usize {
        crate::state::Plan::new(self).words
    }

    /// Returns the RAM of a [`Session`](crate::Session) in bytes, `kv_cache` included.
    #[must_use]
    pub const fn state_bytes(&self) -> usize {
        4 * self.state_words()
    }
}
