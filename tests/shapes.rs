//! Small models of every shape that a configuration can describe.

pub use checkpoint::synthetic::PLAIN;
use checkpoint::{AlignedBytes, Checkpoint, blob, int4, synthetic};
use runtime::{Activation, Config, Kinds, Norm, Position, Provenance};

/// Returns configurations that together use every optional part, and its absence, with every kind
/// of position, norm and activation.
#[must_use]
pub fn all() -> Vec<Config> {
    let mut all = Vec::new();
    for position in [Position::Rope, Position::Learned, Position::Sinusoidal] {
        for norm in [Norm::RmsNorm, Norm::LayerNorm] {
            for activation in [
                Activation::Relu2,
                Activation::Relu,
                Activation::Gelu,
                Activation::SwiGlu,
            ] {
                // Three neighbours in this list differ in every flag at least once.
                let n = all.len();
                all.push(Config {
                    position,
                    norm,
                    activation,
                    n_kv_head: [4, 2, 1][n % 3],
                    tied: n % 2 == 0,
                    embed_scale: n % 3 == 1,
                    attn_bias: n % 3 != 0,
                    ff_bias: n % 2 == 1,
                    norm_bias: n % 4 < 2,
                    head_bias: n % 5 < 2,
                    ..PLAIN
                });
            }
        }
    }
    all
}

/// Writes the blob of a checkpoint.
///
/// # Panics
///
/// If the checkpoint cannot be exported; synthetic ones can.
#[must_use]
pub fn blob_of(checkpoint: &Checkpoint) -> AlignedBytes {
    blob_as(checkpoint, Kinds::W8)
}

/// Writes the blob of a checkpoint with tensors of these kinds.
///
/// # Panics
///
/// As [`blob_of`].
#[must_use]
pub fn blob_as(checkpoint: &Checkpoint, kinds: Kinds) -> AlignedBytes {
    let provenance = Provenance {
        run: "parity",
        corpus_sha256: [0; 32],
        step: 0,
        seed: checkpoint.seed,
        dev_f32: 0.0,
        dev_blob: 0.0,
    };
    let (config, vocab) = (&checkpoint.config, &checkpoint.vocab);
    match blob::write_as(config, kinds, vocab, checkpoint.deployed(), provenance) {
        Ok(blob) => blob.bytes,
        Err(error) => panic!("{error}"),
    }
}

/// Writes the blob of a random model.
#[must_use]
pub fn random_blob(config: Config, seed: u64) -> AlignedBytes {
    blob_of(&synthetic::checkpoint(config, seed))
}

/// Writes the blob of a random model with int4 matrices in groups of `group` columns, or of as many as
/// take the fewest bytes.
///
/// # Panics
///
/// If there are no such groups.
#[must_use]
pub fn random_int4_blob(config: Config, group: Option<u32>, seed: u64) -> AlignedBytes {
    int4_blob_of(&synthetic::checkpoint(config, seed), group)
}

/// Writes the blob of a checkpoint with int4 matrices; see [`random_int4_blob`].
///
/// # Panics
///
/// If the checkpoint cannot be exported so.
#[must_use]
pub fn int4_blob_of(checkpoint: &Checkpoint, group: Option<u32>) -> AlignedBytes {
    match int4::kinds(&checkpoint.config, group, &[]) {
        Ok(kinds) => blob_as(checkpoint, kinds),
        Err(error) => panic!("{error}"),
    }
}

/// Returns `n` random tokens below `vocab_size`.
#[must_use]
pub fn random_tokens(vocab_size: u16, n: usize, seed: u64) -> Vec<u16> {
    let mut rng = runtime::SplitMix64::new(seed);
    (0..n)
        .map(|_| rng.next_below(vocab_size.into()) as u16)
        .collect()
}
