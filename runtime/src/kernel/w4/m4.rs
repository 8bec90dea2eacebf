//! Cores with the DSP extension: four rows at a time.

#![expect(
    unsafe_code,
    reason = "the compiler finds smlad in none of these loops"
)]

use core::arch::global_asm;

use super::{Element, Nibbles, pair};

/// Rows of a block.
const BLOCK: usize = 4;

// r0 weights, r1 vector, r2 end of the vector, r3 sums; on the stack the number of blocks. In the
// loop r4 to r7 are the sums of the group, r8 to r11 a word of each row and, between groups, the
// sums of the rows; r3 and r12 are two words of the vector, r2 is scratch and lr the mask. There is
// a function for each number of steps in a group.
global_asm!(
    #[cfg(armv8m)]
    ".cpu cortex-m33",
    ".syntax unified",
    ".macro chapbook_m4_w4_first word, sum, add",
    "and r2, lr, \\word, lsl #12",
    ".if \\add",
    "smlad \\sum, r2, r3, \\sum",
    ".else",
    "smuad \\sum, r2, r3",
    ".endif",
    "and r2, lr, \\word, lsl #8",
    "smlad \\sum, r2, r12, \\sum",
    ".endm",
    ".macro chapbook_m4_w4_second word, sum",
    "and r2, lr, \\word, lsl #4",
    "smlad \\sum, r2, r3, \\sum",
    "and r2, lr, \\word",
    "smlad \\sum, r2, r12, \\sum",
    ".endm",
    ".macro chapbook_m4_w4_step add",
    "ldm r0!, {{r8-r11}}",
    "ldm r1!, {{r3, r12}}",
    "chapbook_m4_w4_first r8, r4, \\add",
    "chapbook_m4_w4_first r9, r5, \\add",
    "chapbook_m4_w4_first r10, r6, \\add",
    "chapbook_m4_w4_first r11, r7, \\add",
    "ldm r1!, {{r3, r12}}",
    "chapbook_m4_w4_second r8, r4",
    "chapbook_m4_w4_second r9, r5",
    "chapbook_m4_w4_second r10, r6",
    "chapbook_m4_w4_second r11, r7",
    ".endm",
    ".macro chapbook_m4_w4_sums name, more",
    ".section .text.\\name, \"ax\"",
    ".balign 4",
    ".global \\name",
    ".type \\name, %function",
    ".thumb_func",
    "\\name:",
    "push {{r4-r11, lr}}",
    "sub sp, sp, #28",
    "str r2, [sp, #16]",
    "str r1, [sp, #20]",
    "str r3, [sp, #24]",
    // sp: sums of the rows, end of the vector, vector, sums, 9 saved registers, blocks
    "mov lr, #0xf000f000",
    "1:",
    "ldr r1, [sp, #20]",
    "mov r8, #0",
    "mov r9, #0",
    "mov r10, #0",
    "mov r11, #0",
    ".balign 4",
    "2:",
    "stm sp, {{r8-r11}}",
    "chapbook_m4_w4_step 0",
    ".rept \\more",
    "chapbook_m4_w4_step 1",
    ".endr",
    "ldm r0!, {{r2, r3}}",
    "ldm sp, {{r8-r12}}",
    "smlatb r8, r4, r2, r8",
    "smlatt r9, r5, r2, r9",
    "smlatb r10, r6, r3, r10",
    "smlatt r11, r7, r3, r11",
    "cmp r1, r12",
    "bne 2b",
    "ldr r3, [sp, #24]",
    "stm r3!, {{r8-r11}}",
    "str r3, [sp, #24]",
    "ldr r2, [sp, #64]",
    "subs r2, r2, #1",
    "str r2, [sp, #64]",
    "bne 1b",
    "add sp, sp, #28",
    "pop {{r4-r11, pc}}",
    ".size \\name, . - \\name",
    ".endm",
    "chapbook_m4_w4_sums chapbook_m4_w4_8, 0",
    "chapbook_m4_w4_sums chapbook_m4_w4_16, 1",
    "chapbook_m4_w4_sums chapbook_m4_w4_24, 2",
    "chapbook_m4_w4_sums chapbook_m4_w4_32, 3",
    ".purgem chapbook_m4_w4_sums",
    ".purgem chapbook_m4_w4_step",
    ".purgem chapbook_m4_w4_first",
    ".purgem chapbook_m4_w4_second",
    ".text",
);

/// Computes `blocks` blocks of four sums; `blocks` is at least 1.
type Kernel = unsafe extern "C" fn(
    w: *const u32,
    x: *const u32,
    x_end: *const u32,
    out: *mut i32,
    blocks: usize,
);

macro_rules! kernels {
    ($($name:ident)*) => {
        unsafe extern "C" {
            $(fn $name(
                w: *const u32,
                x: *const u32,
                x_end: *const u32,
                out: *mut i32,
                blocks: usize,
            );)*
        }
    };
}
kernels!(chapbook_m4_w4_8 chapbook_m4_w4_16 chapbook_m4_w4_24 chapbook_m4_w4_32);

/// Computes the sums; `None` when the lengths do not agree.
pub(super) fn sums(
    w: &Nibbles<'_>,
    x: &[Element],
    lanes: &mut [u32],
    out: &mut [i32],
) -> Option<()> {
    let kernel: Kernel = match w.group {
        8 => chapbook_m4_w4_8,
        16 => chapbook_m4_w4_16,
        24 => chapbook_m4_w4_24,
        32 => chapbook_m4_w4_32,
        _ => return None,
    };
    let lanes = pair::write(x, w.group, w.n_group(), lanes)?;
    if lanes.is_empty() {
        return None;
    }
    super::for_blocks::<BLOCK>(w, out, |words, out| {
        let x = lanes.as_ptr_range();
        // SAFETY: `for_blocks` has checked that there are a multiple of four sums, at least four,
        // and for each four of them a block of `n_group` groups of words. `lanes` has four words
        // for each step of as many groups, at least one; the kernel is that of the group.
        unsafe {
            kernel(
                words.as_ptr(),
                x.start,
                x.end,
                out.as_mut_ptr(),
                out.len() / BLOCK,
            );
        }
    })
}
