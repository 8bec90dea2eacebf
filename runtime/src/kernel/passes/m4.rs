//! The passes on cores with the DSP extension.
//!
//! Four elements make a turn: one `ldm` fetches them, and a loop's end is paid once. A new maximum
//! is rare, so it is noted out of line.

#![expect(
    unsafe_code,
    reason = "the compiler neither unrolls these loops nor finds smlawb, smmulr and sel"
)]

use core::arch::global_asm;
use core::ops::Range;

use super::super::{Element, Wide};
use super::plain::{self, Finish, Octaves, Rescale};
use crate::fixed::{exp2_all, gelu_table};
use crate::part::split;

global_asm!(
    #[cfg(armv8m)]
    ".cpu cortex-m33",
    include_str!("m4.s"),
    options(raw)
);

/// What the loop over scores needs beside its vectors.
#[repr(C)]
struct Weigh {
    octaves: Octaves,
    max: i32,
    /// Shift, at the place of a scale's, in both halves.
    right: u32,
    end: *const i32,
    table: *const u16,
}

unsafe extern "C" {
    // Vectors have a multiple of four elements, at least four; halves start at a word.
    fn chapbook_m4_products(sums: *mut i32, multiplier: *const u16, end: *const i32) -> u32;
    fn chapbook_m4_rescale(
        sums: *mut i32,
        multiplier: *const u16,
        end: *const i32,
        factor: u32,
        right: u32,
    ) -> u32;
    fn chapbook_m4_relu(
        sums: *mut i32,
        multiplier: *const u16,
        end: *const i32,
        factor: u32,
        right: u32,
    ) -> u32;
    fn chapbook_m4_gelu(
        sums: *mut i32,
        multiplier: *const u16,
        end: *const i32,
        factor: u32,
        right: u32,
        table: *const i32,
    ) -> u32;
    fn chapbook_m4_rescale_add(
        sums: *const i32,
        multiplier: *const u16,
        x: *mut i32,
        factor: u32,
        right: u32,
        end: *const i32,
    );
    fn chapbook_m4_narrow(x: *const i32, x_q: *mut i8, end: *const i32, right: u32, factor: u32);
    fn chapbook_m4_norm_bits(x: *const i32, end: *const i32) -> u32;
    fn chapbook_m4_norm_sums(x: *const i32, end: *const i32, cut: u32, sum: *mut i32) -> u64;
    fn chapbook_m4_norm_products(
        x: *const i32,
        gain: *const i16,
        end: *const i32,
        out: *mut i32,
        cut: u32,
        mean: i32,
    ) -> u32;
    fn chapbook_m4_scale_scores(
        scores: *mut i32,
        k_scale: *const u16,
        v_scale: *const u16,
        end: *const i32,
    ) -> u64;
    fn chapbook_m4_weigh(
        scores: *const i32,
        v_scale: *const u16,
        weights: *mut i16,
        weigh: *const Weigh,
    ) -> u32;
}

/// Returns how many of `n` elements a loop in assembly may take: a multiple of four, and none when
/// the halves that lie beside them are too few or do not start at a word.
fn fours(n: usize, halves: &[u16]) -> usize {
    if halves.as_ptr().cast::<u32>().is_aligned() {
        n.min(halves.len()) & !3
    } else {
        0
    }
}

/// Returns whether a loop in assembly may take all of `n` elements, and there are any.
fn whole(n: usize, halves: &[u16]) -> bool {
    n != 0 && fours(n, halves) == n
}

/// Cuts sums to the nearest.
#[inline(never)]
fn cut_all(sums: &mut [i32], cut: u32) {
    let half = (1 << cut) >> 1;
    for sum in sums {
        *sum = sum.wrapping_add(half) >> cut;
    }
}

pub(super) fn products(sums: &mut [i32], multiplier: &[u16], cut: u32) -> u32 {
    if !whole(sums.len(), multiplier) {
        return plain::products(sums, multiplier, cut);
    }
    if cut != 0 {
        cut_all(sums, cut);
    }
    // SAFETY: `whole` has checked that there are as many multipliers, a multiple of four and at
    // least four, and their alignment.
    unsafe {
        let end = sums.as_ptr_range().end;
        chapbook_m4_products(sums.as_mut_ptr(), multiplier.as_ptr(), end)
    }
}

pub(super) fn rescale(sums: &mut [i32], multiplier: &[u16], by: Rescale, finish: Finish) -> u32 {
    let (sums, rest) = split(sums, fours(sums.len(), multiplier));
    let mut max = 0;
    if !rest.is_empty() {
        let multiplier = multiplier.get(sums.len()..).unwrap_or_default();
        max = plain::rescale(rest, multiplier, by, finish);
    }
    if sums.is_empty() {
        return max;
    }
    if by.cut != 0 {
        cut_all(sums, by.cut);
    }
    let (Range { start, end }, multiplier) = (sums.as_mut_ptr_range(), multiplier.as_ptr());
    let Rescale { factor, right, .. } = by;
    // SAFETY: there are as many multipliers, a multiple of four and at least four, and `fours` has
    // checked their alignment; the loop of GELU stays within its table.
    let found = unsafe {
        match finish {
            Finish::Linear => chapbook_m4_rescale(start, multiplier, end, factor, right),
            Finish::Relu => chapbook_m4_relu(start, multiplier, end, factor, right),
            Finish::Gelu => {
                let table = gelu_table().as_ptr();
                chapbook_m4_gelu(start, multiplier, end, factor, right, table)
            }
        }
    };
    max.max(found)
}

pub(super) fn rescale_add(sums: &mut [i32], multiplier: &[u16], by: Rescale, x: &mut [i32]) {
    if !whole(sums.len(), multiplier) || x.len() < sums.len() {
        return plain::rescale_add(sums, multiplier, by, x);
    }
    if by.cut != 0 {
        cut_all(sums, by.cut);
    }
    // SAFETY: as in `products`, `x` included.
    unsafe {
        chapbook_m4_rescale_add(
            sums.as_ptr(),
            multiplier.as_ptr(),
            x.as_mut_ptr(),
            by.factor,
            by.right,
            sums.as_ptr_range().end,
        );
    }
}

pub(super) fn narrow(x: &[i32], exponent: i32, factor: u32, right: u32, x_q: &mut [Element]) {
    // `smmulr` shifts by 32 and rounds; a shift of `x` to the left becomes one of the factor, as long
    // as that has 31 bits.
    let left = 32 - right as i32 - exponent.min(0);
    let n = x.len();
    let aligned = x_q.as_ptr().cast::<u32>().is_aligned();
    if left > 14 || !aligned || n == 0 || !n.is_multiple_of(4) || x_q.len() < n {
        return plain::narrow(x, exponent, factor, right, x_q);
    }
    // SAFETY: there are as many bytes as elements, a multiple of four and at least four; the bytes
    // start at a word.
    unsafe {
        let end = x.as_ptr_range().end;
        let right = exponent.max(0).cast_unsigned();
        chapbook_m4_narrow(x.as_ptr(), x_q.as_mut_ptr(), end, right, factor << left);
    }
}

pub(super) fn norm_bits(x: &[i32]) -> u32 {
    if x.is_empty() || !x.len().is_multiple_of(4) {
        return plain::norm_bits(x);
    }
    // SAFETY: there are a multiple of four elements, at least four.
    unsafe { chapbook_m4_norm_bits(x.as_ptr(), x.as_ptr_range().end) }
}

pub(super) fn norm_sums(x: &[i32], cut: u32) -> (i32, u64) {
    if x.is_empty() || !x.len().is_multiple_of(4) {
        return plain::norm_sums(x, cut);
    }
    let mut sum = 0;
    // SAFETY: there are a multiple of four elements, at least four.
    let squares =
        unsafe { chapbook_m4_norm_sums(x.as_ptr(), x.as_ptr_range().end, cut, &raw mut sum) };
    (sum, squares)
}

pub(super) fn norm_products(x: &[i32], cut: u32, mean: i32, gain: &[i16], out: &mut [i32]) -> u32 {
    let n = x.len();
    if !whole(n, bytemuck::cast_slice(gain)) || out.len() < n {
        return plain::norm_products(x, cut, mean, gain, out);
    }
    // SAFETY: `whole` has checked that there are as many gains, a multiple of four and at least
    // four, and their alignment; `out` is not shorter.
    unsafe {
        let end = x.as_ptr_range().end;
        chapbook_m4_norm_products(x.as_ptr(), gain.as_ptr(), end, out.as_mut_ptr(), cut, mean)
    }
}

pub(super) fn scale_scores(scores: &mut [i32], k_scale: &[u16], v_scale: &[u16]) -> (i32, u16) {
    let n = fours(fours(scores.len(), k_scale), v_scale);
    let (scores, rest) = split(scores, n);
    let (k_scale, k_rest) = k_scale.split_at_checked(n).unwrap_or_default();
    let (v_scale, v_rest) = v_scale.split_at_checked(n).unwrap_or_default();
    let (mut max, mut min) = (i32::MIN, u16::MAX);
    if !scores.is_empty() {
        // SAFETY: all three have as many elements, a multiple of four and at least four, and `fours`
        // has checked the alignment of the halves.
        let found = unsafe {
            chapbook_m4_scale_scores(
                scores.as_mut_ptr(),
                k_scale.as_ptr(),
                v_scale.as_ptr(),
                scores.as_ptr_range().end,
            )
        };
        max = found as i32;
        min = ((found >> 32) as u16).min((found >> 48) as u16);
    }
    if !rest.is_empty() {
        let (max_rest, min_rest) = plain::scale_scores(rest, k_rest, v_rest);
        (max, min) = (max.max(max_rest), min.min(min_rest));
    }
    (max, min)
}

pub(super) fn weigh(
    scores: &[i32],
    max: i32,
    octaves: Octaves,
    v_scale: &[u16],
    right: u32,
    weights: &mut [Wide],
) -> u32 {
    let n = fours(scores.len().min(weights.len()), v_scale);
    let (scores, rest) = scores.split_at_checked(n).unwrap_or_default();
    let (v_scale, v_rest) = v_scale.split_at_checked(n).unwrap_or_default();
    let (weights, weights_rest) = split(weights, n);
    let mut sum = 0;
    if !scores.is_empty() {
        let right = right << 27;
        let weigh = Weigh {
            octaves,
            max,
            right: right | right >> 16,
            end: scores.as_ptr_range().end,
            table: exp2_all().as_ptr(),
        };
        // SAFETY: all three have as many elements, a multiple of four and at least four, and `fours`
        // has checked the alignment of the scales; the loop stays within the table.
        sum = unsafe {
            chapbook_m4_weigh(
                scores.as_ptr(),
                v_scale.as_ptr(),
                weights.as_mut_ptr(),
                &raw const weigh,
            )
        };
    }
    if !weights_rest.is_empty() {
        sum += plain::weigh(rest, max, octaves, v_rest, right, weights_rest);
    }
    sum
}
