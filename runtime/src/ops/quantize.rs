//! A vector as int8 with one scale.

use crate::fixed::{Scale, magnitude};
use crate::kernel::Element;
use crate::kernel::passes;

/// The scale of a cached vector in 16 bits: `mantissa * 2^(TOP - right)` activation units.
///
/// The lower byte is the mantissa, the upper five bits are `right`; so the smaller number is the
/// larger scale, up to the mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadScale(pub u16);

impl HeadScale {
    /// Exponent of the largest scales.
    pub(crate) const TOP: i32 = 10;
    /// Shift of the smallest scales; keeps the shift of an attention weight below 32.
    pub(crate) const LEAST: i32 = 19;
    /// The largest scale.
    const MAX: Self = Self(255);

    /// Joins what [`passes::quantize`] returns.
    pub(crate) const fn new(mantissa: u32, right: i32) -> Self {
        if right < 0 {
            return Self::MAX;
        }
        Self((right << 11) as u16 | mantissa as u16)
    }

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
    // A unit of 2^16: no scale is too small for a head's then.
    let (mantissa, right) = passes::quantize(x, max, 1 << 16, 0, x_q);
    Scale::of_byte(mantissa, HeadScale::TOP - 16 - right)
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
    let (mantissa, right) = passes::quantize(x, max, unit.mantissa(), unit.exponent(), x_q);
    HeadScale::new(mantissa, right)
}
