//! Matrix products on panels.
//!
//! All products share one register tile: a scalar of `a` is broadcast and multiplied with a few
//! vectors of `x`, so `x` is read in whole vectors whatever the sizes, and `a` in any orientation.

use crate::panel::{PANEL, Row, floats, floats_mut, padded};
use crate::transpose::transpose;
use pulp::{Simd, WithSimd};

/// Rows of `a` that a tile takes at once, and that packed weights lie in.
const TILE: usize = 8;

/// What a product is added to.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a> {
    Zero,
    /// The present contents of the output.
    Output,
    /// One number per row.
    Bias(&'a [f32]),
}

/// A matrix in groups of 8 rows, column by column within a group; missing rows are zero.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    rows: usize,
    cols: usize,
    data: Vec<f32>,
}

impl Packed {
    fn shape(&mut self, rows: usize, cols: usize) {
        (self.rows, self.cols) = (rows, cols);
        let len = rows.next_multiple_of(TILE) * cols;
        crate::panel::resize(&mut self.data, len, 0.0);
    }

    /// Packs `w`, its columns times `gain`.
    ///
    /// # Shapes
    ///
    /// - `w`: `[rows, cols]`
    /// - `gain`: `[cols]`
    pub(crate) fn pack(&mut self, w: &[f32], cols: usize, gain: Option<&[f32]>) {
        self.shape(w.len() / cols, cols);
        for (group, w) in self
            .data
            .chunks_exact_mut(TILE * cols)
            .zip(w.chunks(TILE * cols))
        {
            let rows = w.len() / cols;
            if rows < TILE {
                group.fill(0.0);
            }
            transpose(w, cols, rows, cols, group, TILE);
            if let Some(gain) = gain {
                for (column, &g) in group.chunks_exact_mut(TILE).zip(gain) {
                    column.iter_mut().for_each(|v| *v *= g);
                }
            }
        }
    }

    /// Packs the transpose of `w`, its rows times `gain`: the matrix that takes gradients back.
    ///
    /// # Shapes
    ///
    /// - `w`: `[cols, rows]`
    /// - `gain`: `[rows]`
    pub(crate) fn pack_transposed(&mut self, w: &[f32], rows: usize, gain: Option<&[f32]>) {
        let cols = w.len() / rows;
        self.shape(rows, cols);
        for (index, group) in self.data.chunks_exact_mut(TILE * cols).enumerate() {
            let first = index * TILE;
            let n = TILE.min(rows - first);
            let mut scale = [1.0; TILE];
            if let Some(gain) = gain {
                scale[..n].copy_from_slice(&gain[first..first + n]);
            }
            for (column, w) in group.chunks_exact_mut(TILE).zip(w.chunks_exact(rows)) {
                let w = &w[first..first + n];
                if n == TILE {
                    for r in 0..TILE {
                        column[r] = w[r] * scale[r];
                    }
                } else {
                    column.fill(0.0);
                    for r in 0..n {
                        column[r] = w[r] * scale[r];
                    }
                }
            }
        }
    }
}

/// `out[r] = start + sum over c of w[r, c] * x[c]` on one panel.
///
/// # Shapes
///
/// - `w`: `[rows, cols]`; `x`: `[cols]` rows; `out`: `[rows]` rows
pub(crate) struct Apply<'a> {
    pub(crate) w: &'a Packed,
    pub(crate) x: &'a [Row],
    pub(crate) start: Start<'a>,
    pub(crate) out: &'a mut [Row],
}

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { w, x, start, out } = self;
        assert!(x.len() == w.cols && out.len() == w.rows);
        if let Start::Bias(bias) = start {
            assert!(bias.len() == w.rows);
        }
        let x = floats(x).as_ptr();
        for first in (0..w.rows).step_by(TILE) {
            let rows = TILE.min(w.rows - first);
            let group = w.data[first * w.cols..].as_ptr();
            let from = Begin::new(start, first);
            let out = floats_mut(&mut out[first..first + rows]).as_mut_ptr();
            // SAFETY: the group holds 8 x cols floats, x and out the rows just checked.
            unsafe { panel_rows::<S, 1>(simd, rows, group, TILE, x, w.cols, out, from) };
        }
    }
}

/// `out[j] = sum over c of a[c][j] * x[c]`: the products of every token of `a` with every token of `x`.
///
/// # Shapes
///
/// - `a`, `x`: `[cols]` rows; `out`: `[32]` rows, one per token of `a`
pub(crate) struct Pairs<'a> {
    pub(crate) a: &'a [Row],
    pub(crate) x: &'a [Row],
    pub(crate) out: &'a mut [Row],
}

impl WithSimd for Pairs<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, x, out } = self;
        assert!(a.len() == x.len() && out.len() == PANEL);
        for first in (0..PANEL).step_by(TILE) {
            let out = floats_mut(&mut out[first..first + TILE]).as_mut_ptr();
            let (a_ptr, x_ptr) = (floats(a)[first..].as_ptr(), floats(x).as_ptr());
            // SAFETY: columns first..first + 8 of `a`, all of `x` and 8 rows of `out` are in bounds.
            unsafe {
                panel_rows::<S, 1>(simd, TILE, a_ptr, PANEL, x_ptr, a.len(), out, Begin::Zero);
            }
        }
    }
}

/// `out[r] (+)= sum over tokens j of a[r][j] * x[j]`.
///
/// # Shapes
///
/// - `a`, `out`: `[rows]` rows; `x`: `[32]` rows, one per token of `a`
pub(crate) struct Mix<'a> {
    pub(crate) a: &'a [Row],
    pub(crate) x: &'a [Row],
    pub(crate) add: bool,
    pub(crate) out: &'a mut [Row],
}

impl WithSimd for Mix<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, x, add, out } = self;
        assert!(a.len() == out.len() && x.len() == PANEL);
        let begin = if add { Begin::Output } else { Begin::Zero };
        // Even tiles: 10 rows go as 5 + 5, since a tile of 2 rows would wait for its own sums.
        let tiles = a.len().div_ceil(TILE);
        let size = a.len().div_ceil(tiles);
        for first in (0..a.len()).step_by(size) {
            let rows = size.min(a.len() - first);
            let out = floats_mut(&mut out[first..first + rows]).as_mut_ptr();
            let (a, x) = (floats(&a[first..]).as_ptr(), floats(x).as_ptr());
            // SAFETY: rows of `a` and `out` from `first` on and all 32 of `x` are in bounds.
            unsafe { panel_rows::<S, PANEL>(simd, rows, a, 1, x, PANEL, out, begin) };
        }
    }
}

/// `out[r][i] += sum over tokens j of a[r][j] * x[j][i]`: the gradient of a matrix.
///
/// # Shapes
///
/// - `a`: `[rows]` rows
/// - `x`: `[32, width]`, token by token, `width` a multiple of 16
/// - `out`: `[rows, width]`
pub(crate) struct Outer<'a> {
    pub(crate) a: &'a [Row],
    pub(crate) x: &'a [f32],
    pub(crate) out: &'a mut [f32],
}

impl WithSimd for Outer<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, x, out } = self;
        let width = x.len() / PANEL;
        assert!(x.len() == PANEL * width && width == padded(width) && out.len() == a.len() * width);
        let vectors = width / S::F32_LANES;
        let narrow = vectors == 1 && S::REGISTER_COUNT >= 32;
        let tile_rows = if narrow { 2 * TILE } else { TILE };
        for first in (0..a.len()).step_by(tile_rows) {
            let rows = tile_rows.min(a.len() - first);
            let a = floats(&a[first..]).as_ptr();
            let mut v = 0;
            while v < vectors {
                let n = match vectors - v {
                    1 => 1,
                    odd if odd % 2 == 1 && S::REGISTER_COUNT >= 32 => 3,
                    _ => 2,
                };
                let i = v * S::F32_LANES;
                let (x, out) = (x[i..].as_ptr(), out[first * width + i..].as_mut_ptr());
                // SAFETY: `a` has `rows` rows from `first` on, x has 32 tokens of `width` floats and
                // out `rows` rows of `width` floats; n vectors from v on end within the width.
                unsafe {
                    match n {
                        1 if rows == 16 => {
                            let begin = Begin::Output;
                            tile::<S, 16, 1, PANEL>(simd, a, 1, x, width, PANEL, out, width, begin);
                        }
                        1 => {
                            let low = rows.min(TILE);
                            outer_rows::<S, 1>(simd, low, a, x, width, out);
                            if rows > low {
                                let (a, out) = (a.add(low * PANEL), out.add(low * width));
                                outer_rows::<S, 1>(simd, rows - low, a, x, width, out);
                            }
                        }
                        2 => outer_rows::<S, 2>(simd, rows, a, x, width, out),
                        _ => outer_rows::<S, 3>(simd, rows, a, x, width, out),
                    }
                }
                v += n;
            }
        }
    }
}

/// `Start` for a tile.
#[derive(Clone, Copy)]
enum Begin {
    Zero,
    Output,
    Bias(*const f32),
}

impl Begin {
    fn new(start: Start<'_>, first: usize) -> Self {
        match start {
            Start::Zero => Self::Zero,
            Start::Output => Self::Output,
            Start::Bias(bias) => Self::Bias(bias[first..].as_ptr()),
        }
    }

    /// # Safety
    ///
    /// A bias has more than `r` entries.
    #[inline(always)]
    unsafe fn skip(self, r: usize) -> Self {
        match self {
            // SAFETY: by the function's contract.
            Self::Bias(bias) => Self::Bias(unsafe { bias.add(r) }),
            other => other,
        }
    }
}

/// A tile of `rows <= 8` rows by the 32 tokens of a panel.
///
/// # Safety
///
/// As for `tile`, with 32 floats in every row of `x` and `out`.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "a kernel's addresses, strides and sizes"
)]
unsafe fn panel_rows<S: Simd, const A_ROW: usize>(
    simd: S,
    rows: usize,
    a: *const f32,
    a_step: usize,
    x: *const f32,
    depth: usize,
    out: *mut f32,
    begin: Begin,
) {
    let mut first = 0;
    // A register file of 16 holds sums of 4 rows by 2 vectors.
    let most = if S::REGISTER_COUNT >= 32 { 8 } else { 4 };
    while first < rows {
        let n = most.min(rows - first);
        for column in (0..PANEL).step_by(2 * S::F32_LANES) {
            // SAFETY: by the function's contract; rows first..first + n and columns column..column +
            // 2 vectors lie inside the tile.
            unsafe {
                let begin = begin.skip(first);
                let (a, x) = (a.add(first * A_ROW), x.add(column));
                let out = out.add(first * PANEL + column);
                dispatch::<S, 2, A_ROW>(simd, n, a, a_step, x, PANEL, depth, out, PANEL, begin);
            }
        }
        first += n;
    }
}

/// A tile of `rows <= 8` rows by `NV` vectors of an outer product.
///
/// # Safety
///
/// As for `tile`.
#[inline(always)]
unsafe fn outer_rows<S: Simd, const NV: usize>(
    simd: S,
    rows: usize,
    a: *const f32,
    x: *const f32,
    width: usize,
    out: *mut f32,
) {
    let mut first = 0;
    let most = if S::REGISTER_COUNT >= 32 { 8 } else { 4 };
    while first < rows {
        let n = most.min(rows - first);
        // SAFETY: by the function's contract.
        unsafe {
            let (a, out) = (a.add(first * PANEL), out.add(first * width));
            let begin = Begin::Output;
            dispatch::<S, NV, PANEL>(simd, n, a, 1, x, width, PANEL, out, width, begin);
        }
        first += n;
    }
}

/// Picks the tile with as many rows.
///
/// # Safety
///
/// As for `tile`; `1 <= rows <= 8`.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "a kernel's addresses, strides and sizes"
)]
unsafe fn dispatch<S: Simd, const NV: usize, const A_ROW: usize>(
    simd: S,
    rows: usize,
    a: *const f32,
    a_step: usize,
    x: *const f32,
    x_step: usize,
    depth: usize,
    out: *mut f32,
    out_step: usize,
    begin: Begin,
) {
    // SAFETY: by the function's contract.
    unsafe {
        match rows {
            1 => tile::<S, 1, NV, A_ROW>(simd, a, a_step, x, x_step, depth, out, out_step, begin),
            2 => tile::<S, 2, NV, A_ROW>(simd, a, a_step, x, x_step, depth, out, out_step, begin),
            3 => tile::<S, 3, NV, A_ROW>(simd, a, a_step, x, x_step, depth, out, out_step, begin),
            4 => tile::<S, 4, NV, A_ROW>(simd, a, a_step, x, x_step, depth, out, out_step, begin),
            5 => tile::<S, 5, NV, A_ROW>(simd, a, a_step, x, x_step, depth, out, out_step, begin),
            6 => tile::<S, 6, NV, A_ROW>(simd, a, a_step, x, x_step, depth, out, out_step, begin),
            7 => tile::<S, 7, NV, A_ROW>(simd, a, a_step, x, x_step, depth, out, out_step, begin),
            _ => tile::<S, 8, NV, A_ROW>(simd, a, a_step, x, x_step, depth, out, out_step, begin),
        }
    }
}

/// `out[r][v] = begin + sum over i < depth of a[r * A_ROW + i * a_step] * x[i * x_step + v]`.
///
/// # Safety
///
/// `a` is readable at `r * A_ROW + i * a_step`, `x` at `NV` vectors from `i * x_step` on, `out`
/// writable at `NV` vectors from `r * out_step` on, for all `r < MR` and `i < depth`; a bias has `MR`
/// entries.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "a kernel's addresses, strides and sizes"
)]
unsafe fn tile<S: Simd, const MR: usize, const NV: usize, const A_ROW: usize>(
    simd: S,
    a: *const f32,
    a_step: usize,
    x: *const f32,
    x_step: usize,
    depth: usize,
    out: *mut f32,
    out_step: usize,
    begin: Begin,
) {
    let at = |r: usize, v: usize| r * out_step + v * S::F32_LANES;
    let mut acc = [[simd.splat_f32s(0.0); NV]; MR];
    // SAFETY: all addresses are those of the function's contract; vectors are read unaligned.
    unsafe {
        match begin {
            Begin::Zero => {}
            Begin::Output => {
                for (r, acc) in acc.iter_mut().enumerate() {
                    for (v, acc) in acc.iter_mut().enumerate() {
                        *acc = out.add(at(r, v)).cast::<S::f32s>().read_unaligned();
                    }
                }
            }
            Begin::Bias(bias) => {
                for (r, acc) in acc.iter_mut().enumerate() {
                    *acc = [simd.splat_f32s(*bias.add(r)); NV];
                }
            }
        }
        for i in 0..depth {
            let mut row = [simd.splat_f32s(0.0); NV];
            for (v, row) in row.iter_mut().enumerate() {
                *row = x
                    .add(i * x_step + v * S::F32_LANES)
                    .cast::<S::f32s>()
                    .read_unaligned();
            }
            for (r, acc) in acc.iter_mut().enumerate() {
                let scalar = simd.splat_f32s(*a.add(r * A_ROW + i * a_step));
                for (acc, &row) in acc.iter_mut().zip(&row) {
                    *acc = simd.mul_add_e_f32s(scalar, row, *acc);
                }
            }
        }
        for (r, acc) in acc.iter().enumerate() {
            for (v, &acc) in acc.iter().enumerate() {
                out.add(at(r, v)).cast::<S::f32s>().write_unaligned(acc);
            }
        }
    }
}
