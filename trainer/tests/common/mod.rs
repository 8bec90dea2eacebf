//! A small text and small runs over it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use burn_flex::{Flex, FlexDevice};
use checkpoint::{Corpus, runs};
use gpt::evaluation::host;
use gpt::presets;
use gpt::settings::Settings;
use gpt::training::{Text, Trainer};

/// Settings of the `test` preset with some fields replaced.
pub(crate) fn settings(overrides: &[(&str, &str)]) -> Settings {
    let overrides: Vec<_> = overrides
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let preset = presets::find("test").unwrap();
    preset.settings.with(&overrides).unwrap()
}

/// A text of 12,000 characters that no short period repeats.
pub(crate) fn corpus() -> Corpus {
    let words = [
        "to", "be", "or", "not", "that", "is", "the", "question", "\n",
    ];
    let mut text = String::new();
    let mut state = 1_u32;
    while text.len() < 12_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text += words[(state >> 16) as usize % words.len()];
        text.push(' ');
    }
    Corpus::from_bytes("words", text.into_bytes()).unwrap()
}

/// A run over [`corpus`].
pub(crate) fn trainer(settings: Settings, threads: usize) -> Trainer<Flex> {
    let text = Text::new(&corpus(), usize::from(settings.model.context_len), false).unwrap();
    Trainer::new(settings, text, threads, &FlexDevice).unwrap()
}

/// Weights, average and moments as bits.
pub(crate) fn bits(trainer: &Trainer<Flex>) -> Vec<u32> {
    let state = &trainer.state;
    [&state.weights, &state.ema, &state.moment_1, &state.moment_2]
        .into_iter()
        .flat_map(|flat| host(flat.clone()))
        .map(f32::to_bits)
        .collect()
}

/// Takes `n` steps.
pub(crate) fn steps(trainer: &mut Trainer<Flex>, n: u64) {
    for _ in 0..n {
        trainer.step().unwrap();
    }
}

/// Every kind of position, norm and activation, with and without biases.
pub(crate) const SHAPES: &[&[(&str, &str)]] = &[
    &[],
    &[
        ("position", "sinusoidal"),
        ("norm", "layernorm"),
        ("activation", "gelu"),
        ("embed_scale", "true"),
        ("ff_bias", "true"),
        ("norm_bias", "true"),
        ("head_bias", "true"),
        ("train_len", "16"),
    ],
    &[
        ("position", "learned"),
        ("norm", "layernorm"),
        ("activation", "relu"),
        ("tied", "false"),
        ("attn_bias", "true"),
        ("n_kv_head", "2"),
        ("train_len", "16"),
    ],
    &[
        ("activation", "swiglu"),
        ("attn_bias", "true"),
        ("ff_bias", "true"),
        ("norm_bias", "true"),
    ],
];

/// A folder for files of this process.
pub(crate) fn scratch(name: &str) -> std::path::PathBuf {
    let dir = std::env::temp_dir().join(format!("chapbook-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Names of the files of a run.
pub(crate) const FILES: [&str; 7] = [
    runs::CONFIG,
    runs::METRICS,
    runs::LOSS,
    runs::LAST,
    runs::BEST,
    runs::SAMPLES,
    gpt::report::FILE,
];
