//! What a block computes with: its sizes, its parameters, and the sequences of a call.

use crate::dropout::Dropout;
use runtime::{Activation, Config, Norm};

/// Sizes and kinds of a block; biases are there where the parameters have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Width of the residual stream.
    pub d_model: usize,
    /// Query heads.
    pub n_head: usize,
    /// Key and value heads; divides `n_head`.
    pub n_kv_head: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Width of the feed-forward part.
    pub d_ff: usize,
    /// Kind of both norms.
    pub norm: Norm,
    /// Activation of the feed-forward part.
    pub activation: Activation,
}

impl From<&Config> for Shape {
    fn from(config: &Config) -> Self {
        Self {
            d_model: config.d_model.into(),
            n_head: config.n_head.into(),
            n_kv_head: config.n_kv_head.into(),
            head_dim: usize::from(config.d_model) / usize::from(config.n_head),
            d_ff: config.d_ff.into(),
            norm: config.norm,
            activation: config.activation,
        }
    }
}

impl Shape {
    /// Returns the rows of `w_qkv`: queries, keys and values.
    #[must_use]
    pub const fn qkv_dim(&self) -> usize {
        (self.n_head + 2 * self.n_kv_head) * self.head_dim
    }

    /// Returns the columns of `w_o`: the heads side by side.
    #[must_use]
    pub const fn attention_dim(&self) -> usize {
        self.n_head * self.head_dim
    }

    /// Query heads per key and value head.
    pub(crate) const fn group(&self) -> usize {
        self.n_head / self.n_kv_head
    }

    pub(crate) const fn gated(&self) -> bool {
        matches!(self.activation, Activation::SwiGlu)
    }

    pub(crate) fn check(&self) {
        assert!(
            self.n_kv_head > 0 && self.n_head.is_multiple_of(self.n_kv_head),
            "n_head must be a multiple of n_kv_head: {self:?}"
        );
        assert!(
            self.d_model > 0 && self.head_dim > 0 && self.d_ff > 0,
            "empty shape: {self:?}"
        );
    }
}

/// Parameters of a block, matrices as `[out, in]`.
///
/// # Shapes
///
/// - `g_attn`, `b_attn`, `g_ffn`, `b_ffn`, `b_o`, `b_down`: `[d_model]`
/// - `w_qkv`: `[qkv_dim, d_model]`, rows of the query heads, then keys, then values; `b_qkv`: `[qkv_dim]`
/// - `w_o`: `[d_model, n_head * head_dim]`
/// - `w_up`, `w_gate`: `[d_ff, d_model]`; `b_up`, `b_gate`: `[d_ff]`
/// - `w_down`: `[d_model, d_ff]`
///
/// `w_gate` goes with [`Activation::SwiGlu`].
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are the tensors of the table above")]
pub struct Params<'a> {
    pub g_attn: &'a [f32],
    pub b_attn: Option<&'a [f32]>,
    pub w_qkv: &'a [f32],
    pub b_qkv: Option<&'a [f32]>,
    pub w_o: &'a [f32],
    pub b_o: Option<&'a [f32]>,
    pub g_ffn: &'a [f32],
    pub b_ffn: Option<&'a [f32]>,
    pub w_gate: Option<&'a [f32]>,
    pub b_gate: Option<&'a [f32]>,
    pub w_up: &'a [f32],
    pub b_up: Option<&'a [f32]>,
    pub w_down: &'a [f32],
    pub b_down: Option<&'a [f32]>,
}

/// Gradients of a block's parameters, shaped like [`Params`]; the backward pass adds to them.
///
/// A tensor has a gradient exactly if it is there.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the tensors of `Params`")]
pub struct Grads<'a> {
    pub g_attn: &'a mut [f32],
    pub b_attn: Option<&'a mut [f32]>,
    pub w_qkv: &'a mut [f32],
    pub b_qkv: Option<&'a mut [f32]>,
    pub w_o: &'a mut [f32],
    pub b_o: Option<&'a mut [f32]>,
    pub g_ffn: &'a mut [f32],
    pub b_ffn: Option<&'a mut [f32]>,
    pub w_gate: Option<&'a mut [f32]>,
    pub b_gate: Option<&'a mut [f32]>,
    pub w_up: &'a mut [f32],
    pub b_up: Option<&'a mut [f32]>,
    pub w_down: &'a mut [f32],
    pub b_down: Option<&'a mut [f32]>,
}

/// Cosines and sines of the rotary positions: `[len, head_dim / 2]` each, pairs `(2i, 2i + 1)`.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are the tables named above")]
pub struct Rope<'a> {
    pub cos: &'a [f32],
    pub sin: &'a [f32],
}

/// The sequences of a call and what applies to all of them.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Sequences.
    pub batch: usize,
    /// Tokens per sequence.
    pub len: usize,
    /// A query sees keys at positions above its own minus this; `len` or more: all before it.
    pub window: usize,
    /// Rotary positions, if any.
    pub rope: Option<Rope<'a>>,
    /// Dropout, if any.
    pub dropout: Option<Dropout>,
}

impl Batch<'_> {
    pub(crate) fn check(&self, shape: &Shape) {
        assert!(
            self.batch > 0 && self.len > 0 && self.window > 0,
            "an empty batch: {self:?}"
        );
        if let Some(rope) = self.rope {
            let len = self.len * shape.head_dim / 2;
            assert!(
                rope.cos.len() == len && rope.sin.len() == len,
                "rope tables need {len} entries"
            );
        }
        if let Some(dropout) = self.dropout {
            assert!(
                (0.0..1.0).contains(&dropout.rate),
                "dropout rate {} not in 0..1",
                dropout.rate
            );
        }
    }
}

impl Params<'_> {
    pub(crate) fn check(&self, s: &Shape) {
        let matrices = [
            ("w_qkv", self.w_qkv.len(), s.qkv_dim() * s.d_model),
            ("w_o", self.w_o.len(), s.d_model * s.attention_dim()),
            ("w_up", self.w_up.len(), s.d_ff * s.d_model),
            ("w_down", self.w_down.len(), s.d_model * s.d_ff),
            ("g_attn", self.g_attn.len(), s.d_model),
            ("g_ffn", self.g_ffn.len(), s.d_model),
            (
                "w_gate",
                self.w_gate.map_or(0, <[f32]>::len),
                usize::from(s.gated()) * s.d_ff * s.d_model,
            ),
        ];
        let vectors = [
            ("b_attn", self.b_attn, s.d_model),
            ("b_qkv", self.b_qkv, s.qkv_dim()),
            ("b_o", self.b_o, s.d_model),
            ("b_ffn", self.b_ffn, s.d_model),
            ("b_gate", self.b_gate, s.d_ff),
            ("b_up", self.b_up, s.d_ff),
            ("b_down", self.b_down, s.d_model),
        ];
        let vectors = vectors
            .into_iter()
            .filter_map(|(name, v, want)| Some((name, v?.len(), want)));
        for (name, found, want) in matrices.into_iter().chain(vectors) {
            assert!(
                found == want,
                "{name} has {found} values, {s:?} needs {want}"
            );
        }
    }
}

impl Grads<'_> {
    pub(crate) fn check(&self, p: &Params<'_>) {
        let pairs = [
            ("g_attn", Some(p.g_attn), Some(&*self.g_attn)),
            ("b_attn", p.b_attn, self.b_attn.as_deref()),
            ("w_qkv", Some(p.w_qkv), Some(&*self.w_qkv)),
            ("b_qkv", p.b_qkv, self.b_qkv.as_deref()),
            ("w_o", Some(p.w_o), Some(&*self.w_o)),
            ("b_o", p.b_o, self.b_o.as_deref()),
            ("g_ffn", Some(p.g_ffn), Some(&*self.g_ffn)),
            ("b_ffn", p.b_ffn, self.b_ffn.as_deref()),
            ("w_gate", p.w_gate, self.w_gate.as_deref()),
            ("b_gate", p.b_gate, self.b_gate.as_deref()),
            ("w_up", Some(p.w_up), Some(&*self.w_up)),
            ("b_up", p.b_up, self.b_up.as_deref()),
            ("w_down", Some(p.w_down), Some(&*self.w_down)),
            ("b_down", p.b_down, self.b_down.as_deref()),
        ];
        for (name, param, grad) in pairs {
            let (want, found) = (param.map(<[f32]>::len), grad.map(<[f32]>::len));
            assert!(
                want == found,
                "gradient of {name} has {found:?} values, {name} {want:?}"
            );
        }
    }
}
