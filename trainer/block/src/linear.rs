//! Matrices as a step uses them: packed for the products, gradients collected over all tokens.

use crate::panel::{Row, padded, resize, turn, vectors, vectors_mut};
use crate::product::{Outer, Packed};
use crate::transpose::transpose;
use pulp::{Simd, WithSimd};

/// A matrix with the norm before it folded in, and its bias.
#[derive(Debug, Default)]
pub(crate) struct Linear {
    pub(crate) w: Packed,
    pub(crate) bias: Vec<f32>,
}

impl Linear {
    /// Prepares `w n + bias`, or `w (gain * n + shift) + bias` as `(w diag(gain)) n + (w shift + bias)`.
    ///
    /// # Shapes
    ///
    /// - `w`: `[rows, cols]`; `norm` (gain and shift): `[cols]`; `bias`: `[rows]`
    pub(crate) fn prepare(
        &mut self,
        w: &[f32],
        cols: usize,
        norm: Option<(&[f32], Option<&[f32]>)>,
        bias: Option<&[f32]>,
    ) {
        self.w.pack(w, cols, norm.map(|(gain, _)| gain));
        resize(&mut self.bias, w.len() / cols, 0.0);
        match bias {
            Some(bias) => self.bias.copy_from_slice(bias),
            None => self.bias.fill(0.0),
        }
        if let Some((_, Some(shift))) = norm {
            for (bias, w) in self.bias.iter_mut().zip(w.chunks_exact(cols)) {
                *bias += w.iter().zip(shift).map(|(w, s)| w * s).sum::<f32>();
            }
        }
    }
}

/// The gradient of a matrix, summed over tokens.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    cols: usize,
    /// `[rows, padded(cols)]`.
    dw: Vec<f32>,
}

impl Collector {
    pub(crate) fn reset(&mut self, rows: usize, cols: usize) {
        self.cols = cols;
        resize(&mut self.dw, rows * padded(cols), 0.0);
        self.dw.fill(0.0);
    }

    /// Adds the products of a panel: `dw[r][c] += sum over tokens of rows[r] * tokens[c]`.
    #[inline(always)]
    pub(crate) fn add<S: Simd>(&mut self, simd: S, rows: &[Row], tokens: &[f32]) {
        simd.vectorize(Outer {
            a: rows,
            x: tokens,
            out: &mut self.dw,
        });
    }

    /// Adds the collected gradient of a matrix `[rows, cols]`.
    pub(crate) fn finish(&self, dw: &mut [f32]) {
        let rows = dw
            .chunks_exact_mut(self.cols)
            .zip(self.dw.chunks_exact(padded(self.cols)));
        for (to, from) in rows {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        }
    }

    /// Adds the collected gradient of a matrix `[cols, rows]`; `turned` is a buffer.
    pub(crate) fn finish_transposed(&self, dw: &mut [f32], turned: &mut Vec<f32>) {
        let width = padded(self.cols);
        let rows = self.dw.len() / width;
        resize(turned, self.cols * rows, 0.0);
        transpose(&self.dw, width, rows, self.cols, turned, rows);
        dw.iter_mut()
            .zip(turned.iter())
            .for_each(|(to, from)| *to += from);
    }

    /// Adds the collected gradients of a matrix behind a norm, of the gain and of the norm's bias.
    ///
    /// The collector holds `C = sum of dy n^T` over the normalised values `n`, `sums` holds `s = sum of dy`. With
    /// `y = w (gain * n + shift)`: `dw = C diag(gain) + s shift^T`, `dgain[c] = sum over r of w[r, c] *
    /// C[r, c]`, `dshift = w^T s`.
    pub(crate) fn finish_normed(
        &self,
        sums: &BiasCollector,
        w: &[f32],
        norm: (&[f32], Option<&[f32]>),
        dw: &mut [f32],
        dgain: &mut [f32],
        mut dshift: Option<&mut [f32]>,
    ) {
        let (gain, shift) = norm;
        let cols = self.cols;
        let rows = dw.chunks_exact_mut(cols).zip(w.chunks_exact(cols));
        for ((dw, w), (from, sum)) in rows.zip(self.dw.chunks_exact(padded(cols)).zip(&sums.0)) {
            let from = &from[..cols];
            for c in 0..cols {
                dw[c] += from[c] * gain[c];
                dgain[c] += w[c] * from[c];
            }
            if let (Some(shift), Some(dshift)) = (shift, dshift.as_deref_mut()) {
                let sum = sum.sum();
                for c in 0..cols {
                    dw[c] += sum * shift[c];
                    dshift[c] += w[c] * sum;
                }
            }
        }
    }
}

/// The gradient of a bias: per row and lane of the panel, the sum of the output's gradients.
#[derive(Debug, Default)]
pub(crate) struct BiasCollector(Vec<Row>);

impl BiasCollector {
    pub(crate) fn reset(&mut self, rows: usize) {
        resize(&mut self.0, rows, Row::ZERO);
        self.0.fill(Row::ZERO);
    }

    /// Adds the gradients of a panel's output.
    #[inline(always)]
    pub(crate) fn add<S: Simd>(&mut self, simd: S, dy: &[Row]) {
        simd.vectorize(AddRows {
            from: dy,
            to: &mut self.0,
        });
    }

    /// Adds the collected gradient, if the bias exists.
    pub(crate) fn finish(&self, db: Option<&mut [f32]>) {
        if let Some(db) = db {
            db.iter_mut()
                .zip(&self.0)
                .for_each(|(db, sum)| *db += sum.sum());
        }
    }
}

/// `to += from`.
pub(crate) struct AddRows<'a> {
    pub(crate) from: &'a [Row],
    pub(crate) to: &'a mut [Row],
}

impl WithSimd for AddRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (to, &from) in vectors_mut::<S>(self.to)
            .iter_mut()
            .zip(vectors::<S>(self.from))
        {
            *to = simd.add_f32s(*to, from);
        }
    }
}

/// `to *= by`.
pub(crate) struct MulRows<'a> {
    pub(crate) by: &'a [Row],
    pub(crate) to: &'a mut [Row],
}

impl WithSimd for MulRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (to, &by) in vectors_mut::<S>(self.to)
            .iter_mut()
            .zip(vectors::<S>(self.by))
        {
            *to = simd.mul_f32s(*to, by);
        }
    }
}

/// A panel token by token, in a buffer that is kept.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Vec<f32>);

impl Tokens {
    /// Turns a panel `[d]` into `[32, padded(d)]`; what lies in the padding is finite and unused.
    pub(crate) fn of(&mut self, panel: &[Row]) -> &[f32] {
        resize(&mut self.0, crate::panel::PANEL * padded(panel.len()), 0.0);
        turn(panel, &mut self.0);
        &self.0
    }
}
