//! The forward pass of a pre-norm Transformer block.

use crate::activation::{Activate, ActivateGated};
use crate::attention::{Attend, Span};
use crate::dropout::{Dropout, Site};
use crate::linear::AddRows;
use crate::norm::Normalize;
use crate::panel::{PANEL, Row, floats_mut, read_tokens, write_tokens};
use crate::product::{Apply, Start};
use crate::saved::Saved;
use crate::shape::{Batch, Params, Rope, Shape};
use pulp::{Arch, Simd, WithSimd};

/// Computes a block: `x + attention(norm(x))`, then `x + feed_forward(norm(x))`.
///
/// # Shapes
///
/// - `x_in`, `x_out`: `[batch, len, d_model]`
///
/// # Panics
///
/// If a slice has another length than `shape` and `batch` give it.
pub fn forward(
    shape: &Shape,
    batch: &Batch<'_>,
    params: &Params<'_>,
    x_in: &[f32],
    x_out: &mut [f32],
    saved: &mut Saved,
) {
    forward_on(Arch::new(), shape, batch, params, x_in, x_out, saved);
}

/// `forward` on a given vector unit.
pub(crate) fn forward_on(
    arch: Arch,
    shape: &Shape,
    batch: &Batch<'_>,
    params: &Params<'_>,
    x_in: &[f32],
    x_out: &mut [f32],
    saved: &mut Saved,
) {
    shape.check();
    batch.check(shape);
    params.check(shape);
    let tokens = batch.batch * batch.len * shape.d_model;
    assert!(
        x_in.len() == tokens && x_out.len() == tokens,
        "x_in and x_out need {tokens} values"
    );
    saved.fit(shape, batch);
    let d = shape.d_model;
    let s = &mut *saved;
    s.qkv_in.prepare(
        params.w_qkv,
        d,
        Some((params.g_attn, params.b_attn)),
        params.b_qkv,
    );
    s.o_in
        .prepare(params.w_o, shape.attention_dim(), None, params.b_o);
    let norm = Some((params.g_ffn, params.b_ffn));
    s.up_in.prepare(params.w_up, d, norm, params.b_up);
    if let Some(w_gate) = params.w_gate {
        s.gate_in.prepare(w_gate, d, norm, params.b_gate);
    }
    s.down_in
        .prepare(params.w_down, shape.d_ff, None, params.b_down);
    if let Some(rope) = batch.rope {
        for (table, rows) in [(rope.cos, &mut s.cos), (rope.sin, &mut s.sin)] {
            let pairs = shape.head_dim / 2;
            let panels = table
                .chunks(PANEL * pairs)
                .zip(rows.chunks_exact_mut(pairs));
            panels.for_each(|(table, rows)| read_tokens(table, rows));
        }
    }
    arch.dispatch(Forward {
        shape,
        batch,
        x_in,
        x_out,
        saved,
    });
}

struct Forward<'a> {
    shape: &'a Shape,
    batch: &'a Batch<'a>,
    x_in: &'a [f32],
    x_out: &'a mut [f32],
    saved: &'a mut Saved,
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            shape,
            batch,
            x_in,
            x_out,
            saved,
        } = self;
        let sequence_len = batch.len * shape.d_model;
        let sequences = x_in
            .chunks_exact(sequence_len)
            .zip(x_out.chunks_exact_mut(sequence_len));
        for (sequence, (x_in, x_out)) in sequences.enumerate() {
            attention_part(simd, shape, batch, sequence, x_in, saved);
            feed_forward_part(simd, shape, batch, sequence, x_out, saved);
        }
    }
}

/// `x + attention(norm(x))` of one sequence, left in `saved.x`.
#[inline(always)]
fn attention_part<S: Simd>(
    simd: S,
    shape: &Shape,
    batch: &Batch<'_>,
    sequence: usize,
    x_in: &[f32],
    saved: &mut Saved,
) {
    let (d, qkv_dim, attention_dim) = (shape.d_model, shape.qkv_dim(), shape.attention_dim());
    let panels = batch.len.div_ceil(PANEL);
    for (panel, tokens) in x_in.chunks(PANEL * d).enumerate() {
        let index = sequence * panels + panel;
        let x = &mut saved.x[panel * d..(panel + 1) * d];
        read_tokens(tokens, x);
        let n = &mut saved.n_attn[index * d..(index + 1) * d];
        let inverse = &mut saved.inverse_attn[index];
        simd.vectorize(Normalize {
            norm: shape.norm,
            x,
            out: n,
            inverse,
        });
        // q, k, v: [qkv_dim]
        let qkv = &mut saved.qkv[index * qkv_dim..(index + 1) * qkv_dim];
        let start = Start::Bias(&saved.qkv_in.bias);
        simd.vectorize(Apply {
            w: &saved.qkv_in.w,
            x: n,
            start,
            out: &mut *qkv,
        });
        if let Some(Rope { .. }) = batch.rope {
            let pairs = shape.head_dim / 2;
            let (cos, sin) = (&saved.cos[panel * pairs..], &saved.sin[panel * pairs..]);
            rotate(
                &mut qkv[..(shape.n_head + shape.n_kv_head) * shape.head_dim],
                cos,
                sin,
                pairs,
                1.0,
            );
        }
        // Softmax is in base 2; the scale of the scores goes into the queries.
        let scale = core::f32::consts::LOG2_E / (shape.head_dim as f32).sqrt();
        floats_mut(&mut qkv[..attention_dim])
            .iter_mut()
            .for_each(|q| *q *= scale);
    }
    let all = sequence * panels..(sequence + 1) * panels;
    simd.vectorize(Attend {
        span: span(shape, batch, sequence),
        qkv: &saved.qkv[all.start * qkv_dim..all.end * qkv_dim],
        out: &mut saved.attention[all.start * attention_dim..all.end * attention_dim],
        max: &mut saved.max[all.start * shape.n_head..all.end * shape.n_head],
        inverse: &mut saved.inverse_sum[all.start * shape.n_head..all.end * shape.n_head],
        tile: &mut saved.tile,
    });
    for panel in 0..panels {
        let index = sequence * panels + panel;
        let x = &saved.attention[index * attention_dim..(index + 1) * attention_dim];
        let start = Start::Bias(&saved.o_in.bias);
        simd.vectorize(Apply {
            w: &saved.o_in.w,
            x,
            start,
            out: &mut saved.y,
        });
        drop_out(batch, Site::AttentionOutput, sequence, panel, &mut saved.y);
        simd.vectorize(AddRows {
            from: &saved.y,
            to: &mut saved.x[panel * d..(panel + 1) * d],
        });
    }
}

/// `x + feed_forward(norm(x))` of one sequence from `saved.x`.
#[inline(always)]
fn feed_forward_part<S: Simd>(
    simd: S,
    shape: &Shape,
    batch: &Batch<'_>,
    sequence: usize,
    x_out: &mut [f32],
    saved: &mut Saved,
) {
    let (d, d_ff) = (shape.d_model, shape.d_ff);
    let panels = batch.len.div_ceil(PANEL);
    for (panel, tokens) in x_out.chunks_mut(PANEL * d).enumerate() {
        let index = sequence * panels + panel;
        let x = &mut saved.x[panel * d..(panel + 1) * d];
        let n = &mut saved.n_ffn[index * d..(index + 1) * d];
        let inverse = &mut saved.inverse_ffn[index];
        simd.vectorize(Normalize {
            norm: shape.norm,
            x,
            out: n,
            inverse,
        });
        // up and gate: [d_ff]
        let inner = index * d_ff..(index + 1) * d_ff;
        let slope = &mut saved.slope[inner.clone()];
        let start = Start::Bias(&saved.up_in.bias);
        simd.vectorize(Apply {
            w: &saved.up_in.w,
            x: n,
            start,
            out: &mut *slope,
        });
        let act = &mut saved.act[inner.clone()];
        if shape.gated() {
            let gate = &mut saved.slope_gate[inner];
            let start = Start::Bias(&saved.gate_in.bias);
            simd.vectorize(Apply {
                w: &saved.gate_in.w,
                x: n,
                start,
                out: &mut *gate,
            });
            simd.vectorize(ActivateGated {
                gate,
                up: slope,
                out: &mut *act,
            });
        } else {
            simd.vectorize(Activate {
                activation: shape.activation,
                slope,
                out: &mut *act,
            });
        }
        // down: [d_model]
        let start = Start::Bias(&saved.down_in.bias);
        simd.vectorize(Apply {
            w: &saved.down_in.w,
            x: act,
            start,
            out: &mut saved.y,
        });
        drop_out(
            batch,
            Site::FeedForwardOutput,
            sequence,
            panel,
            &mut saved.y,
        );
        simd.vectorize(AddRows {
            from: &saved.y,
            to: &mut *x,
        });
        write_tokens(x, tokens);
    }
}

pub(crate) fn span<'a>(shape: &'a Shape, batch: &'a Batch<'_>, sequence: usize) -> Span<'a> {
    let dropout = batch.dropout.as_ref().filter(|dropout| dropout.rate > 0.0);
    Span {
        shape,
        sequence,
        len: batch.len,
        window: batch.window,
        dropout,
    }
}

/// Applies the dropout of a site, if any, to a panel of a sequence.
#[inline(always)]
pub(crate) fn drop_out(
    batch: &Batch<'_>,
    site: Site,
    sequence: usize,
    panel: usize,
    rows: &mut [Row],
) {
    if let Some(dropout) = batch
        .dropout
        .as_ref()
        .filter(|Dropout { rate, .. }| *rate > 0.0)
    {
        let sequence = dropout.sequence(sequence);
        let first = (panel * PANEL) as u32;
        dropout
            .mask(site)
            .apply_residual(rows, sequence, first, batch.len as u32);
    }
}

/// Rotates the pairs of every head in `rows` by the angles of the panel, backwards for `sign` -1.
#[inline(always)]
pub(crate) fn rotate(rows: &mut [Row], cos: &[Row], sin: &[Row], pairs: usize, sign: f32) {
    for head in rows.chunks_exact_mut(2 * pairs) {
        for (pair, (cos, sin)) in head.chunks_exact_mut(2).zip(cos.iter().zip(sin)) {
            let [even, odd] = pair else { continue };
            for lane in 0..PANEL {
                let (a, b, s) = (even.0[lane], odd.0[lane], sign * sin.0[lane]);
                even.0[lane] = a * cos.0[lane] - b * s;
                odd.0[lane] = a * s + b * cos.0[lane];
            }
        }
    }
}
