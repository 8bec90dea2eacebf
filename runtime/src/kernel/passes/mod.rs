//! What runs over the elements of a vector between two matrices.
//!
//! The functions of `plain` are the definition; small cores have nearly each of them in assembly as well, with
//! the same results.

pub mod plain;
mod quantize;

#[cfg(kernel = "m0")]
mod m0;
#[cfg(kernel = "m4")]
mod m4;
#[cfg(kernel = "rv32")]
mod rv32;

#[cfg(kernel = "m0")]
use m0 as native;
#[cfg(kernel = "m4")]
use m4 as native;
#[cfg(not(any(kernel = "m0", kernel = "m4", kernel = "rv32")))]
use plain as native;
#[cfg(kernel = "rv32")]
use rv32 as native;

use super::{Element, Wide};
use crate::fixed::Scale;

#[cfg(kernel = "m4")]
pub(super) use m4::{Weigh, chapbook_m4_scale_scores, chapbook_m4_weigh};
pub use plain::{Finish, Octaves, Rescale};

/// Multiplies sums by the multipliers of their rows; returns the largest
/// [`magnitude`](crate::fixed::magnitude).
///
/// # Numerics
///
/// `sums[r] = round(sums[r] / 2^cut) * multiplier[r]`; the product has 31 bits.
#[inline]
pub fn products(sums: &mut [i32], multiplier: &[u16], cut: u32) -> u32 {
    native::products(sums, multiplier, cut)
}

/// Replaces sums by activations and a function of them; returns the largest
/// [`magnitude`](crate::fixed::magnitude).
#[inline]
pub fn rescale(sums: &mut [i32], multiplier: &[u16], by: Rescale, finish: Finish) -> u32 {
    native::rescale(sums, multiplier, by, finish)
}

/// Adds sums, as activations, to `x`; saturates. The sums are scratch afterwards.
#[inline]
pub fn rescale_add(sums: &mut [i32], multiplier: &[u16], by: Rescale, x: &mut [i32]) {
    native::rescale_add(sums, multiplier, by, x);
}

/// Writes a vector as int8, to the nearest, with the smallest scale that keeps it within -127..=127:
/// `x[i]` times the unit is close to `x_q[i] * mantissa * 2^(TOP - right)`.
///
/// Returns `(mantissa, right)`; the mantissa has 8 bits, and `TOP` is that of
/// [`HeadScale`](crate::ops::HeadScale). Zeros, with a mantissa of 0 and the largest `right`, 19, are
/// what a vector of zeros becomes, or one for which `right` would be larger. `max` is the largest
/// [`magnitude`](crate::fixed::magnitude). The unit is `unit_mantissa * 2^unit_exponent`, its mantissa
/// at most 2^16. Vectors of different lengths end with the shorter one.
#[inline]
pub fn quantize(
    x: &[i32],
    max: u32,
    unit_mantissa: u32,
    unit_exponent: i32,
    x_q: &mut [Element],
) -> (u32, i32) {
    native::quantize(x, max, unit_mantissa, unit_exponent, x_q)
}

/// Quantises the [`products`] of the sums of several heads, of which nothing is left to cut, each as
/// [`quantize`] does; the [`HeadScale`](crate::ops::HeadScale) of a head replaces the first of its
/// sums, the others are scratch afterwards.
///
/// Returns whether it has: not where there are fewer multipliers or elements than sums, nor, in assembly,
/// for heads whose length is no multiple of four.
#[inline]
pub fn quantize_heads(
    sums: &mut [i32],
    multiplier: &[u16],
    head_dim: usize,
    unit_mantissa: u32,
    unit_exponent: i32,
    x_q: &mut [Element],
) -> bool {
    native::quantize_heads(
        sums,
        multiplier,
        head_dim,
        unit_mantissa,
        unit_exponent,
        x_q,
    )
}

/// Multiplies each number by a scale, to the nearest; returns the largest
/// [`magnitude`](crate::fixed::magnitude).
#[inline]
pub fn scale(x: &mut [i32], by: Scale) -> u32 {
    native::scale(x, by)
}

/// Returns the bits that any [`magnitude`](crate::fixed::magnitude) has.
#[inline]
#[must_use]
pub fn norm_bits(x: &[i32]) -> u32 {
    native::norm_bits(x)
}

/// Returns the sum of `x / 2^cut`, rounded down to 14 bits and a sign each, and that of the squares.
#[inline]
#[must_use]
pub fn norm_sums(x: &[i32], cut: u32) -> (i32, u64) {
    native::norm_sums(x, cut)
}

/// Writes `(x / 2^cut - mean) * gain`, see [`norm_sums`]; returns the largest
/// [`magnitude`](crate::fixed::magnitude).
#[inline]
pub fn norm_products(x: &[i32], cut: u32, mean: i32, gain: &[i16], out: &mut [i32]) -> u32 {
    native::norm_products(x, cut, mean, gain, out)
}

/// Multiplies the products of a query with keys by the scales of the keys, each a
/// [`HeadScale`](crate::ops::HeadScale); returns the largest, and the smallest of `v_scale`.
#[inline]
pub fn scale_scores(scores: &mut [i32], k_scale: &[u16], v_scale: &[u16]) -> (i32, u16) {
    native::scale_scores(scores, k_scale, v_scale)
}

/// Turns scores, of which `max` is the largest, into weights with the scale of their value in them;
/// returns the sum of the weights without it.
///
/// `right` is how far a weight is shifted to the right beside the shift of its value's scale. Weights
/// lie at their [`wide_place`](super::wide_place); `weights` has as many elements as scores or, where
/// the kernel's words have four, up to three more, which become zeros.
#[inline]
pub fn weigh(
    scores: &[i32],
    max: i32,
    octaves: Octaves,
    v_scale: &[u16],
    right: u32,
    weights: &mut [Wide],
) -> u32 {
    native::weigh(scores, max, octaves, v_scale, right, weights)
}
