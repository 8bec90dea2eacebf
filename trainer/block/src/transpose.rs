//! Transposition of a matrix of floats.

/// Writes the transpose of `src` to `dst`: `dst[c][r] = src[r][c]`.
///
/// # Shapes
///
/// - `src`: `[rows, cols]`, `src_step` floats from row to row
/// - `dst`: `[cols, rows]`, `dst_step` floats from row to row
pub(crate) fn transpose(
    src: &[f32],
    src_step: usize,
    rows: usize,
    cols: usize,
    dst: &mut [f32],
    dst_step: usize,
) {
    if rows == 0 || cols == 0 {
        return;
    }
    assert!(cols <= src_step && (rows - 1) * src_step + cols <= src.len());
    assert!(rows <= dst_step && (cols - 1) * dst_step + rows <= dst.len());
    #[cfg(target_arch = "x86_64")]
    if rows >= 8 && cols >= 8 && std::arch::is_x86_feature_detected!("avx2") {
        let (src, dst) = (src.as_ptr(), dst.as_mut_ptr());
        // SAFETY: AVX2 is there, and the blocks lie inside both matrices by the asserts above.
        unsafe { avx2::blocks(src, src_step, rows, cols, dst, dst_step) };
        return;
    }
    for r in 0..rows {
        for c in 0..cols {
            dst[c * dst_step + r] = src[r * src_step + c];
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use core::arch::x86_64::{
        __m256, _mm_loadu_ps, _mm256_castps128_ps256, _mm256_insertf128_ps, _mm256_shuffle_ps,
        _mm256_storeu_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };

    /// Transposes 8 x 8 blocks; the last ones overlap those before them where 8 does not divide a side.
    ///
    /// The halves of a block are brought into place by the loads (`vinsertf128` from memory uses no
    /// shuffle port), which leaves two shuffles per row.
    ///
    /// # Safety
    ///
    /// AVX2 is available; `src` is readable as `[rows, cols]` and `dst` writable as `[cols, rows]` at
    /// their steps; `rows` and `cols` are at least 8.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn blocks(
        src: *const f32,
        src_step: usize,
        rows: usize,
        cols: usize,
        dst: *mut f32,
        dst_step: usize,
    ) {
        for r in (0..rows).step_by(8) {
            let r = r.min(rows - 8);
            for c in (0..cols).step_by(8) {
                let c = c.min(cols - 8);
                // SAFETY: the block at (r, c) lies inside both matrices by the function's contract.
                unsafe {
                    block(
                        src.add(r * src_step + c),
                        src_step,
                        dst.add(c * dst_step + r),
                        dst_step,
                    );
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn block(src: *const f32, src_step: usize, dst: *mut f32, dst_step: usize) {
        let pair = |row: usize, col: usize| -> __m256 {
            // SAFETY: the caller vouches for 8 x 8 floats at either end.
            unsafe {
                let low = _mm_loadu_ps(src.add(row * src_step + col));
                let high = _mm_loadu_ps(src.add((row + 4) * src_step + col));
                _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
            }
        };
        for half in 0..2 {
            let col = 4 * half;
            let (a, b, c, d) = (pair(0, col), pair(1, col), pair(2, col), pair(3, col));
            let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            let out = [
                _mm256_shuffle_ps::<0x44>(ab_low, cd_low),
                _mm256_shuffle_ps::<0xee>(ab_low, cd_low),
                _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
                _mm256_shuffle_ps::<0xee>(ab_high, cd_high),
            ];
            for (i, row) in out.into_iter().enumerate() {
                // SAFETY: the caller vouches for 8 x 8 floats at either end.
                unsafe { _mm256_storeu_ps(dst.add((col + i) * dst_step), row) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::transpose;

    #[test]
    fn every_size_is_transposed() {
        for (rows, cols) in [
            (1, 1),
            (8, 8),
            (7, 9),
            (16, 24),
            (33, 40),
            (32, 10),
            (3, 65),
        ] {
            let (src_step, dst_step) = (cols + 3, rows + 1);
            let src: Vec<f32> = (0..rows * src_step).map(|i| i as f32).collect();
            let mut dst = vec![-1.0; cols * dst_step];
            transpose(&src, src_step, rows, cols, &mut dst, dst_step);
            for r in 0..rows {
                for c in 0..cols {
                    assert_eq!(dst[c * dst_step + r], src[r * src_step + c]);
                }
            }
            assert!((0..cols).all(|c| dst[c * dst_step + rows] == -1.0));
        }
    }
}
