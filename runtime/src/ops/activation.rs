//! Activation functions that need more than one element or another unit.

use crate::fixed::{self, ONE, leading_zeros, magnitude};

/// Squares elements that are not negative; returns the exponent of the result's unit relative to
/// activation units, and its [`max_magnitude`](super::max_magnitude). `max` is that of `x`.
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
