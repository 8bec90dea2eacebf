//! Cores with a single-cycle multiplier and no DSP extension: Cortex-M0+, M3, M33 without DSP.
//!
//! Four rows at a time. The vector lies widened to words, so that one `ldm` fetches four elements
//! for sixteen products; the four sums live in the high registers, which these cores can add to. Two forms:
//!
//! - Of a plain word each byte is made a number of its own, by five instructions.
//! - In a biased word the even bytes are unsigned, `u = w + 128`. Its halves stand for `256 w1 + u0` and
//!   `256 w3 + u2`; times `x1` and `x3` they give 256 times the odd products, plus `u0 x1 + u2 x3`. The even
//!   bytes times `256 x0 - x1` and `256 x2 - x3` give 256 times the even products and take the surplus away.
//!   Four instructions do; the sum is 256 times too large, which is why a row must be proven to stay below
//!   2^23.

#![expect(
    unsafe_code,
    reason = "the compiler keeps neither four rows nor high registers"
)]

use core::arch::global_asm;

use super::{Element, Vector, Weights};

/// Rows of a block.
const BLOCK: usize = 4;

// r0 weights, r1 vector, r2 words of a row, r3 sums; on the stack the number of blocks and the bytes
// between two of them. r8 to r11 are the sums, r12 is the end of the block.
//
// One step is four columns: a word of each row against r4 to r7. The bytes of a word are, in this
// order: sign-extended; the fourth by a shift; the second and third from the word with its pairs of
// bytes exchanged. Four steps make a turn; another number of them enters in the middle.
global_asm!(
    ".syntax unified",
    ".macro chapbook_m0_step",
    "ldm r1!, {{r4-r7}}",
    ".irp sum, r8, r9, r10, r11",
    "ldm r0!, {{r3}}",
    "sxtb r2, r3",
    "muls r2, r4, r2",
    "add \\sum, r2",
    "rev16 r2, r3",
    "asrs r3, r3, #24",
    "muls r3, r7, r3",
    "add \\sum, r3",
    "sxtb r3, r2",
    "muls r3, r5, r3",
    "add \\sum, r3",
    "asrs r2, r2, #24",
    "muls r2, r6, r2",
    "add \\sum, r2",
    ".endr",
    ".endm",
    ".section .text.chapbook_m0_sums, \"ax\"",
    ".balign 4",
    ".global chapbook_m0_sums",
    ".type chapbook_m0_sums, %function",
    ".thumb_func",
    "chapbook_m0_sums:",
    "push {{r4-r7, lr}}",
    "mov r4, r8",
    "mov r5, r9",
    "mov r6, r10",
    "mov r7, r11",
    "push {{r4-r7}}",
    "push {{r1-r3}}",
    // sp: vector, words, sums, 9 saved registers, blocks, gap
    "1:",
    "ldr r1, [sp]",
    "ldr r2, [sp, #4]",
    "lsls r3, r2, #4",
    "adds r3, r0, r3",
    "mov r12, r3",
    "movs r3, #0",
    "mov r8, r3",
    "mov r9, r3",
    "mov r10, r3",
    "mov r11, r3",
    "lsls r2, r2, #31",
    "bmi 5f",
    "bcc 2f",
    "b 3f",
    "5:",
    "bcc 6f",
    "b 7f",
    "6:",
    "b 8f",
    "2:",
    "chapbook_m0_step",
    "7:",
    "chapbook_m0_step",
    "3:",
    "chapbook_m0_step",
    "8:",
    "chapbook_m0_step",
    "cmp r0, r12",
    "beq 9f",
    "b 2b",
    "9:",
    "ldr r3, [sp, #8]",
    "mov r4, r8",
    "mov r5, r9",
    "mov r6, r10",
    "mov r7, r11",
    "stm r3!, {{r4-r7}}",
    "str r3, [sp, #8]",
    "ldr r3, [sp, #52]",
    "adds r0, r0, r3",
    "ldr r3, [sp, #48]",
    "subs r3, r3, #1",
    "str r3, [sp, #48]",
    "beq 4f",
    "b 1b",
    "4:",
    "add sp, #12",
    "pop {{r4-r7}}",
    "mov r8, r4",
    "mov r9, r5",
    "mov r10, r6",
    "mov r11, r7",
    "pop {{r4-r7, pc}}",
    ".size chapbook_m0_sums, . - chapbook_m0_sums",
    ".purgem chapbook_m0_step",
    ".text",
);

// r0 weights, r1 vector, r2 words of a row, r3 sums; on the stack the end of the sums, their start and
// how far they are shifted at the end. r8 to r11 are the sums, r12 is the end of the vector, lr where they
// go. sp: for each block the vector, where its loop starts and the start of the sums; 9 saved registers.
//
// One step is as above. Six steps make a turn; another number of them enters in the middle.
global_asm!(
    ".macro chapbook_m0_step",
    "ldm r1!, {{r4-r7}}",
    ".irp sum, r8, r9, r10, r11",
    "ldm r0!, {{r3}}",
    "uxtb r2, r3",
    "muls r2, r4, r2",
    "add \\sum, r2",
    "sxth r2, r3",
    "muls r2, r5, r2",
    "add \\sum, r2",
    "asrs r3, r3, #16",
    "uxtb r2, r3",
    "muls r2, r6, r2",
    "add \\sum, r2",
    "muls r3, r7, r3",
    "add \\sum, r3",
    ".endr",
    ".endm",
    ".section .text.chapbook_m0_biased, \"ax\"",
    ".balign 4",
    ".global chapbook_m0_biased",
    ".type chapbook_m0_biased, %function",
    ".thumb_func",
    "chapbook_m0_biased:",
    "push {{r4-r7, lr}}",
    "mov r4, r8",
    "mov r5, r9",
    "mov r6, r10",
    "mov r7, r11",
    "push {{r4-r7}}",
    "mov lr, r3",
    "lsls r3, r2, #4",
    "adds r3, r1, r3",
    "mov r12, r3",
    // The steps that are left out at first: what is missing to a multiple of six, of 106 bytes each.
    "4:",
    "subs r2, r2, #6",
    "bgt 4b",
    "rsbs r2, r2, #0",
    "movs r3, #106",
    "muls r2, r3, r2",
    "adr r3, 2f",
    "adds r2, r2, r3",
    "ldr r3, [sp, #40]",
    "push {{r1-r3}}",
    "1:",
    "mov r1, sp",
    "ldm r1, {{r1-r3}}",
    "mov r8, r3",
    "mov r9, r3",
    "mov r10, r3",
    "mov r11, r3",
    "mov pc, r2",
    ".balign 4",
    "2:",
    ".rept 6",
    "chapbook_m0_step",
    ".endr",
    "cmp r1, r12",
    "beq 3f",
    "b 2b",
    "3:",
    "ldr r2, [sp, #56]",
    "mov r3, lr",
    "mov r4, r8",
    "mov r5, r9",
    "mov r6, r10",
    "mov r7, r11",
    ".irp sum, r4, r5, r6, r7",
    "asrs \\sum, \\sum, r2",
    ".endr",
    "stm r3!, {{r4-r7}}",
    "mov lr, r3",
    "ldr r2, [sp, #48]",
    "cmp r3, r2",
    "beq 4f",
    "b 1b",
    "4:",
    "add sp, #12",
    "pop {{r4-r7}}",
    "mov r8, r4",
    "mov r9, r5",
    "mov r10, r6",
    "mov r11, r7",
    "pop {{r4-r7, pc}}",
    ".size chapbook_m0_biased, . - chapbook_m0_biased",
    ".purgem chapbook_m0_step",
    // r0 vector, r1 lanes, r2 end of the vector; returns the sum of the even elements.
    ".section .text.chapbook_m0_pair, \"ax\"",
    ".balign 4",
    ".global chapbook_m0_pair",
    ".type chapbook_m0_pair, %function",
    ".thumb_func",
    "chapbook_m0_pair:",
    "push {{r4-r7, lr}}",
    "movs r3, #0",
    "b 2f",
    "1:",
    "ldm r0!, {{r4-r7}}",
    "adds r3, r3, r4",
    "adds r3, r3, r6",
    "lsls r4, r4, #8",
    "subs r4, r4, r5",
    "lsls r6, r6, #8",
    "subs r6, r6, r7",
    "stm r1!, {{r4-r7}}",
    "2:",
    "cmp r0, r2",
    "bne 1b",
    "movs r0, r3",
    "pop {{r4-r7, pc}}",
    ".size chapbook_m0_pair, . - chapbook_m0_pair",
    // By halves, then a table of the zeros of four bits.
    ".section .text.chapbook_m0_leading_zeros, \"ax\"",
    ".balign 4",
    ".global chapbook_m0_leading_zeros",
    ".type chapbook_m0_leading_zeros, %function",
    ".thumb_func",
    "chapbook_m0_leading_zeros:",
    "movs r1, #28",
    ".irp bits, 16, 8, 4",
    "lsrs r2, r0, #\\bits",
    "beq 1f",
    "movs r0, r2",
    "subs r1, r1, #\\bits",
    "1:",
    ".endr",
    "adr r2, 2f",
    "ldrb r0, [r2, r0]",
    "adds r0, r0, r1",
    "bx lr",
    ".balign 4",
    "2: .byte 4, 3, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0",
    ".size chapbook_m0_leading_zeros, . - chapbook_m0_leading_zeros",
    ".text",
);

unsafe extern "C" {
    /// Computes `blocks` blocks of four sums; `words` and `blocks` are at least 1.
    fn chapbook_m0_sums(
        w: *const u32,
        x: *const i32,
        words: usize,
        out: *mut i32,
        blocks: usize,
        gap: usize,
    );
    /// Computes sums of a biased matrix without gaps, a multiple of four of them and at least four;
    /// `words` is at least 1.
    fn chapbook_m0_biased(
        w: *const u32,
        x: *const i32,
        words: usize,
        out: *mut i32,
        end: *const i32,
        start: i32,
        right: u32,
    );
    /// Writes `256 x0 - x1, x1, 256 x2 - x3, x3` for each four elements; returns the sum of the even
    /// ones.
    fn chapbook_m0_pair(x: *const i32, lanes: *mut i32, end: *const i32) -> i32;
    safe fn chapbook_m0_leading_zeros(x: u32) -> u32;
}

pub(crate) fn leading_zeros(x: u32) -> u32 {
    chapbook_m0_leading_zeros(x)
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
    if w.biased {
        return match x {
            Vector::Int8(x) => biased(w, x, 0, lanes, out),
            Vector::Int16(_) => None,
        };
    }
    let filled = lanes.get_mut(..x.len().next_multiple_of(4))?;
    let lanes = match x {
        // Whole words are read where they are.
        Vector::Int8(x) | Vector::Int16(x) if x.len() == filled.len() => x,
        Vector::Int8(x) | Vector::Int16(x) => copy(x, filled),
    };
    super::for_blocks(w, lanes.len() / 4, out, |call| {
        // SAFETY: `for_blocks` has checked that `w` has `blocks` blocks of at least `words` words
        // in each of four rows and `out` four sums for each of them; `lanes` has four words for
        // each word of a row.
        unsafe {
            chapbook_m0_sums(
                call.w.as_ptr(),
                lanes.as_ptr(),
                call.words,
                call.out.as_mut_ptr(),
                call.out.len() / BLOCK,
                call.gap,
            );
        }
    })
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
    let lanes = lanes.get_mut(..w.row_len)?;
    if x.len().next_multiple_of(4) != lanes.len() {
        return None;
    }
    let (fours, rest) = x.as_chunks::<4>();
    let lanes: &mut [i32] = bytemuck::cast_slice_mut(lanes);
    let range = fours.as_flattened().as_ptr_range();
    // SAFETY: `lanes` has at least as many words as `fours`, a multiple of four.
    let mut even = unsafe { chapbook_m0_pair(range.start, lanes.as_mut_ptr(), range.end) };
    if let (false, Some(last)) = (rest.is_empty(), lanes.last_chunk_mut::<4>()) {
        let [x0, x1, x2] = [0, 1, 2].map(|place: usize| rest.get(place).copied().unwrap_or(0));
        *last = [256 * x0 - x1, x1, 256 * x2, 0];
        even += x0 + x2;
    }
    // The bias away, and half of what is cut. Sums wrap, so this may too.
    let half = (1 << (8 + cut)) >> 1 & !0xFF;
    let start = (-(even << 15)).wrapping_add(half);
    super::for_blocks(w, lanes.len() / 4, out, |call| {
        let out = call.out.as_mut_ptr_range();
        // SAFETY: `for_blocks` has checked that `w` has four rows of `words` words for each four sums,
        // and there is no gap between two rows; `lanes` has four words for each word of a row.
        unsafe {
            chapbook_m0_biased(
                call.w.as_ptr(),
                lanes.as_ptr(),
                call.words,
                out.start,
                out.end,
                start,
                8 + cut,
            );
        }
    })
}

/// Copies a vector to where zeros can follow it.
fn copy<'l>(x: &[i32], lanes: &'l mut [u32]) -> &'l [i32] {
    let lanes: &mut [i32] = bytemuck::cast_slice_mut(lanes);
    let (first, rest) = lanes.split_at_mut(x.len().min(lanes.len()));
    for (lane, &x) in first.iter_mut().zip(x) {
        *lane = x;
    }
    rest.fill(0);
    lanes
}
