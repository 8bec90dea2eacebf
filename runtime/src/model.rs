//! The model: weights in place, and one forward pass.

use bytemuck::AnyBitPattern;

use crate::config::{Activation, Config, Position};
use crate::fixed::{self, Scale};
use crate::format::{self, Header, LoadError, MAX_EXPONENT};
#[cfg(feature = "w4")]
use crate::kernel;
use crate::kernel::{Element, Weights};
use crate::layout::Layout;
use crate::ops::{self, AttendScratch, Factor, Finish, Gains, HeadScale, Matrix};
use crate::part::{part, part_mut, split};
use crate::state::{Plan, State};
use crate::tensor::{self, Kind, TensorId, TensorMap, TensorSpec};
use crate::vocab::Vocab;

/// A checked blob, used in place.
#[derive(Clone, Debug)]
pub struct Model<'a> {
    header: Header<'a>,
    map: TensorMap,
    layout: Layout,
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
        Self::parse(bytes, format::FORMAT_VERSION)
    }

    /// Does the same with a blob of an older format version too.
    ///
    /// Its weights are read as they are, but its self-test may be that of an older arithmetic and
    /// fail; write it anew with one of this engine.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn from_older(bytes: &'a [u8]) -> Result<Self, LoadError> {
        Self::parse(bytes, format::OLDEST_VERSION)
    }

    fn parse(bytes: &'a [u8], oldest: u16) -> Result<Self, LoadError> {
        let parsed = format::parse(bytes, oldest)?;
        let model = Self {
            header: parsed.header,
            map: parsed.map,
            layout: parsed.layout,
            tensors: parsed.tensors,
            total_len: parsed.total_len,
            crc: parsed.crc,
        };
        let exponents = if model.header.kinds.is_f32() {
            [].as_slice()
        } else {
            tensor::ALL.as_slice()
        };
        for &id in exponents {
            let of_layer = tensor::is_of_layer(id);
            let n_layer = if of_layer { model.config().n_layer } else { 1 };
            for layer in 0..usize::from(n_layer) {
                let exponent = model.exponent(id, layer);
                if exponent.unsigned_abs() > MAX_EXPONENT.unsigned_abs() {
                    return Err(LoadError::BadExponent(exponent));
                }
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
    pub fn vocab(&self) -> Vocab<'a> {
        // The loader has read it once already.
        Vocab::from_bytes(self.header.vocab).unwrap_or(Vocab::Chars(""))
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

    /// Returns the order of the weights in the tensor section.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns every tensor of the blob, in blob order.
    pub fn tensors(&self) -> impl Iterator<Item = TensorSpec> + use<> {
        self.config().tensors_in(self.header.kinds, self.layout)
    }

    /// Returns the tensor section, see [`Model::tensors`].
    #[must_use]
    pub const fn tensor_bytes(&self) -> &'a [u8] {
        self.tensors
    }

    /// Returns the sizes of the buffers of a session.
    pub(crate) const fn plan(&self) -> Plan {
        #[cfg(feature = "f32")]
        if self.header.kinds.is_f32() {
            return Plan::new_f32(self.config());
        }
        Plan::new(self.config())
    }

    /// Returns the RAM of a [`Session`](crate::Session) in `u32` words, `kv_cache` included: that of
    /// [`Config::state_words`], and more for a blob of [`Kinds::F32`](crate::Kinds::F32).
    #[must_use]
    pub const fn state_words(&self) -> usize {
        self.plan().words
    }

    /// Returns the RAM of a [`Session`](crate::Session) in bytes, `kv_cache` included.
    #[must_use]
    pub const fn state_bytes(&self) -> usize {
        4 * self.state_words()
    }

    /// Returns the elements of a tensor of `f32`; none when the model has no such tensor.
    #[cfg(feature = "f32")]
    pub(crate) fn floats(&self, id: TensorId, layer: usize) -> &'a [f32] {
        let (rows, cols) = self.shape(id);
        cast(self.bytes(id, layer, 0, 4 * rows * cols))
    }

    /// Returns how far each angle turns per position, in 2^-32 turns.
    pub(crate) fn angle_steps(&self) -> &'a [u32] {
        cast(self.bytes(TensorId::AngleStep, 0, 0, 4 * self.config().n_angle()))
    }

    fn bytes(&self, id: TensorId, layer: usize, skip: usize, len: usize) -> &'a [u8] {
        part(self.tensors, self.map.offset(id, layer) + skip, len)
    }

    #[inline(never)]
    pub(crate) fn matrix(&self, id: TensorId, layer: usize) -> Matrix<'a> {
        let (rows, cols) = self.shape(id);
        #[cfg(feature = "w4")]
        if let Kind::W4 { group } = self.header.kinds.of(id) {
            return self.matrix_w4(id, layer, group as usize);
        }
        let weights = self.layout.matrix_len(rows, cols).next_multiple_of(4);
        let exponent = weights + (2 * rows).next_multiple_of(4);
        let exponent = self.integer(id, layer, exponent);
        // In this layout the word is the exponent in 16 bits, then 1 when even columns are biased.
        let (exponent, biased) = match self.layout {
            Layout::M4 => (i32::from(exponent as i16), exponent >> 16 == 1),
            _ => (exponent, false),
        };
        Matrix {
            w: Factor::W8(Weights {
                words: cast(self.bytes(id, layer, 0, weights)),
                rows,
                cols,
                row_len: self.layout.row_len(cols),
                layout: self.layout,
                biased,
            }),
            multiplier: cast(self.bytes(id, layer, weights, 2 * rows)),
            exponent,
        }
    }

    #[cfg(feature = "w4")]
    fn matrix_w4(&self, id: TensorId, layer: usize, group: usize) -> Matrix<'a> {
        let (rows, cols) = self.shape(id);
        let weights = self.layout.w4_len(rows, cols, group);
        let groups = weights + (2 * rows).next_multiple_of(4);
        let groups_len = match self.layout {
            Layout::Plain => 2 * rows * kernel::w4::n_group(cols, group),
            _ => 0,
        };
        let exponent = groups + groups_len.next_multiple_of(4);
        Matrix {
            w: Factor::W4(kernel::w4::Nibbles {
                words: cast(self.bytes(id, layer, 0, weights)),
                multiplier: cast(self.bytes(id, layer, groups, groups_len)),
                rows,
                cols,
                group,
                layout: self.layout,
            }),
            multiplier: cast(self.bytes(id, layer, weights, 2 * rows)),
            exponent: self.integer(id, layer, exponent),
        }
    }

    /// Returns the exponent of a tensor; 0 when the model has no such tensor or it needs none.
    fn exponent(&self, id: TensorId, layer: usize) -> i32 {
        match id.shape(self.config()) {
            Some((_, _, Kind::W8)) => self.matrix(id, layer).exponent,
            Some((_, _, Kind::G16)) => self.gains(id, layer).exponent,
            _ => 0,
        }
    }

    #[inline(never)]
    fn gains(&self, id: TensorId, layer: usize) -> Gains<'a> {
        let (_, cols) = self.shape(id);
        let exponent = (2 * cols).next_multiple_of(4);
        Gains {
            values: cast(self.bytes(id, layer, 0, 2 * cols)),
            exponent: self.integer(id, layer, exponent),
        }
    }

    fn integer(&self, id: TensorId, layer: usize, skip: usize) -> i32 {
        let integers = self.integers(id, layer, skip, 1);
        integers.first().copied().unwrap_or(0)
    }

    fn integers(&self, id: TensorId, layer: usize, skip: usize, n: usize) -> &'a [i32] {
        cast(self.bytes(id, layer, skip, 4 * n))
    }

    /// Returns the bias of a matrix, when the model has it.
    fn bias(&self, id: TensorId, layer: usize) -> Option<&'a [i32]> {
        let (_, cols, _) = id.shape(self.config())?;
        Some(self.integers(id, layer, 0, cols as usize))
    }

    /// Returns the bias of a norm, when the model has it.
    fn norm_bias(&self, id: TensorId, layer: usize) -> Option<Gains<'a>> {
        id.shape(self.config())?;
        Some(self.gains(id, layer))
    }

    fn shape(&self, id: TensorId) -> (usize, usize) {
        let (rows, cols, _) = id.shape(self.config()).unwrap_or((0, 0, Kind::I32));
        (rows as usize, cols as usize)
    }

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
        let unit = if b_qkv.is_some() {
            let linear = Finish::Linear;
            ops::matvec(&w_qkv, x_q, x_scale, b_qkv, linear, state.lanes, qkv);
            Scale::ONE
        } else {
            // Each head has a scale of its own, so the sums need none before.
            ops::sums(&w_qkv, x_q, state.lanes, qkv);
            w_qkv.unit(x_scale)
        };
        let heads = Heads {
            products: b_qkv.is_none().then_some(&w_qkv),
            unit,
            angles: match config.position {
                Position::Rope => state.angles,
                _ => &[],
            },
        };

        // save key and value of this position in the cache
        let (q, kv) = split(qkv, d_model);
        let cache = &mut state.kv_cache;
        let (k_q, v_q) = split(part_mut(state.x_q, 0, 2 * head_dim), head_dim);
        for kv_head in 0..n_kv_head {
            let (k, v) = (kv_head * head_dim, kv_dim + kv_head * head_dim);
            let k_scale = heads.quantize(part_mut(kv, k, head_dim), d_model + k, true, k_q);
            let v_scale = heads.quantize(part_mut(kv, v, head_dim), d_model + v, false, v_q);
            let head = layer * n_kv_head + kv_head;
            cache.store(head, at.slot, (k_q, k_scale), (v_q, v_scale));
        }

        // attention, head by head: [d_model] into h
        let mut scratch = AttendScratch {
            scores: scratch,
            weights: state.weights,
            lanes: state.lanes,
        };
        let (mut kv_head, mut shared) = (layer * n_kv_head, 0);
        let mut max = 0;
        for head in 0..n_head {
            let q_q = part_mut(state.x_q, 0, head_dim);
            let row = head * head_dim;
            let q_scale = heads.quantize(part_mut(q, row, head_dim), row, true, q_q);
            let out = part_mut(state.h, row, head_dim);
            let past = cache.past(kv_head, at.n);
            max = ops::attend(q_q, q_scale, factor, &past, &mut scratch, out).max(max);
            // Of n_head / n_kv_head heads each shares one of these.
            shared += n_kv_head;
            if shared == n_head {
                (kv_head, shared) = (kv_head + 1, 0);
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
    /// `w_qkv`, when the heads are bare sums.
    products: Option<&'a Matrix<'a>>,
    /// Activation units that 1 in a head stands for, once multiplied by its row.
    unit: Scale,
    /// Rotary angles; none without.
    angles: &'a [i32],
}

impl Heads<'_> {
    /// Quantises the head that starts at this row of `w_qkv`.
    #[inline(never)]
    fn quantize(&self, x: &mut [i32], row: usize, rotated: bool, x_q: &mut [Element]) -> HeadScale {
        let mut max = match self.products {
            Some(w_qkv) => ops::products(w_qkv, row, x),
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

/// Reads bytes in place; every tensor lies aligned.
fn cast<T: AnyBitPattern>(bytes: &[u8]) -> &[T] {
    debug_assert!(bytemuck::try_cast_slice::<u8, T>(bytes).is_ok());
    bytemuck::try_cast_slice(bytes).unwrap_or_default()
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
    weights.for_row(row, x, |x, w| {
        let product = i32::from(w) * scale.mantissa() as i32;
        *x = x.saturating_add((product << left) >> right);
    });
}
