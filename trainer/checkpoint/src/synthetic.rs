//! Random checkpoints of any shape, for tests that need a model and no training.

use runtime::{Config, Kind, SplitMix64, TensorSpec};

use crate::file::{Checkpoint, NamedTensor};

/// Characters of tiny Shakespeare, in order.
const CHARS: &str = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Makes a checkpoint with random weights; the same configuration and seed give the same one.
///
/// The weights are scaled so that activations stay near 1 and logits are far from flat. `ema`
/// equals `weights`; there are no moments.
#[must_use]
pub fn checkpoint(config: Config, seed: u64) -> Checkpoint {
    let mut rng = SplitMix64::new(seed);
    let weights: Vec<NamedTensor> = config
        .tensors()
        .filter(|spec| spec.kind != Kind::U32)
        .map(|spec| tensor(&spec, &mut rng))
        .collect();
    Checkpoint {
        config,
        settings: "{}".to_string(),
        corpus_name: "synthetic".to_string(),
        corpus_sha256: [0; 32],
        vocab: vocab(config.vocab_size),
        run: "synthetic".to_string(),
        step: 0,
        seed,
        seconds: 0.0,
        dev_f32: f64::NAN,
        dev_ema: f64::NAN,
        best_dev: f64::NAN,
        best_step: 0,
        ema: weights.clone(),
        weights,
        moment_1: Vec::new(),
        moment_2: Vec::new(),
        rng: Vec::new(),
    }
}

/// Makes a vocabulary: the characters of tiny Shakespeare, then those from U+00A1 on.
#[must_use]
pub fn vocab(vocab_size: u16) -> String {
    CHARS
        .chars()
        .chain('\u{a1}'..)
        .take(usize::from(vocab_size))
        .collect()
}

fn tensor(spec: &TensorSpec, rng: &mut SplitMix64) -> NamedTensor {
    let (middle, spread) = match (spec.kind, spec.name.as_bytes()[0]) {
        (Kind::G16, b'g') => (1.0, 0.2),
        (Kind::G16 | Kind::I32, _) => (0.0, 0.1),
        // Uniform in ±sqrt(3 / cols): an input of unit variance gives an output of unit variance.
        (_, _) => {
            let gain = if matches!(spec.name, "w_embed" | "w_out") {
                2.0
            } else {
                1.0
            };
            (0.0, gain * (3.0 / spec.cols as f32).sqrt())
        }
    };
    let len = spec.rows as usize * spec.cols as usize;
    NamedTensor {
        name: spec.to_string(),
        shape: if spec.rows == 1 {
            vec![spec.cols]
        } else {
            vec![spec.rows, spec.cols]
        },
        data: (0..len)
            .map(|_| middle + spread * (2.0 * unit(rng) - 1.0))
            .collect(),
    }
}

/// Returns a number in `[0, 1)`, a multiple of 2^-24.
fn unit(rng: &mut SplitMix64) -> f32 {
    (rng.next_u64() >> 40) as f32 / 16_777_216.0
}
