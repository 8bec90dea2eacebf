//! Layer norm and RMS norm of a panel, without their gain and bias.
//!
//! The gain and bias are part of the matrix that follows: `W (g * n + b) = (W diag(g)) n + W b`.
//! `linear` folds them in and takes their gradients out of the matrix's.

use crate::panel::{PANEL, Row, vectors, vectors_mut};
use pulp::{Simd, WithSimd};
use runtime::Norm;

/// Added to the variance, as in the runtime.
pub const NORM_EPS: f32 = 1e-5;

/// Normalises every token of a panel: `out = (x - mean) / sqrt(variance + eps)`, RMS norm without mean.
///
/// # Shapes
///
/// - `x`, `out`: `[d_model]` rows; `inverse`: one row, `1 / sqrt(variance + eps)` per token
pub(crate) struct Normalize<'a> {
    pub(crate) norm: Norm,
    pub(crate) x: &'a [Row],
    pub(crate) out: &'a mut [Row],
    pub(crate) inverse: &'a mut Row,
}

impl WithSimd for Normalize<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            norm,
            x,
            out,
            inverse,
        } = self;
        let per_row = PANEL / S::F32_LANES;
        let share = simd.splat_f32s(1.0 / x.len() as f32);
        let x = vectors::<S>(x);
        let out = vectors_mut::<S>(out);
        let inverse = vectors_mut::<S>(core::slice::from_mut(inverse));
        // Loops by index: a closure in an iterator chain is not inlined and loses the vector unit.
        let zero = simd.splat_f32s(0.0);
        for (lane, inverse) in inverse.iter_mut().enumerate() {
            let mut sum = zero;
            if norm == Norm::LayerNorm {
                for row in x.chunks_exact(per_row) {
                    sum = simd.add_f32s(sum, row[lane]);
                }
            }
            let mean = simd.mul_f32s(sum, share);
            let mut squares = zero;
            for row in x.chunks_exact(per_row) {
                let centred = simd.sub_f32s(row[lane], mean);
                squares = simd.mul_add_e_f32s(centred, centred, squares);
            }
            let variance = simd.mul_add_e_f32s(squares, share, simd.splat_f32s(NORM_EPS));
            *inverse = simd.div_f32s(simd.splat_f32s(1.0), simd.sqrt_f32s(variance));
            for (out, x) in out.chunks_exact_mut(per_row).zip(x.chunks_exact(per_row)) {
                out[lane] = simd.mul_f32s(simd.sub_f32s(x[lane], mean), *inverse);
            }
        }
    }
}

/// Adds the gradient of a norm's input: `dx += inverse * (dn - mean(dn) - n * mean(dn * n))`, RMS norm
/// without `mean(dn)`.
///
/// # Shapes
///
/// - `n` (the normalised values), `dn` (their gradient), `dx`: `[d_model]` rows; `inverse`: one row
pub(crate) struct NormalizeBack<'a> {
    pub(crate) norm: Norm,
    pub(crate) n: &'a [Row],
    pub(crate) inverse: &'a Row,
    pub(crate) dn: &'a [Row],
    pub(crate) dx: &'a mut [Row],
}

impl WithSimd for NormalizeBack<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            norm,
            n,
            inverse,
            dn,
            dx,
        } = self;
        let per_row = PANEL / S::F32_LANES;
        let share = simd.splat_f32s(1.0 / n.len() as f32);
        let (n, dn, dx) = (vectors::<S>(n), vectors::<S>(dn), vectors_mut::<S>(dx));
        let inverse = vectors::<S>(core::slice::from_ref(inverse));
        let zero = simd.splat_f32s(0.0);
        for (lane, &inverse) in inverse.iter().enumerate() {
            let (mut sum, mut dot) = (zero, zero);
            for (n, dn) in n.chunks_exact(per_row).zip(dn.chunks_exact(per_row)) {
                sum = simd.add_f32s(sum, dn[lane]);
                dot = simd.mul_add_e_f32s(n[lane], dn[lane], dot);
            }
            let mean = match norm {
                Norm::LayerNorm => simd.mul_f32s(sum, share),
                Norm::RmsNorm => zero,
            };
            let dot = simd.mul_f32s(dot, share);
            let inputs = n.chunks_exact(per_row).zip(dn.chunks_exact(per_row));
            for (dx, (n, dn)) in dx.chunks_exact_mut(per_row).zip(inputs) {
                let centred = simd.sub_f32s(dn[lane], mean);
                let inner = simd.sub_f32s(centred, simd.mul_f32s(n[lane], dot));
                dx[lane] = simd.mul_add_e_f32s(inverse, inner, dx[lane]);
            }
        }
    }
}
