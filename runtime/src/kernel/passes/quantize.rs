//! The definition of quantisation, with what it is made of.

use super::super::Element;
use super::plain::products;
use crate::fixed::{leading_zeros, reciprocal};
use crate::ops::HeadScale;

/// Returns the 8-bit mantissa of `scaled / 127`, rounded up, for 15 bits with the top one set.
fn mantissa_127(scaled: u32) -> (u32, bool) {
    // exact for the 16 bits there are
    let mantissa = ((scaled + 126) * 33_027) >> 22;
    if mantissa > 255 {
        (mantissa.div_ceil(2), true)
    } else {
        (mantissa, false)
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

/// See [`quantize`](super::quantize).
#[inline(never)]
pub fn quantize(
    x: &[i32],
    max: u32,
    unit_mantissa: u32,
    unit_exponent: i32,
    x_q: &mut [Element],
) -> (u32, i32) {
    quantize_by(x, max, unit_mantissa, unit_exponent, x_q, narrow)
}

/// Does what [`quantize`] does with another function in place of [`narrow`].
#[inline]
pub(super) fn quantize_by(
    x: &[i32],
    max: u32,
    unit_mantissa: u32,
    unit_exponent: i32,
    x_q: &mut [Element],
    narrow: impl Fn(&[i32], i32, u32, u32, &mut [Element]),
) -> (u32, i32) {
    let (exponent, scaled) = fifteen_bits(max);
    // The product of 15 and 17 bits, cut to 15 again and rounded up.
    let product = scaled.wrapping_mul(unit_mantissa);
    let cut = if product > 1 << 30 { 16 } else { 15 };
    let (mantissa, carry) = mantissa_127((product.wrapping_sub(1) >> cut) + 1);
    let cut = cut + i32::from(carry);
    let right = HeadScale::TOP - (exponent + unit_exponent + cut);
    if max == 0 || product == 0 || right > HeadScale::LEAST {
        narrow(x, 31, 0, 16, x_q);
        return (0, HeadScale::LEAST);
    }
    let factor = (reciprocal(mantissa) * (unit_mantissa >> 1)) >> 15;
    narrow(x, exponent, factor, (cut + 7).unsigned_abs(), x_q);
    (mantissa, right)
}

/// See [`quantize_heads`](super::quantize_heads).
pub fn quantize_heads(
    sums: &mut [i32],
    multiplier: &[u16],
    head_dim: usize,
    unit_mantissa: u32,
    unit_exponent: i32,
    x_q: &mut [Element],
) -> bool {
    let n = sums.len();
    if head_dim == 0 || multiplier.len() < n || x_q.len() < n {
        return false;
    }
    let heads = sums.chunks_mut(head_dim).zip(multiplier.chunks(head_dim));
    for ((head, multiplier), x_q) in heads.zip(x_q.chunks_mut(head_dim)) {
        let max = products(head, multiplier, 0);
        let (mantissa, right) = quantize(head, max, unit_mantissa, unit_exponent, x_q);
        if let Some(first) = head.first_mut() {
            *first = HeadScale::new(mantissa, right).0.into();
        }
    }
    true
}

/// Writes `x / 2^exponent * factor / 2^right`, to the nearest; the division by `2^exponent` rounds
/// down.
///
/// `x / 2^exponent` has 15 bits and a sign, `factor` 16, the result seven and a sign; `right` is
/// within 1..=31. Vectors of different lengths end with the shorter one.
#[inline(never)]
fn narrow(x: &[i32], exponent: i32, factor: u32, right: u32, x_q: &mut [Element]) {
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
