//! Final norm, output matrix and mean cross-entropy, forward and backward in one pass.
//!
//! The gradient needs nothing that comes after the loss but a factor, so it is made panel by panel while
//! the probabilities are in the cache; logits are never stored.

use crate::activation::exp2;
use crate::linear::{BiasCollector, Collector, Linear, Tokens};
use crate::norm::{Normalize, NormalizeBack};
use crate::panel::{PANEL, Row, read_tokens, resize, vectors_mut, write_tokens};
use crate::product::{Apply, Packed, Start};
use pulp::{Arch, Simd, WithSimd};
use runtime::Norm;

/// Parameters of the head.
///
/// # Shapes
///
/// - `g_final`, `b_final`: `[d_model]`
/// - `w_out`: `[vocab_size, d_model]` (`w_embed` if tied); `b_out`: `[vocab_size]`
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are the tensors of the table above")]
pub struct HeadParams<'a> {
    pub norm: Norm,
    pub g_final: &'a [f32],
    pub b_final: Option<&'a [f32]>,
    pub w_out: &'a [f32],
    pub b_out: Option<&'a [f32]>,
}

/// Gradients of the head's parameters, shaped like [`HeadParams`]; the head adds to them.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the tensors of `HeadParams`")]
pub struct HeadGrads<'a> {
    pub g_final: &'a mut [f32],
    pub b_final: Option<&'a mut [f32]>,
    pub w_out: &'a mut [f32],
    pub b_out: Option<&'a mut [f32]>,
}

/// Buffers of the head, kept from step to step.
#[derive(Debug, Default)]
pub struct HeadBuffers {
    x: Vec<Row>,
    n: Vec<Row>,
    inverse: Vec<Row>,
    dn: Vec<Row>,
    logits: Vec<Row>,
    tokens: Tokens,
    out: Linear,
    back: Packed,
    dw: Collector,
    sums: BiasCollector,
}

impl HeadBuffers {
    /// Creates empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// Returns the sum of the cross-entropies in nats; `losses`, if given, takes that of each token.
///
/// # Shapes
///
/// - `x`: `[tokens, d_model]`; `targets`, `losses`: `[tokens]`
///
/// # Panics
///
/// If the lengths do not agree or a target is not below `vocab_size`.
pub fn head_loss(
    params: &HeadParams<'_>,
    x: &[f32],
    targets: &[u16],
    losses: Option<&mut [f32]>,
    buffers: &mut HeadBuffers,
) -> f64 {
    prepare(params, x, targets, buffers);
    let losses = losses.unwrap_or(&mut []);
    assert!(
        losses.is_empty() || losses.len() == targets.len(),
        "a loss per target"
    );
    Arch::new().dispatch(Head {
        params,
        x,
        targets,
        losses,
        back: None,
        buffers,
    })
}

/// What each token should predict.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a> {
    /// The token that follows in the text, `[tokens]`.
    pub tokens: &'a [u16],
    /// Distribution to learn instead of that one token, `[tokens, vocab_size]`; rows sum to 1
    /// (Hinton, Vinyals, Dean, "Distilling the Knowledge in a Neural Network", section 2).
    pub soft: Option<&'a [f32]>,
}

impl<'a> From<&'a [u16]> for Targets<'a> {
    fn from(tokens: &'a [u16]) -> Self {
        Self { tokens, soft: None }
    }
}

/// Returns the sum of the cross-entropies in nats and computes the gradients of that sum times `scale`.
///
/// `dx` is overwritten; the gradients of the parameters are added to `grads`. `scale` is one over the
/// number of tokens of the whole batch for the gradients of the mean. With soft targets the gradients
/// are those of the cross-entropy against them; the returned sum stays that of the text's own tokens.
///
/// # Shapes
///
/// - `x`, `dx`: `[tokens, d_model]`
///
/// # Panics
///
/// If the lengths do not agree or a target is not below `vocab_size`.
pub fn head_loss_and_grads(
    params: &HeadParams<'_>,
    x: &[f32],
    targets: Targets<'_>,
    scale: f32,
    dx: &mut [f32],
    grads: &mut HeadGrads<'_>,
    buffers: &mut HeadBuffers,
) -> f64 {
    let Targets { tokens, soft } = targets;
    prepare(params, x, tokens, buffers);
    assert!(dx.len() == x.len(), "dx needs {} values", x.len());
    let d = params.g_final.len();
    let rows = params.w_out.len() / d;
    assert!(
        soft.is_none_or(|soft| soft.len() == tokens.len() * rows),
        "soft targets must be [{}, {rows}]",
        tokens.len()
    );
    buffers
        .back
        .pack_transposed(params.w_out, d, Some(params.g_final));
    buffers.dw.reset(rows, d);
    buffers.sums.reset(rows);
    let sums = params.b_out.is_some() || params.b_final.is_some();
    let back = Some(Back {
        scale,
        soft,
        sums,
        dx,
    });
    let loss = Arch::new().dispatch(Head {
        params,
        x,
        targets: tokens,
        losses: &mut [],
        back,
        buffers,
    });
    let HeadBuffers { dw, sums, .. } = buffers;
    let norm = (params.g_final, params.b_final);
    let shift = grads.b_final.as_deref_mut();
    dw.finish_normed(sums, params.w_out, norm, grads.w_out, grads.g_final, shift);
    sums.finish(grads.b_out.as_deref_mut());
    loss
}

fn prepare(params: &HeadParams<'_>, x: &[f32], targets: &[u16], buffers: &mut HeadBuffers) {
    let d = params.g_final.len();
    let rows = params.w_out.len() / d;
    assert!(
        params.w_out.len() == rows * d,
        "w_out must be [vocab_size, {d}]"
    );
    assert!(
        params.b_final.is_none_or(|b| b.len() == d),
        "b_final needs {d} values"
    );
    assert!(
        params.b_out.is_none_or(|b| b.len() == rows),
        "b_out needs {rows} values"
    );
    assert!(
        x.len() == targets.len() * d,
        "x must be [{}, {d}]",
        targets.len()
    );
    assert!(
        targets.iter().all(|&t| usize::from(t) < rows),
        "a target is not below {rows}"
    );
    let norm = Some((params.g_final, params.b_final));
    buffers.out.prepare(params.w_out, d, norm, params.b_out);
    for (buffer, len) in [
        (&mut buffers.x, d),
        (&mut buffers.n, d),
        (&mut buffers.inverse, 1),
        (&mut buffers.dn, d),
        (&mut buffers.logits, rows),
    ] {
        resize(buffer, len, Row::ZERO);
    }
}

struct Back<'a> {
    scale: f32,
    soft: Option<&'a [f32]>,
    sums: bool,
    dx: &'a mut [f32],
}

struct Head<'a> {
    params: &'a HeadParams<'a>,
    x: &'a [f32],
    targets: &'a [u16],
    losses: &'a mut [f32],
    back: Option<Back<'a>>,
    buffers: &'a mut HeadBuffers,
}

impl WithSimd for Head<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Self {
            params,
            x,
            targets,
            losses,
            mut back,
            buffers: b,
        } = self;
        let d = params.g_final.len();
        let norm = params.norm;
        let mut total = 0.0;
        for (panel, targets) in targets.chunks(PANEL).enumerate() {
            let tokens = panel * PANEL * d..(panel * PANEL + targets.len()) * d;
            read_tokens(&x[tokens.clone()], &mut b.x);
            let inverse = &mut b.inverse[0];
            simd.vectorize(Normalize {
                norm,
                x: &b.x,
                out: &mut b.n,
                inverse,
            });
            let start = Start::Bias(&b.out.bias);
            simd.vectorize(Apply {
                w: &b.out.w,
                x: &b.n,
                start,
                out: &mut b.logits,
            });

            let mut target_logits = [0.0_f32; PANEL];
            for (lane, &target) in targets.iter().enumerate() {
                target_logits[lane] = b.logits[usize::from(target)].0[lane];
            }
            let (mut max, mut sum) = (Row::ZERO, Row::ZERO);
            exponentials(simd, &mut b.logits, &mut max, &mut sum);
            for (lane, &target_logit) in target_logits[..targets.len()].iter().enumerate() {
                let log_sum = f64::from(sum.0[lane]).ln() + f64::from(max.0[lane]);
                let loss = log_sum - f64::from(target_logit);
                total += loss;
                if let Some(slot) = losses.get_mut(panel * PANEL + lane) {
                    *slot = loss as f32;
                }
            }

            let Some(Back {
                scale,
                soft,
                sums,
                dx,
            }) = &mut back
            else {
                continue;
            };
            // The gradient of the logits: probabilities less the target's, times the scale.
            let mut factor = Row::ZERO;
            for lane in 0..targets.len() {
                factor.0[lane] = *scale / sum.0[lane];
            }
            for row in &mut b.logits {
                row.0.iter_mut().zip(&factor.0).for_each(|(v, f)| *v *= f);
            }
            if let Some(soft) = soft {
                let rows = b.logits.len();
                let panel = &soft[panel * PANEL * rows..][..targets.len() * rows];
                for (lane, probs) in panel.chunks_exact(rows).enumerate() {
                    for (row, p) in b.logits.iter_mut().zip(probs) {
                        row.0[lane] -= *scale * p;
                    }
                }
            } else {
                for (lane, &target) in targets.iter().enumerate() {
                    b.logits[usize::from(target)].0[lane] -= *scale;
                }
            }
            b.dw.add(simd, &b.logits, b.tokens.of(&b.n));
            if *sums {
                b.sums.add(simd, &b.logits);
            }
            let (w, start) = (&b.back, Start::Zero);
            simd.vectorize(Apply {
                w,
                x: &b.logits,
                start,
                out: &mut b.dn,
            });
            b.x.fill(Row::ZERO);
            let inverse = &b.inverse[0];
            simd.vectorize(NormalizeBack {
                norm,
                n: &b.n,
                inverse,
                dn: &b.dn,
                dx: &mut b.x,
            });
            write_tokens(&b.x, &mut dx[tokens]);
        }
        total
    }
}

/// Replaces logits by `exp(logit - max)`, and finds their largest and the sum per token.
#[inline(always)]
fn exponentials<S: Simd>(simd: S, logits: &mut [Row], max: &mut Row, sum: &mut Row) {
    let per_row = PANEL / S::F32_LANES;
    let logits = vectors_mut::<S>(logits);
    let max = vectors_mut::<S>(core::slice::from_mut(max));
    let sum = vectors_mut::<S>(core::slice::from_mut(sum));
    let log2_e = simd.splat_f32s(core::f32::consts::LOG2_E);
    for lane in 0..per_row {
        let mut top = simd.splat_f32s(f32::NEG_INFINITY);
        for row in logits.chunks_exact(per_row) {
            top = simd.max_f32s(top, row[lane]);
        }
        let mut total = simd.splat_f32s(0.0);
        for row in logits.chunks_exact_mut(per_row) {
            let power = simd.mul_f32s(simd.sub_f32s(row[lane], top), log2_e);
            row[lane] = exp2(simd, power);
            total = simd.add_f32s(total, row[lane]);
        }
        (max[lane], sum[lane]) = (top, total);
    }
}
