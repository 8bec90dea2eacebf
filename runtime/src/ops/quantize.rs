//! A vector as int8 with one scale.

use crate::fixed::{Scale, leading_zeros, magnitude};
use crate::kernel::Element;
use crate::kernel::passes::narrow;

/// The scale of a cached vector in 16 bits: `mantissa * 2^(TOP - right)` activation units.
///
/// The lower byte is the mantissa, the upper five bits are `right`; so the smaller number is the
/// larger scale, up to the mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadScale(pub u16);

impl HeadScale {
    /// Exponent of the largest scales.
    pub(super) const TOP: i32 = 10;
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
        narrow(x, 31, 0, 16, x_q);
        return Scale::ZERO;
    }
    let (exponent, scaled) = fifteen_bits(max);
    let (mantissa, carry) = mantissa_127(scaled);
    let carry = u32::from(carry);
    narrow(x, exponent, reciprocal(mantissa), 23 + carry, x_q);
    Scale::new(mantissa as u32, exponent + carry as i32)
}

/// Returns `2^23 / mantissa`, rounded down, for the mantissas from 128 to 255.
pub(crate) fn reciprocal(mantissa: usize) -> u32 {
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
        narrow(x, 31, 0, 16, x_q);
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
