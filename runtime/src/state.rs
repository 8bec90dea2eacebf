//! Every mutable buffer of a forward pass, split once from the caller's memory.

use core::fmt;

use bytemuck::cast_slice_mut;

use crate::config::{Activation, Config};

/// Sizes of the buffers in `u32` words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) words: usize,
    d_model: usize,
    angles: usize,
    scratch: usize,
    weights: usize,
    x_q: usize,
    history: usize,
    scales: usize,
    cache: usize,
}

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

impl Plan {
    pub(crate) const fn new(config: &Config) -> Self {
        let d_model = config.d_model as usize;
        let d_ff = config.d_ff as usize;
        let context_len = config.context_len as usize;
        let vocab_size = config.vocab_size as usize;
        let n_cached = config.n_layer as usize * context_len * config.n_kv_head as usize;
        let ff = match config.activation {
            Activation::SwiGlu => 2 * d_ff,
            _ => d_ff,
        };
        // Attention, feed-forward part and head run one after the other and share their memory:
        // projections and scores; the hidden layer; logits and the order that sampling makes.
        let attention = config.qkv_dim() + context_len;
        let head = vocab_size + vocab_size.div_ceil(2);
        let mut plan = Self {
            words: 0,
            d_model,
            angles: 2 * config.n_angle(),
            scratch: max(max(attention, ff), head),
            weights: context_len.div_ceil(2),
            x_q: max(d_model, d_ff).div_ceil(4),
            history: context_len.div_ceil(2),
            scales: n_cached.div_ceil(2),
            cache: (n_cached * config.head_dim()).div_ceil(4),
        };
        plan.words = 2 * plan.d_model
            + plan.angles
            + plan.scratch
            + plan.weights
            + plan.x_q
            + plan.history
            + 2 * plan.scales
            + 2 * plan.cache;
        plan
    }
}

/// The caller's buffer is too small for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct StateTooSmall {
    /// Bytes the model needs, see [`Config::state_bytes`].
    pub needed: usize,
    /// Bytes given.
    pub found: usize,
}

impl fmt::Display for StateTooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the model needs {} bytes of RAM, the buffer has {}",
            self.needed, self.found
        )
    }
}

impl core::error::Error for StateTooSmall {}

/// Buffers of a forward pass.
#[derive(Debug)]
pub(crate) struct State<'m> {
    /// Residual stream: `[d_model]`.
    pub(crate) x: &'m mut [i32],
    /// Normalised stream, then the output of each part: `[d_model]`.
    pub(crate) h: &'m mut [i32],
    /// Sine and cosine of each angle: `[n_angle, 2]`.
    pub(crate) angles: &'m mut [i32],
    /// Shared by attention, feed-forward part and head.
    pub(crate) scratch: &'m mut [i32],
    /// Integer attention weights: `[context_len]`.
    pub(crate) weights: &'m mut [i16],
    /// Quantised input of a matrix: `[max(d_model, d_ff)]`.
    pub(crate) x_q: &'m mut [i8],
    /// The last tokens, a ring: `[context_len]`.
    pub(crate) history: &'m mut [u16],
    /// Past keys and values.
    pub(crate) kv_cache: KvCache<'m>,
}

/// Keys and values of past positions, int8 with a scale per position and head.
///
/// # Shapes
///
/// - `k`, `v`: `[n_layer, n_kv_head, context_len, head_dim]`
/// - `k_scale`, `v_scale`: `[n_layer, n_kv_head, context_len]`
#[derive(Debug)]
pub(crate) struct KvCache<'m> {
    pub(crate) k: &'m mut [i8],
    pub(crate) v: &'m mut [i8],
    pub(crate) k_scale: &'m mut [u16],
    pub(crate) v_scale: &'m mut [u16],
}

impl<'m> State<'m> {
    /// Splits the caller's memory; its contents do not matter.
    pub(crate) fn new(config: &Config, memory: &'m mut [u32]) -> Result<Self, StateTooSmall> {
        let plan = Plan::new(config);
        if memory.len() < plan.words {
            return Err(StateTooSmall {
                needed: 4 * plan.words,
                found: 4 * memory.len(),
            });
        }
        let mut rest = memory;
        let mut take = |words: usize| {
            let (head, tail) = core::mem::take(&mut rest).split_at_mut(words);
            rest = tail;
            head
        };
        let n_cached = usize::from(config.n_layer)
            * usize::from(config.context_len)
            * usize::from(config.n_kv_head);
        let n_value = n_cached * config.head_dim();
        Ok(Self {
            x: cast_slice_mut(take(plan.d_model)),
            h: cast_slice_mut(take(plan.d_model)),
            angles: cast_slice_mut(take(plan.angles)),
            scratch: cast_slice_mut(take(plan.scratch)),
            weights: cast_slice_mut(take(plan.weights)),
            x_q: cast_slice_mut(take(plan.x_q)),
            history: &mut cast_slice_mut(take(plan.history))[..usize::from(config.context_len)],
            kv_cache: KvCache {
                k_scale: &mut cast_slice_mut(take(plan.scales))[..n_cached],
                v_scale: &mut cast_slice_mut(take(plan.scales))[..n_cached],
                k: &mut cast_slice_mut(take(plan.cache))[..n_value],
                v: &mut cast_slice_mut(take(plan.cache))[..n_value],
            },
        })
    }
}
