//! Causal attention of one sequence, forward and backward.
//!
//! A head takes 32 queries at a time against all keys that they may see. The scores lie key by key with
//! the queries side by side, so that softmax needs no horizontal sum; the tile stays in the cache, and
//! the backward pass makes it again from queries, keys and two numbers per query.

use crate::activation::exp2;
use crate::dropout::{Dropout, Mask, Site, attention_index};
use crate::panel::{PANEL, Row, floats, padded, resize, turn, vectors, vectors_mut};
use crate::product::{Mix, Outer, Pairs};
use crate::shape::Shape;
use crate::transpose::transpose;
use pulp::{Simd, WithSimd};

/// Which sequence attends how.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    pub(crate) shape: &'a Shape,
    /// Index of the sequence in this call.
    pub(crate) sequence: usize,
    pub(crate) len: usize,
    /// A query sees keys at positions above its own minus this.
    pub(crate) window: usize,
    pub(crate) dropout: Option<&'a Dropout>,
}

impl Span<'_> {
    fn panels(&self) -> usize {
        self.len.div_ceil(PANEL)
    }

    /// First panel with a key that the queries of panel `panel` see.
    fn first_panel(&self, panel: usize) -> usize {
        (panel * PANEL + 1).saturating_sub(self.window) / PANEL
    }

    fn mask(&self) -> Option<Mask> {
        self.dropout.map(|dropout| dropout.mask(Site::Attention))
    }

    /// Mask index of key 0 for the first query of a panel.
    fn mask_index(&self, head: usize, panel: usize) -> u32 {
        let sequence = self
            .dropout
            .map_or(0, |dropout| dropout.sequence(self.sequence));
        let (n_head, len) = (self.shape.n_head as u32, self.len as u32);
        attention_index(
            sequence,
            head as u32,
            (panel * PANEL) as u32,
            0,
            n_head,
            len,
        )
    }
}

/// Queries, keys and values of a sequence: `[panels, qkv_dim]` rows, queries scaled by
/// `log2(e) / sqrt(head_dim)`.
#[derive(Clone, Copy)]
struct Qkv<'a> {
    rows: &'a [Row],
    shape: &'a Shape,
}

impl<'a> Qkv<'a> {
    fn head(self, panel: usize, index: usize) -> &'a [Row] {
        let first = panel * self.shape.qkv_dim() + index * self.shape.head_dim;
        &self.rows[first..first + self.shape.head_dim]
    }

    fn q(self, panel: usize, head: usize) -> &'a [Row] {
        self.head(panel, head)
    }

    fn k(self, panel: usize, head: usize) -> &'a [Row] {
        self.head(panel, self.shape.n_head + head / self.shape.group())
    }

    fn v(self, panel: usize, head: usize) -> &'a [Row] {
        let s = self.shape;
        self.head(panel, s.n_head + s.n_kv_head + head / s.group())
    }
}

/// Scores of the queries of one panel against their keys, minus infinity where masked.
#[inline(always)]
fn scores<S: Simd>(
    simd: S,
    span: &Span<'_>,
    qkv: Qkv<'_>,
    head: usize,
    panel: usize,
    out: &mut [Row],
) {
    let first = span.first_panel(panel);
    let q = qkv.q(panel, head);
    for (keys, out) in (first..=panel).zip(out.chunks_exact_mut(PANEL)) {
        simd.vectorize(Pairs {
            a: qkv.k(keys, head),
            x: q,
            out,
        });
        let distance = (panel - keys) * PANEL;
        if keys == panel {
            for (key, row) in out.iter_mut().enumerate() {
                for (query, score) in row.0.iter_mut().enumerate() {
                    *score = if query < key {
                        f32::NEG_INFINITY
                    } else {
                        *score
                    };
                }
            }
        }
        if distance + PANEL > span.window {
            for (key, row) in out.iter_mut().enumerate() {
                for (query, score) in row.0.iter_mut().enumerate() {
                    let outside = query + distance >= key + span.window;
                    *score = if outside { f32::NEG_INFINITY } else { *score };
                }
            }
        }
    }
}

/// Attention of one sequence.
///
/// # Shapes
///
/// - `qkv`: `[panels, qkv_dim]` rows; `out`: `[panels, n_head * head_dim]` rows
/// - `max`, `inverse`: `[n_head, panels]` rows, largest score and inverse of the sum per query
/// - `tile`: `[32 * panels]` rows
pub(crate) struct Attend<'a> {
    pub(crate) span: Span<'a>,
    pub(crate) qkv: &'a [Row],
    pub(crate) out: &'a mut [Row],
    pub(crate) max: &'a mut [Row],
    pub(crate) inverse: &'a mut [Row],
    pub(crate) tile: &'a mut [Row],
}

impl WithSimd for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            span,
            qkv,
            out,
            max,
            inverse,
            tile,
        } = self;
        let (shape, panels) = (span.shape, span.panels());
        let qkv = Qkv { rows: qkv, shape };
        let mask = span.mask();
        for head in 0..shape.n_head {
            for panel in 0..panels {
                let first = span.first_panel(panel);
                let tile = &mut tile[..(panel + 1 - first) * PANEL];
                scores(simd, &span, qkv, head, panel, tile);
                let row = head * panels + panel;
                softmax(simd, tile, &mut max[row], &mut inverse[row]);
                if let Some(mask) = &mask {
                    let index = span.mask_index(head, panel);
                    for (key, row) in (first * PANEL..).zip(tile.iter_mut()) {
                        mask.apply(row, index.wrapping_add(key as u32), span.len as u32);
                    }
                }
                let start = panel * shape.attention_dim() + head * shape.head_dim;
                let out = &mut out[start..start + shape.head_dim];
                for (keys, x) in (first..=panel).zip(tile.chunks_exact(PANEL)) {
                    let a = qkv.v(keys, head);
                    simd.vectorize(Mix {
                        a,
                        x,
                        add: keys != first,
                        out: &mut *out,
                    });
                }
                scale_lanes(simd, out, &inverse[row]);
            }
        }
    }
}

/// Replaces scores by `2^(score - max)`; the largest score and the inverse of the sum go to the rows.
#[inline(always)]
fn softmax<S: Simd>(simd: S, tile: &mut [Row], max: &mut Row, inverse: &mut Row) {
    let per_row = PANEL / S::F32_LANES;
    let tile = vectors_mut::<S>(tile);
    let max = vectors_mut::<S>(core::slice::from_mut(max));
    let inverse = vectors_mut::<S>(core::slice::from_mut(inverse));
    for lane in 0..per_row {
        // Four running values: one would wait for itself.
        let mut top = [simd.splat_f32s(f32::NEG_INFINITY); 4];
        for four in tile.chunks_exact(4 * per_row) {
            for (i, top) in top.iter_mut().enumerate() {
                *top = simd.max_f32s(*top, four[i * per_row + lane]);
            }
        }
        let top = simd.max_f32s(simd.max_f32s(top[0], top[1]), simd.max_f32s(top[2], top[3]));
        let mut sum = [simd.splat_f32s(0.0); 4];
        for four in tile.chunks_exact_mut(4 * per_row) {
            for (i, sum) in sum.iter_mut().enumerate() {
                let score = &mut four[i * per_row + lane];
                *score = exp2(simd, simd.sub_f32s(*score, top));
                *sum = simd.add_f32s(*sum, *score);
            }
        }
        let sum = simd.add_f32s(simd.add_f32s(sum[0], sum[1]), simd.add_f32s(sum[2], sum[3]));
        max[lane] = top;
        inverse[lane] = simd.div_f32s(simd.splat_f32s(1.0), sum);
    }
}

/// Multiplies every row by `factor`, token by token.
#[inline(always)]
fn scale_lanes<S: Simd>(simd: S, rows: &mut [Row], factor: &Row) {
    let factor = vectors::<S>(core::slice::from_ref(factor));
    for row in vectors_mut::<S>(rows).chunks_exact_mut(factor.len()) {
        row.iter_mut()
            .zip(factor)
            .for_each(|(v, &f)| *v = simd.mul_f32s(*v, f));
    }
}

/// Buffers of the backward pass of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Scores, then probabilities as they were applied: `[32 * panels]` rows.
    probs: Vec<Row>,
    /// Gradients of the probabilities, then of the scores: `[32 * panels]` rows.
    dscores: Vec<Row>,
    /// Queries and output gradients token by token: `[32, padded(head_dim)]`.
    q: Vec<f32>,
    dout: Vec<f32>,
    /// Gradients of keys and values token by token: `[32 * panels, padded(head_dim)]`.
    dk: Vec<f32>,
    dv: Vec<f32>,
}

impl Scratch {
    pub(crate) fn fit(&mut self, panels: usize, head_dim: usize) {
        let width = padded(head_dim);
        for rows in [&mut self.probs, &mut self.dscores] {
            resize(rows, panels * PANEL, Row::ZERO);
        }
        for (tokens, len) in [
            (&mut self.q, PANEL),
            (&mut self.dout, PANEL),
            (&mut self.dk, panels * PANEL),
            (&mut self.dv, panels * PANEL),
        ] {
            resize(tokens, len * width, 0.0);
        }
    }
}

/// Gradients of queries, keys and values of one sequence.
///
/// # Shapes
///
/// - as for [`Attend`]; `out`, `dout`: `[panels, n_head * head_dim]` rows
/// - `dqkv`: `[panels, qkv_dim]` rows, overwritten: the gradients of the unscaled queries, of keys and
///   values
pub(crate) struct AttendBack<'a> {
    pub(crate) span: Span<'a>,
    pub(crate) qkv: &'a [Row],
    pub(crate) out: &'a [Row],
    pub(crate) max: &'a [Row],
    pub(crate) inverse: &'a [Row],
    pub(crate) dout: &'a [Row],
    pub(crate) dqkv: &'a mut [Row],
    pub(crate) scratch: &'a mut Scratch,
}

impl WithSimd for AttendBack<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (shape, panels) = (self.span.shape, self.span.panels());
        let width = padded(shape.head_dim);
        for kv_head in 0..shape.n_kv_head {
            self.scratch.dk.fill(0.0);
            self.scratch.dv.fill(0.0);
            for head in kv_head * shape.group()..(kv_head + 1) * shape.group() {
                for panel in 0..panels {
                    self.queries(simd, head, panel);
                }
            }
            for panel in 0..panels {
                let tokens = panel * PANEL * width..(panel + 1) * PANEL * width;
                // Queries carry log2(e) / sqrt(head_dim), and keys are due 1 / sqrt(head_dim).
                let k = shape.n_head + kv_head;
                for (index, grads, scale) in [
                    (k, &self.scratch.dk, core::f32::consts::LN_2),
                    (k + shape.n_kv_head, &self.scratch.dv, 1.0),
                ] {
                    let start = panel * shape.qkv_dim() + index * shape.head_dim;
                    let rows = &mut self.dqkv[start..start + shape.head_dim];
                    let rows = crate::panel::floats_mut(rows);
                    transpose(
                        &grads[tokens.clone()],
                        width,
                        PANEL,
                        shape.head_dim,
                        rows,
                        PANEL,
                    );
                    if scale != 1.0 {
                        rows.iter_mut().for_each(|v| *v *= scale);
                    }
                }
            }
        }
    }
}

impl AttendBack<'_> {
    /// The part of one head and 32 queries: their gradients, and what they add to keys and values.
    #[inline(always)]
    fn queries<S: Simd>(&mut self, simd: S, head: usize, panel: usize) {
        let Self {
            span,
            dqkv,
            scratch,
            ..
        } = self;
        let (shape, panels) = (span.shape, span.panels());
        let qkv = Qkv {
            rows: self.qkv,
            shape,
        };
        let first = span.first_panel(panel);
        let rows = (panel + 1 - first) * PANEL;
        let (probs, dscores) = (&mut scratch.probs[..rows], &mut scratch.dscores[..rows]);

        scores(simd, span, qkv, head, panel, probs);
        let start = panel * shape.attention_dim() + head * shape.head_dim;
        let out = &self.out[start..start + shape.head_dim];
        let dout = &self.dout[start..start + shape.head_dim];
        for (keys, out) in (first..=panel).zip(dscores.chunks_exact_mut(PANEL)) {
            simd.vectorize(Pairs {
                a: qkv.v(keys, head),
                x: dout,
                out,
            });
        }

        let row = head * panels + panel;
        let mut dot = Row::ZERO;
        dot_lanes(simd, out, dout, &mut dot);
        let per_row = PANEL / S::F32_LANES;
        let (max, inverse) = (&self.max[row], &self.inverse[row]);
        if let Some(mask) = span.mask() {
            let index = span.mask_index(head, panel);
            let pairs = probs.iter_mut().zip(dscores.iter_mut());
            for (key, (p, dscore)) in (first * PANEL..).zip(pairs) {
                let mut factor = Row([1.0; PANEL]);
                mask.apply(&mut factor, index.wrapping_add(key as u32), span.len as u32);
                let factor = vectors::<S>(core::slice::from_ref(&factor));
                let p = vectors_mut::<S>(core::slice::from_mut(p));
                let dscore = vectors_mut::<S>(core::slice::from_mut(dscore));
                let lanes = vectors::<S>(core::slice::from_ref(max)).iter();
                let lanes = lanes.zip(vectors::<S>(core::slice::from_ref(inverse)));
                let lanes = lanes.zip(vectors::<S>(core::slice::from_ref(&dot)));
                for (lane, ((&max, &inverse), &dot)) in lanes.enumerate() {
                    let e = exp2(simd, simd.sub_f32s(p[lane], max));
                    let prob = simd.mul_f32s(e, inverse);
                    let dprob = simd.mul_f32s(dscore[lane], factor[lane]);
                    dscore[lane] = simd.mul_f32s(prob, simd.sub_f32s(dprob, dot));
                    p[lane] = simd.mul_f32s(prob, factor[lane]);
                }
            }
        } else {
            let max = vectors::<S>(core::slice::from_ref(max));
            let inverse = vectors::<S>(core::slice::from_ref(inverse));
            let dot = vectors::<S>(core::slice::from_ref(&dot));
            let pairs = vectors_mut::<S>(probs).chunks_exact_mut(per_row);
            for (p, dscore) in pairs.zip(vectors_mut::<S>(dscores).chunks_exact_mut(per_row)) {
                for lane in 0..per_row {
                    let e = exp2(simd, simd.sub_f32s(p[lane], max[lane]));
                    p[lane] = simd.mul_f32s(e, inverse[lane]);
                    dscore[lane] = simd.mul_f32s(p[lane], simd.sub_f32s(dscore[lane], dot[lane]));
                }
            }
        }

        let q = qkv.q(panel, head);
        turn(q, &mut scratch.q);
        turn(dout, &mut scratch.dout);
        let width = padded(shape.head_dim);
        let start = panel * shape.qkv_dim() + head * shape.head_dim;
        let dq = &mut dqkv[start..start + shape.head_dim];
        let tiles = probs.chunks_exact(PANEL).zip(dscores.chunks_exact(PANEL));
        for (keys, (p, dscore)) in (first..=panel).zip(tiles) {
            let a = qkv.k(keys, head);
            simd.vectorize(Mix {
                a,
                x: dscore,
                add: keys != first,
                out: &mut *dq,
            });
            let tokens = keys * PANEL * width..(keys + 1) * PANEL * width;
            let out = &mut scratch.dv[tokens.clone()];
            simd.vectorize(Outer {
                a: p,
                x: &scratch.dout,
                out,
            });
            let out = &mut scratch.dk[tokens];
            simd.vectorize(Outer {
                a: dscore,
                x: &scratch.q,
                out,
            });
        }
        let scale = 1.0 / (shape.head_dim as f32).sqrt();
        crate::panel::floats_mut(dq)
            .iter_mut()
            .for_each(|v| *v *= scale);
    }
}

/// The sum over rows of `a * b`, token by token.
#[inline(always)]
fn dot_lanes<S: Simd>(simd: S, a: &[Row], b: &[Row], out: &mut Row) {
    debug_assert_eq!(floats(a).len(), floats(b).len());
    let out = vectors_mut::<S>(core::slice::from_mut(out));
    let per_row = out.len();
    let rows = vectors::<S>(a)
        .chunks_exact(per_row)
        .zip(vectors::<S>(b).chunks_exact(per_row));
    for (a, b) in rows {
        for (lane, out) in out.iter_mut().enumerate() {
            *out = simd.mul_add_e_f32s(a[lane], b[lane], *out);
        }
    }
}
