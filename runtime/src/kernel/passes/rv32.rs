//! The passes on RV32IM.
//!
//! Two or four elements make a turn, so that a loop's end is paid once; no load is used by the instruction
//! behind it. A new maximum is rare, so it is noted out of line.

#![expect(
    unsafe_code,
    reason = "the compiler unrolls none of these loops, nor finds the upper half of a product"
)]

use core::arch::global_asm;
use core::ops::Range;

use super::super::{Element, Wide};
use super::plain::{Finish, Octaves, Rescale};
use super::quantize::quantize_by;
use crate::fixed::{exp2_all, gelu_table, magnitude};
use crate::part::split;

pub(super) use super::plain::{rescale_add, scale};
pub(super) use super::quantize::quantize_heads;

global_asm!(
    include_str!("rv32/macros.s"),
    include_str!("rv32/rescale.s"),
    include_str!("rv32/quantize.s"),
    include_str!("rv32/norm.s"),
    include_str!("rv32/attend.s"),
    ".purgem chapbook_odd",
    ".purgem chapbook_magnitude",
    ".purgem chapbook_function",
    ".option pop",
    ".text",
    options(raw)
);

unsafe extern "C" {
    // Vectors have one element or more. `factor` is 2^16 times the factor.
    fn chapbook_rv32_rescale(
        sums: *mut i32,
        multiplier: *const u16,
        end: *const i32,
        factor: u32,
        cut: u32,
        half: i32,
        right: u32,
        cleared: u32,
    ) -> u32;
    fn chapbook_rv32_gelu(
        sums: *mut i32,
        multiplier: *const u16,
        end: *const i32,
        factor: u32,
        cut: u32,
        half: i32,
        right: u32,
        table: *const i32,
    ) -> u32;
    // Here any number of elements may be.
    fn chapbook_rv32_products(
        sums: *mut i32,
        multiplier: *const u16,
        end: *const i32,
        cut: u32,
    ) -> u32;
    fn chapbook_rv32_narrow(
        x: *const i32,
        x_q: *mut i16,
        end: *const i32,
        exponent: u32,
        factor: u32,
        right: u32,
    );
    fn chapbook_rv32_norm_bits(x: *const i32, end: *const i32) -> u32;
    fn chapbook_rv32_norm_sums(x: *const i32, end: *const i32, cut: u32, sum: *mut i32) -> u64;
    fn chapbook_rv32_norm_products(
        x: *const i32,
        gain: *const i16,
        end: *const i32,
        out: *mut i32,
        cut: u32,
        mean: i32,
    ) -> u32;
    // Again one or more.
    fn chapbook_rv32_scale_scores(
        scores: *mut i32,
        k_scale: *const u16,
        end: *const i32,
        v_scale: *const u16,
    ) -> u64;
    fn chapbook_rv32_weigh(
        scores: *const i32,
        v_scale: *const u16,
        end: *const i32,
        weights: *mut i16,
        max: i32,
        octaves: *const Octaves,
        right: u32,
        table: *const u16,
    ) -> u32;
}

pub(super) fn products(sums: &mut [i32], multiplier: &[u16], cut: u32) -> u32 {
    let n = sums.len().min(multiplier.len());
    let Range { start, end } = split(sums, n).0.as_mut_ptr_range();
    // SAFETY: there are as many multipliers or more.
    unsafe { chapbook_rv32_products(start, multiplier.as_ptr(), end, cut) }
}

pub(super) fn rescale(sums: &mut [i32], multiplier: &[u16], by: Rescale, finish: Finish) -> u32 {
    let n = sums.len().min(multiplier.len());
    let (sums, _) = split(sums, n);
    if sums.is_empty() {
        return 0;
    }
    let (Range { start, end }, multiplier) = (sums.as_mut_ptr_range(), multiplier.as_ptr());
    let Rescale {
        cut,
        half,
        factor,
        right,
    } = by;
    let factor = factor << 16;
    if finish != Finish::Gelu {
        let cleared = if finish == Finish::Relu { u32::MAX } else { 0 };
        // SAFETY: there is an element, and as many multipliers or more.
        return unsafe {
            chapbook_rv32_rescale(start, multiplier, end, factor, cut, half, right, cleared)
        };
    }
    let table = gelu_table().as_ptr();
    // SAFETY: there is an element, and as many multipliers or more; the loop stays within its table.
    let found =
        unsafe { chapbook_rv32_gelu(start, multiplier, end, factor, cut, half, right, table) };
    // No result of GELU is below -0.17.
    if found < 1 << 14 {
        return sums.iter().fold(0, |max, &sum| max.max(magnitude(sum)));
    }
    found
}

#[inline(never)]
pub(super) fn quantize(
    x: &[i32],
    max: u32,
    unit_mantissa: u32,
    unit_exponent: i32,
    x_q: &mut [Element],
) -> (u32, i32) {
    quantize_by(x, max, unit_mantissa, unit_exponent, x_q, narrow)
}

/// As the definition's; a shift to the left may be one of the factor.
fn narrow(x: &[i32], exponent: i32, factor: u32, right: u32, x_q: &mut [Element]) {
    let (exponent, factor) = if exponent < 0 {
        (0, factor.wrapping_shl(exponent.unsigned_abs()))
    } else {
        (exponent.unsigned_abs(), factor)
    };
    let Range { start, end } = x.get(..x_q.len()).unwrap_or(x).as_ptr_range();
    // SAFETY: `x_q` has as many elements or more.
    unsafe { chapbook_rv32_narrow(start, x_q.as_mut_ptr(), end, exponent, factor, right) }
}

pub(super) fn norm_bits(x: &[i32]) -> u32 {
    // SAFETY: the elements of a slice.
    unsafe { chapbook_rv32_norm_bits(x.as_ptr(), x.as_ptr_range().end) }
}

pub(super) fn norm_sums(x: &[i32], cut: u32) -> (i32, u64) {
    let mut sum = 0;
    // SAFETY: the elements of a slice.
    let squares =
        unsafe { chapbook_rv32_norm_sums(x.as_ptr(), x.as_ptr_range().end, cut, &raw mut sum) };
    (sum, squares)
}

pub(super) fn norm_products(x: &[i32], cut: u32, mean: i32, gain: &[i16], out: &mut [i32]) -> u32 {
    let n = x.len().min(gain.len()).min(out.len());
    let Range { start, end } = x.get(..n).unwrap_or_default().as_ptr_range();
    // SAFETY: there are as many gains and products or more.
    unsafe { chapbook_rv32_norm_products(start, gain.as_ptr(), end, out.as_mut_ptr(), cut, mean) }
}

pub(super) fn scale_scores(scores: &mut [i32], k_scale: &[u16], v_scale: &[u16]) -> (i32, u16) {
    let n = scores.len().min(k_scale.len()).min(v_scale.len());
    let Range { start, end } = split(scores, n).0.as_mut_ptr_range();
    if n == 0 {
        return (i32::MIN, u16::MAX);
    }
    // SAFETY: there is a score, and as many of both scales or more.
    let found =
        unsafe { chapbook_rv32_scale_scores(start, k_scale.as_ptr(), end, v_scale.as_ptr()) };
    (found as i32, (found >> 32) as u16)
}

pub(super) fn weigh(
    scores: &[i32],
    max: i32,
    octaves: Octaves,
    v_scale: &[u16],
    right: u32,
    weights: &mut [Wide],
) -> u32 {
    let n = scores.len().min(v_scale.len()).min(weights.len());
    let Range { start, end } = scores.get(..n).unwrap_or_default().as_ptr_range();
    if let Some(rest) = weights.get_mut(n..) {
        rest.fill(0);
    }
    if n == 0 {
        return 0;
    }
    let (v_scale, weights) = (v_scale.as_ptr(), weights.as_mut_ptr());
    let (octaves, table) = (&raw const octaves, exp2_all().as_ptr());
    // SAFETY: there is a score, and as many scales and weights or more; the loop stays within the table.
    unsafe { chapbook_rv32_weigh(start, v_scale, end, weights, max, octaves, right, table) }
}
