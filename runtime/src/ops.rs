//! The operations of a forward pass: pure functions on slices.
//!
//! Numbers are `f32`, except inside products: those are int8 times int8, summed exactly in `i32`.
//! Sums of `f32` run from the first element to the last, so that every target rounds alike.

use crate::config::Norm;
use crate::math;

/// Added to the variance (or the mean square) before the root.
pub const NORM_EPS: f32 = 1e-5;

/// An int8 matrix with one scale per row: the value is `w[r, c] * scale[r]`.
///
/// # Shapes
///
/// - `w`: `[rows, cols]`, row-major
/// - `scale`: `[rows]`
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Weights.
    pub w: &'a [i8],
    /// Scales of the rows.
    pub scale: &'a [f32],
    /// Width of a row.
    pub cols: usize,
}

impl<'a> Matrix<'a> {
    /// Returns one row and its scale.
    ///
    /// # Panics
    ///
    /// If the matrix has no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> (&'a [i8], f32) {
        let start = row * self.cols;
        (&self.w[start..start + self.cols], self.scale[row])
    }
}

/// Computes the dot product of two int8 vectors.
///
/// # Numerics
///
/// Exact in `i32` for up to 133,144 elements within -127..=127.
#[inline]
#[must_use]
pub fn dot(a: &[i8], b: &[i8]) -> i32 {
    // Sixteen-bit factors let the compiler use its multiply-and-add of halfword pairs.
    let product = |(&a, &b): (&i8, &i8)| i32::from(i16::from(a) * i16::from(b));
    a.iter().zip(b).map(product).sum()
}

/// Quantises a vector to int8 and returns its scale: `x[i]` is close to `x_q[i] * scale`.
///
/// # Numerics
///
/// The largest magnitude becomes 127. A vector below 1e-30 everywhere becomes all zeros with scale
/// 0, because the reciprocal of a smaller scale is not finite.
///
/// # Panics
///
/// If the lengths differ.
pub fn quantize(x: &[f32], x_q: &mut [i8]) -> f32 {
    assert_eq!(x.len(), x_q.len());
    let max = x.iter().fold(0.0_f32, |max, &x| max.max(x.abs()));
    // Also false for NaN.
    if !(max > 1e-30 && max < f32::INFINITY) {
        x_q.fill(0);
        return 0.0;
    }
    quantize_with(x, 127.0 / max, x_q);
    max / 127.0
}

/// Quantises a vector with a given reciprocal scale, saturating at -127 and 127.
///
/// # Panics
///
/// If the lengths differ.
pub fn quantize_with(x: &[f32], reciprocal: f32, x_q: &mut [i8]) {
    assert_eq!(x.len(), x_q.len());
    for (x_q, &x) in x_q.iter_mut().zip(x) {
        *x_q = math::round(x * reciprocal).clamp(-127, 127) as i8;
    }
}

/// Multiplies an int8 matrix by an int8 vector and adds a bias.
///
/// # Shapes
///
/// - `w`: `[rows, cols]`; `bias`: `[rows]`
/// - `x_q`: `[cols]`
/// - `out`: `[rows]`
///
/// # Numerics
///
/// `out[r] = (Σ w[r, c] * x_q[c]) * (w_scale[r] * x_scale) + bias[r]`, the sum exact in `i32`.
///
/// # Panics
///
/// If the lengths do not agree.
pub fn matvec(w: &Matrix<'_>, x_q: &[i8], x_scale: f32, bias: Option<&[f32]>, out: &mut [f32]) {
    assert_eq!(x_q.len(), w.cols);
    assert_eq!(out.len(), w.scale.len());
    for ((out, row), &w_scale) in out.iter_mut().zip(w.w.chunks_exact(w.cols)).zip(w.scale) {
        *out = dot(row, x_q) as f32 * (w_scale * x_scale);
    }
    if let Some(bias) = bias {
        add(out, bias);
    }
}

/// Adds `y` to `x`.
///
/// # Panics
///
/// If the lengths differ.
pub fn add(x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len());
    for (x, &y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

/// Normalises a vector.
///
/// # Shapes
///
/// - `x`, `gain`, `bias`, `out`: `[d_model]`
///
/// # Numerics
///
/// `out = (x - mean) / sqrt(mean((x - mean)^2) + NORM_EPS) * gain + bias`; for
/// [`Norm::RmsNorm`] the mean is taken as 0.
///
/// # Panics
///
/// If the lengths differ.
pub fn norm(kind: Norm, x: &[f32], gain: &[f32], bias: Option<&[f32]>, out: &mut [f32]) {
    assert_eq!(x.len(), out.len());
    assert_eq!(x.len(), gain.len());
    let n = x.len() as f32;
    let mean = match kind {
        Norm::LayerNorm => x.iter().sum::<f32>() / n,
        Norm::RmsNorm => 0.0,
    };
    let square_sum: f32 = x.iter().map(|&x| (x - mean) * (x - mean)).sum();
    let reciprocal = 1.0 / libm::sqrtf(square_sum / n + NORM_EPS);
    for ((out, &x), &gain) in out.iter_mut().zip(x).zip(gain) {
        *out = (x - mean) * reciprocal * gain;
    }
    if let Some(bias) = bias {
        add(out, bias);
    }
}

/// Rotates the pairs (2i, 2i+1) of each head by the angle i (`RoFormer`, equation 34).
///
/// # Shapes
///
/// - `x`: `[heads, head_dim]`
/// - `sin_cos`: `[head_dim / 2, 2]`, sine and cosine of each angle
pub fn rotate(x: &mut [f32], sin_cos: &[f32]) {
    for head in x.chunks_exact_mut(sin_cos.len()) {
        for (pair, angle) in head.chunks_exact_mut(2).zip(sin_cos.chunks_exact(2)) {
            let (sin, cos) = (angle[0], angle[1]);
            let (a, b) = (pair[0], pair[1]);
            pair[0] = a * cos - b * sin;
            pair[1] = a * sin + b * cos;
        }
    }
}

/// Keys and values of one head: int8 rows with one scale each.
///
/// # Shapes
///
/// - `k`, `v`: `[n, head_dim]`
/// - `k_scale`, `v_scale`: `[n]`, the upper halves of `f32`s (see [`scale_to_bits`])
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    /// Keys.
    pub k: &'a [i8],
    /// Values.
    pub v: &'a [i8],
    /// Scales of the keys.
    pub k_scale: &'a [u16],
    /// Scales of the values.
    pub v_scale: &'a [u16],
}

/// Buffers of [`attend`].
#[derive(Debug)]
pub struct AttendScratch<'a> {
    /// `[n]` or longer.
    pub scores: &'a mut [f32],
    /// `[n]` or longer.
    pub weights: &'a mut [i16],
    /// `[head_dim]`.
    pub acc: &'a mut [i32],
}

/// Rounds a positive scale up to the upper half of an `f32`.
///
/// Rounding up keeps every quantised value within -127..=127; the scale of a cached vector costs
/// two bytes instead of four.
#[must_use]
pub fn scale_to_bits(scale: f32) -> u16 {
    let bits = scale.to_bits();
    let up = bits.saturating_add(0xFFFF).min(f32::MAX.to_bits());
    (up >> 16) as u16
}

/// Reads a scale that [`scale_to_bits`] wrote.
#[must_use]
pub fn scale_from_bits(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Computes scaled dot-product attention of one query over the past
/// ("Attention Is All You Need", section 3.2.1).
///
/// # Shapes
///
/// - `q_q`: `[head_dim]`, with scale `q_scale`
/// - `past`: `n` positions
/// - `out`: `[head_dim]`
///
/// # Numerics
///
/// `out = Σ softmax(q·k[t] / sqrt(head_dim))[t] * v[t]`. The weights stay unnormalised and are
/// rounded to integers of at most 32,767 (less for a long past, so that the sum stays exact in
/// `i32`); one division per element of `out` normalises them.
///
/// # Panics
///
/// If the lengths do not agree.
pub fn attend(
    q_q: &[i8],
    q_scale: f32,
    past: &Past<'_>,
    scratch: &mut AttendScratch<'_>,
    out: &mut [f32],
) {
    let head_dim = q_q.len();
    let n = past.k_scale.len();
    let scores = &mut scratch.scores[..n];
    let weights = &mut scratch.weights[..n];
    let acc = &mut scratch.acc[..head_dim];
    assert_eq!(out.len(), head_dim);

    // scores: [n]
    let factor = q_scale / libm::sqrtf(head_dim as f32);
    let mut max = f32::NEG_INFINITY;
    let keys = past.k.chunks_exact(head_dim).zip(past.k_scale);
    for (score, (k, &k_scale)) in scores.iter_mut().zip(keys) {
        *score = dot(q_q, k) as f32 * (factor * scale_from_bits(k_scale));
        max = max.max(*score);
    }

    // unnormalised softmax; the scale of each value is folded into its weight
    let mut sum = 0.0;
    let mut max_weight = 0.0_f32;
    for (score, &v_scale) in scores.iter_mut().zip(past.v_scale) {
        let e = math::exp(*score - max);
        sum += e;
        *score = e * scale_from_bits(v_scale);
        max_weight = max_weight.max(*score);
    }
    if !(max_weight > 1e-30 && max_weight < f32::INFINITY) {
        out.fill(0.0);
        return;
    }
    let limit = (i32::MAX / (127 * n as i32)).min(32_767) as f32;
    let reciprocal = limit / max_weight;
    for (weight, &score) in weights.iter_mut().zip(scores.iter()) {
        *weight = math::round(score * reciprocal).min(32_767) as i16;
    }

    // weighted sum of the values: [head_dim]
    acc.fill(0);
    for (v, &weight) in past.v.chunks_exact(head_dim).zip(weights.iter()) {
        for (acc, &v) in acc.iter_mut().zip(v) {
            *acc += i32::from(weight) * i32::from(v);
        }
    }
    let scale = max_weight / limit / sum;
    for (out, &acc) in out.iter_mut().zip(acc.iter()) {
        *out = acc as f32 * scale;
    }
}
