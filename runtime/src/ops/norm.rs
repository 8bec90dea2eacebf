//! Normalisation of a vector.

use super::quantize;
use crate::config::Norm;
use crate::fixed::{ONE, Scale, divide, leading_zeros, magnitude, shift};
use crate::kernel::Element;
use crate::kernel::passes;

/// A vector of 16-bit integers: the value is `values[i] * 2^exponent`.
#[derive(Clone, Copy, Debug)]
pub struct Gains<'a> {
    /// Integers.
    pub values: &'a [i16],
    /// Exponent of all of them.
    pub exponent: i32,
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
    let cut = 18_u32.saturating_sub(leading_zeros(passes::norm_bits(x)));
    let (sum, mut square_sum) = passes::norm_sums(x, cut);
    let mean = match kind {
        Norm::LayerNorm => {
            let mean = divide(sum.unsigned_abs(), n) as i32;
            if sum < 0 { -mean } else { mean }
        }
        Norm::RmsNorm => 0,
    };
    // Σ (x - mean)^2
    let twice = i64::from(2 * sum - n as i32 * mean) * i64::from(mean);
    square_sum = square_sum.wrapping_sub(twice.cast_unsigned());
    // A division of 32 bits does.
    let high = (square_sum >> 32) as u32;
    let spare = 32 - leading_zeros(high);
    let mean_square = divide((square_sum >> spare) as u32, n) << spare;
    let eps = NORM_EPS.checked_shr(2 * cut).unwrap_or(0) as u32;
    let root = Scale::root(mean_square.saturating_add(eps));

    // numerators, in units of gain.exponent; the denominator is the root
    let max = match bias {
        None => passes::norm_products(x, cut, mean, gain.values, out),
        Some(bias) => {
            debug_assert_eq!(x.len(), bias.values.len());
            let right = gain.exponent - bias.exponent;
            let root = shift(root.mantissa() as i32, -root.exponent());
            let gains = gain.values.iter().zip(bias.values);
            let mut max = 0;
            for ((out, &x), (&gain, &bias)) in out.iter_mut().zip(x).zip(gains) {
                *out = (((x >> cut) - mean) * i32::from(gain))
                    .saturating_add(shift(root.saturating_mul(i32::from(bias)), right));
                max = max.max(magnitude(*out));
            }
            max
        }
    };
    let scale = quantize(out, max, x_q).divided_by(root);
    scale.shl(gain.exponent + ONE.trailing_zeros() as i32)
}
