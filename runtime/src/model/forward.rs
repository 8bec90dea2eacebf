//! One forward pass.

use super::Model;
use crate::config::{Activation, Position};
use crate::fixed::{self, Scale};
use crate::kernel::{Element, NATIVE, passes};
use crate::ops::{self, AttendScratch, Factor, Finish, HeadScale, Matrix};
use crate::part::{part, part_mut, split, take};
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
        let head_dim = config.head_dim();
        let kv_dim = config.kv_dim();
        let n_kv_head = usize::from(config.n_kv_head);
        let n_head = usize::from(config.n_head);

        // norm: [d_model]
        let g_attn = self.gains(TensorId::GAttn, layer);
        let b_attn = self.norm_bias(TensorId::BAttn, layer);
        let x_q = part_mut(state.x_q, 0, d_model);
        let x_scale = ops::norm(config.norm, state.x, g_attn, b_attn, state.h, x_q);

        // queries, keys, values: [d_model], [kv_dim], [kv_dim]
        let (qkv, scratch) = split(state.scratch, config.qkv_dim());
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
            angles: match config.position {
                Position::Rope => state.angles,
                _ => &[],
            },
        };
        let x_q = &mut *state.x_q;
        if AT_ONCE {
            heads.quantize_all(qkv, kv_dim, head_dim, x_q);
        }
        let (mut q, mut kv) = split(qkv, d_model);
        let (mut k, mut v) = (take(&mut kv, kv_dim), kv);
        let (mut q_row, mut k_row, mut v_row) = (0, d_model, d_model + kv_dim);

        // attention, head by head: [d_model] into h
        let mut cached = state.kv_cache.heads(layer * n_kv_head);
        let mut scratch = AttendScratch {
            scores: scratch,
            weights: state.weights,
            lanes: state.lanes,
        };
        let mut h = &mut *state.h;
        let mut max = 0;
        for _ in 0..n_kv_head {
            // save key and value of this position in the cache
            let mut head = cached.next();
            let (k_at, v_at) = if AT_ONCE {
                (k_row, v_row)
            } else {
                (0, head_dim)
            };
            let (k, v) = (take(&mut k, head_dim), take(&mut v, head_dim));
            let k_scale = heads.quantize(k, k_row, true, x_q, k_at);
            let v_scale = heads.quantize(v, v_row, false, x_q, v_at);
            let (k_q, v_q) = (part(x_q, k_at, head_dim), part(x_q, v_at, head_dim));
            head.store(at.slot, (k_q, k_scale), (v_q, v_scale));
            (k_row, v_row) = (k_row + head_dim, v_row + head_dim);
            // n_head / n_kv_head queries share them
            let past = head.past(head_dim, at.n);
            let mut shared = 0;
            while shared < n_head {
                let q_at = if AT_ONCE { q_row } else { 0 };
                let q_scale = heads.quantize(take(&mut q, head_dim), q_row, true, x_q, q_at);
                let q_q = part(x_q, q_at, head_dim);
                let out = take(&mut h, head_dim);
                max = ops::attend(q_q, q_scale, factor, &past, &mut scratch, out).max(max);
                (q_row, shared) = (q_row + head_dim, shared + n_kv_head);
            }
        }

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

/// How the heads of `w_qkv` times a vector become int8.
struct Heads<'a> {
    w_qkv: &'a Matrix<'a>,
    /// When the heads are bare sums, the bits that are left to cut.
    cut: Option<u32>,
    /// Activation units that 1 in a head stands for, once multiplied by its row.
    unit: Scale,
    /// Rotary angles; none without.
    angles: &'a [i32],
}

/// All heads are quantised before the first of them is used; the kernel has a pass for that, and
/// elements are bytes, so that there is room.
const AT_ONCE: bool = cfg!(kernel = "m4");

impl Heads<'_> {
    /// Quantises all heads, each to the place of its row; its scale replaces its first element.
    fn quantize_all(&self, x: &mut [i32], kv_dim: usize, head_dim: usize, x_q: &mut [Element]) {
        if self.cut == Some(0) && self.angles.is_empty() {
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
            let scale = self.quantize_one(head, row, row < v_row, head_q);
            if let Some(first) = head.first_mut() {
                *first = scale.0.into();
            }
            row += head_dim;
        }
    }

    /// Quantises the head that starts at this row of `w_qkv` to `x_q` from `at` on, unless that is done;
    /// returns its scale.
    #[inline]
    fn quantize(
        &self,
        x: &mut [i32],
        row: usize,
        rotated: bool,
        x_q: &mut [Element],
        at: usize,
    ) -> HeadScale {
        if AT_ONCE {
            return HeadScale(x.first().copied().unwrap_or(0) as u16);
        }
        let x_q = part_mut(x_q, at, x.len());
        self.quantize_one(x, row, rotated, x_q)
    }

    #[inline(never)]
    fn quantize_one(
        &self,
        x: &mut [i32],
        row: usize,
        rotated: bool,
        x_q: &mut [Element],
    ) -> HeadScale {
        let multiplier = self.w_qkv.multiplier.get(row..).unwrap_or_default();
        let mut max = match self.cut {
            Some(cut) => ops::products(x, multiplier, cut),
            None => ops::max_magnitude(x),
        };
        let mut unit = self.unit;
        if rotated && !self.angles.is_empty() {
            let exponent;
            (max, exponent) = ops::rotate(x, max, self.angles);
            unit = unit.shl(exponent);
        }
        ops::quantize_head(x, max, unit, x_q)
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
