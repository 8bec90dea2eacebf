//! Two products in one multiplication, for cores without the DSP extension.
//!
//! The weights `n + 8` of columns `j` and `j + 4` lie in the halves of a word `v`, the elements of
//! the vector in the other order in `(x[j] << 16) + x[j + 4]`: the upper half of the product is the sum
//! of both products, modulo 2^16. Of a group of at most 32 columns this sum fits: a start takes the
//! bias away, `|Σ n x| <= 32 * 8 * 127 < 2^15`. The lower half collects `Σ v[j] x[j + 4]` of every
//! second column, at most `16 * 15 * 127 < 2^15` either way, and the start's `2^15` keeps it from
//! reaching the upper one.

use super::{Element, STEP};

/// Writes the vector as the kernels read it, for each group a start and four words for every eight
/// columns, zeros after the last; returns these words.
///
/// `None` when `lanes` is too short.
pub(super) fn write<'l>(
    x: &[Element],
    group: usize,
    n_group: usize,
    lanes: &'l mut [u32],
) -> Option<&'l [u32]> {
    let group_len = group / 2 + 1;
    let lanes = lanes.get_mut(..n_group * group_len)?;
    // Chunks of a length that the compiler does not know would bring a panic path.
    let (mut x_rest, mut lanes_rest) = (x, &mut *lanes);
    for _ in 0..n_group {
        let (x, lanes);
        (x, x_rest) = x_rest.split_at_checked(group).unwrap_or((x_rest, &[]));
        (lanes, lanes_rest) = lanes_rest.split_at_mut_checked(group_len)?;
        let (start, lanes) = lanes.split_first_mut()?;
        let (lanes, _) = lanes.as_chunks_mut::<4>();
        let (steps, rest) = x.as_chunks::<STEP>();
        let mut lanes = lanes.iter_mut();
        let mut sum = 0_u32;
        for (x, lanes) in steps.iter().zip(&mut lanes) {
            sum = sum.wrapping_add(write_step(x, lanes));
        }
        if !rest.is_empty()
            && let Some(lanes) = lanes.next()
        {
            let mut x = [0; STEP];
            for (x, &from) in x.iter_mut().zip(rest) {
                *x = from;
            }
            sum = sum.wrapping_add(write_step(&x, lanes));
        }
        lanes.for_each(|lanes| lanes.fill(0));
        // The halves of the sum are those of the elements; at most 16 * 127 in the lower one.
        let low = (sum as i16).cast_unsigned();
        let high = sum.wrapping_sub(i32::from(sum as i16).cast_unsigned()) >> 16;
        *start = 0x8000_u32.wrapping_sub((u32::from(low).wrapping_add(high)) << 19);
    }
    Some(lanes)
}

/// Writes four words; returns their sum.
#[inline]
fn write_step(x: &[Element; STEP], lanes: &mut [u32; 4]) -> u32 {
    let (high, low) = x.split_at(STEP / 2);
    let mut sum = 0_u32;
    for (lane, (&high, &low)) in lanes.iter_mut().zip(high.iter().zip(low)) {
        *lane = (high as i32 as u32) << 16;
        *lane = lane.wrapping_add((low as i32).cast_unsigned());
        sum = sum.wrapping_add(*lane);
    }
    sum
}

/// Computes the sums of a block of rows, as the kernels of all these cores do.
#[cfg(test)]
pub(super) fn block_sums<const BLOCK: usize>(
    words: &[u32],
    group: usize,
    lanes: &[u32],
) -> [i32; BLOCK] {
    const MASK: u32 = 0x000F_000F;
    let mut totals = [0_i32; BLOCK];
    let group_words = group / STEP * BLOCK + BLOCK / 2;
    let groups = words.chunks_exact(group_words.max(1));
    for (words, lanes) in groups.zip(lanes.chunks_exact(group / 2 + 1)) {
        let Some((&start, lanes)) = lanes.split_first() else {
            continue;
        };
        let (steps, multipliers) = words.as_chunks::<BLOCK>();
        let (lanes, _) = lanes.as_chunks::<4>();
        let mut sums = [start; BLOCK];
        for (words, lanes) in steps.iter().zip(lanes) {
            for (sum, &word) in sums.iter_mut().zip(words) {
                let [a, b, c, d] = *lanes;
                *sum = sum
                    .wrapping_add((word & MASK).wrapping_mul(a))
                    .wrapping_add((word >> 4 & MASK).wrapping_mul(b))
                    .wrapping_add((word >> 8 & MASK).wrapping_mul(c))
                    .wrapping_add((word >> 12 & MASK).wrapping_mul(d));
            }
        }
        let halves = bytemuck::cast_slice::<u32, i16>(multipliers);
        for ((total, sum), &multiplier) in totals.iter_mut().zip(sums).zip(halves) {
            let sum = sum.cast_signed() >> 16;
            *total = total.wrapping_add(sum.wrapping_mul(multiplier.into()));
        }
    }
    totals
}
