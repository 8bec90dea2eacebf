//! Matrix times vector as raw sums: one plain kernel, and one for each family of cores.
//!
//! Every kernel computes the same integers; [`Layout`] says which one a matrix is laid out for.
//! This is the only code of the crate with `unsafe` in it, in the files of the Arm cores, of x86-64 and
//! of RV32.

#[cfg(kernel = "m4")]
pub(crate) mod heads;
pub mod passes;
mod plain;
#[cfg(feature = "w4")]
pub mod w4;

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

#[cfg(any(kernel = "m0", kernel = "rv32"))]
pub(crate) use native::leading_zeros;

use crate::layout::Layout;

/// The layout that the kernels of this build are made for.
pub const NATIVE: Layout = if cfg!(kernel = "m0") {
    Layout::M0
} else if cfg!(kernel = "m4") {
    Layout::M4
} else if cfg!(kernel = "rv32") {
    Layout::Rv32
} else {
    Layout::Plain
};

/// An int8 activation, as wide as the kernel reads it.
#[cfg(not(any(kernel = "m0", kernel = "rv32")))]
pub type Element = i8;
/// An int8 activation, as wide as the kernel reads it.
#[cfg(kernel = "rv32")]
pub type Element = i16;
/// An int8 activation, as wide as the kernel reads it.
#[cfg(kernel = "m0")]
pub type Element = i32;

/// An attention weight of 15 bits, as wide as the kernel reads it.
#[cfg(not(kernel = "m0"))]
pub type Wide = i16;
/// An attention weight of 15 bits, as wide as the kernel reads it.
#[cfg(kernel = "m0")]
pub type Wide = i32;

/// Returns the place of an attention weight among those of all positions: as `smlad` takes them, on
/// the cores that have it, in the order 0, 2, 1, 3.
#[must_use]
pub const fn wide_place(position: usize) -> usize {
    if cfg!(kernel = "m4") && (position + 1) & 2 != 0 {
        position ^ 3
    } else {
        position
    }
}

/// Returns the one byte of an activation.
#[cfg(not(kernel = "m4"))]
#[allow(
    trivial_numeric_casts,
    clippy::unnecessary_cast,
    reason = "on some cores it is a byte already"
)]
pub(crate) const fn narrow(x: Element) -> i8 {
    x as i8
}

/// An int8 matrix in one of the layouts.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// The bytes, four to a word, little-endian.
    pub words: &'a [u32],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Bytes of a row: [`Layout::row_len`] of `cols`, or more when only the first columns of a
    /// wider matrix are meant.
    pub row_len: usize,
    /// Order of the bytes.
    pub layout: Layout,
    /// Even columns are biased by 128.
    pub biased: bool,
}

/// The other factor.
#[derive(Clone, Copy, Debug)]
pub enum Vector<'a> {
    /// Activations within -127..=127.
    Int8(&'a [Element]),
    /// Attention weights, at most 2^15 - 1 and not negative, at their [`wide_place`] and filled up
    /// with zeros to the kernel's word; not for a biased matrix.
    Int16(&'a [Wide]),
}

impl Weights<'_> {
    /// Returns the elements of a row, and zeros without end.
    pub(crate) fn row(&self, row: usize) -> impl Iterator<Item = i8> {
        let bytes: &[u8] = bytemuck::cast_slice(self.words);
        let mut place = self.layout.place(row, 0, self.row_len);
        // Of an even column and of an odd one in turn.
        let even = crate::layout::bias(self.biased, 0);
        let mut bias = 0;
        (1..).map(move |next| {
            let byte = bytes.get(place).copied().unwrap_or_default();
            place += self.layout.next_col(next);
            bias ^= even;
            (byte ^ bias) as i8
        })
    }

    /// Returns an element, or 0 when there is none.
    #[must_use]
    pub fn at(&self, row: usize, col: usize) -> i8 {
        let bytes: &[u8] = bytemuck::cast_slice(self.words);
        let place = self.layout.place(row, col, self.row_len);
        let byte = bytes.get(place).copied().unwrap_or_default();
        (byte ^ crate::layout::bias(self.biased, col)) as i8
    }
}

impl Vector<'_> {
    /// Returns the number of elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Int8(x) => x.len(),
            Self::Int16(x) => x.len(),
        }
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the words of scratch memory that [`sums`] may need for a vector.
#[must_use]
pub const fn lanes_len(cols: usize) -> usize {
    // A group of int4 weights has at least its 17 words, however few of its columns there are.
    if cols <= 16 {
        return 17;
    }
    cols.next_multiple_of(4)
}

/// Computes the sums of a matrix times a vector.
///
/// # Shapes
///
/// - `w`: `[rows, cols]`
/// - `x`: `[cols]`
/// - `lanes`: scratch, [`lanes_len`] of `cols`
/// - `out`: `[rows]`
///
/// # Numerics
///
/// `out[r] = Σ w[r, c] * x[c]`, exact when it fits `i32`: for `Int8` up to 133,144 columns.
///
/// Lengths that do not agree are a defect of the caller; what is missing counts as 0.
#[cfg_attr(kernel = "m4", inline)]
pub fn sums(w: &Weights<'_>, x: Vector<'_>, lanes: &mut [u32], out: &mut [i32]) {
    #[cfg(any(kernel = "m0", kernel = "m4", kernel = "rv32", kernel = "sse2"))]
    if w.layout == NATIVE && native::sums(w, x, lanes, out).is_some() {
        return;
    }
    let _ = lanes;
    match x {
        // Only the cache meets these, and its layout is the kernel's.
        #[cfg(kernel = "m4")]
        Vector::Int16(_) => out.fill(0),
        _ => plain::sums(w, x, out),
    }
}

/// Computes the sums of an int8 matrix times an int8 vector, cut by `cut` bits to the nearest where
/// the kernel does that for nothing; returns the bits that are left to cut.
///
/// The shapes are those of [`sums`].
pub fn sums_cut(
    w: &Weights<'_>,
    x: &[Element],
    cut: u32,
    lanes: &mut [u32],
    out: &mut [i32],
) -> u32 {
    #[cfg(any(kernel = "m0", kernel = "m4"))]
    if w.layout == NATIVE && native::sums_cut(w, x, cut, lanes, out).is_some() {
        return 0;
    }
    sums(w, Vector::Int8(x), lanes, out);
    cut
}

/// What one call of a kernel that takes blocks of four rows works on.
#[cfg(kernel = "m0")]
struct Call<'a> {
    w: &'a [u32],
    /// Words of a row that have a factor, at least 1.
    words: usize,
    /// Bytes from the end of one block to the start of the next.
    gap: usize,
    /// The sums of at least one block, a multiple of four.
    out: &'a mut [i32],
}

/// Calls a kernel for all blocks and once more for rows that fill no block; `None` when `w` is
/// shorter than that.
#[cfg(kernel = "m0")]
fn for_blocks(
    w: &Weights<'_>,
    words: usize,
    out: &mut [i32],
    mut run: impl FnMut(Call<'_>),
) -> Option<()> {
    let row = w.row_len / 4;
    if words == 0 || words > row {
        return None;
    }
    let gap = 16 * (row - words);
    let (blocks, rest) = out.as_chunks_mut::<4>();
    let (w, w_rest) = w.words.split_at_checked(4 * blocks.len() * row)?;
    let out = blocks.as_flattened_mut();
    if !out.is_empty() {
        run(Call { w, words, gap, out });
    }
    if !rest.is_empty() {
        let mut sums = [0; 4];
        let (w, out) = (w_rest.get(..4 * row)?, &mut sums[..]);
        run(Call { w, words, gap, out });
        for (out, sum) in rest.iter_mut().zip(sums) {
            *out = sum;
        }
    }
    Some(())
}

/// Computes the sums with the plain kernel, whatever the layout; [`sums`] gives the same.
pub fn reference(w: &Weights<'_>, x: Vector<'_>, out: &mut [i32]) {
    plain::sums(w, x, out);
}
