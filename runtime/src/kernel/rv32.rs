//! RV32IM: eight rows share each element of the vector; one byte of each of four rows lies beside the next.

#![expect(
    unsafe_code,
    reason = "the compiler keeps neither the sums of eight rows nor the ends of the loops in registers"
)]

use core::arch::global_asm;

use super::{Vector, Weights};

/// Rows of a block.
const BLOCK: usize = 4;

// a0 weights, a1 vector, a2 end of its columns that make turns of four, a3 sums, a4 number of blocks, a5
// bytes of a block, a6 end of the vector. In the loops a7 and t6 are places in two blocks, t5 that in the
// vector, t4 the element, t0 to t3 a byte of each row, s0 to s7 the sums.
global_asm!(
    // The target's extensions do not reach here.
    ".option push",
    ".option arch, +m",
    ".macro chapbook_rv32_rows w, at, sum0, sum1, sum2, sum3",
    "lb t0, (\\at)(\\w)",
    "lb t1, (\\at + 1)(\\w)",
    "lb t2, (\\at + 2)(\\w)",
    "lb t3, (\\at + 3)(\\w)",
    "mul t0, t0, t4",
    "mul t1, t1, t4",
    "mul t2, t2, t4",
    "mul t3, t3, t4",
    "add \\sum0, \\sum0, t0",
    "add \\sum1, \\sum1, t1",
    "add \\sum2, \\sum2, t2",
    "add \\sum3, \\sum3, t3",
    ".endm",
    ".macro chapbook_rv32_column col, pair",
    "lh t4, (2 * \\col)(t5)",
    "chapbook_rv32_rows a7, 4 * \\col, s0, s1, s2, s3",
    ".if \\pair",
    "chapbook_rv32_rows t6, 4 * \\col, s4, s5, s6, s7",
    ".endif",
    ".endm",
    // Turns of four columns, then one by one.
    ".macro chapbook_rv32_block pair",
    "beq t5, a2, 3f",
    "2:",
    ".irp col, 0, 1, 2, 3",
    "chapbook_rv32_column \\col, \\pair",
    ".endr",
    "addi t5, t5, 8",
    "addi a7, a7, 16",
    ".if \\pair",
    "addi t6, t6, 16",
    ".endif",
    "bne t5, a2, 2b",
    "3:",
    "beq t5, a6, 5f",
    "4:",
    "chapbook_rv32_column 0, \\pair",
    "addi t5, t5, 2",
    "addi a7, a7, 4",
    ".if \\pair",
    "addi t6, t6, 4",
    ".endif",
    "bne t5, a6, 4b",
    "5:",
    ".endm",
    ".section .text.chapbook_rv32_sums, \"ax\"",
    ".balign 4",
    ".global chapbook_rv32_sums",
    ".type chapbook_rv32_sums, %function",
    "chapbook_rv32_sums:",
    "addi sp, sp, -32",
    "sw s0, 0(sp)",
    "sw s1, 4(sp)",
    "sw s2, 8(sp)",
    "sw s3, 12(sp)",
    "sw s4, 16(sp)",
    "sw s5, 20(sp)",
    "sw s6, 24(sp)",
    "sw s7, 28(sp)",
    "addi a4, a4, -2",
    "bltz a4, 6f",
    "1:",
    "mv t5, a1",
    "mv a7, a0",
    "add t6, a0, a5",
    "add a0, t6, a5",
    "li s0, 0",
    "li s1, 0",
    "li s2, 0",
    "li s3, 0",
    "li s4, 0",
    "li s5, 0",
    "li s6, 0",
    "li s7, 0",
    "chapbook_rv32_block 1",
    "sw s0, 0(a3)",
    "sw s1, 4(a3)",
    "sw s2, 8(a3)",
    "sw s3, 12(a3)",
    "sw s4, 16(a3)",
    "sw s5, 20(a3)",
    "sw s6, 24(a3)",
    "sw s7, 28(a3)",
    "addi a3, a3, 32",
    "addi a4, a4, -2",
    "bgez a4, 1b",
    "6:",
    "addi a4, a4, 1",
    "bltz a4, 7f",
    "mv t5, a1",
    "mv a7, a0",
    "li s0, 0",
    "li s1, 0",
    "li s2, 0",
    "li s3, 0",
    "chapbook_rv32_block 0",
    "sw s0, 0(a3)",
    "sw s1, 4(a3)",
    "sw s2, 8(a3)",
    "sw s3, 12(a3)",
    "7:",
    "lw s0, 0(sp)",
    "lw s1, 4(sp)",
    "lw s2, 8(sp)",
    "lw s3, 12(sp)",
    "lw s4, 16(sp)",
    "lw s5, 20(sp)",
    "lw s6, 24(sp)",
    "lw s7, 28(sp)",
    "addi sp, sp, 32",
    "ret",
    ".size chapbook_rv32_sums, . - chapbook_rv32_sums",
    ".purgem chapbook_rv32_rows",
    ".purgem chapbook_rv32_column",
    ".purgem chapbook_rv32_block",
    // By halves, then a table of the zeros of four bits, two bits of 3 less them for each; 0 has none.
    ".section .text.chapbook_rv32_leading_zeros, \"ax\"",
    ".balign 4",
    ".global chapbook_rv32_leading_zeros",
    ".type chapbook_rv32_leading_zeros, %function",
    "chapbook_rv32_leading_zeros:",
    "li a1, 31",
    ".irp bits, 16, 8, 4",
    "srli a2, a0, \\bits",
    "beqz a2, 1f",
    "mv a0, a2",
    "addi a1, a1, -\\bits",
    "1:",
    ".endr",
    "beqz a0, 2f",
    "li a2, 0xffffaa50",
    "slli a0, a0, 1",
    "srl a0, a2, a0",
    "andi a0, a0, 3",
    "sub a0, a1, a0",
    "ret",
    "2:",
    "addi a0, a1, 1",
    "ret",
    ".size chapbook_rv32_leading_zeros, . - chapbook_rv32_leading_zeros",
    ".option pop",
    ".text",
);

unsafe extern "C" {
    /// Computes `blocks` blocks of four sums, any number of them.
    fn chapbook_rv32_sums(
        w: *const u32,
        x: *const i16,
        x_turns: *const i16,
        out: *mut i32,
        blocks: usize,
        block_len: usize,
        x_end: *const i16,
    );
    safe fn chapbook_rv32_leading_zeros(x: u32) -> u32;
}

pub(crate) fn leading_zeros(x: u32) -> u32 {
    chapbook_rv32_leading_zeros(x)
}

/// Computes the sums; `None` when the lengths do not agree.
pub(super) fn sums(
    w: &Weights<'_>,
    x: Vector<'_>,
    _lanes: &mut [u32],
    out: &mut [i32],
) -> Option<()> {
    // Both are as wide, so that one loop does.
    let (Vector::Int8(x) | Vector::Int16(x)) = x;
    // The bytes of a row are as many as the words of a block.
    let block_words = w.row_len;
    if x.len() > block_words {
        return None;
    }
    let turns = x.as_chunks::<4>().0.as_flattened().as_ptr_range().end;
    let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
    let (words, last) = w.words.split_at_checked(blocks.len() * block_words)?;
    let run = |words: &[u32], out: &mut [[i32; BLOCK]]| {
        let x = x.as_ptr_range();
        // SAFETY: there are `block_words` words in `words` for each four sums, and four bytes in them
        // for each element of `x`; `turns` lies a multiple of four elements behind its start.
        unsafe {
            chapbook_rv32_sums(
                words.as_ptr(),
                x.start,
                turns,
                out.as_flattened_mut().as_mut_ptr(),
                out.len(),
                BLOCK * block_words,
                x.end,
            );
        }
    };
    if !blocks.is_empty() {
        run(words, blocks);
    }
    if !rest.is_empty() {
        let mut sums = [0; BLOCK];
        run(last.get(..block_words)?, core::slice::from_mut(&mut sums));
        for (out, sum) in rest.iter_mut().zip(sums) {
            *out = sum;
        }
    }
    Some(())
}
