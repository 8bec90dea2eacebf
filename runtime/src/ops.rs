//! The operations of a forward pass: pure functions on slices, integers only.
//!
//! Activations are `i32` in units of 2^-16. Before a product a vector becomes int8 with one
//! [`Scale`]; products are int8 times int8, summed exactly in `i32`.

use crate::config::Norm;
use crate::fixed::{self, ONE, Scale, exp2_table, leading_zeros, magnitude, shift};
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

    /// Returns the value of 1 in the result of [`products`] when that of 1 in the vector is known.
    #[must_use]
    pub const fn unit(&self, x_scale: Scale) -> Scale {
        x_scale.shl(self.exponent + self.w.cut() as i32)
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
            Self::W8(w) => 17_u32.saturating_sub(leading_zeros(w.cols as u32 * 128 * 127)),
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

/// The scale of a cached vector in 16 bits: `mantissa * 2^(TOP - right)` activation units.
///
/// The lower byte is the mantissa, the upper five bits are `right`; so the smaller number is the
/// larger scale, up to the mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadScale(pub u16);

impl HeadScale {
    /// Exponent of the largest scales.
    const TOP: i32 = 10;
    /// Shift of the smallest scales; keeps the shift of an attention weight below 32.
    const LEAST: i32 = 19;
    /// Scale of a vector of zeros.
    const ZERO: Self = Self((Self::LEAST as u16) << 11);
    /// The largest scale.
    const MAX: Self = Self(255);

    /// Returns the mantissa, 0 or 128..=255.
    #[inline]
    #[must_use]
    pub const fn mantissa(self) -> i32 {
        (self.0 & 0xFF) as i32
    }

    /// Returns the power of two by which the largest scales are larger.
    #[inline]
    #[must_use]
    pub const fn right(self) -> u32 {
        (self.0 >> 11) as u32
    }
}

/// Returns the largest magnitude of a vector, see [`magnitude`].
#[must_use]
pub fn max_magnitude(x: &[i32]) -> u32 {
    x.iter().fold(0, |max, &x| max.max(magnitude(x)))
}

/// Returns the 8-bit mantissa of `scaled / 127`, rounded up, for 15 bits with the top one set.
fn mantissa_127(scaled: u32) -> (usize, bool) {
    // exact for the 16 bits there are
    let mantissa = ((scaled + 126) * 33_027) >> 22;
    if mantissa > 255 {
        (mantissa.div_ceil(2) as usize, true)
    } else {
        (mantissa as usize, false)
    }
}

/// Returns the shift that leaves 15 bits of a magnitude, and those bits, rounded up.
fn fifteen_bits(max: u32) -> (i32, u32) {
    // A magnitude may be one more than `max`.
    let max = max + 1;
    let exponent = 17 - leading_zeros(max) as i32;
    let scaled = if exponent > 0 {
        ((max - 1) >> exponent) + 1
    } else {
        max << -exponent
    };
    (exponent, scaled)
}

/// Quantises a vector to int8 and returns its scale: `x[i]` is close to `x_q[i] * scale`.
///
/// `max` is its [`max_magnitude`].
///
/// # Numerics
///
/// The scale is the largest magnitude / 127, rounded up to an 8-bit mantissa, so that every element
/// is within -127..=127. Rounds to the nearest.
///
/// Vectors of different lengths end with the shorter one, here and below.
pub fn quantize(x: &[i32], max: u32, x_q: &mut [Element]) -> Scale {
    if max == 0 {
        x_q.fill(0);
        return Scale::ZERO;
    }
    let (exponent, scaled) = fifteen_bits(max);
    let (mantissa, carry) = mantissa_127(scaled);
    let carry = u32::from(carry);
    narrow(x, exponent, reciprocal(mantissa), 23 + carry, x_q);
    Scale::new(mantissa as u32, exponent + carry as i32)
}

/// Returns `2^23 / mantissa`, rounded down, for the mantissas from 128 to 255.
fn reciprocal(mantissa: usize) -> u32 {
    u32::from(RECIPROCAL[mantissa % 128]) + 1
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

/// Writes `x / 2^exponent * factor / 2^right`, to the nearest.
#[inline(never)]
fn narrow(x: &[i32], exponent: i32, factor: u32, right: u32, x_q: &mut [Element]) {
    debug_assert_eq!(x.len(), x_q.len());
    // |x / 2^exponent| has 15 bits, the factor 16 and a byte of result is left: 31 bits in all.
    let half = 1 << (right - 1);
    let step = |scaled: i32| ((scaled * factor as i32 + half) >> right) as Element;
    if exponent > 0 {
        by_fours(x, x_q, |x| step(x >> exponent));
    } else {
        for (x_q, &x) in x_q.iter_mut().zip(x) {
            *x_q = step(x << -exponent);
        }
    }
}

/// Writes `f` of each element, four in a turn: loads in a row are cheaper.
#[inline]
fn by_fours(x: &[i32], x_q: &mut [Element], f: impl Fn(i32) -> Element) {
    let (fours, rest) = x.as_chunks::<4>();
    let (fours_q, rest_q) = x_q.as_chunks_mut::<4>();
    for (x_q, &x) in fours_q.iter_mut().zip(fours) {
        *x_q = x.map(&f);
    }
    for (x_q, &x) in rest_q.iter_mut().zip(rest) {
        *x_q = f(x);
    }
}

/// Quantises a query, key or value to int8 and returns its scale in 16 bits.
///
/// `max` is its [`max_magnitude`]; 1 in `x` stands for `unit` activation units.
///
/// # Numerics
///
/// As [`quantize`]. A vector too small for a scale is taken as zeros, that is one whose elements are
/// below 5e-4; one with elements above 506 keeps its direction.
pub fn quantize_head(x: &[i32], max: u32, unit: Scale, x_q: &mut [Element]) -> HeadScale {
    let (exponent, scaled) = fifteen_bits(max);
    // The product of 15 and 16 bits, cut to 15 again and rounded up.
    let product = scaled.wrapping_mul(unit.mantissa());
    let cut = if product > 1 << 30 { 16 } else { 15 };
    let (mantissa, carry) = mantissa_127((product.wrapping_sub(1) >> cut) + 1);
    let right = HeadScale::TOP - (exponent + unit.exponent() + cut + i32::from(carry));
    if max == 0 || product == 0 || right > HeadScale::LEAST {
        x_q.fill(0);
        return HeadScale::ZERO;
    }
    let factor = (reciprocal(mantissa) * (unit.mantissa() >> 1)) >> 15;
    narrow(
        x,
        exponent,
        factor,
        (cut + 7) as u32 + u32::from(carry),
        x_q,
    );
    if right < 0 {
        return HeadScale::MAX;
    }
    HeadScale((right << 11) as u16 | mantissa as u16)
}

/// Multiplies a matrix by an int8 vector: the sums before any scale.
///
/// # Shapes
///
/// - `w`: `[rows, cols]`
/// - `x_q`: `[cols]`
/// - `lanes`: scratch, [`lanes_len`](kernel::lanes_len) of `cols`
/// - `out`: `[rows]`
pub fn sums(w: &Matrix<'_>, x_q: &[Element], lanes: &mut [u32], out: &mut [i32]) {
    debug_assert_eq!(x_q.len(), w.w.cols());
    debug_assert_eq!(out.len(), w.multiplier.len());
    w.w.sums(x_q, lanes, out);
}

/// Multiplies sums by the multipliers of their rows, `first_row` on, in units of [`Matrix::unit`];
/// returns the [`max_magnitude`].
///
/// # Numerics
///
/// `out[r] = out[r] / 2^cut * multiplier[r]`, the first to the nearest; the product has 31 bits.
#[inline(never)]
pub fn products(w: &Matrix<'_>, first_row: usize, out: &mut [i32]) -> u32 {
    let cut = w.w.cut();
    let half = (1 << cut) >> 1;
    let multipliers = w.multiplier.get(first_row..).unwrap_or_default();
    let mut max = 0;
    for (out, &multiplier) in out.iter_mut().zip(multipliers) {
        *out = (out.wrapping_add(half) >> cut) * i32::from(multiplier);
        max = max.max(magnitude(*out));
    }
    max
}

/// How sums become activations: cut, times a multiplier that carries the vector's scale, shifted.
#[derive(Clone, Copy)]
struct Rescale {
    cut: u32,
    /// Half of what is cut.
    half: i32,
    factor: u32,
    right: i32,
}

impl Rescale {
    const fn new(w: &Matrix<'_>, x_scale: Scale) -> Self {
        let unit = w.unit(x_scale);
        Self {
            cut: w.w.cut(),
            half: (1 << w.w.cut()) >> 1,
            factor: unit.mantissa(),
            right: -(unit.exponent() + 16),
        }
    }

    /// Returns the shift when it is one to the right.
    const fn right(self) -> Option<u32> {
        match self.right {
            ..0 => None,
            0..=31 => Some(self.right as u32),
            _ => Some(31),
        }
    }

    /// Returns the result before the last shift; it has 31 bits.
    #[inline]
    const fn product(self, sum: i32, multiplier: u16) -> i32 {
        (sum.wrapping_add(self.half) >> self.cut) * ((multiplier as u32 * self.factor) >> 16) as i32
    }

    /// Replaces each sum by `finish` of its activation; returns the [`max_magnitude`] of that.
    #[inline]
    fn all(self, w: &Matrix<'_>, right: u32, sums: &mut [i32], finish: impl Fn(i32) -> i32) -> u32 {
        let mut max = 0;
        for (sum, &multiplier) in sums.iter_mut().zip(w.multiplier) {
            *sum = finish(self.product(*sum, multiplier) >> right);
            max = max.max(magnitude(*sum));
        }
        max
    }

    /// Replaces each sum by its activation with the bias, for any shift.
    #[inline(never)]
    fn any(self, w: &Matrix<'_>, bias: Option<&[i32]>, sums: &mut [i32]) {
        for (sum, &multiplier) in sums.iter_mut().zip(w.multiplier) {
            *sum = shift(self.product(*sum, multiplier), self.right.min(31));
        }
        if let Some(bias) = bias {
            add(sums, bias);
        }
    }
}

/// What [`matvec`] does with each element at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Nothing.
    Linear,
    /// `max(x, 0)`.
    Relu,
    /// [`gelu`](fixed::gelu).
    Gelu,
}

/// Multiplies a matrix by an int8 vector, adds a bias and applies a function; returns the
/// [`max_magnitude`].
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
/// exact, its product with the multiplier is cut to 31 bits, the result saturates.
#[inline(never)]
pub fn matvec(
    w: &Matrix<'_>,
    x_q: &[Element],
    x_scale: Scale,
    bias: Option<&[i32]>,
    finish: Finish,
    lanes: &mut [u32],
    out: &mut [i32],
) -> u32 {
    sums(w, x_q, lanes, out);
    let rescale = Rescale::new(w, x_scale);
    match (rescale.right(), bias) {
        (Some(right), None) => match finish {
            Finish::Linear => rescale.all(w, right, out, |x| x),
            Finish::Relu => rescale.all(w, right, out, fixed::relu),
            Finish::Gelu => rescale.all(w, right, out, fixed::gelu),
        },
        _ => {
            rescale.any(w, bias, out);
            match finish {
                Finish::Linear => {}
                Finish::Relu => out.iter_mut().for_each(|x| *x = fixed::relu(*x)),
                Finish::Gelu => out.iter_mut().for_each(|x| *x = fixed::gelu(*x)),
            }
            max_magnitude(out)
        }
    }
}

/// Adds a matrix times an int8 vector, and a bias, to activations; see [`matvec`].
///
/// # Shapes
///
/// - `out`: scratch, `[rows]`
/// - `x`: `[rows]`, activation units
#[inline(never)]
pub fn matvec_add(
    w: &Matrix<'_>,
    x_q: &[Element],
    x_scale: Scale,
    bias: Option<&[i32]>,
    lanes: &mut [u32],
    out: &mut [i32],
    x: &mut [i32],
) {
    sums(w, x_q, lanes, out);
    let rescale = Rescale::new(w, x_scale);
    if let (Some(right), None) = (rescale.right(), bias) {
        for ((x, &mut sum), &multiplier) in x.iter_mut().zip(out).zip(w.multiplier) {
            *x = x.saturating_add(rescale.product(sum, multiplier) >> right);
        }
    } else {
        rescale.any(w, bias, out);
        add(x, out);
    }
}

/// Adds `y` to `x`; saturates.
#[inline(never)]
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
/// `(x - mean) / sqrt(mean((x - mean)^2) + 1e-5) * gain + bias`, of the 14 upper bits of the largest
/// element; for [`Norm::RmsNorm`] the mean is taken as 0. The root divides the scale, not the
/// elements: one root and one division per vector.
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

    // 14 bits are kept, so that squares and products with the gain fit
    let bits = x.iter().fold(0, |bits, &x| bits | magnitude(x));
    let cut = 18_u32.saturating_sub(leading_zeros(bits));
    let (mut sum, mut square_sum) = (0, 0_u64);
    for &x in x {
        let x = x >> cut;
        sum += x;
        square_sum += u64::from((x * x) as u32);
    }
    let mean = match kind {
        Norm::LayerNorm => sum / n as i32,
        Norm::RmsNorm => 0,
    };
    // Σ (x - mean)^2
    let twice = i64::from(2 * sum - n as i32 * mean) * i64::from(mean);
    square_sum = square_sum.wrapping_sub(twice.cast_unsigned());
    // A division of 32 bits does; small cores divide slowly.
    let high = (square_sum >> 32) as u32;
    let spare = 32 - leading_zeros(high);
    let mean_square = ((square_sum >> spare) as u32 / n) << spare;
    let eps = NORM_EPS.checked_shr(2 * cut).unwrap_or(0) as u32;
    let root = Scale::root(mean_square.saturating_add(eps));

    // numerators, in units of gain.exponent; the denominator is the root
    let mut max = 0;
    match bias {
        None => {
            for ((out, &x), &gain) in out.iter_mut().zip(x).zip(gain.values) {
                *out = ((x >> cut) - mean) * i32::from(gain);
                max = max.max(magnitude(*out));
            }
        }
        Some(bias) => {
            debug_assert_eq!(x.len(), bias.values.len());
            let right = gain.exponent - bias.exponent;
            let root = shift(root.mantissa() as i32, -root.exponent());
            let gains = gain.values.iter().zip(bias.values);
            for ((out, &x), (&gain, &bias)) in out.iter_mut().zip(x).zip(gains) {
                *out = (((x >> cut) - mean) * i32::from(gain))
                    .saturating_add(shift(root.saturating_mul(i32::from(bias)), right));
                max = max.max(magnitude(*out));
            }
        }
    }
    let scale = quantize(out, max, x_q).div(root);
    scale.shl(gain.exponent + ONE.trailing_zeros() as i32)
}

/// Rotates the pairs (2i, 2i+1) of a head by the angle i (`RoFormer`, equation 34).
///
/// Returns the [`max_magnitude`] of the result, and the exponent of its unit relative to that of
/// `x`. `max` is the [`max_magnitude`] of `x`.
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
    log2_e.div(Scale::root(head_dim as u32))
}

/// Computes scaled dot-product attention of one query over the past
/// ("Attention Is All You Need", section 3.2.1); returns the [`max_magnitude`] of the result.
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
    let max = scale_scores(scores, past.k_scale);

    // unnormalised softmax: [n]
    let largest = past.v_scale.iter().fold(u16::MAX, |x, &y| x.min(y));
    let largest = HeadScale(largest).right();
    let spare = 32 - leading_zeros((n as u32 - 1) >> 9);
    // Both vectors are in units of 2^-16.
    let unit = Scale::new(
        q_scale.mantissa() as u32,
        2 * (HeadScale::TOP - 16) - q_scale.right() as i32,
    );
    let octaves = Octaves::new(factor.mul(unit));
    // The shift of a value's scale, which is not smaller, is added.
    let right = (8 + spare).wrapping_sub(largest);
    let sum = weigh(scores, max, octaves, past.v_scale, right, weights);

    // weighted sum of the values: [head_dim]
    kernel::sums(&past.v, Vector::Int16(weights), scratch.lanes, out);
    let exponent = HeadScale::TOP - largest as i32 + 8 + spare as i32;
    Scale::new(1, exponent)
        .div(Scale::new(sum, 0))
        .apply_all(out)
}

/// Multiplies products of a query with keys by the scales of the keys; returns the largest.
#[inline(never)]
fn scale_scores(scores: &mut [i32], k_scale: &[u16]) -> i32 {
    let mut max = i32::MIN;
    for (score, &k_scale) in scores.iter_mut().zip(k_scale) {
        let k_scale = HeadScale(k_scale);
        *score = (*score * k_scale.mantissa()) >> k_scale.right();
        max = max.max(*score);
    }
    max
}

/// How the distance of a score from the largest becomes octaves in units of 2^-28.
#[derive(Clone, Copy)]
struct Octaves {
    /// The distance is cut by these bits,
    cut: u32,
    /// at most this then, which is more than 15.7 octaves,
    limit: u32,
    /// and multiplied by this.
    factor: u32,
}

impl Octaves {
    /// `unit` is the value of 1, in octaves.
    fn new(unit: Scale) -> Self {
        let mantissa = unit.mantissa();
        // Below 2^32 / (mantissa + 256), so that the product with the mantissa has 32 bits.
        let limit = 2 * reciprocal(mantissa as usize >> 8);
        let limit = limit - (limit >> 7) - 10;
        let left = unit.exponent() + 28;
        if left < 0 {
            Self {
                cut: left.unsigned_abs().min(31),
                limit,
                factor: mantissa,
            }
        } else {
            let left = left.min(16);
            Self {
                cut: 0,
                limit: limit >> left,
                factor: mantissa << left,
            }
        }
    }
}

/// Turns scores into weights, the scale of the values included; returns the sum without it.
///
/// `right` is how far a weight is shifted to the right beside the shift of its value's scale.
#[inline(never)]
fn weigh(
    scores: &[i32],
    max: i32,
    octaves: Octaves,
    v_scale: &[u16],
    right: u32,
    weights: &mut [Wide],
) -> u32 {
    let (weights, beyond) = split(weights, scores.len());
    beyond.fill(0);
    let Octaves { cut, limit, factor } = octaves;
    let mut sum = 0;
    for ((weight, &score), &v_scale) in weights.iter_mut().zip(scores).zip(v_scale) {
        let distance = max.wrapping_sub(score).cast_unsigned() >> cut;
        *weight = if distance <= limit {
            // The distance in units of 2^-28 octaves, of which the table has 256 steps.
            let d = distance.wrapping_mul(factor);
            let e = exp2_table(d >> 20) >> (d >> 28);
            sum += e;
            let v_scale = HeadScale(v_scale);
            // The product has 23 bits, the shift is below 32.
            let product = e * v_scale.mantissa() as u32;
            product.wrapping_shr(right.wrapping_add(v_scale.right())) as Wide
        } else {
            0
        };
    }
    sum
}

/// Squares elements that are not negative; returns the exponent of the result's unit relative to
/// activation units, and its [`max_magnitude`]. `max` is that of `x`.
pub fn square(x: &mut [i32], max: u32) -> (i32, u32) {
    // 15 bits are kept, so that the squares fit
    let cut = 17_u32.saturating_sub(leading_zeros(max));
    for x in x.iter_mut() {
        let cut = *x >> cut;
        *x = cut * cut;
    }
    let max = max >> cut;
    (2 * cut as i32 - ONE.trailing_zeros() as i32, max * max)
}

/// Multiplies `x` by `silu(gate)`; returns as [`square`] does. The maxima are those of `x` and
/// `gate`.
pub fn multiply_silu(x: &mut [i32], max: u32, gate: &[i32], gate_max: u32) -> (i32, u32) {
    // 15 bits are kept of each, so that the products fit
    let cut = 17_u32.saturating_sub(leading_zeros(max));
    let gate_cut = 17_u32.saturating_sub(leading_zeros(gate_max));
    let mut max = 0;
    for (x, &gate) in x.iter_mut().zip(gate) {
        *x = (*x >> cut) * (fixed::silu(gate) >> gate_cut);
        max = max.max(magnitude(*x));
    }
    ((cut + gate_cut) as i32 - ONE.trailing_zeros() as i32, max)
}
