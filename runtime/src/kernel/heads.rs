//! Attention of all heads of a layer on cores with the DSP extension.
//!
//! What other cores run takes a slice of every buffer for each head; here the lengths are checked once
//! and pointers go from head to head, which on these cores is a fifth of the cycles of a short window.

#![expect(
    unsafe_code,
    reason = "what the heads share is checked once for all of them"
)]

#[cfg(fpu)]
use super::native::{SHORT_LANES, chapbook_m4_short};
use super::native::{chapbook_m4_biased, chapbook_m4_pair_biased, chapbook_m4_plain};
use super::passes::{self, Weigh, chapbook_m4_scale_scores, chapbook_m4_weigh};
use super::{Element, Wide};
use crate::fixed::Scale;
use crate::ops::{self, HeadScale};
use crate::state::CachedHeads;

/// What attention of a layer takes.
///
/// # Shapes
///
/// - `qkv_q`, `scales`: `[n_head + 2 n_kv_head, head_dim]`, queries, keys and values of this position; the first
///   of each row of `scales` is the [`HeadScale`] of that row of `qkv_q`
/// - `scores`: `[n]`; `weights`: `[n]`, filled up to a multiple of four; `lanes`: twice the words of a key
#[derive(Debug)]
pub(crate) struct Heads<'a> {
    pub(crate) n_head: usize,
    pub(crate) n_kv_head: usize,
    pub(crate) head_dim: usize,
    pub(crate) qkv_q: &'a [Element],
    pub(crate) scales: &'a [i32],
    /// The heads of this layer.
    pub(crate) cached: CachedHeads<'a>,
    /// The position that takes the keys and values.
    pub(crate) slot: usize,
    /// Positions that the queries see.
    pub(crate) n: usize,
    /// [`ops::score_factor`].
    pub(crate) factor: Scale,
    pub(crate) scores: &'a mut [i32],
    pub(crate) weights: &'a mut [Wide],
    pub(crate) lanes: &'a mut [u32],
}

impl Heads<'_> {
    /// Returns whether every buffer has what `attend` reads and writes.
    fn agree(&self, out: &[i32]) -> bool {
        let (head_dim, n_head, n_kv_head) = (self.head_dim, self.n_head, self.n_kv_head);
        let cached = &self.cached;
        let (k_words, v_words) = (head_dim.div_ceil(4), cached.context_len.div_ceil(4));
        let (words, scales) = (n_kv_head * cached.words, n_kv_head * cached.context_len);
        let elements = (n_head + 2 * n_kv_head) * head_dim;
        head_dim > 0
            && n_kv_head > 0
            && n_head.is_multiple_of(n_kv_head)
            && (1..=cached.context_len).contains(&self.n)
            && self.slot < cached.context_len
            && 4 * k_words * v_words <= cached.words
            && words <= cached.k.len().min(cached.v.len())
            && scales <= cached.k_scale.len().min(cached.v_scale.len())
            && elements <= self.qkv_q.len().min(self.scales.len())
            && n_head * head_dim <= out.len()
            && self.n <= self.scores.len()
            && self.n.next_multiple_of(4) <= self.weights.len()
            && self.weights.as_ptr().cast::<u32>().is_aligned()
            && 2 * k_words <= self.lanes.len()
    }

    /// Stores keys and values of this position, and computes scaled dot-product attention of each query over
    /// the past, as [`ops::attend`] does for one; returns the [`ops::max_magnitude`] of the result.
    ///
    /// `out` is `[n_head, head_dim]`. Lengths that do not agree are a defect of the caller; the result is
    /// zeros then.
    #[inline(never)]
    pub(crate) fn attend(self, out: &mut [i32]) -> u32 {
        let agree = self.agree(out);
        debug_assert!(agree);
        if !agree {
            out.fill(0);
            return 0;
        }
        let (head_dim, n, slot) = (self.head_dim, self.n, self.slot);
        let (context_len, words) = (self.cached.context_len, self.cached.words);
        let (k_words, v_words, n_words) =
            (head_dim.div_ceil(4), context_len.div_ceil(4), n.div_ceil(4));
        #[cfg(fpu)]
        let products = if 2 * k_words <= SHORT_LANES {
            chapbook_m4_short
        } else {
            chapbook_m4_biased
        };
        #[cfg(not(fpu))]
        let products = chapbook_m4_biased;
        let spare = ops::spare(n);
        let shared = self.n_head / self.n_kv_head;
        let (lanes, weights) = (self.lanes.as_mut_ptr(), self.weights.as_mut_ptr());
        let scores = self.scores.as_mut_ptr();
        let mut q = self.qkv_q.as_ptr();
        let mut q_scale = self.scales.as_ptr();
        let mut left = 0;
        let mut max = 0;
        // SAFETY: `agree` has checked that every buffer has what all heads take of it; the kernels are given
        // as many rows and words as that.
        unsafe {
            let scores_end = scores.add(n);
            // Where the last four begin.
            let last = scores_end.wrapping_sub(4);
            // A block of four positions, or rows, and the place in it.
            let mut k_new = q.add(self.n_head * head_dim);
            let mut v_new = k_new.add(self.n_kv_head * head_dim);
            let mut k_scale_new = q_scale.add(self.n_head * head_dim);
            let mut v_scale_new = k_scale_new.add(self.n_kv_head * head_dim);
            let (mut k, mut v) = (self.cached.k.as_mut_ptr(), self.cached.v.as_mut_ptr());
            let mut k_scale = self.cached.k_scale.as_mut_ptr();
            let mut v_scale = self.cached.v_scale.as_mut_ptr();
            let (mut k_next, mut v_next) = (k, v);
            let (mut k_scale_next, mut v_scale_next) = (k_scale, v_scale);
            for out in out.chunks_exact_mut(head_dim).take(self.n_head) {
                if left == 0 {
                    left = shared;
                    (k, v, k_scale, v_scale) = (k_next, v_next, k_scale_next, v_scale_next);
                    k_next = k.add(words);
                    v_next = v.add(words);
                    k_scale_next = k_scale.add(context_len);
                    v_scale_next = v_scale.add(context_len);
                    // keys and values of this position
                    let k_at = k.add(slot / 4 * 4 * k_words + slot % 4);
                    store_key(k_new, head_dim, k_at);
                    let v_at = v.cast::<i8>().add(slot / 4 * 16 + slot % 4);
                    store_value(v_new, head_dim, v_at, 16 * v_words);
                    k_scale.add(slot).write(k_scale_new.read() as u16);
                    v_scale.add(slot).write(v_scale_new.read() as u16);
                    k_new = k_new.add(head_dim);
                    v_new = v_new.add(head_dim);
                    k_scale_new = k_scale_new.add(head_dim);
                    v_scale_new = v_scale_new.add(head_dim);
                }
                left -= 1;

                // scores: [n]
                let start = chapbook_m4_pair_biased(q, lanes, head_dim);
                products(k, lanes, k_words, scores, last, 8, start);
                let found = chapbook_m4_scale_scores(scores, k_scale, v_scale, scores_end);

                // unnormalised softmax: [n]
                let largest = HeadScale((found >> 32) as u16);
                let octaves = ops::octaves(HeadScale(q_scale.read() as u16), self.factor);
                let right = ops::weight_right(largest, spare);
                let weigh = Weigh::new(octaves, found as i32, right, scores_end);
                let sum = chapbook_m4_weigh(scores, v_scale, weights, &raw const weigh);

                // weighted sum of the values: [head_dim]
                let gap = 16 * (v_words - n_words);
                let last = out.as_ptr().add(head_dim).wrapping_sub(4);
                chapbook_m4_plain(v, weights.cast(), n_words, out.as_mut_ptr(), last, gap, 0);
                max = passes::scale(out, ops::weights_unit(largest, spare, sum)).max(max);

                q = q.add(head_dim);
                q_scale = q_scale.add(head_dim);
            }
        }
        max
    }
}

/// Stores a key where it is biased and words of its block's rows lie in turn.
///
/// # Safety
///
/// `k` has `len` elements, `to` a word in each block of four for each four of them.
#[inline]
unsafe fn store_key(k: *const i8, len: usize, to: *mut u32) {
    let (mut k, mut to, mut left) = (k, to, len);
    // SAFETY: see above.
    unsafe {
        while left >= 4 {
            to.write(k.cast::<u32>().read_unaligned() ^ 0x0080_0080);
            (k, to, left) = (k.add(4), to.add(4), left - 4);
        }
        if left > 0 {
            let mut word = 0;
            for place in (0..left).rev() {
                word = word << 8 | u32::from(k.add(place).read().cast_unsigned());
            }
            to.write(word ^ 0x0080_0080);
        }
    }
}

/// Stores a value as a column: four rows lie in turn, then `stride` bytes later the next.
///
/// # Safety
///
/// `v` has `len` elements, and the rows have those places.
#[inline]
unsafe fn store_value(v: *const i8, len: usize, to: *mut i8, stride: usize) {
    let (mut v, mut to, mut left) = (v, to, len);
    // SAFETY: see above.
    unsafe {
        while left >= 4 {
            let four = v.cast::<[i8; 4]>().read();
            to.write(four[0]);
            to.add(4).write(four[1]);
            to.add(8).write(four[2]);
            to.add(12).write(four[3]);
            (v, to, left) = (v.add(4), to.add(stride), left - 4);
        }
        for place in 0..left {
            to.add(4 * place).write(v.add(place).read());
        }
    }
}
