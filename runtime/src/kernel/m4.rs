//! Cores with the DSP extension: Cortex-M4, M7, M33.
//!
//! Four rows at a time; the vector lies as pairs of 16 bits, as `smlad` takes them. Two forms:
//!
//! - A plain word of four weights becomes two pairs by `sxtb16`, even columns and odd ones.
//! - In a biased word the even bytes are unsigned, `u = w + 128`. Its upper and lower half, taken as
//!   they are, stand for `256 w1 + u0` and `256 w3 + u2`; times `(x1, x3)` they give 256 times the
//!   odd products, plus `u0 x1 + u2 x3`. The even bytes alone times `(256 x0 - x1, 256 x2 - x3)` give
//!   256 times the even products and take the surplus away. One `and` replaces two `sxtb16`; the sum
//!   is 256 times too large, which is why a row must be proven to stay below 2^23.

#![expect(
    unsafe_code,
    reason = "the compiler finds smlad in none of these loops"
)]

use core::arch::global_asm;

use super::{Element, Vector, Weights};

// r0 weights, r1 vector, r2 words of a row, r3 sums; on the stack the end of the sums, the shift of the
// sums (biased) or the bytes between two blocks, and the start of each sum. r4 to r7 are the sums, r8 to
// r11 a word of each row, r3 and r12 two pairs of the vector. Several steps make a turn; another number
// of them enters in the middle, at an address computed once.
global_asm!(
    #[cfg(armv8m)]
    ".cpu cortex-m33",
    ".syntax unified",
    ".macro chapbook_m4_plain_row sum, word",
    "sxtb16 lr, \\word",
    "sxtb16 \\word, \\word, ror #8",
    "smlad \\sum, lr, r3, \\sum",
    "smlad \\sum, \\word, r12, \\sum",
    ".endm",
    ".macro chapbook_m4_biased_row sum, word",
    "smlad \\sum, \\word, r3, \\sum",
    "and \\word, \\word, #0x00ff00ff",
    "smlad \\sum, \\word, r12, \\sum",
    ".endm",
    ".macro chapbook_m4_step row",
    "ldm r0!, {{r8-r11}}",
    "ldm r1!, {{r3, r12}}",
    "\\row r4, r8",
    "\\row r5, r9",
    "\\row r6, r10",
    "\\row r7, r11",
    ".endm",
    ".macro chapbook_m4_block",
    "ldm sp, {{r1, r2, r4, r12}}",
    "mov r5, r4",
    "mov r6, r4",
    "mov r7, r4",
    "bx r12",
    ".endm",
    // steps: those of a turn, step_len: bytes of a step. biased: sums are too large, and lr is free
    // for their place.
    ".macro chapbook_m4_sums name, row, steps, step_len, biased",
    ".section .text.\\name, \"ax\"",
    ".balign 4",
    ".global \\name",
    ".type \\name, %function",
    ".thumb_func",
    "\\name:",
    "push {{r4-r11, lr}}",
    "ldr r4, [sp, #44]",
    "add r2, r2, #\\steps - 1",
    "mov r5, #\\steps",
    "udiv r6, r2, r5",
    "mls r2, r5, r6, r2",
    "rsb r2, r2, #\\steps - 1",
    "mov r5, #\\step_len",
    "adr r12, 2f",
    "mla r12, r2, r5, r12",
    "add r12, r12, #1",
    "mov r2, r6",
    "push {{r3}}",
    "push {{r1, r2, r4, r12}}",
    "mov lr, r3",
    // sp: vector, turns, start, entry, sums, 9 saved registers, end, shift or gap, start
    "chapbook_m4_block",
    ".balign 4",
    "2:",
    ".rept \\steps",
    "chapbook_m4_step \\row",
    ".endr",
    "subs r2, r2, #1",
    "bne 2b",
    ".if \\biased",
    "ldr r2, [sp, #56]",
    "ldr r3, [sp, #60]",
    "asr r4, r4, r3",
    "asr r5, r5, r3",
    "asr r6, r6, r3",
    "asr r7, r7, r3",
    "stm lr!, {{r4-r7}}",
    ".else",
    "ldr lr, [sp, #16]",
    "ldr r2, [sp, #56]",
    "ldr r3, [sp, #60]",
    "stm lr!, {{r4-r7}}",
    "str lr, [sp, #16]",
    "add r0, r0, r3",
    ".endif",
    "cmp lr, r2",
    "beq 3f",
    "chapbook_m4_block",
    "3:",
    "add sp, sp, #20",
    "pop {{r4-r11, pc}}",
    ".size \\name, . - \\name",
    ".endm",
    "chapbook_m4_sums chapbook_m4_plain, chapbook_m4_plain_row, 4, 72, 0",
    "chapbook_m4_sums chapbook_m4_biased, chapbook_m4_biased_row, 4, 56, 1",
    ".purgem chapbook_m4_sums",
    ".purgem chapbook_m4_block",
    ".purgem chapbook_m4_step",
    ".purgem chapbook_m4_biased_row",
    ".purgem chapbook_m4_plain_row",
    // r0 bytes of the vector, r1 pairs, r2 words; returns 256 times the sum of the even elements.
    ".section .text.chapbook_m4_pair_biased, \"ax\"",
    ".balign 4",
    ".global chapbook_m4_pair_biased",
    ".type chapbook_m4_pair_biased, %function",
    ".thumb_func",
    "chapbook_m4_pair_biased:",
    "push {{r4-r7, lr}}",
    "mov r12, #0x00010001",
    "mov r7, #0xff00ff00",
    "mov lr, #0",
    ".macro chapbook_m4_pair odd, even",
    "sxtb16 \\odd, \\even, ror #8",
    "and \\even, r7, \\even, lsl #8",
    "smlad lr, \\even, r12, lr",
    "ssub16 \\even, \\even, \\odd",
    ".endm",
    "b 2f",
    "1:",
    "ldr r4, [r0]",
    "ldr r6, [r0, #4]",
    "adds r0, r0, #8",
    "chapbook_m4_pair r3, r4",
    "chapbook_m4_pair r5, r6",
    "stm r1!, {{r3-r6}}",
    "2:",
    "subs r2, r2, #2",
    "bge 1b",
    "adds r2, r2, #1",
    "bne 3f",
    "ldr r4, [r0]",
    "chapbook_m4_pair r3, r4",
    "stm r1!, {{r3, r4}}",
    "3:",
    "mov r0, lr",
    "pop {{r4-r7, pc}}",
    ".size chapbook_m4_pair_biased, . - chapbook_m4_pair_biased",
    ".purgem chapbook_m4_pair",
    ".text",
);

#[cfg(fpu)]
global_asm!(
    #[cfg(armv8m)]
    ".cpu cortex-m33",
    ".fpu fpv4-sp-d16",
    include_str!("m4_short.s"),
    options(raw)
);

/// Computes blocks of four sums from `out` up to `end`; there is one at least, and `words` is 1 at
/// least. The last but one argument is the gap between two blocks or, of a biased matrix, whose sums
/// are 256 times too large, the shift to the right at the end.
type Kernel = unsafe extern "C" fn(
    w: *const u32,
    x: *const u32,
    words: usize,
    out: *mut i32,
    end: *const i32,
    gap_or_right: usize,
    start: i32,
);

macro_rules! kernels {
    ($($(#[$attribute:meta])* $name:ident)*) => {
        unsafe extern "C" {
            $($(#[$attribute])* fn $name(
                w: *const u32,
                x: *const u32,
                words: usize,
                out: *mut i32,
                end: *const i32,
                gap_or_right: usize,
                start: i32,
            );)*
        }
    };
}
kernels! {
    chapbook_m4_plain
    chapbook_m4_biased
    /// Takes a biased matrix of at most 12 words.
    #[cfg(fpu)]
    chapbook_m4_short
}

/// Words of the vector that the registers of the floating-point unit hold.
#[cfg(fpu)]
const SHORT_LANES: usize = 24;

unsafe extern "C" {
    /// Writes `2 * words` words of pairs for a biased matrix; returns 256 times the sum of the
    /// elements in even places.
    fn chapbook_m4_pair_biased(x: *const i8, lanes: *mut u32, words: usize) -> i32;
}

/// Columns up to which a biased row has room for half of what is cut: `127 * 127 * 512 + 128` is below
/// 2^23.
const CUT_COLS: usize = 512;

/// Computes the sums; `None` when the lengths do not agree.
pub(super) fn sums(
    w: &Weights<'_>,
    x: Vector<'_>,
    lanes: &mut [u32],
    out: &mut [i32],
) -> Option<()> {
    match x {
        Vector::Int8(x) if w.biased => biased(w, x, 0, lanes, out),
        Vector::Int8(x) => {
            let lanes = lanes.get_mut(..2 * x.len().div_ceil(4))?;
            pair(x, lanes);
            blocks(chapbook_m4_plain, w, lanes, None, 0, out)
        }
        Vector::Int16(_) if w.biased => None,
        Vector::Int16(x) => {
            let x = bytemuck::try_cast_slice(x).ok()?;
            blocks(chapbook_m4_plain, w, x, None, 0, out)
        }
    }
}

/// Computes the sums of a biased matrix, cut to the nearest; `None` when it is none.
pub(super) fn sums_cut(
    w: &Weights<'_>,
    x: &[Element],
    cut: u32,
    lanes: &mut [u32],
    out: &mut [i32],
) -> Option<()> {
    if !w.biased || x.len() > CUT_COLS {
        return None;
    }
    biased(w, x, cut, lanes, out)
}

fn biased(
    w: &Weights<'_>,
    x: &[Element],
    cut: u32,
    lanes: &mut [u32],
    out: &mut [i32],
) -> Option<()> {
    let lanes = lanes.get_mut(..2 * x.len().div_ceil(4))?;
    // Sums wrap, so this may too.
    let start = pair_biased(x, lanes).wrapping_add((1 << (8 + cut)) >> 1 & !0xFF);
    #[cfg(fpu)]
    if lanes.len() <= SHORT_LANES {
        return blocks(chapbook_m4_short, w, lanes, Some(8 + cut), start, out);
    }
    blocks(chapbook_m4_biased, w, lanes, Some(8 + cut), start, out)
}

/// Runs a kernel on all rows; with a shift there is no gap between two blocks.
#[inline(never)]
fn blocks(
    kernel: Kernel,
    w: &Weights<'_>,
    x: &[u32],
    right: Option<u32>,
    start: i32,
    out: &mut [i32],
) -> Option<()> {
    if !x.len().is_multiple_of(2) || right.is_some() && 2 * x.len() != w.row_len {
        return None;
    }
    super::for_blocks(w, x.len() / 2, out, |call| {
        // SAFETY: `for_blocks` has checked that `w` has `blocks` blocks of at least `words` words
        // in each of four rows and `out` four sums for each of them; `x` has two words for each
        // word of a row, and no more of them than the kernel takes.
        unsafe {
            kernel(
                call.w.as_ptr(),
                x.as_ptr(),
                call.words,
                call.out.as_mut_ptr(),
                call.out.as_ptr_range().end,
                right.map_or(call.gap, |right| right as usize),
                start,
            );
        }
    })
}

/// Writes `(x0, x2)` and `(x1, x3)` for each four elements, zeros after the last.
fn pair(x: &[i8], lanes: &mut [u32]) {
    for (x, lanes) in x.chunks(4).zip(lanes.as_chunks_mut::<2>().0) {
        let [x0, x1, x2, x3] = four(x).map(i32::from);
        *lanes = [halves(x0, x2), halves(x1, x3)];
    }
}

/// Writes `(x1, x3)` and `(256 x0 - x1, 256 x2 - x3)` for each four elements; returns the start of
/// a sum, which takes the bias away.
fn pair_biased(x: &[i8], lanes: &mut [u32]) -> i32 {
    let (fours, rest) = x.as_chunks::<4>();
    let (lanes, rest_lanes) = lanes.split_at_mut((2 * fours.len()).min(lanes.len()));
    // SAFETY: `x` has four elements for each two words of `lanes`.
    let mut even =
        unsafe { chapbook_m4_pair_biased(x.as_ptr(), lanes.as_mut_ptr(), lanes.len() / 2) };
    if let [odd, both, ..] = rest_lanes {
        let [x0, x1, x2, x3] = four(rest).map(i32::from);
        even += 256 * (x0 + x2);
        (*odd, *both) = (halves(x1, x3), halves(256 * x0 - x1, 256 * x2 - x3));
    }
    // Sums wrap, so this may too.
    -128 * even
}

/// Returns the first elements, zeros after the last.
fn four<T: Copy + Default>(x: &[T]) -> [T; 4] {
    let mut four = [T::default(); 4];
    for (to, &from) in four.iter_mut().zip(x) {
        *to = from;
    }
    four
}

#[inline]
const fn halves(low: i32, high: i32) -> u32 {
    (low as u32 & 0xFFFF) | (high as u32) << 16
}
