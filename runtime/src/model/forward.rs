//! One forward pass.

use super::Model;
use super::heads::Heads;
use crate::config::{Activation, Position};
use crate::fixed::{self, Scale};
use crate::kernel::NATIVE;
use crate::ops::{self, Factor, Finish, Matrix};
use crate::part::{part_mut, split};
use crate::state::State;
use crate::tensor::TensorId;

impl Model<'_> {
    /// Computes the logits of the token that follows `token`, into the first `vocab_size` elements
    /// of `state.scratch`, and stores the token's keys and values.
    ///
    /// `slot` is the token's place in `kv_cache`, `n` the number of slots that attention sees, and
    /// `pos` the token's position, modulo 2^32.
    pub(crate) fn forward(&self, state: &mut State<'_>, token: u16, at: Place, head: bool) {
        #[cfg(feature = "f32")]
        if self.header.kinds.is_f32() {
            return self.forward_f32(state, token, at, head);
        }
        let config = self.config();
        let d_model = usize::from(config.d_model);

        // embedding of the token: [d_model]
        let (w_embed, row) = (self.matrix(TensorId::WEmbed, 0), usize::from(token));
        let mut scale = w_embed.row_scale(row);
        if config.embed_scale {
            scale = scale.mul(Scale::root(config.d_model.into()));
        }
        state.x.fill(0);
        add_row(state.x, &w_embed, row, scale);
        self.add_position(state, at.pos);

        let factor = ops::score_factor(config.head_dim());
        for layer in 0..usize::from(config.n_layer) {
            self.attention(state, layer, at, factor);
            self.feed_forward(state, layer);
        }
        if !head {
            return;
        }

        // logits: [vocab_size]
        let g_final = self.gains(TensorId::GFinal, 0);
        let b_final = self.norm_bias(TensorId::BFinal, 0);
        let x_q = part_mut(state.x_q, 0, d_model);
        let x_scale = ops::norm(config.norm, state.x, g_final, b_final, state.h, x_q);
        let w_out = if config.tied {
            TensorId::WEmbed
        } else {
            TensorId::WOut
        };
        let logits = part_mut(state.scratch, 0, config.vocab_size.into());
        let b_out = self.bias(TensorId::BOut, 0);
        ops::matvec(
            &self.matrix(w_out, 0),
            x_q,
            x_scale,
            b_out,
            Finish::Linear,
            state.lanes,
            logits,
        );
    }

    /// Adds the position to the embedding, or computes the rotary angles of this position.
    #[inline(never)]
    fn add_position(&self, state: &mut State<'_>, pos: u32) {
        if self.config().position == Position::Learned {
            let (w_pos, row) = (self.matrix(TensorId::WPos, 0), pos as usize);
            add_row(state.x, &w_pos, row, w_pos.row_scale(row));
            return;
        }
        // NOTE: angles are 2^-32 turns and wrap, so a position may grow without end: the angle
        // between two positions stays exact.
        let (angles, _) = state.angles.as_chunks_mut::<2>();
        for (angle, step) in angles.iter_mut().zip(self.angle_steps()) {
            let (sin, cos) = fixed::sin_cos(step.wrapping_mul(pos));
            *angle = [sin, cos];
        }
        if self.config().position == Position::Sinusoidal {
            for (x, &angle) in state.x.iter_mut().zip(state.angles.iter()) {
                *x = x.saturating_add(2 * angle);
            }
        }
    }

    /// Adds causal multi-head attention to the residual stream
    /// ("Attention Is All You Need", section 3.2.2).
    #[inline(never)]
    fn attention(&self, state: &mut State<'_>, layer: usize, at: Place, factor: Scale) {
        let config = self.config();
        let d_model = usize::from(config.d_model);

        // norm: [d_model]
        let g_attn = self.gains(TensorId::GAttn, layer);
        let b_attn = self.norm_bias(TensorId::BAttn, layer);
        let x_q = part_mut(state.x_q, 0, d_model);
        let x_scale = ops::norm(config.norm, state.x, g_attn, b_attn, state.h, x_q);

        // queries, keys, values: [d_model], [kv_dim], [kv_dim]
        let qkv = part_mut(state.scratch, 0, config.qkv_dim());
        let b_qkv = self.bias(TensorId::BQkv, layer);
        let w_qkv = self.matrix(TensorId::WQkv, layer);
        let (cut, unit) = if b_qkv.is_some() {
            let linear = Finish::Linear;
            ops::matvec(&w_qkv, x_q, x_scale, b_qkv, linear, state.lanes, qkv);
            (None, Scale::ONE)
        } else {
            // Each head has a scale of its own, so the sums need none before.
            let cut = ops::sums(&w_qkv, x_q, state.lanes, qkv);
            (Some(cut), w_qkv.unit(x_scale))
        };
        let heads = Heads {
            w_qkv: &w_qkv,
            cut,
            unit,
        };
        // attention, head by head: [d_model] into h
        let max = self.attend_heads(state, &heads, layer, at, factor);

        // output projection, added to the stream: [d_model]
        let x_q = part_mut(state.x_q, 0, d_model);
        let x_scale = ops::quantize(state.h, max, x_q);
        let b_o = self.bias(TensorId::BO, layer);
        let w_o = self.matrix(TensorId::WO, layer);
        ops::matvec_add(&w_o, x_q, x_scale, b_o, state.lanes, state.h, state.x);
    }

    /// Adds the feed-forward part to the residual stream
    /// ("Attention Is All You Need", section 3.3).
    #[inline(never)]
    fn feed_forward(&self, state: &mut State<'_>, layer: usize) {
        let config = self.config();
        let d_model = usize::from(config.d_model);
        let d_ff = usize::from(config.d_ff);

        // norm: [d_model]
        let g_ffn = self.gains(TensorId::GFfn, layer);
        let b_ffn = self.norm_bias(TensorId::BFfn, layer);
        let x_q = part_mut(state.x_q, 0, d_model);
        let x_scale = ops::norm(config.norm, state.x, g_ffn, b_ffn, state.h, x_q);

        // hidden layer: [d_ff]
        let (hidden, rest) = split(state.scratch, d_ff);
        let b_up = self.bias(TensorId::BUp, layer);
        let w_up = self.matrix(TensorId::WUp, layer);
        let finish = match config.activation {
            Activation::Gelu => Finish::Gelu,
            Activation::Relu | Activation::Relu2 => Finish::Relu,
            Activation::SwiGlu => Finish::Linear,
        };
        let max = ops::matvec(&w_up, x_q, x_scale, b_up, finish, state.lanes, hidden);
        let (exponent, max) = match config.activation {
            Activation::Gelu | Activation::Relu => (0, max),
            Activation::Relu2 => ops::square(hidden, max),
            Activation::SwiGlu => {
                let gate = part_mut(rest, 0, d_ff);
                let b_gate = self.bias(TensorId::BGate, layer);
                let w_gate = self.matrix(TensorId::WGate, layer);
                let gate_max =
                    ops::matvec(&w_gate, x_q, x_scale, b_gate, finish, state.lanes, gate);
                ops::multiply_silu(hidden, max, gate, gate_max)
            }
        };

        // back to the stream: [d_model]
        let x_q = part_mut(state.x_q, 0, d_ff);
        let x_scale = ops::quantize(hidden, max, x_q).shl(exponent);
        let b_down = self.bias(TensorId::BDown, layer);
        let w_down = self.matrix(TensorId::WDown, layer);
        ops::matvec_add(&w_down, x_q, x_scale, b_down, state.lanes, state.h, state.x);
    }
}

/// Where a token stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Position, modulo 2^32.
    pub(crate) pos: u32,
    /// Row of `kv_cache` that takes the token's keys and values.
    pub(crate) slot: usize,
    /// Rows of `kv_cache` that attention sees, the token's own included.
    pub(crate) n: usize,
}

/// Adds a row of a matrix to the stream.
#[inline(never)]
fn add_row(x: &mut [i32], w: &Matrix<'_>, row: usize, scale: Scale) {
    // Rows of int4 are not read one by one, see `Kinds`.
    #[cfg_attr(
        not(feature = "w4"),
        expect(irrefutable_let_patterns, reason = "no other kind")
    )]
    let Factor::W8(weights) = w.w else {
        return;
    };
    // The product has 24 bits; a scale that no weight has ends in the largest shifts.
    let right = (-scale.exponent()).clamp(0, 31);
    let left = scale.exponent().clamp(0, 7);
    let add = |x: &mut i32, w: i8| {
        let product = i32::from(w) * scale.mantissa() as i32;
        *x = x.saturating_add((product << left) >> right);
    };
    if NATIVE.word() == 4 && weights.layout == NATIVE {
        let bias = if weights.biased { 0x0080_0080 } else { 0 };
        let start = NATIVE.place(row, 0, weights.row_len) / 4;
        let words = weights.words.iter().skip(start).step_by(NATIVE.block());
        for (fours, word) in x.chunks_mut(4).zip(words) {
            let mut word = word ^ bias;
            for x in fours {
                add(x, word as i8);
                word >>= 8;
            }
        }
        return;
    }
    for (col, x) in x.iter_mut().enumerate() {
        add(x, weights.at(row, col));
    }
}
