//! Cores with a single-cycle multiplier and no DSP extension: Cortex-M0+, M3, M33 without DSP.
//!
//! Four rows at a time. The vector lies widened to words, so that one `ldm` fetches four elements
//! for sixteen products; the four sums live in the high registers, which these cores can add to.

#![expect(
    unsafe_code,
    reason = "the compiler keeps neither four rows nor high registers"
)]

use core::arch::global_asm;

use super::{Vector, Weights};

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
}

/// Computes the sums; `None` when the lengths do not agree.
pub(super) fn sums(
    w: &Weights<'_>,
    x: Vector<'_>,
    lanes: &mut [u32],
    out: &mut [i32],
) -> Option<()> {
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
