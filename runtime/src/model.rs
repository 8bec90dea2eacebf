//! The model: weights in place, and one forward pass.

use bytemuck::cast_slice;

use crate::config::{Activation, Config, Position};
use crate::format::{self, Header, LoadError};
use crate::math;
use crate::ops::{self, AttendScratch, Matrix, Past};
use crate::state::State;
use crate::tensor::{Kind, TensorId, TensorMap};
use crate::vocab::Vocab;

/// A checked blob, used in place.
#[derive(Clone, Debug)]
pub struct Model<'a> {
    header: Header<'a>,
    map: TensorMap,
    tensors: &'a [u8],
    total_len: u32,
    crc: u32,
}

impl<'a> Model<'a> {
    /// Checks a blob once and borrows it.
    ///
    /// Bytes after the blob's own length are ignored, because a flash region is longer than the
    /// blob that lies in it.
    ///
    /// # Panics
    ///
    /// Never, whatever the bytes.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, LoadError> {
        let parsed = format::parse(bytes)?;
        let model = Self {
            header: parsed.header,
            map: parsed.map,
            tensors: parsed.tensors,
            total_len: parsed.total_len,
            crc: parsed.crc,
        };
        for tensor in model.config().tensors() {
            let layer = usize::from(tensor.layer.unwrap_or(0));
            let numbers = match tensor.kind {
                Kind::W8 => model.matrix(tensor.id, layer).scale,
                Kind::F32 => model.vector(tensor.id, layer),
                Kind::U32 => continue,
            };
            if !numbers.iter().all(|number| number.is_finite()) {
                return Err(LoadError::NotFinite);
            }
        }
        Ok(model)
    }

    /// Returns the shape of the model.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.header.config
    }

    /// Returns everything about the model that is not a tensor.
    #[must_use]
    pub const fn header(&self) -> &Header<'a> {
        &self.header
    }

    /// Returns the vocabulary.
    #[must_use]
    pub const fn vocab(&self) -> Vocab<'a> {
        Vocab::new(self.header.vocab)
    }

    /// Returns the bytes of the blob.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a blob is never empty")]
    pub const fn len(&self) -> usize {
        self.total_len as usize
    }

    /// Returns the blob's CRC-32.
    #[must_use]
    pub const fn crc(&self) -> u32 {
        self.crc
    }

    /// Returns the tensor section, see [`Config::tensors`].
    #[must_use]
    pub const fn tensor_bytes(&self) -> &'a [u8] {
        self.tensors
    }

    fn bytes(&self, id: TensorId, layer: usize, skip: usize, len: usize) -> &'a [u8] {
        let start = self.map.offset(id, layer) + skip;
        &self.tensors[start..start + len]
    }

    fn matrix(&self, id: TensorId, layer: usize) -> Matrix<'a> {
        let (rows, cols) = self.shape(id);
        let w_len = rows * cols;
        Matrix {
            w: cast_slice(self.bytes(id, layer, 0, w_len)),
            scale: cast_slice(self.bytes(id, layer, w_len.next_multiple_of(4), 4 * rows)),
            cols,
        }
    }

    fn vector(&self, id: TensorId, layer: usize) -> &'a [f32] {
        let (_, cols) = self.shape(id);
        cast_slice(self.bytes(id, layer, 0, 4 * cols))
    }

    /// Returns a vector that only some models have.
    fn optional(&self, id: TensorId, layer: usize) -> Option<&'a [f32]> {
        id.shape(self.config()).map(|_| self.vector(id, layer))
    }

    fn shape(&self, id: TensorId) -> (usize, usize) {
        let (rows, cols, _) = id.shape(self.config()).unwrap_or((0, 0, Kind::F32));
        (rows as usize, cols as usize)
    }

    /// Computes the logits of the token that follows `token`, into the first `vocab_size` elements
    /// of `state.scratch`, and stores the token's keys and values.
    ///
    /// `slot` is the token's place in `kv_cache`, `n` the number of slots that attention sees, and
    /// `pos` the token's position, modulo 2^32.
    pub(crate) fn forward(&self, state: &mut State<'_>, token: u16, at: Place, head: bool) {
        let config = self.config();
        let d_model = usize::from(config.d_model);

        // embedding of the token: [d_model]
        let (row, scale) = self.matrix(TensorId::WEmbed, 0).row(usize::from(token));
        let scale = if config.embed_scale {
            scale * libm::sqrtf(d_model as f32)
        } else {
            scale
        };
        for (x, &w) in state.x.iter_mut().zip(row) {
            *x = f32::from(w) * scale;
        }
        self.add_position(state, at.pos);

        for layer in 0..usize::from(config.n_layer) {
            self.attention(state, layer, at);
            self.feed_forward(state, layer);
        }
        if !head {
            return;
        }

        // logits: [vocab_size]
        let gain = self.vector(TensorId::GFinal, 0);
        let bias = self.optional(TensorId::BFinal, 0);
        ops::norm(config.norm, state.x, gain, bias, state.h);
        let x_q = &mut state.x_q[..d_model];
        let x_scale = ops::quantize(state.h, x_q);
        let w_out = if config.tied {
            TensorId::WEmbed
        } else {
            TensorId::WOut
        };
        let logits = &mut state.scratch[..usize::from(config.vocab_size)];
        let b_out = self.optional(TensorId::BOut, 0);
        ops::matvec(&self.matrix(w_out, 0), x_q, x_scale, b_out, logits);
    }

    /// Adds the position to the embedding, or computes the rotary angles of this position.
    fn add_position(&self, state: &mut State<'_>, pos: u32) {
        if self.config().position == Position::Learned {
            let (row, scale) = self.matrix(TensorId::WPos, 0).row(pos as usize);
            for (x, &w) in state.x.iter_mut().zip(row) {
                *x += f32::from(w) * scale;
            }
            return;
        }
        // NOTE: angles are 2^-32 turns and wrap, so a position may grow without end: the angle
        // between two positions stays exact.
        let steps = self.bytes(TensorId::AngleStep, 0, 0, 4 * self.config().n_angle());
        let steps: &[u32] = cast_slice(steps);
        for (angle, step) in state.angles.chunks_exact_mut(2).zip(steps) {
            let (sin, cos) = math::sin_cos(step.wrapping_mul(pos));
            angle[0] = sin;
            angle[1] = cos;
        }
        if self.config().position == Position::Sinusoidal {
            ops::add(state.x, state.angles);
        }
    }

    /// Adds causal multi-head attention to the residual stream
    /// ("Attention Is All You Need", section 3.2.2).
    fn attention(&self, state: &mut State<'_>, layer: usize, at: Place) {
        let config = self.config();
        let d_model = usize::from(config.d_model);
        let head_dim = config.head_dim();
        let kv_dim = config.kv_dim();
        let context_len = usize::from(config.context_len);
        let n_kv_head = usize::from(config.n_kv_head);
        let heads_per_kv = usize::from(config.n_head) / n_kv_head;

        // norm: [d_model]
        let gain = self.vector(TensorId::GAttn, layer);
        let bias = self.optional(TensorId::BAttn, layer);
        ops::norm(config.norm, state.x, gain, bias, state.h);

        // queries, keys, values: [d_model], [kv_dim], [kv_dim]
        let x_q = &mut state.x_q[..d_model];
        let x_scale = ops::quantize(state.h, x_q);
        let (qkv, scratch) = state.scratch.split_at_mut(config.qkv_dim());
        let b_qkv = self.optional(TensorId::BQkv, layer);
        let w_qkv = self.matrix(TensorId::WQkv, layer);
        ops::matvec(&w_qkv, x_q, x_scale, b_qkv, qkv);
        let (q, kv) = qkv.split_at_mut(d_model);
        let (k, v) = kv.split_at_mut(kv_dim);
        if config.position == Position::Rope {
            ops::rotate(q, state.angles);
            ops::rotate(k, state.angles);
        }

        // save key and value of this position in the cache
        let cache = &mut state.kv_cache;
        for kv_head in 0..n_kv_head {
            let from = kv_head * head_dim..(kv_head + 1) * head_dim;
            let row = (layer * n_kv_head + kv_head) * context_len + at.slot;
            let to = row * head_dim..(row + 1) * head_dim;
            cache.k_scale[row] = store(&k[from.clone()], &mut cache.k[to.clone()]);
            cache.v_scale[row] = store(&v[from], &mut cache.v[to]);
        }

        // attention, head by head: [d_model] into h
        let mut scratch = AttendScratch {
            scores: scratch,
            weights: state.weights,
            acc: state.acc,
        };
        let heads = q.chunks_exact(head_dim);
        for (head, (q, out)) in heads.zip(state.h.chunks_exact_mut(head_dim)).enumerate() {
            let row = (layer * n_kv_head + head / heads_per_kv) * context_len;
            let rows = row..row + at.n;
            let past = Past {
                k: &cache.k[rows.start * head_dim..rows.end * head_dim],
                v: &cache.v[rows.start * head_dim..rows.end * head_dim],
                k_scale: &cache.k_scale[rows.clone()],
                v_scale: &cache.v_scale[rows],
            };
            let q_q = &mut state.x_q[..head_dim];
            let q_scale = ops::quantize(q, q_q);
            ops::attend(q_q, q_scale, &past, &mut scratch, out);
        }

        // output projection, added to the stream: [d_model]
        let x_q = &mut state.x_q[..d_model];
        let x_scale = ops::quantize(state.h, x_q);
        let b_o = self.optional(TensorId::BO, layer);
        let w_o = self.matrix(TensorId::WO, layer);
        ops::matvec(&w_o, x_q, x_scale, b_o, state.h);
        ops::add(state.x, state.h);
    }

    /// Adds the feed-forward part to the residual stream
    /// ("Attention Is All You Need", section 3.3).
    fn feed_forward(&self, state: &mut State<'_>, layer: usize) {
        let config = self.config();
        let d_model = usize::from(config.d_model);
        let d_ff = usize::from(config.d_ff);

        // norm: [d_model]
        let gain = self.vector(TensorId::GFfn, layer);
        let bias = self.optional(TensorId::BFfn, layer);
        ops::norm(config.norm, state.x, gain, bias, state.h);

        // hidden layer: [d_ff]
        let x_q = &mut state.x_q[..d_model];
        let x_scale = ops::quantize(state.h, x_q);
        let (hidden, rest) = state.scratch.split_at_mut(d_ff);
        let b_up = self.optional(TensorId::BUp, layer);
        let w_up = self.matrix(TensorId::WUp, layer);
        ops::matvec(&w_up, x_q, x_scale, b_up, hidden);
        match config.activation {
            Activation::Gelu => hidden.iter_mut().for_each(|x| *x = math::gelu(*x)),
            Activation::Relu => hidden.iter_mut().for_each(|x| *x = x.max(0.0)),
            Activation::Relu2 => hidden.iter_mut().for_each(|x| *x = x.max(0.0) * x.max(0.0)),
            Activation::SwiGlu => {
                let gate = &mut rest[..d_ff];
                let b_gate = self.optional(TensorId::BGate, layer);
                let w_gate = self.matrix(TensorId::WGate, layer);
                ops::matvec(&w_gate, x_q, x_scale, b_gate, gate);
                for (x, &gate) in hidden.iter_mut().zip(gate.iter()) {
                    *x *= math::silu(gate);
                }
            }
        }

        // back to the stream: [d_model]
        let x_q = &mut state.x_q[..d_ff];
        let x_scale = ops::quantize(hidden, x_q);
        let b_down = self.optional(TensorId::BDown, layer);
        let w_down = self.matrix(TensorId::WDown, layer);
        ops::matvec(&w_down, x_q, x_scale, b_down, state.h);
        ops::add(state.x, state.h);
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

/// Quantises a key or value into the cache and returns the bits of its scale.
fn store(x: &[f32], x_q: &mut [i8]) -> u16 {
    let scale = ops::quantize(x, x_q);
    if scale == 0.0 {
        return 0;
    }
    // The stored scale is rounded, so the values are quantised by what the reader will see.
    let bits = ops::scale_to_bits(scale);
    ops::quantize_with(x, 1.0 / ops::scale_from_bits(bits), x_q);
    bits
}
