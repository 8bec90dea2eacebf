//! The vector for cores with the DSP extension.
//!
//! A mask leaves the weights of columns `j` and `j + 4` at the top of both halves of a word, as
//! signed numbers of 16 bits that are 4096 times too large. Elements are 16 times too large, so a
//! group's sum comes out in the upper half of the accumulator, where `smlatb` finds it:
//! `32 * 8 * 127 < 2^15`.

use super::{Element, STEP};

/// Writes the vector as the kernel reads it, four words for every eight columns and zeros after the
/// last; returns these words.
///
/// `None` when `lanes` is too short.
pub(super) fn write<'l>(
    x: &[Element],
    group: usize,
    n_group: usize,
    lanes: &'l mut [u32],
) -> Option<&'l [u32]> {
    let lanes = lanes.get_mut(..n_group * (group / 2))?;
    let (steps, rest) = x.as_chunks::<STEP>();
    let (chunks, _) = lanes.as_chunks_mut::<4>();
    let mut chunks = chunks.iter_mut();
    for (&x, lanes) in steps.iter().zip(&mut chunks) {
        *lanes = step(x);
    }
    if !rest.is_empty()
        && let Some(lanes) = chunks.next()
    {
        let mut x = [0; STEP];
        for (x, &from) in x.iter_mut().zip(rest) {
            *x = from;
        }
        *lanes = step(x);
    }
    chunks.for_each(|lanes| lanes.fill(0));
    Some(lanes)
}

#[inline]
fn step(x: [Element; STEP]) -> [u32; 4] {
    let [a, b, c, d, e, f, g, h] = x.map(|x| 16 * x as i32);
    let pair = |low: i32, high: i32| low.cast_unsigned() & 0xFFFF | high.cast_unsigned() << 16;
    [pair(a, e), pair(b, f), pair(c, g), pair(d, h)]
}
