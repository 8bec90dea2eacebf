//! RV32IM: four rows share each element of the vector; one byte of each row lies beside the next.

use super::{Vector, Weights};

/// Rows of a block.
const BLOCK: usize = 4;
/// Columns of one turn of the loop.
const UNROLL: usize = 4;

/// Computes the sums; `None` when the lengths do not agree.
pub(super) fn sums(
    w: &Weights<'_>,
    x: Vector<'_>,
    _lanes: &mut [u32],
    out: &mut [i32],
) -> Option<()> {
    // Both are as wide, so that one loop does.
    let (Vector::Int8(x) | Vector::Int16(x)) = x;
    let bytes: &[i8] = bytemuck::cast_slice(w.words);
    if x.len() > w.row_len || bytes.len() < out.len().next_multiple_of(BLOCK) * w.row_len {
        return None;
    }
    let blocks = bytes.chunks_exact((BLOCK * w.row_len).max(1));
    for (out, block) in out.chunks_mut(BLOCK).zip(blocks) {
        let sums = block_sums(block, x);
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = sum;
        }
    }
    Some(())
}

#[inline]
fn block_sums(w: &[i8], x: &[i16]) -> [i32; BLOCK] {
    let mut sums = [0; BLOCK];
    let (turns, rest) = x.as_chunks::<UNROLL>();
    let (steps, _) = w.as_chunks::<BLOCK>();
    let (step_turns, _) = steps.as_chunks::<UNROLL>();
    for (w, x) in step_turns.iter().zip(turns) {
        for (w, &x) in w.iter().zip(x) {
            step(&mut sums, w, x.into());
        }
    }
    let done = turns.len() * UNROLL;
    for (w, &x) in steps.iter().skip(done).zip(rest) {
        step(&mut sums, w, x.into());
    }
    sums
}

#[inline]
fn step(sums: &mut [i32; BLOCK], w: &[i8; BLOCK], x: i32) {
    for (sum, &w) in sums.iter_mut().zip(w) {
        *sum += i32::from(w) * x;
    }
}
