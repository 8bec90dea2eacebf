//! RV32IM: four rows share each word of the vector.

use super::{Element, Nibbles, lane};

/// Rows of a block.
const BLOCK: usize = 4;

/// Computes the sums; `None` when the lengths do not agree.
pub(super) fn sums(
    w: &Nibbles<'_>,
    x: &[Element],
    lanes: &mut [u32],
    out: &mut [i32],
) -> Option<()> {
    let lanes = lane::write(x, w.group, w.n_group(), lanes)?;
    let block_words = (w.n_group() * w.group_words()).max(1);
    for (out, words) in out.chunks_mut(BLOCK).zip(w.words.chunks_exact(block_words)) {
        let sums = lane::block_sums::<BLOCK>(words, w.group, lanes);
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = sum;
        }
    }
    Some(())
}
