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
use crate::fixed::{Scale, exp2_all, gelu_table, magnitude, reciprocals};
use crate::part::split;

pub(super) use plain::products;

global_asm!(
    #[cfg(armv8m)]
    ".cpu cortex-m33",
    include_str!("m4/macros.s"),
    include_str!("m4/rescale.s"),
    include_str!("m4/quantize.s"),
    include_str!("m4/norm.s"),
    include_str!("m4/attend.s"),
    ".purgem chapbook_max",
    ".purgem chapbook_note",
    ".purgem chapbook_function",
    ".text",
    options(raw)
);

/// What the loop over scores needs beside its vectors.
#[repr(C)]
pub(in super::super) struct Weigh {
    octaves: Octaves,
    max: i32,
    /// Shift, at the place of a scale's, in both halves.
    right: u32,
    end: *const i32,
    table: *const u16,
}

impl Weigh {
    /// See [`weigh`](super::weigh).
    #[inline]
    pub(in super::super) fn new(octaves: Octaves, max: i32, right: u32, end: *const i32) -> Self {
        let right = right << 27;
        Self {
            octaves,
            max,
            right: right | right >> 16,
            end,
            table: exp2_all().as_ptr(),
        }
    }
}

unsafe extern "C" {
    // Vectors have a multiple of four elements, at least four; halves start at a word.
    fn chapbook_m4_rescale(
        sums: *mut i32,
        multiplier: *const u16,
        end: *const i32,
        factor: u32,
        right: u32,
        cleared: u32,
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
    // Any number of elements and any start of the bytes.
    fn chapbook_m4_quantize(
        x: *const i32,
        max: u32,
        end: *const i32,
        x_q: *mut i8,
        unit_mantissa: u32,
        unit_exponent: i32,
        reciprocal: *const u16,
    ) -> u64;
    fn chapbook_m4_quantize_heads(
        sums: *mut i32,
        multiplier: *const u16,
        first_end: *const i32,
        x_q: *mut i8,
        unit_mantissa: u32,
        unit_exponent: i32,
        reciprocal: *const u16,
        end: *const i32,
        head_len: usize,
    );
    // Again four elements or more.
    fn chapbook_m4_scale(x: *mut i32, end: *const i32, factor: u32) -> u32;
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
    // Any number of elements.
    pub(in super::super) fn chapbook_m4_scale_scores(
        scores: *mut i32,
        k_scale: *const u16,
        v_scale: *const u16,
        end: *const i32,
    ) -> u64;
    pub(in super::super) fn chapbook_m4_weigh(
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
    let cleared = if finish == Finish::Relu { u32::MAX } else { 0 };
    // SAFETY: there are as many multipliers, a multiple of four and at least four, and `fours` has
    // checked their alignment; the loop of GELU stays within its table.
    let found = unsafe {
        if finish == Finish::Gelu {
            let table = gelu_table().as_ptr();
            chapbook_m4_gelu(start, multiplier, end, factor, right, table)
        } else {
            chapbook_m4_rescale(start, multiplier, end, factor, right, cleared)
        }
    };
    // No result of GELU is below -0.17.
    if finish == Finish::Gelu && found < 1 << 14 {
        return sums.iter().fold(max, |max, &sum| max.max(magnitude(sum)));
    }
    max.max(found)
}

pub(super) fn rescale_add(sums: &mut [i32], multiplier: &[u16], by: Rescale, x: &mut [i32]) {
    if !whole(sums.len(), multiplier) || x.len() < sums.len() {
        return plain::rescale_add(sums, multiplier, by, x);
    }
    if by.cut != 0 {
        cut_all(sums, by.cut);
    }
    // SAFETY: `whole` has checked that there are as many multipliers, a multiple of four and at least
    // four, and their alignment; `x` is not shorter.
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

#[inline(never)]
pub(super) fn quantize(
    x: &[i32],
    max: u32,
    unit_mantissa: u32,
    unit_exponent: i32,
    x_q: &mut [Element],
) -> (u32, i32) {
    let x = x.get(..x_q.len()).unwrap_or(x).as_ptr_range();
    // SAFETY: there are as many bytes as elements, or more; the mantissa of a reciprocal has 8 bits, the
    // upper of which is set.
    let found = unsafe {
        chapbook_m4_quantize(
            x.start,
            max,
            x.end,
            x_q.as_mut_ptr(),
            unit_mantissa,
            unit_exponent,
            reciprocals().as_ptr(),
        )
    };
    (found as u32, (found >> 32) as i32)
}

pub(super) fn quantize_heads(
    sums: &mut [i32],
    multiplier: &[u16],
    head_dim: usize,
    unit_mantissa: u32,
    unit_exponent: i32,
    x_q: &mut [Element],
) -> bool {
    let n = sums.len();
    let heads = n.checked_div(head_dim).unwrap_or(0);
    if !head_dim.is_multiple_of(4)
        || heads * head_dim != n
        || x_q.len() < n
        || !whole(n, multiplier)
    {
        return false;
    }
    let sums = sums.as_mut_ptr_range();
    // SAFETY: there are whole heads, at least one, each of a multiple of four sums; `whole` has checked
    // that there are as many multipliers and their alignment, and there are as many bytes.
    unsafe {
        chapbook_m4_quantize_heads(
            sums.start,
            multiplier.as_ptr(),
            sums.start.add(head_dim),
            x_q.as_mut_ptr(),
            unit_mantissa,
            unit_exponent,
            reciprocals().as_ptr(),
            sums.end,
            4 * head_dim,
        );
    }
    true
}

pub(super) fn scale(x: &mut [i32], by: Scale) -> u32 {
    // `smmulr` shifts by 32 and rounds.
    let left = by.exponent() + 32;
    if x.is_empty() || !x.len().is_multiple_of(4) || !(0..16).contains(&left) {
        return by.apply_all(x);
    }
    let Range { start, end } = x.as_mut_ptr_range();
    // SAFETY: there are a multiple of four elements, at least four.
    unsafe { chapbook_m4_scale(start, end, by.mantissa() << left) }
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
    let n = scores.len().min(k_scale.len()).min(v_scale.len());
    let (scores, _) = split(scores, n);
    let scores = scores.as_mut_ptr_range();
    // SAFETY: all three have as many elements or more.
    let found = unsafe {
        chapbook_m4_scale_scores(scores.start, k_scale.as_ptr(), v_scale.as_ptr(), scores.end)
    };
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
    let n = scores.len().min(v_scale.len()).min(weights.len() & !3);
    let scores = scores.get(..n).unwrap_or_default().as_ptr_range();
    let weigh = Weigh::new(octaves, max, right, scores.end);
    // SAFETY: there are as many scales or more, and as many weights, filled up to a multiple of four,
    // or more; the loop stays within the table.
    unsafe {
        chapbook_m4_weigh(
            scores.start,
            v_scale.as_ptr(),
            weights.as_mut_ptr(),
            &raw const weigh,
        )
    }
}
