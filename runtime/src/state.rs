//! Every mutable buffer of a forward pass, split once from the caller's memory.

use core::fmt;

use bytemuck::cast_slice_mut;

use crate::config::{Activation, Config};
use crate::kernel::{self, Element, Wide};
use crate::layout::fill;
use crate::part::{part_mut, split, take};

/// Sizes of the buffers in `u32` words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) words: usize,
    d_model: usize,
    angles: usize,
    scratch: usize,
    weights: usize,
    x_q: usize,
    lanes: usize,
    history: usize,
    scales: usize,
    cache: usize,
}

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// Returns the words of the keys (or values) of one head, enough for the layout of every core.
const fn head_words(context_len: usize, head_dim: usize) -> usize {
    fill(context_len, 4) * fill(head_dim, 4) / 4
}

impl Plan {
    pub(crate) const fn new(config: &Config) -> Self {
        let d_model = config.d_model as usize;
        let d_ff = config.d_ff as usize;
        let context_len = config.context_len as usize;
        let vocab_size = config.vocab_size as usize;
        let n_head_cached = config.n_layer as usize * config.n_kv_head as usize;
        let n_cached = n_head_cached * context_len;
        let ff = match config.activation {
            Activation::SwiGlu => 2 * d_ff,
            _ => d_ff,
        };
        // Attention, feed-forward part and head run one after the other and share their memory:
        // projections and scores; the hidden layer; logits and the order that sampling makes.
        let attention = config.qkv_dim() + context_len;
        let head = vocab_size + vocab_size.div_ceil(2);
        let plan = Self {
            words: 0,
            d_model,
            angles: 2 * config.n_angle(),
            scratch: max(max(attention, ff), head),
            weights: fill(context_len, 4),
            // Words, though some kernels read bytes: every core needs the same RAM.
            x_q: max(max(d_model, d_ff), 2 * config.head_dim()),
            lanes: kernel::lanes_len(max(max(d_model, d_ff), context_len)),
            history: context_len.div_ceil(2),
            scales: n_cached.div_ceil(2),
            cache: n_head_cached * head_words(context_len, config.head_dim()),
        };
        plan.with_words()
    }

    /// Plans the buffers of the `f32` pass, which quantises nothing: its cache has whole numbers.
    #[cfg(feature = "f32")]
    pub(crate) const fn new_f32(config: &Config) -> Self {
        let mut plan = Self::new(config);
        (plan.weights, plan.x_q, plan.lanes, plan.scales) = (0, 0, 0, 0);
        plan.cache = config.n_layer as usize * config.kv_dim() * config.context_len as usize;
        plan.with_words()
    }

    /// Returns the plan with the sum of its buffers.
    const fn with_words(self) -> Self {
        let mut plan = self;
        plan.words = 2 * plan.d_model
            + plan.angles
            + plan.scratch
            + plan.weights
            + plan.x_q
            + plan.lanes
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
    /// Integer attention weights: `[context_len]`, filled up to a word of the kernel.
    pub(crate) weights: &'m mut [Wide],
    /// Quantised input of a matrix, or a key and a value: `[max(d_model, d_ff, 2 head_dim)]`.
    pub(crate) x_q: &'m mut [Element],
    /// Scratch memory of the kernels.
    pub(crate) lanes: &'m mut [u32],
    /// The last tokens, a ring: `[context_len]`.
    pub(crate) history: &'m mut [u16],
    /// Past keys and values.
    pub(crate) kv_cache: KvCache<'m>,
}

/// Keys and values of past positions, int8 with a scale per position and head.
///
/// Both are matrices in the layout of the target's kernel, one of each for a head of a layer, so
/// that both products of attention are the kernel's: keys have a row for each position, values a
/// column. Rows and columns that no position has filled are read too, but never matter: their
/// products are dropped, or are with 0.
///
/// # Shapes
///
/// - `k`: `[n_layer, n_kv_head, context_len, head_dim]`
/// - `v`: `[n_layer, n_kv_head, head_dim, context_len]`
/// - `k_scale`, `v_scale`: `[n_layer, n_kv_head, context_len]`
#[derive(Debug)]
pub(crate) struct KvCache<'m> {
    pub(crate) k: &'m mut [u32],
    pub(crate) v: &'m mut [u32],
    k_scale: &'m mut [u16],
    v_scale: &'m mut [u16],
    context_len: usize,
    head_dim: usize,
}

impl KvCache<'_> {
    /// Returns the heads of a layer, from `head` on, which counts through the layers.
    pub(crate) fn heads(&mut self, head: usize) -> CachedHeads<'_> {
        let words = head_words(self.context_len, self.head_dim);
        CachedHeads {
            k: split(self.k, head * words).1,
            v: split(self.v, head * words).1,
            k_scale: split(self.k_scale, head * self.context_len).1,
            v_scale: split(self.v_scale, head * self.context_len).1,
            words,
            context_len: self.context_len,
            #[cfg(not(kernel = "m4"))]
            head_dim: self.head_dim,
        }
    }
}

/// The heads that follow, each with all its positions.
#[derive(Debug)]
pub(crate) struct CachedHeads<'a> {
    pub(crate) k: &'a mut [u32],
    pub(crate) v: &'a mut [u32],
    pub(crate) k_scale: &'a mut [u16],
    pub(crate) v_scale: &'a mut [u16],
    /// Words of the keys (or values) of a head.
    pub(crate) words: usize,
    pub(crate) context_len: usize,
    #[cfg(not(kernel = "m4"))]
    pub(crate) head_dim: usize,
}

impl<'m> State<'m> {
    /// Splits the caller's memory; its contents do not matter.
    pub(crate) fn new(
        config: &Config,
        plan: Plan,
        memory: &'m mut [u32],
    ) -> Result<Self, StateTooSmall> {
        if memory.len() < plan.words {
            return Err(StateTooSmall {
                needed: 4 * plan.words,
                found: 4 * memory.len(),
            });
        }
        let mut rest = memory;
        let mut take = |words: usize| take(&mut rest, words);
        Ok(Self {
            x: cast_slice_mut(take(plan.d_model)),
            h: cast_slice_mut(take(plan.d_model)),
            angles: cast_slice_mut(take(plan.angles)),
            scratch: cast_slice_mut(take(plan.scratch)),
            weights: cast_slice_mut(take(plan.weights)),
            x_q: cast_slice_mut(take(plan.x_q)),
            lanes: take(plan.lanes),
            history: part_mut(
                cast_slice_mut(take(plan.history)),
                0,
                config.context_len.into(),
            ),
            kv_cache: KvCache {
                k_scale: cast_slice_mut(take(plan.scales)),
                v_scale: cast_slice_mut(take(plan.scales)),
                k: take(plan.cache),
                v: take(plan.cache),
                context_len: config.context_len.into(),
                head_dim: config.head_dim(),
            },
        })
    }
}
