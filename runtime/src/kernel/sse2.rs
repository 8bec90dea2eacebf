//! x86-64: four rows side by side, eight columns to an instruction.
//!
//! Every x86-64 has SSE2, whose `pmaddwd` multiplies eight numbers of 16 bits and adds them in pairs. An
//! int8 weight goes to the upper byte of its 16 bits, which needs no sign to be filled in: the sums are
//! 256 times what they should be, and one shift at the end mends four of them.

#![expect(
    unsafe_code,
    reason = "the compiler finds pmaddwd in none of these loops"
)]

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_loadl_epi64, _mm_madd_epi16, _mm_setzero_si128, _mm_srai_epi16,
    _mm_srai_epi32, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi8, _mm_unpacklo_epi32,
    _mm_unpacklo_epi64,
};

use super::{Vector, Weights};

/// Rows side by side: they share the loads of the vector, and their sums do not wait for each other.
const ROWS: usize = 4;
/// Columns of a step.
const STEP: usize = 8;
/// Columns whose products may be summed 256 times too large: 512 * 128 * 127 * 256 is below 2^31.
const PIECE: usize = 512;

/// Computes the sums; `None` for fewer columns than a step has, or when weights are missing.
pub(super) fn sums(
    w: &Weights<'_>,
    x: Vector<'_>,
    lanes: &mut [u32],
    out: &mut [i32],
) -> Option<()> {
    match x {
        Vector::Int8(x) => {
            let wide: &mut [i16] = bytemuck::cast_slice_mut(lanes);
            let wide = wide.get_mut(..x.len())?;
            for (wide, &x) in wide.iter_mut().zip(x) {
                *wide = x.into();
            }
            // SAFETY: this kernel is chosen for targets with SSE2, see build.rs.
            unsafe { all::<true>(w, wide, out) }
        }
        // SAFETY: as above.
        Vector::Int16(x) => unsafe { all::<false>(w, x, out) },
    }
}

/// `UPPER` says that weights go to the upper byte; products of a factor of 16 bits have no room for it.
#[target_feature(enable = "sse2")]
fn all<const UPPER: bool>(w: &Weights<'_>, x: &[i16], out: &mut [i32]) -> Option<()> {
    let bytes: &[i8] = bytemuck::cast_slice(w.words);
    let (row_len, cols) = (w.row_len, x.len());
    // What is left of the vector after its last whole step, behind zeros.
    let mut last = *x.last_chunk::<STEP>()?;
    for x in last.iter_mut().take(STEP - cols % STEP) {
        *x = 0;
    }
    let last = bytemuck::cast(last);
    let end = out.len().saturating_sub(1).checked_mul(row_len)?;
    if bytes.len() < end.checked_add(cols)? {
        return None;
    }
    for (piece, x) in x.chunks(PIECE).enumerate() {
        let mut row = bytes.as_ptr().wrapping_add(piece * PIECE);
        let (groups, few) = out.as_chunks_mut::<ROWS>();
        for out in groups {
            let rows = [0, 1, 2, 3].map(|n| row.wrapping_add(n * row_len));
            // SAFETY: all rows are in `bytes`, and have `cols` weights, which are a step or more.
            let sums: [i32; ROWS] = unsafe { group::<UPPER>(rows, x, last) };
            *out = if piece == 0 { sums } else { add(*out, sums) };
            row = row.wrapping_add(ROWS * row_len);
        }
        if !few.is_empty() {
            // Rows that there are not are the last one once more.
            let rows =
                [0, 1, 2, 3].map(|n| row.wrapping_add(few.len().min(n + 1) * row_len - row_len));
            // SAFETY: as above.
            let sums = unsafe { group::<UPPER>(rows, x, last) };
            for (out, sum) in few.iter_mut().zip(sums) {
                *out = if piece == 0 {
                    sum
                } else {
                    out.wrapping_add(sum)
                };
            }
        }
    }
    Some(())
}

/// Adds sums of another piece.
fn add(a: [i32; ROWS], b: [i32; ROWS]) -> [i32; ROWS] {
    core::array::from_fn(|row| a[row].wrapping_add(b[row]))
}

/// Returns the sums of a piece of four rows.
///
/// # Safety
///
/// Each row has to have `x.len()` weights; where that is no multiple of [`STEP`], the [`STEP`] that end
/// with the last of them are read too.
#[target_feature(enable = "sse2")]
#[inline]
unsafe fn group<const UPPER: bool>(
    rows: [*const i8; ROWS],
    x: &[i16],
    last: __m128i,
) -> [i32; ROWS] {
    let mut sums = [_mm_setzero_si128(); ROWS];
    let mut step = |at: usize, x: __m128i| {
        for (sum, row) in sums.iter_mut().zip(rows) {
            // SAFETY: these weights are the row's.
            let w = unsafe { _mm_loadl_epi64(row.wrapping_add(at).cast()) };
            let w = _mm_unpacklo_epi8(_mm_setzero_si128(), w);
            let w = if UPPER { w } else { _mm_srai_epi16::<8>(w) };
            *sum = _mm_add_epi32(*sum, _mm_madd_epi16(w, x));
        }
    };
    let (steps, rest) = x.as_chunks::<STEP>();
    for (n, x) in steps.iter().enumerate() {
        step(STEP * n, bytemuck::cast(*x));
    }
    if !rest.is_empty() {
        step(x.len().wrapping_sub(STEP), last);
    }
    let sums = lanes(sums);
    bytemuck::cast(if UPPER {
        _mm_srai_epi32::<8>(sums)
    } else {
        sums
    })
}

/// Returns the sums of the lanes.
#[target_feature(enable = "sse2")]
#[inline]
pub(super) fn lanes([a, b, c, d]: [__m128i; ROWS]) -> __m128i {
    let pairs = |a, b| _mm_add_epi32(_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
    let (ab, cd) = (pairs(a, b), pairs(c, d));
    _mm_add_epi32(_mm_unpacklo_epi64(ab, cd), _mm_unpackhi_epi64(ab, cd))
}
