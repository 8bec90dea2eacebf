//! int4 matrix times int8 vector: one plain kernel, and one for each family of cores.

#[cfg(any(test, kernel = "m0", kernel = "rv32"))]
mod lane;
#[cfg(any(test, kernel = "m4"))]
mod pair;

#[cfg(kernel = "m0")]
#[path = "m0.rs"]
mod native;
#[cfg(kernel = "m4")]
#[path = "m4.rs"]
mod native;
#[cfg(kernel = "rv32")]
#[path = "rv32.rs"]
mod native;
#[cfg(kernel = "sse2")]
#[path = "sse2.rs"]
mod native;

#[cfg(test)]
mod tests;

use super::Element;
#[cfg(any(kernel = "m0", kernel = "m4", kernel = "rv32", kernel = "sse2"))]
use super::NATIVE;
use crate::layout::Layout;
use crate::part::part;

/// Columns of one word.
const STEP: usize = 8;

/// An int4 matrix in one of the layouts.
///
/// # Shapes
///
/// - weights: `[rows, cols]`, within -8..=7
/// - multipliers: `[rows, n_group]`
#[derive(Clone, Copy, Debug)]
pub struct Nibbles<'a> {
    /// Weights, eight to a word; in other layouts than the plain one the multipliers too.
    pub words: &'a [u32],
    /// Multipliers in the plain layout, else none.
    pub multiplier: &'a [i16],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Columns that share a multiplier; see [`is_group`](crate::is_group).
    pub group: usize,
    /// Order of the words.
    pub layout: Layout,
}

/// Returns the groups of a row; the last one may be short of columns.
///
/// Without the division that small cores lack: exact for up to 16,384 columns.
#[must_use]
pub const fn n_group(cols: usize, group: usize) -> usize {
    let steps = cols.div_ceil(STEP);
    match group / STEP {
        4 => steps.div_ceil(4),
        3 => ((steps + 2) * 43_691) >> 17,
        2 => steps.div_ceil(2),
        _ => steps,
    }
}

impl Nibbles<'_> {
    /// Returns the groups of a row.
    #[must_use]
    pub const fn n_group(&self) -> usize {
        n_group(self.cols, self.group)
    }

    /// Returns the place of a weight: a word, and the bits to the right of it.
    #[must_use]
    pub const fn place(&self, row: usize, col: usize) -> (usize, u32) {
        let right = 4 * (col % STEP) as u32;
        if matches!(self.layout, Layout::Plain) {
            return (row * self.cols.div_ceil(STEP) + col / STEP, right);
        }
        let block = self.layout.w4_block();
        // A group of 0 columns would be a defect, but no reason for a panic path.
        let group = match col.checked_div(self.group) {
            Some(group) => group,
            None => 0,
        };
        let col_in = col - group * self.group;
        let start = self.group_start(row, group);
        (start + col_in / STEP * block + (row & (block - 1)), right)
    }

    /// Returns the place of a multiplier in another layout than the plain one: a word, and the bits
    /// to the right of it.
    #[must_use]
    pub const fn multiplier_place(&self, row: usize, group: usize) -> (usize, u32) {
        let row_in = row & (self.layout.w4_block() - 1);
        let weights = self.group / STEP * self.layout.w4_block();
        let start = self.group_start(row, group);
        (start + weights + row_in / 2, 16 * (row_in % 2) as u32)
    }

    /// Returns the first word of a group of a block of rows.
    const fn group_start(&self, row: usize, group: usize) -> usize {
        let block = self.layout.w4_block();
        ((row >> block.trailing_zeros()) * self.n_group() + group) * self.group_words()
    }

    /// Returns the words of a group of a block of rows.
    const fn group_words(&self) -> usize {
        let block = self.layout.w4_block();
        self.group / STEP * block + block / 2
    }

    /// Returns the words of a multiple of four rows.
    #[cfg(feature = "assist")]
    pub(crate) const fn words_of(&self, rows: usize) -> usize {
        if matches!(self.layout, Layout::Plain) {
            return rows * self.cols.div_ceil(STEP);
        }
        (rows >> self.layout.w4_block().trailing_zeros()) * self.n_group() * self.group_words()
    }

    /// Returns the bits by which four bits of a layout differ from two's complement.
    #[must_use]
    pub const fn bias(layout: Layout) -> u32 {
        match layout {
            Layout::Plain | Layout::M4 => 0,
            Layout::M0 | Layout::Rv32 => 8,
        }
    }

    /// Returns a weight, or 0 when there is none.
    #[must_use]
    pub fn at(&self, row: usize, col: usize) -> i8 {
        let (word, right) = self.place(row, col);
        let bias = Self::bias(self.layout);
        let bits = self.words.get(word).map_or(0, |word| word >> right ^ bias);
        ((bits << 28).cast_signed() >> 28) as i8
    }

    /// Returns a multiplier, or 0 when there is none.
    #[must_use]
    pub fn multiplier(&self, row: usize, group: usize) -> i16 {
        if self.layout == Layout::Plain {
            let multiplier = self.multiplier.get(row * self.n_group() + group);
            return multiplier.copied().unwrap_or_default();
        }
        let (word, right) = self.multiplier_place(row, group);
        self.words
            .get(word)
            .map_or(0, |word| (word >> right) as i16)
    }
}

/// Computes the sums of a matrix times a vector.
///
/// # Shapes
///
/// - `w`: `[rows, cols]`; `x`: `[cols]`, within -127..=127
/// - `lanes`: scratch, [`lanes_len`](super::lanes_len) of `cols`
/// - `out`: `[rows]`
///
/// # Numerics
///
/// `out[r] = Σ multiplier[r, g] * Σ w[r, c] * x[c]`, the inner sum over the columns of group `g`;
/// modulo 2^32, so exact when it fits `i32`, which the writer of a blob ensures.
///
/// Lengths that do not agree are a defect of the caller; what is missing counts as 0.
pub fn sums(w: &Nibbles<'_>, x: &[Element], lanes: &mut [u32], out: &mut [i32]) {
    #[cfg(any(kernel = "m0", kernel = "m4", kernel = "rv32", kernel = "sse2"))]
    if w.layout == NATIVE && native::sums(w, x, lanes, out).is_some() {
        return;
    }
    let _ = lanes;
    reference(w, x, out);
}

/// Calls a kernel for all blocks and once more for rows that fill no block, with their words and
/// their sums; `None` when `w` is shorter than that.
#[cfg(any(kernel = "m0", kernel = "m4", kernel = "rv32"))]
fn for_blocks<const BLOCK: usize>(
    w: &Nibbles<'_>,
    out: &mut [i32],
    mut run: impl FnMut(&[u32], &mut [i32]),
) -> Option<()> {
    let block_words = w.n_group() * w.group_words();
    let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
    let (words, words_rest) = w.words.split_at_checked(blocks.len() * block_words)?;
    let out = blocks.as_flattened_mut();
    if !out.is_empty() {
        run(words, out);
    }
    if !rest.is_empty() {
        let mut sums = [0; BLOCK];
        run(words_rest.get(..block_words)?, &mut sums);
        for (out, sum) in rest.iter_mut().zip(sums) {
            *out = sum;
        }
    }
    Some(())
}

/// Computes the sums with the plain kernel, whatever the layout; [`sums`] gives the same.
pub fn reference(w: &Nibbles<'_>, x: &[Element], out: &mut [i32]) {
    let n_group = w.n_group();
    for (row, out) in out.iter_mut().enumerate() {
        *out = 0;
        let mut rest = x;
        for group in 0..n_group {
            let x;
            // Chunks of a length that the compiler does not know would bring a panic path.
            (x, rest) = rest.split_at_checked(w.group).unwrap_or((rest, &[]));
            let sum = if w.layout == Layout::Plain {
                plain_group(w, row, group, x)
            } else {
                let cols = (group * w.group..).zip(x);
                cols.map(|(col, &x)| i32::from(w.at(row, col)) * x as i32)
                    .sum()
            };
            let product = sum.wrapping_mul(w.multiplier(row, group).into());
            *out = out.wrapping_add(product);
        }
    }
}

fn plain_group(w: &Nibbles<'_>, row: usize, group: usize, x: &[Element]) -> i32 {
    let start = row * w.cols.div_ceil(STEP) + group * (w.group / STEP);
    let words = part(w.words, start, x.len().div_ceil(STEP));
    let steps = words.iter().zip(x.chunks(STEP));
    steps.map(|(&word, x)| step(word, x)).sum()
}

/// Multiplies the eight weights of a word by as many elements.
#[inline]
fn step(word: u32, x: &[Element]) -> i32 {
    let products = (0..).zip(x).map(|(col, &x)| {
        let weight = (word << (28 - 4 * col)).cast_signed() >> 28;
        weight * x as i32
    });
    products.sum()
}
