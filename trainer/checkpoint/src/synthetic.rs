//! Random checkpoints of any shape and blobs of an old version, for tests that need no training.

use runtime::format::{PRELUDE_LEN, seal};
use runtime::pieces::Special;
use runtime::{Activation, Config, Kind, Norm, Position, SplitMix64, TENSOR_ALIGN, TensorSpec};

use crate::aligned::AlignedBytes;
use crate::byte_pair;
use crate::file::{Checkpoint, NamedTensor};

/// Characters of tiny Shakespeare, in order.
const CHARS: &str = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A small model with every optional part switched off.
pub const PLAIN: Config = Config {
    n_layer: 3,
    n_head: 4,
    n_kv_head: 4,
    d_model: 32,
    d_ff: 48,
    context_len: 16,
    vocab_size: 40,
    position: Position::Rope,
    rope_base: 1_000,
    norm: Norm::RmsNorm,
    activation: Activation::Relu2,
    tied: true,
    embed_scale: false,
    attn_bias: false,
    ff_bias: false,
    norm_bias: false,
    head_bias: false,
};

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
        vocab: vocab(config.vocab_size).into_bytes(),
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

/// Makes a byte-pair vocabulary: three special tokens, the bytes, the characters of [`vocab`], then
/// pairs of what is there.
///
/// # Panics
///
/// If `vocab_size` leaves no room for the characters.
#[must_use]
pub fn byte_pairs(vocab_size: u16) -> Vec<u8> {
    let special = ["<unk>", "\n<s>\n", "\n</s>\n"].map(String::from);
    let bytes = (0..=255).map(|byte: u8| format!("<0x{byte:02X}>"));
    let chars = CHARS.chars().map(String::from);
    let mut pieces: Vec<String> = special.into_iter().chain(bytes).chain(chars).collect();
    assert!(
        usize::from(vocab_size) >= pieces.len(),
        "room for the characters"
    );
    let letters: Vec<char> = "etaoinsh ".chars().collect();
    let pairs = letters
        .iter()
        .flat_map(|a| letters.iter().map(move |b| format!("{a}{b}")));
    let triples = letters
        .iter()
        .flat_map(|a| letters.iter().map(move |b| format!("{a}{a}{b}")));
    pieces.extend(pairs.chain(triples));
    pieces.truncate(vocab_size.into());
    let scored = pieces.iter().zip(0..);
    let scored: Vec<(Vec<u8>, f32)> = scored
        .map(|(piece, rank)| (piece.clone().into_bytes(), -(rank as f32)))
        .collect();
    let special = Special {
        bos: Some(1),
        eos: Some(2),
        byte_base: Some(3),
        leading_space: true,
    };
    byte_pair::to_bytes(&scored, special).expect("the scores are numbers")
}

/// Returns a blob of int8 matrices as format version 1 has it: the header ends before the kinds.
///
/// # Panics
///
/// If `blob` is no blob of the current version or has other matrices.
#[must_use]
pub fn version_1(blob: &[u8]) -> AlignedBytes {
    const KINDS_LEN: usize = 4;
    let word = |at: usize| {
        let word = u32::from_le_bytes([blob[at], blob[at + 1], blob[at + 2], blob[at + 3]]);
        word as usize
    };
    let (header_len, tensors) = (word(12) - KINDS_LEN, word(16)..word(20));
    let header_end = PRELUDE_LEN + header_len;
    assert_eq!(blob[header_end..][..KINDS_LEN], [0; KINDS_LEN], "int4");
    let start = header_end.next_multiple_of(TENSOR_ALIGN as usize);
    let mut old = AlignedBytes::zeroed(start + tensors.len());
    old[..header_end].copy_from_slice(&blob[..header_end]);
    old[start..].copy_from_slice(&blob[tensors]);
    old[8] = 1;
    for (at, len) in [(12, header_len), (16, start), (20, old.len())] {
        old[at..at + 4].copy_from_slice(&(len as u32).to_le_bytes());
    }
    seal(&mut old);
    old
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
