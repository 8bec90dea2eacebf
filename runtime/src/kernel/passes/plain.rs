//! The definition of each pass.

use super::super::{Wide, wide_place};
use crate::fixed::{self, Scale, exp2_table, magnitude, reciprocal};
use crate::ops::HeadScale;

pub use super::quantize::{quantize, quantize_heads};

/// How sums become activations: cut to the nearest, times a multiplier that carries the vector's
/// scale, shifted.
#[derive(Clone, Copy, Debug)]
pub struct Rescale {
    /// Bits by which sums are cut.
    pub cut: u32,
    /// Half of what is cut.
    pub half: i32,
    /// Mantissa of the scale, of 16 bits.
    pub factor: u32,
    /// Shift of the product, at most 31.
    pub right: u32,
}

impl Rescale {
    /// Returns the result before the last shift; it has 31 bits.
    #[inline]
    #[must_use]
    pub const fn product(self, sum: i32, multiplier: u16) -> i32 {
        let multiplier = (multiplier as u32 * self.factor) >> 16;
        (sum.wrapping_add(self.half) >> self.cut) * multiplier as i32
    }
}

/// See [`products`](super::products).
#[cfg_attr(kernel = "m4", inline(never))]
pub fn products(sums: &mut [i32], multiplier: &[u16], cut: u32) -> u32 {
    let half = (1 << cut) >> 1;
    let mut max = 0;
    for (sum, &multiplier) in sums.iter_mut().zip(multiplier) {
        *sum = (sum.wrapping_add(half) >> cut) * i32::from(multiplier);
        max = max.max(magnitude(*sum));
    }
    max
}

/// What is done with each activation at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Nothing.
    Linear,
    /// `max(x, 0)`.
    Relu,
    /// [`gelu`](fixed::gelu).
    Gelu,
}

/// See [`rescale`](super::rescale).
#[cfg_attr(kernel = "m4", inline(never))]
pub fn rescale(sums: &mut [i32], multiplier: &[u16], by: Rescale, finish: Finish) -> u32 {
    if cfg!(kernel = "m4") {
        // Only what is no multiple of four comes here; one loop does.
        let f: fn(i32) -> i32 = match finish {
            Finish::Linear => |x| x,
            Finish::Relu => fixed::relu,
            Finish::Gelu => fixed::gelu,
        };
        return all(sums, multiplier, by, f);
    }
    match finish {
        Finish::Linear => all(sums, multiplier, by, |x| x),
        Finish::Relu => all(sums, multiplier, by, fixed::relu),
        Finish::Gelu => all(sums, multiplier, by, fixed::gelu),
    }
}

fn all(sums: &mut [i32], multiplier: &[u16], by: Rescale, f: impl Fn(i32) -> i32) -> u32 {
    let mut max = 0;
    for (sum, &multiplier) in sums.iter_mut().zip(multiplier) {
        *sum = f(by.product(*sum, multiplier) >> by.right);
        max = max.max(magnitude(*sum));
    }
    max
}

/// See [`rescale_add`](super::rescale_add).
#[cfg_attr(kernel = "m4", inline(never))]
pub fn rescale_add(sums: &mut [i32], multiplier: &[u16], by: Rescale, x: &mut [i32]) {
    for ((x, &mut sum), &multiplier) in x.iter_mut().zip(sums).zip(multiplier) {
        *x = x.saturating_add(by.product(sum, multiplier) >> by.right);
    }
}

/// See [`scale`](super::scale).
#[inline]
pub fn scale(x: &mut [i32], by: Scale) -> u32 {
    by.apply_all(x)
}

/// See [`norm_bits`](super::norm_bits).
#[inline]
pub fn norm_bits(x: &[i32]) -> u32 {
    x.iter().fold(0, |bits, &x| bits | magnitude(x))
}

/// See [`norm_sums`](super::norm_sums).
#[inline]
pub fn norm_sums(x: &[i32], cut: u32) -> (i32, u64) {
    let (mut sum, mut squares) = (0, 0_u64);
    for &x in x {
        let x = x >> cut;
        sum += x;
        squares += u64::from((x * x) as u32);
    }
    (sum, squares)
}

/// See [`norm_products`](super::norm_products).
#[inline]
pub fn norm_products(x: &[i32], cut: u32, mean: i32, gain: &[i16], out: &mut [i32]) -> u32 {
    let mut max = 0;
    for ((out, &x), &gain) in out.iter_mut().zip(x).zip(gain) {
        *out = ((x >> cut) - mean) * i32::from(gain);
        max = max.max(magnitude(*out));
    }
    max
}

/// See [`scale_scores`](super::scale_scores).
#[inline(never)]
pub fn scale_scores(scores: &mut [i32], k_scale: &[u16], v_scale: &[u16]) -> (i32, u16) {
    let mut max = i32::MIN;
    for (score, &k_scale) in scores.iter_mut().zip(k_scale) {
        let k_scale = HeadScale(k_scale);
        *score = (*score * k_scale.mantissa()) >> k_scale.right();
        max = max.max(*score);
    }
    (max, v_scale.iter().fold(u16::MAX, |x, &y| x.min(y)))
}

/// How the distance of a score from the largest becomes octaves in units of 2^-28.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Octaves {
    /// The distance is cut by these bits,
    pub cut: u32,
    /// at most this then, which is more than 15.7 octaves,
    pub limit: u32,
    /// and multiplied by this.
    pub factor: u32,
}

impl Octaves {
    /// `unit` is the value of 1, in octaves.
    #[must_use]
    pub fn new(unit: Scale) -> Self {
        let mantissa = unit.mantissa();
        // Below 2^32 / (mantissa + 256), so that the product with the mantissa has 32 bits.
        let limit = 2 * reciprocal(mantissa >> 8);
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

/// See [`weigh`](super::weigh).
#[inline(never)]
pub fn weigh(
    scores: &[i32],
    max: i32,
    octaves: Octaves,
    v_scale: &[u16],
    right: u32,
    weights: &mut [Wide],
) -> u32 {
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
    for rest in weights.iter_mut().skip(scores.len()) {
        *rest = 0;
    }
    if wide_place(1) != 1 {
        for four in weights.as_chunks_mut::<4>().0 {
            four.swap(1, 2);
        }
    }
    sum
}
