//! Memory of a training on the CPU.

use crate::settings::Settings;

/// Program, text and libraries.
const BASE: u64 = 64 << 20;
/// Windows that are scored at once.
const SCORED: u64 = 16;

/// Returns the bytes that a run on the CPU stays below.
///
/// It counts what is alive at the same time, in vectors of the model's size and per character, and
/// adds a quarter for what the allocator keeps.
#[must_use]
pub fn ceiling(settings: &Settings, threads: usize) -> u64 {
    let model = &settings.model;
    let shards = settings.shards as u64;
    let lanes = (threads as u64).clamp(1, shards);
    let params = model.n_params();
    // weights, average, two moments, decay; gradients of every shard and their sum
    let state = 5 + shards + 1;
    // a lane's gradients before they are joined, and its weights as the products read them
    let lane = 2 + 4;
    // a checkpoint: the four vectors by name, and their bytes
    let saving = 8;
    let vectors = 4 * params * (state + lanes * lane + saving);

    let d = u64::from(model.d_model);
    let gated = u64::from(model.activation == runtime::Activation::SwiGlu);
    // what a block keeps for its way back, and its input on the tape
    let block = 6 * d + model.qkv_dim() as u64 + (2 + gated) * u64::from(model.d_ff);
    let layers = u64::from(model.n_layer) * block;
    // logits and soft targets
    let head = 4 * d + 3 * u64::from(model.vocab_size);
    let len = settings.train_len as u64;
    let rows = (settings.batch as u64 / shards.max(1)).max(SCORED);
    let tokens = lanes * rows * len.next_multiple_of(32);
    let sum = vectors + 4 * tokens * (layers + head);
    BASE + sum + sum / 4
}

/// Returns the most bytes that this process has held, where Linux tells.
#[must_use]
pub fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// Writes bytes as whole megabytes.
#[must_use]
pub fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}
