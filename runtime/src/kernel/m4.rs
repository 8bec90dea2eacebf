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

use super::{Vector, Weights};

/// Rows of a block.
const BLOCK: usize = 4;

// r0 weights, r1 vector, r2 words of a row, r3 sums; on the stack the number of blocks, the bytes
// between two of them and the start of each sum. r4 to r7 are the sums, r8 to r11 a word of each
// row, r3 and r12 two pairs of the vector, lr is scratch. Four steps make a turn; another
// number of them enters in the middle.
global_asm!(
    #[cfg(armv8m)]
    ".cpu cortex-m33",
    ".syntax unified",
    ".macro chapbook_m4_plain_step",
    "ldm r0!, {{r8-r11}}",
    "ldm r1!, {{r3, r12}}",
    "sxtb16 lr, r8",
    "sxtb16 r8, r8, ror #8",
    "smlad r4, lr, r3, r4",
    "smlad r4, r8, r12, r4",
    "sxtb16 lr, r9",
    "sxtb16 r9, r9, ror #8",
    "smlad r5, lr, r3, r5",
    "smlad r5, r9, r12, r5",
    "sxtb16 lr, r10",
    "sxtb16 r10, r10, ror #8",
    "smlad r6, lr, r3, r6",
    "smlad r6, r10, r12, r6",
    "sxtb16 lr, r11",
    "sxtb16 r11, r11, ror #8",
    "smlad r7, lr, r3, r7",
    "smlad r7, r11, r12, r7",
    ".endm",
    ".macro chapbook_m4_biased_step",
    "ldm r0!, {{r8-r11}}",
    "ldm r1!, {{r3, r12}}",
    "smlad r4, r8, r3, r4",
    "and lr, r8, #0x00ff00ff",
    "smlad r4, lr, r12, r4",
    "smlad r5, r9, r3, r5",
    "and lr, r9, #0x00ff00ff",
    "smlad r5, lr, r12, r5",
    "smlad r6, r10, r3, r6",
    "and lr, r10, #0x00ff00ff",
    "smlad r6, lr, r12, r6",
    "smlad r7, r11, r3, r7",
    "and lr, r11, #0x00ff00ff",
    "smlad r7, lr, r12, r7",
    ".endm",
    ".macro chapbook_m4_sums name, step, right",
    ".section .text.\\name, \"ax\"",
    ".balign 4",
    ".global \\name",
    ".type \\name, %function",
    ".thumb_func",
    "\\name:",
    "push {{r4-r11, lr}}",
    "push {{r1-r3}}",
    // sp: vector, words, sums, 9 saved registers, blocks, gap, start
    "1:",
    "ldrd r1, r2, [sp]",
    "ldr r4, [sp, #56]",
    "mov r5, r4",
    "mov r6, r4",
    "mov r7, r4",
    "lsls r3, r2, #31",
    "add r2, r2, #3",
    "lsr r2, r2, #2",
    "bmi 5f",
    "bcs 3f",
    "b 2f",
    "5:",
    "bcs 7f",
    "b 8f",
    ".balign 4",
    "2:",
    "\\step",
    "7:",
    "\\step",
    "3:",
    "\\step",
    "8:",
    "\\step",
    "subs r2, r2, #1",
    "bne 2b",
    ".if \\right",
    "asr r4, r4, #8",
    "asr r5, r5, #8",
    "asr r6, r6, #8",
    "asr r7, r7, #8",
    ".endif",
    "ldr r3, [sp, #8]",
    "stm r3!, {{r4-r7}}",
    "str r3, [sp, #8]",
    "ldrd r1, r2, [sp, #48]",
    "add r0, r0, r2",
    "subs r1, r1, #1",
    "str r1, [sp, #48]",
    "bne 1b",
    "add sp, sp, #12",
    "pop {{r4-r11, pc}}",
    ".size \\name, . - \\name",
    ".endm",
    "chapbook_m4_sums chapbook_m4_plain, chapbook_m4_plain_step, 0",
    "chapbook_m4_sums chapbook_m4_biased, chapbook_m4_biased_step, 1",
    ".purgem chapbook_m4_sums",
    ".purgem chapbook_m4_biased_step",
    ".purgem chapbook_m4_plain_step",
    ".text",
);

/// Computes `blocks` blocks of four sums; `words` and `blocks` are at least 1.
type Kernel = unsafe extern "C" fn(
    w: *const u32,
    x: *const u32,
    words: usize,
    out: *mut i32,
    blocks: usize,
    gap: usize,
    start: i32,
);

unsafe extern "C" {
    fn chapbook_m4_plain(
        w: *const u32,
        x: *const u32,
        words: usize,
        out: *mut i32,
        blocks: usize,
        gap: usize,
        start: i32,
    );
    fn chapbook_m4_biased(
        w: *const u32,
        x: *const u32,
        words: usize,
        out: *mut i32,
        blocks: usize,
        gap: usize,
        start: i32,
    );
}

/// Computes the sums; `None` when the lengths do not agree.
pub(super) fn sums(
    w: &Weights<'_>,
    x: Vector<'_>,
    lanes: &mut [u32],
    out: &mut [i32],
) -> Option<()> {
    let words = x.len().div_ceil(4);
    let lanes = lanes.get_mut(..2 * words)?;
    let (kernel, start): (Kernel, i32) = match (x, w.biased) {
        (Vector::Int8(x), true) => (chapbook_m4_biased, pair_biased(x, lanes)),
        (Vector::Int8(x), false) => {
            pair(x, lanes);
            (chapbook_m4_plain, 0)
        }
        (Vector::Int16(x), false) => {
            pair(x, lanes);
            (chapbook_m4_plain, 0)
        }
        (Vector::Int16(_), true) => return None,
    };
    super::for_blocks(w, words, out, |call| {
        // SAFETY: `for_blocks` has checked that `w` has `blocks` blocks of at least `words` words
        // in each of four rows and `out` four sums for each of them; `lanes` has two words for
        // each word of a row.
        unsafe {
            kernel(
                call.w.as_ptr(),
                lanes.as_ptr(),
                call.words,
                call.out.as_mut_ptr(),
                call.out.len() / BLOCK,
                call.gap,
                start,
            );
        }
    })
}

/// Writes `(x0, x2)` and `(x1, x3)` for each four elements, zeros after the last.
fn pair<T: Copy + Default + Into<i32>>(x: &[T], lanes: &mut [u32]) {
    for_fours(x, lanes, |[x0, x1, x2, x3]| {
        [halves(x0, x2), halves(x1, x3)]
    });
}

/// Writes `(x1, x3)` and `(256 x0 - x1, 256 x2 - x3)` for each four elements; returns the start of
/// a sum, which takes the bias away.
fn pair_biased(x: &[i8], lanes: &mut [u32]) -> i32 {
    let mut even = 0;
    for_fours(x, lanes, |[x0, x1, x2, x3]| {
        even += x0 + x2;
        [halves(x1, x3), halves(256 * x0 - x1, 256 * x2 - x3)]
    });
    // Sums wrap, so this may too.
    (-128 * even) << 8
}

#[inline]
fn for_fours<T: Copy + Default + Into<i32>>(
    x: &[T],
    lanes: &mut [u32],
    mut write: impl FnMut([i32; 4]) -> [u32; 2],
) {
    let (fours, rest) = x.as_chunks::<4>();
    let (lanes, _) = lanes.as_chunks_mut::<2>();
    let mut lanes = lanes.iter_mut();
    for (four, lane) in fours.iter().zip(&mut lanes) {
        *lane = write(four.map(Into::into));
    }
    if let ([_, ..], Some(lane)) = (rest, lanes.next()) {
        let mut four = [0; 4];
        for (to, &from) in four.iter_mut().zip(rest) {
            *to = from.into();
        }
        *lane = write(four);
    }
}

#[inline]
const fn halves(low: i32, high: i32) -> u32 {
    (low as u32 & 0xFFFF) | (high as u32) << 16
}
