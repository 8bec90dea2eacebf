//! RV32IM: four rows share each word of the vector.

#![expect(
    unsafe_code,
    reason = "the compiler keeps neither the sums of four rows nor both ends of the loop in registers"
)]

use core::arch::global_asm;

use super::{Element, Nibbles, STEP, lane};

/// Rows of a block.
const BLOCK: usize = 4;

// a0 weights, a1 vector, a2 end of the vector, a3 sums, a4 number of blocks, a5 steps in a group. In
// the loop a6 is the start of the vector, a7 counts steps, s0 is the mask, s1 to s4 are the sums of
// the group, s5 to s8 those of the rows, s9 to s11 and t6 a word of each row, t2 to t5 four words of
// the vector, t0 and t1 scratch.
global_asm!(
    // The target's extensions do not reach here.
    ".option push",
    ".option arch, +m",
    ".macro chapbook_rv32_w4_row word, sum",
    "and t0, \\word, s0",
    "mul t0, t0, t2",
    "srli t1, \\word, 4",
    "and t1, t1, s0",
    "mul t1, t1, t3",
    "add \\sum, \\sum, t0",
    "srli t0, \\word, 8",
    "and t0, t0, s0",
    "mul t0, t0, t4",
    "add \\sum, \\sum, t1",
    "srli t1, \\word, 12",
    "and t1, t1, s0",
    "mul t1, t1, t5",
    "add \\sum, \\sum, t0",
    "add \\sum, \\sum, t1",
    ".endm",
    ".macro chapbook_rv32_w4_scale sums, low, high, total_low, total_high",
    "slli t0, \\sums, 16",
    "srai t0, t0, 16",
    "srai t1, \\sums, 16",
    "srai \\low, \\low, 16",
    "srai \\high, \\high, 16",
    "mul t0, t0, \\low",
    "mul t1, t1, \\high",
    "add \\total_low, \\total_low, t0",
    "add \\total_high, \\total_high, t1",
    ".endm",
    ".section .text.chapbook_rv32_w4, \"ax\"",
    ".balign 4",
    ".global chapbook_rv32_w4",
    ".type chapbook_rv32_w4, %function",
    "chapbook_rv32_w4:",
    "addi sp, sp, -48",
    "sw s0, 0(sp)",
    "sw s1, 4(sp)",
    "sw s2, 8(sp)",
    "sw s3, 12(sp)",
    "sw s4, 16(sp)",
    "sw s5, 20(sp)",
    "sw s6, 24(sp)",
    "sw s7, 28(sp)",
    "sw s8, 32(sp)",
    "sw s9, 36(sp)",
    "sw s10, 40(sp)",
    "sw s11, 44(sp)",
    "li s0, 0x000f000f",
    "mv a6, a1",
    "1:",
    "li s5, 0",
    "li s6, 0",
    "li s7, 0",
    "li s8, 0",
    "2:",
    "lw s1, 0(a1)",
    "addi a1, a1, 4",
    "mv a7, a5",
    "mv s2, s1",
    "mv s3, s1",
    "mv s4, s1",
    "3:",
    "lw s9, 0(a0)",
    "lw s10, 4(a0)",
    "lw s11, 8(a0)",
    "lw t6, 12(a0)",
    "lw t2, 0(a1)",
    "lw t3, 4(a1)",
    "lw t4, 8(a1)",
    "lw t5, 12(a1)",
    "addi a0, a0, 16",
    "addi a1, a1, 16",
    "addi a7, a7, -1",
    "chapbook_rv32_w4_row s9, s1",
    "chapbook_rv32_w4_row s10, s2",
    "chapbook_rv32_w4_row s11, s3",
    "chapbook_rv32_w4_row t6, s4",
    "bnez a7, 3b",
    "lw t2, 0(a0)",
    "lw t3, 4(a0)",
    "addi a0, a0, 8",
    "chapbook_rv32_w4_scale t2, s1, s2, s5, s6",
    "chapbook_rv32_w4_scale t3, s3, s4, s7, s8",
    "bne a1, a2, 2b",
    "sw s5, 0(a3)",
    "sw s6, 4(a3)",
    "sw s7, 8(a3)",
    "sw s8, 12(a3)",
    "addi a3, a3, 16",
    "addi a4, a4, -1",
    "mv a1, a6",
    "bnez a4, 1b",
    "lw s0, 0(sp)",
    "lw s1, 4(sp)",
    "lw s2, 8(sp)",
    "lw s3, 12(sp)",
    "lw s4, 16(sp)",
    "lw s5, 20(sp)",
    "lw s6, 24(sp)",
    "lw s7, 28(sp)",
    "lw s8, 32(sp)",
    "lw s9, 36(sp)",
    "lw s10, 40(sp)",
    "lw s11, 44(sp)",
    "addi sp, sp, 48",
    "ret",
    ".size chapbook_rv32_w4, . - chapbook_rv32_w4",
    ".purgem chapbook_rv32_w4_row",
    ".purgem chapbook_rv32_w4_scale",
    ".option pop",
    ".text",
);

unsafe extern "C" {
    /// Computes `blocks` blocks of four sums; `blocks` and `steps` are at least 1.
    fn chapbook_rv32_w4(
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
    if lanes.is_empty() || steps == 0 {
        return None;
    }
    super::for_blocks::<BLOCK>(w, out, |words, out| {
        let x = lanes.as_ptr_range();
        // SAFETY: `for_blocks` has checked that there are a multiple of four sums, at least four,
        // and for each four of them a block of `n_group` groups of words. `lanes` has a start and
        // four words for each step of as many groups, at least one; a group has at least one step.
        unsafe {
            chapbook_rv32_w4(
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
