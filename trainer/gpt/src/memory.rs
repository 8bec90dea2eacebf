//! Memory of a training.

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

/// Returns the bytes that a text of `n_bytes` adds: itself and its tokens while it is read; later the
/// tokens, the order of the windows and the losses of a held-out part.
#[must_use]
pub const fn text(n_bytes: u64, byte_pairs: bool) -> u64 {
    // merging pairs keeps two neighbours and a place in the queue for every character
    let per_byte = if byte_pairs { 5 + 128 } else { 5 };
    per_byte * n_bytes
}

/// Returns the bytes of a GPU that a run stays below.
///
/// There every operation is differentiated by itself: what one needs on its way back stays until
/// then, in 32 bits at most. The count is of those values, and half as many again for what lies
/// between the pieces of the device's memory.
#[must_use]
pub fn device_ceiling(settings: &Settings) -> u64 {
    let model = &settings.model;
    let d = u64::from(model.d_model);
    let len = settings.train_len as u64;
    let gated = u64::from(model.activation == runtime::Activation::SwiGlu);
    // weights, average, two moments, decay; gradients of a shard, their sum, a copy by tensor
    let vectors = 8 * model.n_params();
    // two norms, residual connections, dropout; projections, turned and cut; scores, softmax and
    // their dropout
    let block = 16 * d
        + 8 * model.qkv_dim() as u64
        + (4 + 2 * gated) * u64::from(model.d_ff)
        + 9 * u64::from(model.n_head) * len;
    let head = 6 * d + 6 * u64::from(model.vocab_size);
    let tokens = settings.batch as u64 / (settings.shards as u64).max(1) * len;
    let sum = 4 * (vectors + tokens * (u64::from(model.n_layer) * block + head));
    BASE + sum + sum / 2
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
