//! Writes a blob with random weights in the shape of `HardGPT` (`AdamA1024/HardGPT`), the closest peer:
//! what the engine costs does not depend on the weights.
//!
//! ```text
//! cargo run --release -p checkpoint --example peer -- FILE
//! ```

use checkpoint::{blob, synthetic, write_durably};
use runtime::{Activation, Config, Norm, Position, Provenance};
use std::path::PathBuf;

/// 88,704 parameters, 86,064 multiply-accumulates per character without attention.
const PEER: Config = Config {
    n_layer: 3,
    n_head: 4,
    n_kv_head: 4,
    d_model: 48,
    d_ff: 192,
    context_len: 48,
    vocab_size: 65,
    position: Position::Learned,
    rope_base: 10_000,
    norm: Norm::LayerNorm,
    activation: Activation::Gelu,
    tied: true,
    embed_scale: false,
    attn_bias: false,
    ff_bias: false,
    norm_bias: false,
    head_bias: false,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: peer FILE")?);
    let checkpoint = synthetic::checkpoint(PEER, 1);
    let provenance = Provenance {
        run: "peer",
        corpus_sha256: [0; 32],
        step: 0,
        seed: 1,
        dev_f32: f32::NAN,
        dev_blob: f32::NAN,
    };
    let weights = checkpoint.deployed();
    let blob = blob::write(&PEER, &checkpoint.vocab, weights, provenance)?;
    write_durably(&path, &blob.bytes)?;
    Ok(())
}
