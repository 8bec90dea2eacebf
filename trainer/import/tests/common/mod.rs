//! Tiny models, and files of other programs made of them.

use checkpoint::synthetic::{self, PLAIN};
use checkpoint::{Checkpoint, NamedTensor};
use runtime::{Activation, Config, Norm, Position};

/// A model of llama2.c: grouped queries, a width that no group of 8 divides.
pub(crate) const LLAMA: Config = Config {
    n_layer: 2,
    n_kv_head: 2,
    d_model: 16,
    d_ff: 12,
    context_len: 8,
    vocab_size: 30,
    rope_base: 10_000,
    activation: Activation::SwiGlu,
    ..PLAIN
};

/// A model of nanoGPT.
#[allow(dead_code, reason = "each test file is a crate of its own")]
pub(crate) const NANO: Config = Config {
    n_kv_head: 4,
    d_ff: 64,
    position: Position::Learned,
    norm: Norm::LayerNorm,
    activation: Activation::Gelu,
    attn_bias: true,
    ff_bias: true,
    norm_bias: true,
    ..LLAMA
};

pub(crate) fn random(config: Config) -> Checkpoint {
    synthetic::checkpoint(config, 5)
}

/// Returns the elements of a tensor.
#[allow(dead_code, reason = "each test file is a crate of its own")]
pub(crate) fn tensor<'a>(checkpoint: &'a Checkpoint, name: &str) -> &'a NamedTensor {
    let found = checkpoint.weights.iter().find(|tensor| tensor.name == name);
    found.unwrap_or_else(|| panic!("{name}"))
}

pub(crate) fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|x| x.to_le_bytes()).collect()
}
