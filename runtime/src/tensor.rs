//! Tensors of a model: names, shapes and places in the blob.

use core::fmt;

use crate::config::{Activation, Config, Position};
use crate::kinds::Kinds;
use crate::layout::Layout;

/// Number format of a tensor in the blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// int8 `[rows, cols]` in the blob's [`Layout`], zeros to 4 bytes, a `u16` multiplier per row,
    /// zeros to 4 bytes, an `i32` exponent: the value is `w * multiplier * 2^exponent`.
    W8,
    /// int4 `[rows, cols]` in the blob's [`Layout`], a `u16` multiplier per row, an `i16` one per row
    /// and group of columns, an `i32` exponent: the value is
    /// `w * group_multiplier * multiplier * 2^exponent`.
    W4 {
        /// Columns that share a multiplier, see [`is_group`](crate::is_group); the last group of a row
        /// may have fewer.
        group: u32,
    },
    /// `f32` `[rows, cols]`, row-major in every layout.
    F32,
    /// `i16` `[cols]`, zeros to 4 bytes, an `i32` exponent: the value is `g * 2^exponent`.
    G16,
    /// `i32` `[cols]` in activation units, 2^-16.
    I32,
    /// `u32` `[cols]`.
    U32,
}

/// Every tensor that a model can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TensorId {
    /// Embedding, and the head too when tied.
    WEmbed,
    /// Learned positions.
    WPos,
    /// Angle per position in 2^-32 turns, one per pair.
    AngleStep,
    /// Gain of the norm before attention.
    GAttn,
    /// Bias of the norm before attention.
    BAttn,
    /// Queries, keys and values in one matrix.
    WQkv,
    /// Bias of `w_qkv`.
    BQkv,
    /// Output projection of attention.
    WO,
    /// Bias of `w_o`.
    BO,
    /// Gain of the norm before the feed-forward part.
    GFfn,
    /// Bias of the norm before the feed-forward part.
    BFfn,
    /// Gate of `SwiGLU`.
    WGate,
    /// Bias of `w_gate`.
    BGate,
    /// First matrix of the feed-forward part.
    WUp,
    /// Bias of `w_up`.
    BUp,
    /// Second matrix of the feed-forward part.
    WDown,
    /// Bias of `w_down`.
    BDown,
    /// Gain of the norm before the head.
    GFinal,
    /// Bias of the norm before the head.
    BFinal,
    /// Head, when it is not tied to the embedding.
    WOut,
    /// Bias of the head.
    BOut,
}

use TensorId::*;

/// Tensors before the layers, in blob order.
const FRONT: [TensorId; 3] = [WEmbed, WPos, AngleStep];
/// Tensors of one layer, in blob order.
const LAYER: [TensorId; 14] = [
    GAttn, BAttn, WQkv, BQkv, WO, BO, GFfn, BFfn, WGate, BGate, WUp, BUp, WDown, BDown,
];
/// Tensors after the layers, in blob order.
const BACK: [TensorId; 4] = [GFinal, BFinal, WOut, BOut];
/// Number of [`TensorId`]s.
const N_TENSOR_ID: usize = FRONT.len() + LAYER.len() + BACK.len();
/// Every tensor in blob order, those of one layer once.
pub(crate) const ALL: [TensorId; N_TENSOR_ID] = {
    let mut all = [WEmbed; N_TENSOR_ID];
    let mut i = 0;
    while i < N_TENSOR_ID {
        all[i] = if i < FRONT.len() {
            FRONT[i]
        } else if i < FRONT.len() + LAYER.len() {
            LAYER[i - FRONT.len()]
        } else {
            BACK[i - FRONT.len() - LAYER.len()]
        };
        i += 1;
    }
    all
};

/// Returns whether each layer has this tensor.
pub(crate) fn is_of_layer(id: TensorId) -> bool {
    LAYER.contains(&id)
}

/// Alignment of each tensor, relative to the start of the blob.
pub const TENSOR_ALIGN: u32 = 16;

impl TensorId {
    /// Returns the name that trainer, checkpoint and blob share.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WEmbed => "w_embed",
            WPos => "w_pos",
            AngleStep => "angle_step",
            GAttn => "g_attn",
            BAttn => "b_attn",
            WQkv => "w_qkv",
            BQkv => "b_qkv",
            WO => "w_o",
            BO => "b_o",
            GFfn => "g_ffn",
            BFfn => "b_ffn",
            WGate => "w_gate",
            BGate => "b_gate",
            WUp => "w_up",
            BUp => "b_up",
            WDown => "w_down",
            BDown => "b_down",
            GFinal => "g_final",
            BFinal => "b_final",
            WOut => "w_out",
            BOut => "b_out",
        }
    }

    /// Returns `(rows, cols, kind)`, or `None` when a model of this configuration has no such
    /// tensor. Vectors have one row. The kind of every matrix is [`Kind::W8`] here.
    #[must_use]
    pub const fn shape(self, config: &Config) -> Option<(u32, u32, Kind)> {
        let d = config.d_model as u32;
        let ff = config.d_ff as u32;
        let vocab = config.vocab_size as u32;
        let gated = matches!(config.activation, Activation::SwiGlu);
        let (present, rows, cols, kind) = match self {
            WEmbed => (true, vocab, d, Kind::W8),
            WPos => {
                let learned = matches!(config.position, Position::Learned);
                (learned, config.context_len as u32, d, Kind::W8)
            }
            AngleStep => {
                let n_angle = config.n_angle() as u32;
                (n_angle > 0, 1, n_angle, Kind::U32)
            }
            GAttn | GFfn | GFinal => (true, 1, d, Kind::G16),
            BAttn | BFfn | BFinal => (config.norm_bias, 1, d, Kind::G16),
            WQkv => (true, config.qkv_dim() as u32, d, Kind::W8),
            BQkv => (config.attn_bias, 1, config.qkv_dim() as u32, Kind::I32),
            WO => (true, d, d, Kind::W8),
            BO => (config.attn_bias, 1, d, Kind::I32),
            WGate => (gated, ff, d, Kind::W8),
            BGate => (gated && config.ff_bias, 1, ff, Kind::I32),
            WUp => (true, ff, d, Kind::W8),
            BUp => (config.ff_bias, 1, ff, Kind::I32),
            WDown => (true, d, ff, Kind::W8),
            BDown => (config.ff_bias, 1, d, Kind::I32),
            WOut => (!config.tied, vocab, d, Kind::W8),
            BOut => (config.head_bias, 1, vocab, Kind::I32),
        };
        if present {
            Some((rows, cols, kind))
        } else {
            None
        }
    }

    /// Returns the same as [`TensorId::shape`] with the kind that the blob's header states.
    const fn shape_in(self, config: &Config, kinds: Kinds) -> Option<(u32, u32, Kind)> {
        match self.shape(config) {
            Some((rows, cols, kind)) if kinds.is_f32() && !matches!(kind, Kind::U32) => {
                Some((rows, cols, Kind::F32))
            }
            Some((rows, cols, Kind::W8)) if cfg!(feature = "w4") => {
                Some((rows, cols, kinds.of(self)))
            }
            shape => shape,
        }
    }

    /// Returns the bytes of the tensor in the blob, padding to [`TENSOR_ALIGN`] included; 0 when
    /// the model has no such tensor.
    #[inline(never)]
    const fn padded_len(self, config: &Config, kinds: Kinds, layout: Layout) -> u64 {
        match self.shape_in(config, kinds) {
            Some((rows, cols, kind)) => {
                byte_len(rows, cols, kind, layout).next_multiple_of(TENSOR_ALIGN as u64)
            }
            None => 0,
        }
    }
}

/// Returns the bytes of a tensor without the padding that follows it.
const fn byte_len(rows: u32, cols: u32, kind: Kind, layout: Layout) -> u64 {
    let (rows, cols) = (rows as u64, cols as u64);
    match kind {
        Kind::W8 => {
            let rows_filled = rows.next_multiple_of(layout.block() as u64);
            let weights = rows_filled * cols.next_multiple_of(layout.word() as u64);
            weights.next_multiple_of(4) + (2 * rows).next_multiple_of(4) + 4
        }
        #[cfg(feature = "w4")]
        Kind::W4 { group } => {
            let (rows, cols, group) = (rows as usize, cols as usize, group as usize);
            let multipliers = match layout {
                Layout::Plain => rows * crate::kernel::w4::n_group(cols, group),
                _ => 0,
            };
            let weights = layout.w4_len(rows, cols, group);
            (weights + (2 * rows).next_multiple_of(4) + (2 * multipliers).next_multiple_of(4) + 4)
                as u64
        }
        #[cfg(not(feature = "w4"))]
        Kind::W4 { .. } => 0,
        Kind::G16 => (2 * rows * cols).next_multiple_of(4) + 4,
        Kind::F32 | Kind::I32 | Kind::U32 => 4 * rows * cols,
    }
}

/// One tensor of a model: what it is and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Which tensor.
    pub id: TensorId,
    /// The name without its layer.
    pub name: &'static str,
    /// The layer, for tensors that each layer has.
    pub layer: Option<u16>,
    /// Rows; 1 for vectors.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// Number format.
    pub kind: Kind,
    /// Order of the weights.
    pub layout: Layout,
    /// First byte, relative to the tensor section.
    pub offset: u32,
    /// Bytes, without the padding that follows.
    pub len: u32,
}

impl TensorSpec {
    /// Returns the first byte of the row multipliers of [`Kind::W8`] and [`Kind::W4`], relative to the
    /// tensor's first byte. In the plain layout the multipliers of the groups follow.
    #[must_use]
    pub const fn multiplier_offset(&self) -> u32 {
        let (rows, cols) = (self.rows as usize, self.cols as usize);
        let weights = match self.kind {
            #[cfg(feature = "w4")]
            Kind::W4 { group } => self.layout.w4_len(rows, cols, group as usize),
            _ => self.layout.matrix_len(rows, cols),
        };
        weights.next_multiple_of(4) as u32
    }

    /// Returns the first byte of the exponent of [`Kind::W8`], [`Kind::W4`] and [`Kind::G16`],
    /// relative to the tensor's first byte.
    #[must_use]
    pub const fn exponent_offset(&self) -> u32 {
        self.len.saturating_sub(4)
    }
}

/// Writes the full name: `w_embed`, or `layers.3.w_qkv`.
impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(layer) = self.layer {
            write!(f, "layers.{layer}.")?;
        }
        f.write_str(self.name)
    }
}

/// Places of all tensors: front tensors, then `n_layer` equal layers, then back tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TensorMap {
    /// First byte by [`TensorId`]; for tensors of a layer, in layer 0.
    offset: [u32; N_TENSOR_ID],
    /// Bytes from one layer to the next.
    layer_len: u32,
    kinds: Kinds,
    layout: Layout,
    /// Bytes of the whole section, a multiple of [`TENSOR_ALIGN`].
    pub(crate) len: u32,
}

impl TensorMap {
    /// Computes the places; `None` when the section would not fit 32-bit offsets.
    pub(crate) fn new(config: &Config, kinds: Kinds, layout: Layout) -> Option<Self> {
        let mut offset = [0_u64; N_TENSOR_ID];
        let mut at = 0_u64;
        let (mut layers_start, mut layer_len) = (0, 0);
        // One loop over all, because code is flash.
        for (index, &id) in ALL.iter().enumerate() {
            if index == FRONT.len() {
                layers_start = at;
            }
            if index == FRONT.len() + LAYER.len() {
                layer_len = at - layers_start;
                at = layers_start + layer_len * u64::from(config.n_layer);
            }
            if let Some(offset) = offset.get_mut(id as usize) {
                *offset = at;
            }
            at += id.padded_len(config, kinds, layout);
        }
        // The blob's total length, header included, is a u32 too.
        if at > u64::from(u32::MAX / 2) {
            return None;
        }
        Some(Self {
            offset: offset.map(|byte| byte as u32),
            layer_len: layer_len as u32,
            kinds,
            layout,
            len: at as u32,
        })
    }

    /// Returns the first byte of a tensor, relative to the tensor section.
    pub(crate) const fn offset(&self, id: TensorId, layer: usize) -> usize {
        self.offset[id as usize] as usize + self.layer_len as usize * layer
    }

    fn spec(&self, config: &Config, id: TensorId, layer: Option<u16>) -> Option<TensorSpec> {
        let (rows, cols, kind) = id.shape_in(config, self.kinds)?;
        Some(TensorSpec {
            id,
            name: id.name(),
            layer,
            rows,
            cols,
            kind,
            layout: self.layout,
            offset: self.offset(id, usize::from(layer.unwrap_or(0))) as u32,
            len: byte_len(rows, cols, kind, self.layout) as u32,
        })
    }
}

impl Config {
    /// Returns every tensor of a model of this configuration, in blob order, as a blob of
    /// [`Layout::Plain`] with int8 matrices has them; nothing when the configuration is invalid or too
    /// large for a blob.
    pub fn tensors(&self) -> impl Iterator<Item = TensorSpec> + use<> {
        self.tensors_in(Kinds::W8, Layout::Plain)
    }

    /// Returns every tensor as a blob of these kinds and this layout has them; nothing when the
    /// configuration has no such kinds, either.
    pub fn tensors_in(
        &self,
        kinds: Kinds,
        layout: Layout,
    ) -> impl Iterator<Item = TensorSpec> + use<> {
        let config = *self;
        let map = match config.validate() {
            Ok(()) if kinds.check(&config).is_ok() => TensorMap::new(&config, kinds, layout),
            _ => None,
        };
        map.into_iter().flat_map(move |map| {
            let front = FRONT.iter().map(|&id| (id, None));
            let layers = (0..config.n_layer)
                .flat_map(|layer| LAYER.iter().map(move |&id| (id, Some(layer))));
            let back = BACK.iter().map(|&id| (id, None));
            front
                .chain(layers)
                .chain(back)
                .filter_map(move |(id, layer)| map.spec(&config, id, layer))
        })
    }
}
