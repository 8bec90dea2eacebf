//! Attention of one query: rotation, scores, softmax, weighted sum.

use super::MAX_HEAD_DIM;
use super::quantize::HeadScale;
use crate::fixed::{Scale, leading_zeros, magnitude};
use crate::kernel::passes::{self, Octaves};
use crate::kernel::{self, Element, NATIVE, Vector, Weights, Wide};
use crate::part::part_mut;

/// Rotates the pairs (2i, 2i+1) of a head by the angle i (`RoFormer`, equation 34).
///
/// Returns the [`max_magnitude`](super::max_magnitude) of the result, and the exponent of its unit
/// relative to that of `x`. `max` is the [`max_magnitude`](super::max_magnitude) of `x`.
///
/// # Shapes
///
/// - `x`: `[head_dim]`
/// - `sin_cos`: `[head_dim / 2, 2]`, sine and cosine of each angle in units of 2^-15
#[inline(never)]
pub fn rotate(x: &mut [i32], max: u32, sin_cos: &[i32]) -> (u32, i32) {
    // 15 bits are kept, so that two products with 16 bits fit
    let cut = 17_u32.saturating_sub(leading_zeros(max));
    let (angles, _) = sin_cos.as_chunks::<2>();
    let (pairs, _) = x.as_chunks_mut::<2>();
    let mut max = 0;
    for (pair, &[sin, cos]) in pairs.iter_mut().zip(angles) {
        let [a, b] = pair.map(|x| x >> cut);
        *pair = [a * cos - b * sin, a * sin + b * cos];
        max = max.max(magnitude(pair[0])).max(magnitude(pair[1]));
    }
    (max, cut as i32 - 15)
}

/// Keys and values of one head, int8 with one scale for each position.
///
/// # Shapes
///
/// - `k`: `[n, head_dim]`; `v`: `[head_dim, n]`
/// - `k_scale`, `v_scale`: `[n]`, each a [`HeadScale`]
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    /// Keys.
    pub k: Weights<'a>,
    /// Values, transposed.
    pub v: Weights<'a>,
    /// Scales of the keys.
    pub k_scale: &'a [u16],
    /// Scales of the values.
    pub v_scale: &'a [u16],
}

/// Buffers of [`attend`].
#[derive(Debug)]
pub struct AttendScratch<'a> {
    /// `[n]` or longer.
    pub scores: &'a mut [i32],
    /// `[n]`, filled up to a word of the kernel's layout, or longer.
    pub weights: &'a mut [Wide],
    /// [`lanes_len`](kernel::lanes_len) of `n` and of `head_dim`, or longer.
    pub lanes: &'a mut [u32],
}

/// Returns `log2(e) / sqrt(head_dim)`, the factor of attention scores in octaves.
#[must_use]
pub fn score_factor(head_dim: usize) -> Scale {
    let log2_e = Scale::new(3_098_164_009, -31);
    log2_e.divided_by(Scale::root(head_dim as u32))
}

/// Computes scaled dot-product attention of one query over the past
/// ("Attention Is All You Need", section 3.2.1); returns the
/// [`max_magnitude`](super::max_magnitude) of the result.
///
/// # Shapes
///
/// - `q_q`: `[head_dim]`, with scale `q_scale`; `factor`: [`score_factor`]
/// - `past`: `n` positions
/// - `out`: `[head_dim]`, activation units
///
/// # Numerics
///
/// `out = Σ softmax(q·k[t] / sqrt(head_dim))[t] * v[t]`. The weights are powers of two by shift and
/// table, relative to the largest, of 15 bits, with the scale of their value folded in. They are not
/// normalised: one reciprocal per head divides the sums. For more than 512 positions the weights
/// lose as many bits as the sum needs.
#[inline(never)]
pub fn attend(
    q_q: &[Element],
    q_scale: HeadScale,
    factor: Scale,
    past: &Past<'_>,
    scratch: &mut AttendScratch<'_>,
    out: &mut [i32],
) -> u32 {
    let head_dim = q_q.len();
    let n = past.k_scale.len();
    let scores = part_mut(scratch.scores, 0, n);
    let weights = part_mut(scratch.weights, 0, NATIVE.row_len(n));
    debug_assert_eq!(out.len(), head_dim);
    debug_assert!(head_dim <= MAX_HEAD_DIM);

    // scores: [n], in units of the query's scale * 2^TOP
    kernel::sums(&past.k, Vector::Int8(q_q), scratch.lanes, scores);
    let (max, largest) = passes::scale_scores(scores, past.k_scale, past.v_scale);

    // unnormalised softmax: [n]
    let (largest, spare) = (HeadScale(largest), spare(n));
    let octaves = octaves(q_scale, factor);
    let right = weight_right(largest, spare);
    let sum = passes::weigh(scores, max, octaves, past.v_scale, right, weights);

    // weighted sum of the values: [head_dim]
    kernel::sums(&past.v, Vector::Int16(weights), scratch.lanes, out);
    passes::scale(out, weights_unit(largest, spare, sum))
}

/// Returns the bits that a weight loses so that the sums over `n` positions fit.
#[inline]
pub(crate) fn spare(n: usize) -> u32 {
    32 - leading_zeros((n as u32 - 1) >> 9)
}

/// Returns how a difference of scores becomes octaves.
#[inline]
pub(crate) fn octaves(q_scale: HeadScale, factor: Scale) -> Octaves {
    // Both vectors are in units of 2^-16.
    let unit = Scale::of_byte(
        q_scale.mantissa() as u32,
        2 * (HeadScale::TOP - 16) - q_scale.right() as i32,
    );
    Octaves::new(factor.mul(unit))
}

/// Returns the shift of a weight, to which that of its value's scale, which is not smaller than the
/// `largest` scale's, is added.
#[inline]
pub(crate) fn weight_right(largest: HeadScale, spare: u32) -> u32 {
    (8 + spare).wrapping_sub(largest.right())
}

/// Returns what 1 in the weighted sum of the values stands for; `sum` is that of the weights.
#[inline]
pub(crate) fn weights_unit(largest: HeadScale, spare: u32, sum: u32) -> Scale {
    let exponent = HeadScale::TOP - largest.right() as i32 + 8 + spare as i32;
    Scale::ONE.shl(exponent).divided_by(Scale::new(sum, 0))
}
