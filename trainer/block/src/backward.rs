//! The backward pass of a pre-norm Transformer block.

use crate::attention::AttendBack;
use crate::block::{drop_out, rotate, span};
use crate::dropout::Site;
use crate::linear::MulRows;
use crate::norm::NormalizeBack;
use crate::panel::{PANEL, Row, read_tokens, write_tokens};
use crate::product::{Apply, Start};
use crate::saved::Saved;
use crate::shape::{Batch, Grads, Params, Shape};
use pulp::{Arch, Simd, WithSimd};

/// Computes the gradients of a block from `saved`, which its forward pass has filled.
///
/// `dx_in` is overwritten; the gradients of the parameters are added to `grads`.
///
/// # Shapes
///
/// - `dx_out`, `dx_in`: `[batch, len, d_model]`
///
/// # Panics
///
/// If a slice has another length than `shape` and `batch` give it, or if `saved` comes from a forward
/// pass of another shape.
pub fn backward(
    shape: &Shape,
    batch: &Batch<'_>,
    params: &Params<'_>,
    saved: &mut Saved,
    dx_out: &[f32],
    dx_in: &mut [f32],
    grads: &mut Grads<'_>,
) {
    backward_on(
        Arch::new(),
        shape,
        batch,
        params,
        saved,
        dx_out,
        dx_in,
        grads,
    );
}

/// `backward` on a given vector unit.
#[expect(
    clippy::too_many_arguments,
    reason = "those of `backward` and the vector unit"
)]
pub(crate) fn backward_on(
    arch: Arch,
    shape: &Shape,
    batch: &Batch<'_>,
    params: &Params<'_>,
    saved: &mut Saved,
    dx_out: &[f32],
    dx_in: &mut [f32],
    grads: &mut Grads<'_>,
) {
    shape.check();
    batch.check(shape);
    params.check(shape);
    grads.check(params);
    let tokens = batch.batch * batch.len * shape.d_model;
    assert!(
        dx_out.len() == tokens && dx_in.len() == tokens,
        "dx_out and dx_in need {tokens} values"
    );
    saved.fit_back(shape, batch);
    let s = &mut *saved;
    let d = shape.d_model;
    s.qkv_back
        .pack_transposed(params.w_qkv, d, Some(params.g_attn));
    s.o_back
        .pack_transposed(params.w_o, shape.attention_dim(), None);
    s.up_back
        .pack_transposed(params.w_up, d, Some(params.g_ffn));
    if let Some(w_gate) = params.w_gate {
        s.gate_back.pack_transposed(w_gate, d, Some(params.g_ffn));
    }
    s.down_back.pack_transposed(params.w_down, shape.d_ff, None);
    let sums = Sums::of(params);
    arch.dispatch(Backward {
        shape,
        batch,
        sums,
        dx_out,
        dx_in,
        saved,
    });
    finish(params, saved, grads);
}

/// Which matrices need the sums of their output's gradients, for a bias or a norm's bias.
#[derive(Clone, Copy)]
struct Sums {
    qkv: bool,
    o: bool,
    up: bool,
    gate: bool,
    down: bool,
}

impl Sums {
    fn of(params: &Params<'_>) -> Self {
        Self {
            qkv: params.b_qkv.is_some() || params.b_attn.is_some(),
            o: params.b_o.is_some(),
            up: params.b_up.is_some() || params.b_ffn.is_some(),
            gate: params.b_gate.is_some() || params.b_ffn.is_some(),
            down: params.b_down.is_some(),
        }
    }
}

struct Backward<'a> {
    shape: &'a Shape,
    batch: &'a Batch<'a>,
    sums: Sums,
    dx_out: &'a [f32],
    dx_in: &'a mut [f32],
    saved: &'a mut Saved,
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            shape,
            batch,
            sums,
            dx_out,
            dx_in,
            saved,
        } = self;
        let sequence_len = batch.len * shape.d_model;
        let sequences = dx_out
            .chunks_exact(sequence_len)
            .zip(dx_in.chunks_exact_mut(sequence_len));
        for (sequence, (dx_out, dx_in)) in sequences.enumerate() {
            feed_forward_part(simd, shape, batch, sums, sequence, dx_out, saved);
            attention_part(simd, shape, batch, sums, sequence, dx_in, saved);
        }
    }
}

/// From the gradient of the block's output to that of its middle, left in `saved.x`.
#[inline(always)]
fn feed_forward_part<S: Simd>(
    simd: S,
    shape: &Shape,
    batch: &Batch<'_>,
    sums: Sums,
    sequence: usize,
    dx_out: &[f32],
    saved: &mut Saved,
) {
    let (d, d_ff) = (shape.d_model, shape.d_ff);
    let panels = batch.len.div_ceil(PANEL);
    for (panel, tokens) in dx_out.chunks(PANEL * d).enumerate() {
        let index = sequence * panels + panel;
        let dx = &mut saved.x[panel * d..(panel + 1) * d];
        read_tokens(tokens, dx);
        let dy = dropped(
            batch,
            Site::FeedForwardOutput,
            sequence,
            panel,
            dx,
            &mut saved.y,
        );

        // down
        let inner = index * d_ff..(index + 1) * d_ff;
        let dact = &mut saved.dact[..];
        simd.vectorize(Apply {
            w: &saved.down_back,
            x: dy,
            start: Start::Zero,
            out: &mut *dact,
        });
        saved
            .dw_down
            .add(simd, &saved.act[inner.clone()], saved.tokens.of(dy));
        if sums.down {
            saved.down_sums.add(simd, dy);
        }

        // activation
        if shape.gated() {
            saved.dgate.copy_from_slice(dact);
            let by = &saved.slope_gate[inner.clone()];
            simd.vectorize(MulRows {
                by,
                to: &mut saved.dgate,
            });
        }
        simd.vectorize(MulRows {
            by: &saved.slope[inner],
            to: &mut *dact,
        });

        // up and gate
        let n = &saved.n_ffn[index * d..(index + 1) * d];
        let tokens = saved.tokens.of(n);
        saved.dw_up.add(simd, dact, tokens);
        if sums.up {
            saved.up_sums.add(simd, dact);
        }
        let dn = &mut saved.y[..];
        simd.vectorize(Apply {
            w: &saved.up_back,
            x: dact,
            start: Start::Zero,
            out: &mut *dn,
        });
        if shape.gated() {
            let dgate = &saved.dgate[..];
            saved.dw_gate.add(simd, dgate, tokens);
            if sums.gate {
                saved.gate_sums.add(simd, dgate);
            }
            let start = Start::Output;
            simd.vectorize(Apply {
                w: &saved.gate_back,
                x: dgate,
                start,
                out: &mut *dn,
            });
        }
        let inverse = &saved.inverse_ffn[index];
        simd.vectorize(NormalizeBack {
            norm: shape.norm,
            n,
            inverse,
            dn,
            dx,
        });
    }
}

/// From the gradient of the block's middle in `saved.x` to that of its input.
#[inline(always)]
fn attention_part<S: Simd>(
    simd: S,
    shape: &Shape,
    batch: &Batch<'_>,
    sums: Sums,
    sequence: usize,
    dx_in: &mut [f32],
    saved: &mut Saved,
) {
    let (d, qkv_dim, attention_dim) = (shape.d_model, shape.qkv_dim(), shape.attention_dim());
    let panels = batch.len.div_ceil(PANEL);
    for panel in 0..panels {
        let index = sequence * panels + panel;
        let dx = &saved.x[panel * d..(panel + 1) * d];
        let dy = dropped(
            batch,
            Site::AttentionOutput,
            sequence,
            panel,
            dx,
            &mut saved.y,
        );
        let out = &mut saved.dattention[panel * attention_dim..(panel + 1) * attention_dim];
        simd.vectorize(Apply {
            w: &saved.o_back,
            x: dy,
            start: Start::Zero,
            out,
        });
        let attention = &saved.attention[index * attention_dim..(index + 1) * attention_dim];
        saved.dw_o.add(simd, dy, saved.tokens.of(attention));
        if sums.o {
            saved.o_sums.add(simd, dy);
        }
    }

    let all = sequence * panels..(sequence + 1) * panels;
    simd.vectorize(AttendBack {
        span: span(shape, batch, sequence),
        qkv: &saved.qkv[all.start * qkv_dim..all.end * qkv_dim],
        out: &saved.attention[all.start * attention_dim..all.end * attention_dim],
        max: &saved.max[all.start * shape.n_head..all.end * shape.n_head],
        inverse: &saved.inverse_sum[all.start * shape.n_head..all.end * shape.n_head],
        dout: &saved.dattention,
        dqkv: &mut saved.dqkv,
        scratch: &mut saved.scratch,
    });

    for (panel, tokens) in dx_in.chunks_mut(PANEL * d).enumerate() {
        let index = sequence * panels + panel;
        let dqkv = &mut saved.dqkv[panel * qkv_dim..(panel + 1) * qkv_dim];
        if batch.rope.is_some() {
            let pairs = shape.head_dim / 2;
            let (cos, sin) = (&saved.cos[panel * pairs..], &saved.sin[panel * pairs..]);
            let rotated = (shape.n_head + shape.n_kv_head) * shape.head_dim;
            rotate(&mut dqkv[..rotated], cos, sin, pairs, -1.0);
        }
        let n = &saved.n_attn[index * d..(index + 1) * d];
        saved.dw_qkv.add(simd, dqkv, saved.tokens.of(n));
        if sums.qkv {
            saved.qkv_sums.add(simd, dqkv);
        }
        let dn = &mut saved.y[..];
        simd.vectorize(Apply {
            w: &saved.qkv_back,
            x: dqkv,
            start: Start::Zero,
            out: &mut *dn,
        });
        let dx = &mut saved.x[panel * d..(panel + 1) * d];
        let inverse = &saved.inverse_attn[index];
        simd.vectorize(NormalizeBack {
            norm: shape.norm,
            n,
            inverse,
            dn,
            dx: &mut *dx,
        });
        write_tokens(dx, tokens);
    }
}

/// The gradient behind a dropout: `dx` itself without one, else its masked copy in `buffer`.
#[inline(always)]
fn dropped<'a>(
    batch: &Batch<'_>,
    site: Site,
    sequence: usize,
    panel: usize,
    dx: &'a [Row],
    buffer: &'a mut [Row],
) -> &'a [Row] {
    if batch.dropout.is_none_or(|dropout| dropout.rate == 0.0) {
        return dx;
    }
    buffer.copy_from_slice(dx);
    drop_out(batch, site, sequence, panel, buffer);
    buffer
}

/// Adds what the step collected to the gradients.
fn finish(params: &Params<'_>, saved: &mut Saved, grads: &mut Grads<'_>) {
    let s = saved;
    let norm = (params.g_attn, params.b_attn);
    let shift = grads.b_attn.as_deref_mut();
    s.qkv_sums.finish(grads.b_qkv.as_deref_mut());
    s.dw_qkv.finish_normed(
        &s.qkv_sums,
        params.w_qkv,
        norm,
        grads.w_qkv,
        grads.g_attn,
        shift,
    );
    s.dw_o.finish(grads.w_o);
    s.o_sums.finish(grads.b_o.as_deref_mut());
    let norm = (params.g_ffn, params.b_ffn);
    let shift = grads.b_ffn.as_deref_mut();
    s.dw_up.finish_normed(
        &s.up_sums,
        params.w_up,
        norm,
        grads.w_up,
        grads.g_ffn,
        shift,
    );
    s.up_sums.finish(grads.b_up.as_deref_mut());
    if let (Some(w_gate), Some(dw_gate)) = (params.w_gate, grads.w_gate.as_deref_mut()) {
        let shift = grads.b_ffn.as_deref_mut();
        s.dw_gate
            .finish_normed(&s.gate_sums, w_gate, norm, dw_gate, grads.g_ffn, shift);
        s.gate_sums.finish(grads.b_gate.as_deref_mut());
    }
    s.dw_down.finish_transposed(grads.w_down, &mut s.turned);
    s.down_sums.finish(grads.b_down.as_deref_mut());
}
