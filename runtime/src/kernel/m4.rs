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
    // Stores the first of four sums, those before what is at r2 + 16.
    ".macro chapbook_m4_last",
    "str r4, [lr]",
    "subs r2, r2, lr",
    "adds r2, r2, #8",
    "it ge",
    "strge r5, [lr, #4]",
    "it gt",
    "strgt r6, [lr, #8]",
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
    // sp: vector, turns, start, entry, sums, 9 saved registers, last, shift or gap, start
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
    "cmp lr, r2",
    "bhi 4f",
    "stm lr!, {{r4-r7}}",
    ".else",
    "ldr lr, [sp, #16]",
    "ldr r2, [sp, #56]",
    "ldr r3, [sp, #60]",
    "cmp lr, r2",
    "bhi 4f",
    "stm lr!, {{r4-r7}}",
    "str lr, [sp, #16]",
    "add.w r0, r0, r3",
    ".endif",
    "beq 3f",
    "chapbook_m4_block",
    "4:",
    "chapbook_m4_last",
    "3:",
    "add sp, sp, #20",
    "pop {{r4-r11, pc}}",
    ".size \\name, . - \\name",
    ".endm",
    "chapbook_m4_sums chapbook_m4_plain, chapbook_m4_plain_row, 4, 72, 0",
    "chapbook_m4_sums chapbook_m4_biased, chapbook_m4_biased_row, 8, 56, 1",
    ".purgem chapbook_m4_sums",
    ".purgem chapbook_m4_last",
    ".purgem chapbook_m4_block",
    ".purgem chapbook_m4_step",
    ".purgem chapbook_m4_biased_row",
    ".purgem chapbook_m4_plain_row",
    // r0 bytes of the vector, r1 pairs, r2 bytes; returns 2^15 times what the sum of the even ones lacks to 0.
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
    ".balign 4",
    "1:",
    "ldr r4, [r0]",
    "ldr r6, [r0, #4]",
    "adds r0, r0, #8",
    "chapbook_m4_pair r3, r4",
    "chapbook_m4_pair r5, r6",
    "stm r1!, {{r3-r6}}",
    "2:",
    "subs r2, r2, #8",
    "bge 1b",
    "adds r2, r2, #4",
    "blt 3f",
    "ldr r4, [r0], #4",
    "chapbook_m4_pair r3, r4",
    "stm r1!, {{r3, r4}}",
    "subs r2, r2, #4",
    // What is left, less 4, and in the last word zeros after it.
    "3:",
    "adds r2, r2, #4",
    "beq 5f",
    "mov r4, #0",
    "4:",
    "subs r2, r2, #1",
    "ldrb r3, [r0, r2]",
    "orr r4, r3, r4, lsl #8",
    "bne 4b",
    "chapbook_m4_pair r3, r4",
    "stm r1!, {{r3, r4}}",
    "5:",
    "lsl lr, lr, #7",
    "rsb r0, lr, #0",
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

/// Computes the sums from `out` on, up to that at `last` and three more; there is one at least, and
/// `words` is 1 at least. The last but one argument is the gap between two blocks of four or, of a
/// biased matrix, whose sums are 256 times too large, the shift to the right at the end.
type Kernel = unsafe extern "C" fn(
    w: *const u32,
    x: *const u32,
    words: usize,
    out: *mut i32,
    last: *const i32,
    gap_or_right: usize,
    start: i32,
);

macro_rules! kernels {
    ($($(#[$attribute:meta])* $name:ident)*) => {
        unsafe extern "C" {
            $($(#[$attribute])* pub(super) fn $name(
                w: *const u32,
                x: *const u32,
                words: usize,
                out: *mut i32,
                last: *const i32,
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
pub(super) const SHORT_LANES: usize = 24;

unsafe extern "C" {
    /// Writes `(x1, x3)` and `(256 x0 - x1, 256 x2 - x3)` for each four elements; returns the start of
    /// a sum, which takes the bias away.
    pub(super) fn chapbook_m4_pair_biased(x: *const i8, lanes: *mut u32, len: usize) -> i32;
}

/// Columns up to which a biased row has room for half of what is cut: `127 * 127 * 512 + 128` is below
/// 2^23.
const CUT_COLS: usize = 512;

/// Computes the sums; `None` when the lengths do not agree.
#[inline]
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
            plain(w, lanes, out)
        }
        Vector::Int16(_) if w.biased => None,
        Vector::Int16(x) => plain(w, bytemuck::try_cast_slice(x).ok()?, out),
    }
}

/// Computes the sums of pairs that lie as the plain kernel takes them.
#[inline(never)]
fn plain(w: &Weights<'_>, x: &[u32], out: &mut [i32]) -> Option<()> {
    let gap = (4 * w.row_len).checked_sub(8 * x.len())?;
    run(chapbook_m4_plain, w, x, gap, 0, out)
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

#[inline(never)]
fn biased(
    w: &Weights<'_>,
    x: &[Element],
    cut: u32,
    lanes: &mut [u32],
    out: &mut [i32],
) -> Option<()> {
    let lanes = lanes.get_mut(..2 * x.len().div_ceil(4))?;
    if 2 * lanes.len() != w.row_len {
        return None;
    }
    // SAFETY: `lanes` has two words for each four elements of `x` and what is left of them.
    let start = unsafe { chapbook_m4_pair_biased(x.as_ptr(), lanes.as_mut_ptr(), x.len()) };
    // Sums wrap, so this may too.
    let start = start.wrapping_add((1 << (8 + cut)) >> 1 & !0xFF);
    #[cfg(fpu)]
    if lanes.len() <= SHORT_LANES {
        return run(chapbook_m4_short, w, lanes, (8 + cut) as usize, start, out);
    }
    run(chapbook_m4_biased, w, lanes, (8 + cut) as usize, start, out)
}

/// Runs a kernel on all rows; a block of them has at least two words for each of `x`, and exactly as
/// many where the kernel knows no gap.
#[inline]
fn run(
    kernel: Kernel,
    w: &Weights<'_>,
    x: &[u32],
    gap_or_right: usize,
    start: i32,
    out: &mut [i32],
) -> Option<()> {
    let words = w.row_len.checked_mul(out.len().div_ceil(4))?;
    if x.len() < 2 || !x.len().is_multiple_of(2) || out.is_empty() || w.words.len() < words {
        return None;
    }
    let out = out.as_mut_ptr_range();
    // SAFETY: `w` has a block of four rows for each four sums and for those that are left, of as many
    // words as the caller has checked; `x` has two words for each word of a row, at least one, and no
    // more of them than the kernel takes.
    unsafe {
        kernel(
            w.words.as_ptr(),
            x.as_ptr(),
            x.len() / 2,
            out.start,
            out.end.wrapping_sub(4),
            gap_or_right,
            start,
        );
    }
    Some(())
}

/// Writes `(x0, x2)` and `(x1, x3)` for each four elements, zeros after the last.
#[inline(never)]
fn pair(x: &[i8], lanes: &mut [u32]) {
    for (x, lanes) in x.chunks(4).zip(lanes.as_chunks_mut::<2>().0) {
        let [x0, x1, x2, x3] = four(x).map(i32::from);
        *lanes = [halves(x0, x2), halves(x1, x3)];
    }
}

/// Returns the first elements, zeros after the last.
fn four(x: &[i8]) -> [i8; 4] {
    [0, 1, 2, 3].map(|place: usize| x.get(place).copied().unwrap_or(0))
}

#[inline]
const fn halves(low: i32, high: i32) -> u32 {
    (low as u32 & 0xFFFF) | (high as u32) << 16
}
