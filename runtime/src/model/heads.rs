//! The heads of a layer, from the sums of `w_qkv` to their attention.

use super::Model;
use super::forward::Place;
use crate::config::Position;
use crate::fixed::Scale;
use crate::kernel::Element;
use crate::ops::{self, HeadScale, Matrix};
use crate::part::split;
use crate::state::State;

/// Queries, keys and values as the product with `w_qkv` leaves them.
pub(super) struct Heads<'a> {
    pub(super) w_qkv: &'a Matrix<'a>,
    /// When the heads are bare sums, the bits that are left to cut.
    pub(super) cut: Option<u32>,
    /// Activation units that 1 in a head stands for, once multiplied by its row.
    pub(super) unit: Scale,
}

impl Heads<'_> {
    /// Quantises the head that starts at this row of `w_qkv`, rotated unless `angles` is empty; returns
    /// its scale.
    #[inline(never)]
    fn quantize(
        &self,
        x: &mut [i32],
        row: usize,
        angles: &[i32],
        x_q: &mut [Element],
    ) -> HeadScale {
        let multiplier = self.w_qkv.multiplier.get(row..).unwrap_or_default();
        let mut max = match self.cut {
            Some(cut) => ops::products(x, multiplier, cut),
            None => ops::max_magnitude(x),
        };
        let mut unit = self.unit;
        if !angles.is_empty() {
            let exponent;
            (max, exponent) = ops::rotate(x, max, angles);
            unit = unit.shl(exponent);
        }
        ops::quantize_head(x, max, unit, x_q)
    }
}

/// Returns the rotary angles of queries and keys; none where positions are not rotary.
fn angles<'a>(model: &Model<'_>, angles: &'a [i32]) -> &'a [i32] {
    match model.config().position {
        Position::Rope => angles,
        _ => &[],
    }
}

#[cfg(not(kernel = "m4"))]
impl Model<'_> {
    /// Stores the keys and values of this position and computes attention head by head, `[d_model]` into
    /// `state.h`; returns its [`ops::max_magnitude`].
    ///
    /// Queries, keys and values are the first elements of `state.scratch`.
    pub(super) fn attend_heads(
        &self,
        state: &mut State<'_>,
        heads: &Heads<'_>,
        layer: usize,
        at: Place,
        factor: Scale,
    ) -> u32 {
        use crate::part::{part, part_mut, take};

        let config = self.config();
        let (n_head, n_kv_head) = (usize::from(config.n_head), usize::from(config.n_kv_head));
        let (d_model, kv_dim, head_dim) = (
            usize::from(config.d_model),
            config.kv_dim(),
            config.head_dim(),
        );
        let angles = angles(self, state.angles);
        let (qkv, scores) = split(state.scratch, config.qkv_dim());
        let (mut q, mut kv) = split(qkv, d_model);
        let (mut k, mut v) = (take(&mut kv, kv_dim), kv);
        let (mut q_row, mut k_row, mut v_row) = (0, d_model, d_model + kv_dim);
        let mut cached = state.kv_cache.heads(layer * n_kv_head);
        let mut scratch = ops::AttendScratch {
            scores,
            weights: state.weights,
            lanes: state.lanes,
        };
        let mut h = &mut *state.h;
        let mut max = 0;
        for _ in 0..n_kv_head {
            // save key and value of this position in the cache
            let mut head = cached.next();
            let (k_q, v_q) = split(state.x_q, head_dim);
            let v_q = part_mut(v_q, 0, head_dim);
            let k_scale = heads.quantize(take(&mut k, head_dim), k_row, angles, k_q);
            let v_scale = heads.quantize(take(&mut v, head_dim), v_row, &[], v_q);
            head.store(at.slot, (k_q, k_scale), (v_q, v_scale));
            (k_row, v_row) = (k_row + head_dim, v_row + head_dim);
            // n_head / n_kv_head queries share them
            let past = head.past(head_dim, at.n);
            let mut shared = 0;
            while shared < n_head {
                let q_q = part_mut(state.x_q, 0, head_dim);
                let q_scale = heads.quantize(take(&mut q, head_dim), q_row, angles, q_q);
                let (q_q, out) = (part(state.x_q, 0, head_dim), take(&mut h, head_dim));
                max = ops::attend(q_q, q_scale, factor, &past, &mut scratch, out).max(max);
                (q_row, shared) = (q_row + head_dim, shared + n_kv_head);
            }
        }
        max
    }
}

#[cfg(kernel = "m4")]
impl Model<'_> {
    /// Stores the keys and values of this position and computes attention of all heads, `[d_model]` into
    /// `state.h`; returns its [`ops::max_magnitude`].
    ///
    /// Queries, keys and values are the first elements of `state.scratch`.
    pub(super) fn attend_heads(
        &self,
        state: &mut State<'_>,
        heads: &Heads<'_>,
        layer: usize,
        at: Place,
        factor: Scale,
    ) -> u32 {
        let config = self.config();
        let n_kv_head = usize::from(config.n_kv_head);
        let (qkv, scores) = split(state.scratch, config.qkv_dim());
        let angles = angles(self, state.angles);
        heads.quantize_all(qkv, config.kv_dim(), config.head_dim(), angles, state.x_q);
        crate::kernel::heads::Heads {
            n_head: config.n_head.into(),
            n_kv_head,
            head_dim: config.head_dim(),
            qkv_q: state.x_q,
            scales: qkv,
            cached: state.kv_cache.heads(layer * n_kv_head),
            slot: at.slot,
            n: at.n,
            factor,
            scores,
            weights: state.weights,
            lanes: state.lanes,
        }
        .attend(state.h)
    }
}

#[cfg(kernel = "m4")]
impl Heads<'_> {
    /// Quantises all heads, each to the place of its row; its scale replaces its first element.
    fn quantize_all(
        &self,
        x: &mut [i32],
        kv_dim: usize,
        head_dim: usize,
        angles: &[i32],
        x_q: &mut [Element],
    ) {
        use crate::kernel::passes;
        use crate::part::take;

        if self.cut == Some(0) && angles.is_empty() {
            let (mantissa, exponent) = (self.unit.mantissa(), self.unit.exponent());
            let multiplier = self.w_qkv.multiplier;
            if passes::quantize_heads(x, multiplier, head_dim, mantissa, exponent, x_q) {
                return;
            }
        }
        let (mut x, mut x_q) = (x, x_q);
        let (mut row, v_row) = (0, x.len() - kv_dim);
        while !x.is_empty() {
            let (head, head_q) = (take(&mut x, head_dim), take(&mut x_q, head_dim));
            let rotated = if row < v_row { angles } else { &[] };
            let scale = self.quantize(head, row, rotated, head_q);
            if let Some(first) = head.first_mut() {
                *first = scale.0.into();
            }
            row += head_dim;
        }
    }
}
