//! What a forward pass leaves for its backward pass, and the buffers of both.

use crate::attention::Scratch;
use crate::linear::{BiasCollector, Collector, Linear, Tokens};
use crate::panel::{PANEL, Row, resize};
use crate::product::Packed;
use crate::shape::{Batch, Shape};

/// Buffers of one block, kept from step to step: nothing is allocated once the sizes have settled.
///
/// It holds about `4 * (4 * d_model + n_head * head_dim + qkv_dim + 2 * d_ff)` bytes per token (three
/// times `d_ff` with a gate) and a few copies of the parameters.
#[derive(Debug, Default)]
pub struct Saved {
    /// Shape, sequences and tokens of the forward pass that the buffers belong to.
    pub(crate) of: Option<(Shape, usize, usize)>,
    // Saved by the forward pass: `[batch, panels, ...]` rows.
    pub(crate) n_attn: Vec<Row>,
    pub(crate) inverse_attn: Vec<Row>,
    pub(crate) qkv: Vec<Row>,
    pub(crate) max: Vec<Row>,
    pub(crate) inverse_sum: Vec<Row>,
    pub(crate) attention: Vec<Row>,
    pub(crate) n_ffn: Vec<Row>,
    pub(crate) inverse_ffn: Vec<Row>,
    pub(crate) slope: Vec<Row>,
    pub(crate) slope_gate: Vec<Row>,
    pub(crate) act: Vec<Row>,
    // Rotary tables, `[panels, head_dim / 2]` rows.
    pub(crate) cos: Vec<Row>,
    pub(crate) sin: Vec<Row>,
    // One sequence: residual stream or its gradient, `[panels, ...]` rows.
    pub(crate) x: Vec<Row>,
    pub(crate) dattention: Vec<Row>,
    pub(crate) dqkv: Vec<Row>,
    // One panel.
    pub(crate) y: Vec<Row>,
    pub(crate) dact: Vec<Row>,
    pub(crate) dgate: Vec<Row>,
    pub(crate) tile: Vec<Row>,
    pub(crate) scratch: Scratch,
    pub(crate) tokens: Tokens,
    // Parameters as products read them.
    pub(crate) qkv_in: Linear,
    pub(crate) o_in: Linear,
    pub(crate) up_in: Linear,
    pub(crate) gate_in: Linear,
    pub(crate) down_in: Linear,
    pub(crate) qkv_back: Packed,
    pub(crate) o_back: Packed,
    pub(crate) up_back: Packed,
    pub(crate) gate_back: Packed,
    pub(crate) down_back: Packed,
    pub(crate) dw_qkv: Collector,
    pub(crate) dw_o: Collector,
    pub(crate) dw_up: Collector,
    pub(crate) dw_gate: Collector,
    pub(crate) dw_down: Collector,
    pub(crate) qkv_sums: BiasCollector,
    pub(crate) o_sums: BiasCollector,
    pub(crate) up_sums: BiasCollector,
    pub(crate) gate_sums: BiasCollector,
    pub(crate) down_sums: BiasCollector,
    pub(crate) turned: Vec<f32>,
}

impl Saved {
    /// Creates empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sizes the buffers of the forward pass.
    pub(crate) fn fit(&mut self, shape: &Shape, batch: &Batch<'_>) {
        let panels = batch.len.div_ceil(PANEL);
        let all = batch.batch * panels;
        let gate = if shape.gated() { all * shape.d_ff } else { 0 };
        let pairs = if batch.rope.is_some() {
            panels * (shape.head_dim / 2)
        } else {
            0
        };
        for (rows, len) in [
            (&mut self.n_attn, all * shape.d_model),
            (&mut self.inverse_attn, all),
            (&mut self.qkv, all * shape.qkv_dim()),
            (&mut self.max, all * shape.n_head),
            (&mut self.inverse_sum, all * shape.n_head),
            (&mut self.attention, all * shape.attention_dim()),
            (&mut self.n_ffn, all * shape.d_model),
            (&mut self.inverse_ffn, all),
            (&mut self.slope, all * shape.d_ff),
            (&mut self.slope_gate, gate),
            (&mut self.act, all * shape.d_ff),
            (&mut self.cos, pairs),
            (&mut self.sin, pairs),
            (&mut self.x, panels * shape.d_model),
            (&mut self.y, shape.d_model),
            (&mut self.tile, panels * PANEL),
        ] {
            resize(rows, len, Row::ZERO);
        }
        self.of = Some((*shape, batch.batch, batch.len));
    }

    /// Sizes the buffers of the backward pass.
    pub(crate) fn fit_back(&mut self, shape: &Shape, batch: &Batch<'_>) {
        assert!(
            self.of == Some((*shape, batch.batch, batch.len)),
            "the backward pass needs the forward pass of the same shape and batch before it"
        );
        let panels = batch.len.div_ceil(PANEL);
        let gate = if shape.gated() { shape.d_ff } else { 0 };
        for (rows, len) in [
            (&mut self.dattention, panels * shape.attention_dim()),
            (&mut self.dqkv, panels * shape.qkv_dim()),
            (&mut self.dact, shape.d_ff),
            (&mut self.dgate, gate),
        ] {
            resize(rows, len, Row::ZERO);
        }
        self.scratch.fit(panels, shape.head_dim);
        self.dw_qkv.reset(shape.qkv_dim(), shape.d_model);
        self.dw_o.reset(shape.d_model, shape.attention_dim());
        self.dw_up.reset(shape.d_ff, shape.d_model);
        self.dw_gate.reset(gate, shape.d_model);
        // Transposed: its tokens are those of the narrow side.
        self.dw_down.reset(shape.d_ff, shape.d_model);
        self.qkv_sums.reset(shape.qkv_dim());
        self.o_sums.reset(shape.d_model);
        self.up_sums.reset(shape.d_ff);
        self.gate_sums.reset(gate);
        self.down_sums.reset(shape.d_model);
    }
}
