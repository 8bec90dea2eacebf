//! llama2.c's `.bin`: version 0 (without a magic), 1 (`f32`) and 2 (int8 groups).
//!
//! Integers and floats are little-endian. The model has RMS norms with an epsilon of 1e-5, rotary
//! positions of base 10,000 over neighbouring pairs, and `SwiGLU`; `w1`, `w3` and `w2` are `w_gate`,
//! `w_up` and `w_down`.

use runtime::{Activation, Config, MAX_CONTEXT, MAX_LAYER, MAX_WIDTH, Norm, Position, TensorId};

use crate::assemble::{Guest, check, collect, dimension};
use crate::error::ImportError;

/// First bytes of versions 1 and 2, `ak42` as a number.
const MAGIC: u32 = 0x616b_3432;
/// Bytes before the tensors in versions 1 and 2.
const HEADER_LEN: usize = 256;
/// Bytes before the tensors in version 0: seven numbers.
const LEGACY_HEADER_LEN: usize = 28;
/// Bytes of version 2 that mean something: magic, version, seven numbers, a flag, the group.
const USED_HEADER_LEN: usize = 41;

/// A tensor of the file, or all layers of one, one after the other.
#[derive(Clone, Copy, PartialEq)]
enum Field {
    Embed,
    NormAttn,
    Q,
    K,
    V,
    O,
    NormFfn,
    W1,
    W2,
    W3,
    NormFinal,
    Angles,
    Classifier,
}

use Field::*;

const LEGACY_ORDER: &[Field] = &[
    Embed, NormAttn, Q, K, V, O, NormFfn, W1, W2, W3, NormFinal, Angles, Classifier,
];
const ORDER: &[Field] = &[
    NormAttn, NormFfn, NormFinal, Embed, Q, K, V, O, W1, W2, W3, Classifier,
];

impl Field {
    /// Returns the elements of one layer.
    fn len(self, config: &Config) -> u64 {
        let (d, ff) = (u64::from(config.d_model), u64::from(config.d_ff));
        let kv = config.kv_dim() as u64;
        match self {
            Embed => u64::from(config.vocab_size) * d,
            Classifier if config.tied => 0,
            Classifier => u64::from(config.vocab_size) * d,
            NormAttn | NormFfn | NormFinal => d,
            Q | O => d * d,
            K | V => kv * d,
            W1 | W2 | W3 => ff * d,
            // Cosines and sines of each position; the engine computes its own.
            Angles => u64::from(config.context_len) * config.head_dim() as u64,
        }
    }

    fn layers(self, config: &Config) -> u64 {
        match self {
            Embed | NormFinal | Angles | Classifier => 1,
            _ => config.n_layer.into(),
        }
    }

    const fn is_norm(self) -> bool {
        matches!(self, NormAttn | NormFfn | NormFinal)
    }
}

/// A file whose header has been read and whose length is right.
struct File<'a> {
    config: Config,
    order: &'static [Field],
    /// Elements that share a scale; 0 for floats.
    group: u64,
    start: u64,
    bytes: &'a [u8],
}

/// Reads a checkpoint; `vocab` is made of its `tokenizer.bin`, see
/// [`tokenizer::vocabulary`](crate::tokenizer::vocabulary).
///
/// # Errors
///
/// A header that is out of range, a file that is not as long as its header says, or elements that
/// are not finite.
pub fn read(
    bytes: &[u8],
    vocab: impl FnOnce(u16) -> Result<Vec<u8>, ImportError>,
) -> Result<Guest, ImportError> {
    let file = File::open(bytes)?;
    let config = file.config;
    Ok(Guest {
        config,
        vocab: vocab(config.vocab_size)?,
        weights: collect(&config, |spec| {
            let layer = spec.layer.unwrap_or(0).into();
            let fields: &[Field] = match spec.id {
                TensorId::WEmbed => &[Embed],
                TensorId::GAttn => &[NormAttn],
                TensorId::WQkv => &[Q, K, V],
                TensorId::WO => &[O],
                TensorId::GFfn => &[NormFfn],
                TensorId::WGate => &[W1],
                TensorId::WUp => &[W3],
                TensorId::WDown => &[W2],
                TensorId::GFinal => &[NormFinal],
                TensorId::WOut => &[Classifier],
                _ => return Err(ImportError::Missing(spec.to_string())),
            };
            Ok(fields
                .iter()
                .flat_map(|&field| file.elements(field, layer))
                .collect())
        })?,
        step: 0,
    })
}

impl<'a> File<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, ImportError> {
        let word = |at: usize| bytes.get(at..at + 4)?.first_chunk().copied();
        let number = |at: usize| word(at).map_or(0, i32::from_le_bytes);
        let legacy = word(0).map(u32::from_le_bytes) != Some(MAGIC);
        let header_len = if legacy {
            LEGACY_HEADER_LEN
        } else {
            HEADER_LEN
        };
        if bytes.len() < header_len {
            return Err(ImportError::Length {
                of: "header of llama2.c".to_string(),
                expected: header_len as u64,
                found: bytes.len() as u64,
            });
        }
        let version = if legacy { 0 } else { number(4) };
        if !(0..=2).contains(&version) {
            return Err(ImportError::Unsupported(format!(
                "expected version 1 or 2 of llama2.c's format, found {version}"
            )));
        }
        let at = if legacy { 0 } else { 8 };
        let vocab_size = i64::from(number(at + 20));
        let (tied, vocab_size) = if legacy {
            // A negative size says that the classifier is a matrix of its own.
            (vocab_size > 0, vocab_size.abs())
        } else {
            let shared = dimension("shared_classifier + 1", i64::from(bytes[36]) + 1, 2)?;
            (shared == 2, vocab_size)
        };
        let config = config(|index| number(at + 4 * index), tied, vocab_size)?;
        check(&config)?;
        let group = if version == 2 {
            let group = number(USED_HEADER_LEN - 4);
            u64::from(dimension("group_size", group.into(), MAX_WIDTH)?)
        } else {
            0
        };
        let order = if legacy { LEGACY_ORDER } else { ORDER };
        let file = Self {
            config,
            order,
            group,
            start: header_len as u64,
            bytes,
        };
        file.check_len()?;
        Ok(file)
    }

    fn check_len(&self) -> Result<(), ImportError> {
        let config = &self.config;
        for &field in self.order {
            let len = field.len(config);
            if self.group > 0 && !field.is_norm() && !len.is_multiple_of(self.group) {
                return Err(ImportError::Value(format!(
                    "expected a group_size that divides the {len} elements of a matrix, found {}",
                    self.group
                )));
            }
        }
        let of_field = |&field: &Field| self.byte_len(field) * field.layers(config);
        let expected = self.start + self.order.iter().map(of_field).sum::<u64>();
        let found = self.bytes.len() as u64;
        if found == expected {
            return Ok(());
        }
        Err(ImportError::Length {
            of: format!(
                "dim {}, hidden_dim {}, n_layers {}, n_heads {}, n_kv_heads {}, vocab_size {}, \
                 seq_len {}, {} classifier",
                config.d_model,
                config.d_ff,
                config.n_layer,
                config.n_head,
                config.n_kv_head,
                config.vocab_size,
                config.context_len,
                if config.tied { "shared" } else { "own" }
            ),
            expected,
            found,
        })
    }

    /// Returns the bytes of one layer of a field; dimensions have 16 bits, so it cannot overflow.
    fn byte_len(&self, field: Field) -> u64 {
        let len = field.len(&self.config);
        match self.group {
            0 => 4 * len,
            _ if field.is_norm() => 4 * len,
            group => len + 4 * (len / group),
        }
    }

    fn elements(&self, field: Field, layer: u64) -> Vec<f32> {
        let before = self.order.iter().take_while(|&&other| other != field);
        let skip = before.map(|&field| self.byte_len(field) * field.layers(&self.config));
        let start = self.start + skip.sum::<u64>() + layer * self.byte_len(field);
        // The length of the file has been checked.
        let bytes = &self.bytes[start as usize..][..self.byte_len(field) as usize];
        if self.group == 0 || field.is_norm() {
            return floats(bytes).collect();
        }
        let (weights, scales) = bytes.split_at(field.len(&self.config) as usize);
        let groups = weights.chunks_exact(self.group as usize);
        groups
            .zip(floats(scales))
            .flat_map(|(group, scale)| {
                group
                    .iter()
                    .map(move |&w| f32::from(w.cast_signed()) * scale)
            })
            .collect()
    }
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|&word| f32::from_le_bytes(word))
}

fn config(
    number: impl Fn(usize) -> i32,
    tied: bool,
    vocab_size: i64,
) -> Result<Config, ImportError> {
    let size = |field, index, max| dimension(field, number(index).into(), max);
    Ok(Config {
        d_model: size("dim", 0, MAX_WIDTH)?,
        d_ff: size("hidden_dim", 1, MAX_WIDTH)?,
        n_layer: size("n_layers", 2, MAX_LAYER)?,
        n_head: size("n_heads", 3, MAX_WIDTH)?,
        n_kv_head: size("n_kv_heads", 4, MAX_WIDTH)?,
        vocab_size: dimension("vocab_size", vocab_size, u16::MAX)?,
        context_len: size("seq_len", 6, MAX_CONTEXT)?,
        position: Position::Rope,
        rope_base: 10_000,
        norm: Norm::RmsNorm,
        activation: Activation::SwiGlu,
        tied,
        embed_scale: false,
        attn_bias: false,
        ff_bias: false,
        norm_bias: false,
        head_bias: false,
    })
}
