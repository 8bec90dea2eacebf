//! The forward pass in `f32`, for blobs whose tensors are not quantised.
//!
//! For the host, and for parts with an FPU; without the feature `f32` no code of it is linked. The
//! buffers are those of the integer pass, whose elements have 32 bits too; logits and residual
//! become units of 2^-16 at the end, so that all that follows is shared.

mod ops;

use bytemuck::cast_slice_mut;

use crate::config::{Activation, Norm, Position};
use crate::fixed::ONE;
use crate::model::{Model, Place};
use crate::part::{part, part_mut, split};
use crate::state::State;
use crate::tensor::TensorId;

impl Model<'_> {
    /// Does the same as [`Model::forward`] in `f32`.
    pub(crate) fn forward_f32(&self, state: &mut State<'_>, token: u16, at: Place, head: bool) {
        let config = self.config();
        let d_model = usize::from(config.d_model);
        let x: &mut [f32] = cast_slice_mut(state.x);

        // embedding of the token: [d_model]
        let w_embed = self.floats(TensorId::WEmbed, 0);
        x.copy_from_slice(part(w_embed, usize::from(token) * d_model, d_model));
        if config.embed_scale {
            let scale = libm::sqrtf(d_model as f32);
            x.iter_mut().for_each(|x| *x *= scale);
        }
        self.position_f32(state, at.pos);

        for layer in 0..usize::from(config.n_layer) {
            self.attention_f32(state, layer, at);
            self.feed_forward_f32(state, layer);
        }
        if !head {
            return;
        }

        // logits: [vocab_size]
        self.norm_f32(state, TensorId::GFinal, TensorId::BFinal, 0);
        let w_out = if config.tied {
            TensorId::WEmbed
        } else {
            TensorId::WOut
        };
        let logits = part_mut(state.scratch, 0, config.vocab_size.into());
        let (w_out, b_out) = (self.floats(w_out, 0), self.floats(TensorId::BOut, 0));
        ops::matvec(
            w_out,
            cast_slice_mut(state.h),
            b_out,
            cast_slice_mut(logits),
        );
        for bits in logits.iter_mut().chain(state.x.iter_mut()) {
            // To the nearest; the cast saturates.
            let units = f32::from_bits(bits.cast_unsigned()) * ONE as f32;
            *bits = (units + if units < 0.0 { -0.5 } else { 0.5 }) as i32;
        }
    }

    /// Adds the position to the embedding, or computes the rotary angles of this position.
    fn position_f32(&self, state: &mut State<'_>, pos: u32) {
        let (x, kind) = (cast_slice_mut(state.x), self.config().position);
        if kind == Position::Learned {
            let w_pos = self.floats(TensorId::WPos, 0);
            ops::add(x, part(w_pos, pos as usize * x.len(), x.len()));
            return;
        }
        let (angles, _) = cast_slice_mut::<_, f32>(state.angles).as_chunks_mut::<2>();
        for (angle, step) in angles.iter_mut().zip(self.angle_steps()) {
            // half a turn either way, in units of 2^-32 turns
            let turn = step.wrapping_mul(pos).cast_signed() as f32;
            let (sin, cos) = libm::sincosf(turn * (core::f32::consts::TAU / 4_294_967_296.0));
            *angle = [sin, cos];
        }
        if kind == Position::Sinusoidal {
            ops::add(x, angles.as_flattened());
        }
    }

    /// Normalises the residual stream into `state.h`.
    fn norm_f32(&self, state: &mut State<'_>, gain: TensorId, bias: TensorId, layer: usize) {
        let (gain, bias) = (self.floats(gain, layer), self.floats(bias, layer));
        let centred = self.config().norm == Norm::LayerNorm;
        let x = cast_slice_mut(state.x);
        ops::norm(centred, x, gain, bias, cast_slice_mut(state.h));
    }

    /// Adds causal multi-head attention to the residual stream
    /// ("Attention Is All You Need", section 3.2.2).
    fn attention_f32(&self, state: &mut State<'_>, layer: usize, at: Place) {
        let config = self.config();
        let d_model = usize::from(config.d_model);
        let (head_dim, kv_dim) = (config.head_dim(), config.kv_dim());
        let context_len = usize::from(config.context_len);
        let (n_head, n_kv_head) = (usize::from(config.n_head), usize::from(config.n_kv_head));

        // queries, keys, values: [d_model], [kv_dim], [kv_dim]
        self.norm_f32(state, TensorId::GAttn, TensorId::BAttn, layer);
        let h: &mut [f32] = cast_slice_mut(state.h);
        let (qkv, rest) = split(cast_slice_mut(state.scratch), config.qkv_dim());
        let (w_qkv, b_qkv) = (
            self.floats(TensorId::WQkv, layer),
            self.floats(TensorId::BQkv, layer),
        );
        ops::matvec(w_qkv, h, b_qkv, qkv);
        let (q, kv) = split(qkv, d_model);
        let (k, v) = split(kv, kv_dim);
        if config.position == Position::Rope {
            let (angles, _) = cast_slice_mut::<_, f32>(state.angles).as_chunks::<2>();
            ops::rotate(q, angles);
            ops::rotate(k, angles);
        }
        let scale = 1.0 / libm::sqrtf(head_dim as f32);
        q.iter_mut().for_each(|q| *q *= scale);

        // save key and value of this position in the cache
        let len = n_kv_head * head_dim * context_len;
        let keys = part_mut(cast_slice_mut(state.kv_cache.k), layer * len, len);
        let values = part_mut(cast_slice_mut(state.kv_cache.v), layer * len, len);
        for (keys, &k) in keys.chunks_exact_mut(context_len).zip(&*k) {
            if let Some(place) = keys.get_mut(at.slot) {
                *place = k;
            }
        }
        let heads = values.chunks_exact_mut(head_dim * context_len);
        for (values, v) in heads.zip(v.chunks_exact(head_dim)) {
            part_mut(values, at.slot * head_dim, head_dim).copy_from_slice(v);
        }

        // attention, head by head: [d_model] into h
        let scores = part_mut(rest, 0, at.n);
        let heads = q.chunks_exact(head_dim).zip(h.chunks_exact_mut(head_dim));
        for (head, (q, out)) in heads.enumerate() {
            let kv_head = head * n_kv_head / n_head;
            let start = kv_head * head_dim * context_len;
            let keys = part(keys, start, head_dim * context_len);
            let values = part(values, start, head_dim * context_len);
            ops::attend(q, keys, values, scores, out);
        }

        // output projection, added to the stream: [d_model]
        let (w_o, b_o) = (
            self.floats(TensorId::WO, layer),
            self.floats(TensorId::BO, layer),
        );
        ops::matvec(w_o, h, b_o, q);
        ops::add(cast_slice_mut(state.x), q);
    }

    /// Adds the feed-forward part to the residual stream
    /// ("Attention Is All You Need", section 3.3).
    fn feed_forward_f32(&self, state: &mut State<'_>, layer: usize) {
        let config = self.config();
        let d_ff = usize::from(config.d_ff);

        // hidden layer: [d_ff]
        self.norm_f32(state, TensorId::GFfn, TensorId::BFfn, layer);
        let h: &mut [f32] = cast_slice_mut(state.h);
        let (hidden, rest) = split(cast_slice_mut(state.scratch), d_ff);
        let weights = |w, b| (self.floats(w, layer), self.floats(b, layer));
        let (w_up, b_up) = weights(TensorId::WUp, TensorId::BUp);
        ops::matvec(w_up, h, b_up, hidden);
        match config.activation {
            Activation::Gelu => ops::gelu(hidden),
            Activation::Relu => hidden.iter_mut().for_each(|x| *x = x.max(0.0)),
            Activation::Relu2 => hidden.iter_mut().for_each(|x| *x = x.max(0.0) * x.max(0.0)),
            Activation::SwiGlu => {
                let gate = part_mut(rest, 0, d_ff);
                let (w_gate, b_gate) = weights(TensorId::WGate, TensorId::BGate);
                ops::matvec(w_gate, h, b_gate, gate);
                ops::silu(gate);
                hidden
                    .iter_mut()
                    .zip(gate)
                    .for_each(|(x, gate)| *x *= *gate);
            }
        }

        // back to the stream: [d_model]
        let (w_down, b_down) = weights(TensorId::WDown, TensorId::BDown);
        ops::matvec(w_down, hidden, b_down, h);
        ops::add(cast_slice_mut(state.x), h);
    }
}
