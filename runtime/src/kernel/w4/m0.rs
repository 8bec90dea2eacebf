//! Cores with a single-cycle multiplier and no DSP extension: two rows at a time.

#![expect(
    unsafe_code,
    reason = "the compiler keeps neither two rows nor high registers"
)]

use core::arch::global_asm;

use super::{Element, Nibbles, STEP, lane};

/// Rows of a block.
const BLOCK: usize = 2;

// r0 weights, r1 vector, r2 end of the vector, r3 sums; on the stack the number of blocks and of
// steps in a group. In the loop r2 is the mask, r3 and r4 a word of each row, r5 and r6 two words of
// the vector, r7 scratch, r8 and r9 the sums of the group, r10 and r11 those of the row, r12 the end
// of the vector and lr the place where a group is entered: a step has 35 instructions of two bytes.
global_asm!(
    ".syntax unified",
    ".macro chapbook_m0_w4_row word, sum, first",
    ".if \\first",
    "movs r7, \\word",
    "ands r7, r2",
    "muls r7, r5, r7",
    "add \\sum, r7",
    "lsrs r7, \\word, #4",
    "ands r7, r2",
    "muls r7, r6, r7",
    "add \\sum, r7",
    ".else",
    "lsrs r7, \\word, #8",
    "ands r7, r2",
    "muls r7, r5, r7",
    "add \\sum, r7",
    "lsrs r7, \\word, #12",
    "ands r7, r2",
    "muls r7, r6, r7",
    "add \\sum, r7",
    ".endif",
    ".endm",
    ".section .text.chapbook_m0_w4, \"ax\"",
    ".balign 4",
    ".global chapbook_m0_w4",
    ".type chapbook_m0_w4, %function",
    ".thumb_func",
    "chapbook_m0_w4:",
    "push {{r4-r7, lr}}",
    "mov r4, r8",
    "mov r5, r9",
    "mov r6, r10",
    "mov r7, r11",
    "push {{r1, r3-r7}}",
    // sp: vector, sums, 9 saved registers, blocks, steps
    "mov r12, r2",
    "ldr r4, [sp, #48]",
    "movs r5, #70",
    "muls r4, r5, r4",
    "ldr r5, 5f",
    "subs r5, r5, r4",
    "mov lr, r5",
    "ldr r2, 6f",
    "1:",
    "ldr r1, [sp]",
    "movs r3, #0",
    "mov r10, r3",
    "mov r11, r3",
    "2:",
    "ldm r1!, {{r5}}",
    "mov r8, r5",
    "mov r9, r5",
    "bx lr",
    ".rept 4",
    "ldm r0!, {{r3, r4}}",
    "ldm r1!, {{r5, r6}}",
    "chapbook_m0_w4_row r3, r8, 1",
    "chapbook_m0_w4_row r4, r9, 1",
    "ldm r1!, {{r5, r6}}",
    "chapbook_m0_w4_row r3, r8, 0",
    "chapbook_m0_w4_row r4, r9, 0",
    ".endr",
    "3:",
    "ldm r0!, {{r3}}",
    "sxth r4, r3",
    "asrs r3, r3, #16",
    "mov r7, r8",
    "asrs r7, r7, #16",
    "muls r7, r4, r7",
    "add r10, r7",
    "mov r7, r9",
    "asrs r7, r7, #16",
    "muls r7, r3, r7",
    "add r11, r7",
    "cmp r1, r12",
    "beq 4f",
    "b 2b",
    "4:",
    "ldr r3, [sp, #4]",
    "mov r4, r10",
    "mov r5, r11",
    "stm r3!, {{r4, r5}}",
    "str r3, [sp, #4]",
    "ldr r3, [sp, #44]",
    "subs r3, r3, #1",
    "str r3, [sp, #44]",
    "beq 7f",
    "b 1b",
    "7:",
    "add sp, #8",
    "pop {{r4-r7}}",
    "mov r8, r4",
    "mov r9, r5",
    "mov r10, r6",
    "mov r11, r7",
    "pop {{r4-r7, pc}}",
    ".balign 4",
    "5: .word 3b + 1",
    "6: .word 0x000f000f",
    ".size chapbook_m0_w4, . - chapbook_m0_w4",
    ".purgem chapbook_m0_w4_row",
    ".text",
);

unsafe extern "C" {
    /// Computes `blocks` blocks of two sums; `blocks` is at least 1, `steps` 1 to 4.
    fn chapbook_m0_w4(
        w: *const u32,
        x: *const u32,
        x_end: *const u32,
        out: *mut i32,
        blocks: usize,
        steps: usize,
    );
}

/// Computes the sums; `None` when the lengths do not agree.
pub(super) fn sums(
    w: &Nibbles<'_>,
    x: &[Element],
    lanes: &mut [u32],
    out: &mut [i32],
) -> Option<()> {
    let (n_group, steps) = (w.n_group(), w.group / STEP);
    let lanes = lane::write(x, w.group, n_group, lanes)?;
    if lanes.is_empty() || steps > 4 {
        return None;
    }
    super::for_blocks::<BLOCK>(w, out, |words, out| {
        let x = lanes.as_ptr_range();
        // SAFETY: `for_blocks` has checked that there are a multiple of two sums, at least two, and
        // for each two of them a block of `n_group` groups of words. `lanes` has a start and four
        // words for each step of as many groups, at least one; a group has 1 to 4 steps.
        unsafe {
            chapbook_m0_w4(
                words.as_ptr(),
                x.start,
                x.end,
                out.as_mut_ptr(),
                out.len() / BLOCK,
                steps,
            );
        }
    })
}
