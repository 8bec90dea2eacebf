//! The operations of a forward pass: pure functions on slices, integers only.
//!
//! Activations are `i32` in units of 2^-16. Before a product a vector becomes int8 with one
//! [`Scale`]; products are int8 times int8, summed exactly in `i32`.

use crate::config::Norm;
use crate::fixed::{LONG_MULTIPLY, ONE, Scale, exp2_neg, mul16, root16, shift};
#[cfg(feature = "w4")]
use crate::kernel::w4::Nibbles;
use crate::kernel::{self, Element, NATIVE, Vector, Weights, Wide};
use crate::part::{part_mut, split};

/// Largest `head_dim`; keeps `dot * 8-bit scale` exact in `i32`.
pub const MAX_HEAD_DIM: usize = 512;

/// A matrix of integers with one multiplier per row: the value is
/// `w[r, c] * multiplier[r] * 2^exponent`.
///
/// # Shapes
///
/// - `w`: `[rows, cols]`
/// - `multiplier`: `[rows]`
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Weights.
    pub w: Factor<'a>,
    /// Multipliers of the rows.
    pub multiplier: &'a [u16],
    /// Exponent of all multipliers.
    pub exponent: i32,
}

impl Matrix<'_> {
    /// Returns the scale of a row in activation units; 0 when there is no such row.
    #[must_use]
    pub fn row_scale(&self, row: usize) -> Scale {
        let multiplier = self.multiplier.get(row).copied().map_or(0, u32::from);
        Scale::new(multiplier, self.exponent + ONE.trailing_zeros() as i32)
    }
}

/// The integers of a matrix.
#[derive(Clone, Copy, Debug)]
pub enum Factor<'a> {
    /// int8.
    W8(Weights<'a>),
    /// int4 with a multiplier per row and group of columns.
    #[cfg(feature = "w4")]
    W4(Nibbles<'a>),
}

impl Factor<'_> {
    /// Returns the number of columns.
    #[must_use]
    pub const fn cols(&self) -> usize {
        match self {
            Self::W8(w) => w.cols,
            #[cfg(feature = "w4")]
            Self::W4(w) => w.cols,
        }
    }

    /// Returns by how many bits the largest possible sum is to be cut to have 15 bits and a sign.
    #[must_use]
    pub const fn cut(&self) -> u32 {
        match self {
            Self::W8(w) => 17_u32.saturating_sub((w.cols as u32 * 128 * 127).leading_zeros()),
            // The writer of a blob gives the multipliers as many bits as there are.
            #[cfg(feature = "w4")]
            Self::W4(_) => 16,
        }
    }

    /// Computes the sums of the matrix times a vector.
    pub fn sums(&self, x_q: &[Element], lanes: &mut [u32], out: &mut [i32]) {
        match self {
            Self::W8(w) => kernel::sums(w, Vector::Int8(x_q), lanes, out),
            #[cfg(feature = "w4")]
            Self::W4(w) => kernel::w4::sums(w, x_q, lanes, out),
        }
    }
}

/// A vector of 16-bit integers: the value is `values[i] * 2^exponent`.
#[derive(Clone, Copy, Debug)]
pub struct Gains<'a> {
    /// Integers.
    pub values: &'a [i16],
    /// Exponent of all of them.
    pub exponent: i32,
}

/// The scale of a quantised vector in 16 bits: `mantissa * 2^exponent` activation units.
///
/// The lower byte is the mantissa, the upper byte the exponent plus 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedScale(pub u16);

impl PackedScale {
    /// Returns the mantissa, 0 or 128..=255.
    #[inline]
    #[must_use]
    pub const fn mantissa(self) -> i32 {
        (self.0 & 0xFF) as i32
    }

    /// Returns the exponent.
    #[inline]
    #[must_use]
    pub const fn exponent(self) -> i32 {
        (self.0 >> 8) as i32 - 128
    }

    /// Returns the number as a [`Scale`].
    #[must_use]
    pub const fn unpack(self) -> Scale {
        Scale::new(self.mantissa() as u32, self.exponent())
    }
}

/// Returns the largest magnitude of a vector.
#[must_use]
pub fn max_magnitude(x: &[i32]) -> u32 {
    x.iter().fold(0, |max, &x| max.max(x.unsigned_abs()))
}

/// Quantises a vector to int8 and returns its scale: `x[i]` is close to `x_q[i] * scale`.
///
/// # Numerics
///
/// The scale is the largest magnitude / 127, rounded up to an 8-bit mantissa, so that every element
/// is within -127..=127 and a cached vector needs two bytes for its scale. Rounds to the nearest.
///
/// Vectors of different lengths end with the shorter one, here and below.
pub fn quantize(x: &[i32], x_q: &mut [Element]) -> PackedScale {
    quantize_within(x, max_magnitude(x), x_q)
}

/// Returns the same as [`quantize`] of a vector whose largest magnitude is known.
#[inline(never)]
pub(crate) fn quantize_within(x: &[i32], max: u32, x_q: &mut [Element]) -> PackedScale {
    debug_assert_eq!(x.len(), x_q.len());
    if max == 0 {
        x_q.fill(0);
        return PackedScale(0);
    }

    // 2^14 <= max / 2^exponent < 2^15; the mantissa is that / 127, rounded up
    let mut exponent = 17 - max.leading_zeros() as i32;
    let scaled = if exponent > 0 {
        ((max - 1) >> exponent) + 1
    } else {
        max << -exponent
    };
    // scaled / 127, rounded up: exact for the 16 bits there are
    let mut mantissa = ((scaled + 126) * 33_027) >> 22;
    if mantissa > 255 {
        mantissa = mantissa.div_ceil(2);
        exponent += 1;
    }

    // |x / 2^exponent| <= 127 * mantissa < 2^15, and reciprocal <= 2^16: the product has 31 bits
    let reciprocal = i32::from(RECIPROCAL[mantissa as usize % 128]) + 1;
    let step = |scaled: i32| ((scaled * reciprocal + (1 << 22)) >> 23) as Element;
    let pairs = x_q.iter_mut().zip(x);
    if exponent > 0 {
        let right = exponent as u32 & 31;
        pairs.for_each(|(x_q, &x)| *x_q = step(x >> right));
    } else {
        let left = exponent.unsigned_abs() & 31;
        pairs.for_each(|(x_q, &x)| *x_q = step(x << left));
    }
    PackedScale(((exponent + 128) << 8) as u16 | mantissa as u16)
}

/// `2^23 / mantissa - 1` for the mantissas from 128 to 255; small cores divide slowly.
static RECIPROCAL: [u16; 128] = {
    let mut table = [0; 128];
    let mut i = 0;
    while i < 128 {
        table[i] = ((1 << 23) / (128 + i) - 1) as u16;
        i += 1;
    }
    table
};

/// Multiplies a matrix by an int8 vector and adds a bias.
///
/// # Shapes
///
/// - `w`: `[rows, cols]`; `bias`: `[rows]`, activation units
/// - `x_q`: `[cols]`
/// - `lanes`: scratch, [`lanes_len`](kernel::lanes_len) of `cols`
/// - `out`: `[rows]`, activation units
///
/// # Numerics
///
/// `out[r] = (Σ w[r, c] * x_q[c]) * multiplier[r] * 2^exponent * x_scale + bias[r]`; the sum is
/// exact, the product with the multiplier is cut to 31 bits, the result saturates.
#[inline(never)]
pub fn matvec(
    w: &Matrix<'_>,
    x_q: &[Element],
    x_scale: Scale,
    bias: Option<&[i32]>,
    lanes: &mut [u32],
    out: &mut [i32],
) {
    debug_assert_eq!(x_q.len(), w.w.cols());
    debug_assert_eq!(out.len(), w.multiplier.len());
    w.w.sums(x_q, lanes, out);

    let cut = w.w.cut();
    let scale = x_scale.shl(w.exponent + cut as i32);
    let mask = (1 << cut) - 1;
    let product = |sum: i32, &multiplier: &u16| {
        if LONG_MULTIPLY {
            return ((i64::from(sum) * i64::from(multiplier)) >> cut) as i32;
        }
        let low = (sum as u32 & mask) * u32::from(multiplier);
        (sum >> cut) * i32::from(multiplier) + (low >> cut) as i32
    };
    let rows = out.iter_mut().zip(w.multiplier);
    if cfg!(kernel = "m0") {
        // Eight registers do for one half of this at a time.
        rows.for_each(|(out, multiplier)| *out = product(*out, multiplier));
        scale.apply_all(out.iter_mut().map(|out| (out, ())), |product, ()| product);
    } else {
        scale.apply_all(rows, product);
    }
    if let Some(bias) = bias {
        add(out, bias);
    }
}

/// Adds `y` to `x`; saturates.
pub fn add(x: &mut [i32], y: &[i32]) {
    debug_assert_eq!(x.len(), y.len());
    for (x, &y) in x.iter_mut().zip(y) {
        *x = x.saturating_add(y);
    }
}

/// Added to the variance (or the mean square) before the root: 1e-5 in units of 2^-32.
const NORM_EPS: u64 = 42_950;

/// Normalises a vector and quantises it; returns the scale.
///
/// # Shapes
///
/// - `x`, `gain`, `bias`, `out`, `x_q`: `[d_model]`; `out` is scratch
///
/// # Numerics
///
/// `(x - mean) / sqrt(mean((x - mean)^2) + 1e-5) * gain + bias`; for [`Norm::RmsNorm`] the mean is
/// taken as 0. The root divides the scale, not the elements: one root and one division per vector.
#[inline(never)]
pub fn norm(
    kind: Norm,
    x: &[i32],
    gain: Gains<'_>,
    bias: Option<Gains<'_>>,
    out: &mut [i32],
    x_q: &mut [Element],
) -> Scale {
    debug_assert_eq!(x.len(), out.len());
    debug_assert_eq!(x.len(), gain.values.len());
    let n = (x.len() as u32).max(1);
    let mean = match kind {
        Norm::LayerNorm => {
            let sum: i64 = x.iter().map(|&x| i64::from(x)).sum();
            (sum / i64::from(n)) as i32
        }
        Norm::RmsNorm => 0,
    };
    for (out, &x) in out.iter_mut().zip(x) {
        *out = x.saturating_sub(mean);
    }

    // 14 bits are kept, so that squares and products with the gain fit
    let cut = 18_u32.saturating_sub(max_magnitude(out).leading_zeros());
    let mut square_sum = 0_u64;
    for out in out.iter_mut() {
        *out >>= cut;
        square_sum += u64::from((*out * *out) as u32);
    }
    let eps = NORM_EPS.checked_shr(2 * cut).unwrap_or(0);
    // The mean of squares of 14 bits and a sign has 28 bits.
    let root = root16((square_sum / u64::from(n) + eps) as u32).max(1);

    // numerators, in units of gain.exponent; the denominator is root / 2^8
    let mut max = 0;
    match bias {
        None => {
            for (out, &gain) in out.iter_mut().zip(gain.values) {
                *out *= i32::from(gain);
                max = max.max(out.unsigned_abs());
            }
        }
        Some(bias) => {
            debug_assert_eq!(x.len(), bias.values.len());
            let right = gain.exponent - bias.exponent;
            let root = (root >> 8) as i32;
            let gains = gain.values.iter().zip(bias.values);
            for (out, (&gain, &bias)) in out.iter_mut().zip(gains) {
                *out = (*out * i32::from(gain))
                    .saturating_add(shift(root.saturating_mul(i32::from(bias)), right));
                max = max.max(out.unsigned_abs());
            }
        }
    }
    let scale = quantize_within(out, max, x_q).unpack().div(root);
    scale.shl(gain.exponent + 8 + ONE.trailing_zeros() as i32)
}

/// Rotates the pairs (2i, 2i+1) of each head by the angle i (`RoFormer`, equation 34).
///
/// # Shapes
///
/// - `x`: `[heads, head_dim]`
/// - `sin_cos`: `[head_dim / 2, 2]`, sine and cosine of each angle in units of 2^-15
pub fn rotate(x: &mut [i32], sin_cos: &[i32]) {
    let (angles, _) = sin_cos.as_chunks::<2>();
    for head in x.chunks_exact_mut(sin_cos.len().max(1)) {
        let (pairs, _) = head.as_chunks_mut::<2>();
        for (pair, &[sin, cos]) in pairs.iter_mut().zip(angles) {
            let [a, b] = *pair;
            *pair = [
                mul15(a, cos).saturating_sub(mul15(b, sin)),
                mul15(a, sin).saturating_add(mul15(b, cos)),
            ];
        }
    }
}

/// Returns `a * b / 2^15` for a factor `b` in -2^15..=2^15, cut to even numbers.
#[inline]
fn mul15(a: i32, b: i32) -> i32 {
    let product = mul16(a, b.unsigned_abs() as u16).saturating_mul(2);
    if b < 0 { -product } else { product }
}

/// Keys and values of one head, int8 with one scale for each position.
///
/// # Shapes
///
/// - `k`: `[n, head_dim]`; `v`: `[head_dim, n]`
/// - `k_scale`, `v_scale`: `[n]`, each a [`PackedScale`]
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
    log2_e.div(root16((head_dim as u32) << 4)).shl(10)
}

/// Computes scaled dot-product attention of one query over the past
/// ("Attention Is All You Need", section 3.2.1).
///
/// # Shapes
///
/// - `q_q`: `[head_dim]`, with scale `q_scale`; `factor`: [`score_factor`]
/// - `past`: `n` positions
/// - `out`: `[head_dim]`, activation units
///
/// # Numerics
///
/// `out = Σ softmax(q·k[t] / sqrt(head_dim))[t] * v[t]`. Scores are octaves in units of 2^-16;
/// the weights are powers of two by shift and table, relative to the largest, of 15 bits, with the
/// scale of their value folded in. They are not normalised: one reciprocal per head divides the
/// sums. For more than 512 positions the weights lose as many bits as the sum needs.
#[inline(never)]
pub fn attend(
    q_q: &[Element],
    q_scale: PackedScale,
    factor: Scale,
    past: &Past<'_>,
    scratch: &mut AttendScratch<'_>,
    out: &mut [i32],
) {
    let head_dim = q_q.len();
    let n = past.k_scale.len();
    let scores = part_mut(scratch.scores, 0, n);
    let weights = part_mut(scratch.weights, 0, NATIVE.row_len(n));
    debug_assert_eq!(out.len(), head_dim);
    debug_assert!(head_dim <= MAX_HEAD_DIM);

    // scores: [n]; both vectors are in units of 2^-16, the score too
    let factor = factor.mul(q_scale.unpack()).shl(-16);
    kernel::sums(&past.k, Vector::Int8(q_q), scratch.lanes, scores);
    let max = scale_scores(scores, past.k_scale, factor);

    // unnormalised softmax: [n]
    let top = past.v_scale.iter().fold(0, |top, &scale| top.max(scale));
    let top = u32::from(top >> 8);
    let spare = ((n as u32 - 1) >> 9)
        .checked_ilog2()
        .map_or(0, |bits| bits + 1);
    let sum = weigh(scores, max, past.v_scale, 8 + spare + top, weights);

    // weighted sum of the values: [head_dim]
    kernel::sums(&past.v, Vector::Int16(weights), scratch.lanes, out);
    let v_exponent = top as i32 - 128;
    let scale = Scale::new(1, v_exponent + 8 + spare as i32).div(sum);
    scale.apply_all(out.iter_mut().map(|out| (out, ())), |sum, ()| sum);
}

/// Turns products of a query with keys into scores; returns the largest.
#[inline(never)]
fn scale_scores(scores: &mut [i32], k_scale: &[u16], factor: Scale) -> i32 {
    if factor == Scale::ZERO {
        scores.fill(0);
        return 0;
    }
    let mut max = i32::MIN;
    for (score, &k_scale) in scores.iter_mut().zip(k_scale) {
        let k_scale = PackedScale(k_scale);
        *score = factor.apply_shl(*score * k_scale.mantissa(), k_scale.exponent());
        max = max.max(*score);
    }
    max
}

/// Turns scores into weights, the scale of the values included; returns the sum without it.
///
/// `right_at_0` is how far a weight is shifted to the right for a scale with exponent byte 0.
#[inline(never)]
fn weigh(scores: &[i32], max: i32, v_scale: &[u16], right_at_0: u32, weights: &mut [Wide]) -> u32 {
    let (weights, beyond) = split(weights, scores.len());
    beyond.fill(0);
    let mut sum = 0;
    for ((weight, &score), &v_scale) in weights.iter_mut().zip(scores).zip(v_scale) {
        let e = u32::from(exp2_neg(max.wrapping_sub(score).cast_unsigned()));
        sum += e;
        let product = e * u32::from(v_scale & 0xFF);
        let right = right_at_0 - u32::from(v_scale >> 8);
        // The product has 23 bits.
        *weight = (product >> right.min(31)) as Wide;
    }
    sum
}

/// Squares the positive elements and zeroes the others; returns the exponent of the result's unit
/// relative to activation units.
pub fn relu2(x: &mut [i32]) -> i32 {
    let max = x.iter().fold(0, |max, &x| max.max(x));
    // 15 bits are kept, so that the squares fit
    let cut = 17_u32.saturating_sub(max.leading_zeros());
    for x in x.iter_mut() {
        let positive = (*x).max(0) >> cut;
        *x = positive * positive;
    }
    2 * cut as i32 - ONE.trailing_zeros() as i32
}

/// Multiplies two vectors of activations into the first; saturates.
pub fn multiply(x: &mut [i32], y: &[i32]) {
    for (x, &y) in x.iter_mut().zip(y) {
        let product = (i64::from(*x) * i64::from(y)) >> ONE.trailing_zeros();
        *x = product.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    }
}
