//! Which part of the model implements which section of "Attention Is All You Need" (Vaswani et al.
//! 2017, arXiv 1706.03762), and where it leaves the paper.

use runtime::{Activation, Config, Norm, Position};

/// A part of the model.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Tensors of the part, by the last name of their path.
    pub tensors: &'static [&'static str],
    /// What it is.
    pub what: &'static str,
    /// Section of the paper.
    pub section: &'static str,
    /// Where it is computed.
    pub code: &'static str,
    /// What differs from the paper in a model of this shape; empty if nothing does.
    pub differs: fn(&Config) -> &'static str,
}

fn same(_: &Config) -> &'static str {
    ""
}

/// Every part, in the order of the forward pass.
pub const PARTS: &[Part] = &[
    Part {
        tensors: &["w_embed"],
        what: "embedding",
        section: "3.4",
        code: "model::Gpt::embed",
        differs: |config| {
            if config.embed_scale {
                ""
            } else {
                "not multiplied by sqrt(d_model)"
            }
        },
    },
    Part {
        tensors: &["w_pos"],
        what: "positions",
        section: "3.5",
        code: "tables::Tables",
        differs: |config| match config.position {
            Position::Sinusoidal => "",
            Position::Learned => "trained, as in table 3 (E)",
            Position::Rope => "rotary, on queries and keys (Su et al. 2021)",
        },
    },
    Part {
        tensors: &["g_attn", "b_attn", "g_ffn", "b_ffn"],
        what: "residual connections and norms",
        section: "3.1",
        code: "model::norm",
        differs: |config| match config.norm {
            Norm::LayerNorm => "in front of each part, not behind",
            Norm::RmsNorm => "RMSNorm (Zhang and Sennrich 2019), in front of each part",
        },
    },
    Part {
        tensors: &["w_qkv", "b_qkv", "w_o", "b_o"],
        what: "multi-head attention",
        section: "3.2.2",
        code: "ops::plain_layer, block::forward",
        differs: |config| {
            if config.n_kv_head < config.n_head {
                "heads share keys and values (Ainslie et al. 2023)"
            } else {
                ""
            }
        },
    },
    Part {
        tensors: &[],
        what: "scaled dot products",
        section: "3.2.1",
        code: "ops::plain_layer, block::forward",
        differs: same,
    },
    Part {
        tensors: &[],
        what: "causal mask",
        section: "3.2.3",
        code: "tables::Tables",
        differs: same,
    },
    Part {
        tensors: &["w_gate", "b_gate", "w_up", "b_up", "w_down", "b_down"],
        what: "feed-forward network",
        section: "3.3",
        code: "ops::plain_layer, block::forward",
        differs: |config| match config.activation {
            Activation::Relu => "",
            Activation::Gelu => "GELU (Hendrycks and Gimpel 2016)",
            Activation::Relu2 => "ReLU squared (So et al. 2021)",
            Activation::SwiGlu => "SwiGLU (Shazeer 2020)",
        },
    },
    Part {
        tensors: &["g_final", "b_final"],
        what: "last norm",
        section: "-",
        code: "model::norm",
        differs: |_| "closes the residual stream, which the paper's norms do in each layer",
    },
    Part {
        tensors: &["w_out", "b_out"],
        what: "head and softmax",
        section: "3.4",
        code: "ops::plain_head_nll, block::head_loss",
        differs: |config| {
            if config.tied {
                "shares the embedding's matrix, as there"
            } else {
                "a matrix of its own"
            }
        },
    },
    Part {
        tensors: &[],
        what: "optimiser and warm-up",
        section: "5.3",
        code: "optimizer",
        differs: |_| "AdamW; the rate falls by a cosine",
    },
    Part {
        tensors: &[],
        what: "dropout",
        section: "5.4",
        code: "dropout",
        differs: same,
    },
];

/// Returns the map for a model of one shape, one part a line.
#[must_use]
pub fn map(config: &Config) -> String {
    let line = |part: &Part| {
        let differs = (part.differs)(config);
        let note = if differs.is_empty() {
            String::new()
        } else {
            format!("; {differs}")
        };
        format!(
            "  {:6} {:31} {}{note}\n",
            part.section, part.what, part.code
        )
    };
    PARTS.iter().map(line).collect()
}
