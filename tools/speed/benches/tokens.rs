//! Tokens per second on one thread of this machine: `cd tools/speed && cargo bench`.
//!
//! A text of 256 tokens by stories260K, or by random weights of its shape where `CHAPBOOK_PEERS` does
//! not name its folder; the time does not depend on the weights. The baseline `f32` is the same model
//! in plain Rust, which the compiler puts into vectors of four; `int8` has the kernel of the machine,
//! which on x86-64 is SSE2, as the baseline.

use checkpoint::{Checkpoint, blob, runs, synthetic};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use import::{llama2c, tokenizer};
use runtime::{Activation, Config, Kinds, Model, Norm, Position, Provenance, Session};

const TOKENS: u16 = 256;

/// Shape of stories260K.
const SHAPE: Config = Config {
    n_layer: 5,
    n_head: 8,
    n_kv_head: 4,
    d_model: 64,
    d_ff: 172,
    context_len: 512,
    vocab_size: 512,
    position: Position::Rope,
    rope_base: 10_000,
    norm: Norm::RmsNorm,
    activation: Activation::SwiGlu,
    tied: true,
    embed_scale: false,
    attn_bias: false,
    ff_bias: false,
    norm_bias: false,
    head_bias: false,
};

fn model() -> Checkpoint {
    let folder = std::env::var_os("CHAPBOOK_PEERS").map_or_else(
        || runs::repository().join("../shared/peers"),
        std::path::PathBuf::from,
    );
    let read = |name: &str| std::fs::read(folder.join(name)).ok();
    let (Some(bin), Some(pieces)) = (read("stories260K.bin"), read("tok512.bin")) else {
        return synthetic::checkpoint(SHAPE, 1);
    };
    let vocab = |size| tokenizer::vocabulary(&pieces, size);
    let guest = llama2c::read(&bin, vocab).expect("stories260K is whole");
    guest.into_checkpoint("stories260K")
}

fn tokens(c: &mut Criterion) {
    let from = model();
    let provenance = Provenance {
        run: &from.run,
        corpus_sha256: [0; 32],
        step: 0,
        seed: 0,
        dev_f32: f32::NAN,
        dev_blob: f32::NAN,
    };
    let mut group = c.benchmark_group("tokens");
    group.throughput(Throughput::Elements(TOKENS.into()));
    for (name, kinds) in [("f32", Kinds::F32), ("int8", Kinds::W8)] {
        let blob = blob::write_as(&from.config, kinds, &from.vocab, from.deployed(), provenance);
        let blob = blob.expect("the checkpoint has every tensor").bytes;
        let model = Model::from_bytes(&blob).expect("it has just been written");
        let mut memory = vec![0; model.state_words()];
        let mut session = Session::new(&model, &mut memory).expect("the memory is long enough");
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| {
                session.reset();
                for token in 0..TOKENS {
                    session.feed(token).expect("the token is in the vocabulary");
                }
                session.logits()[0]
            });
        });
    }
    group.finish();
}

criterion_group!(benches, tokens);
criterion_main!(benches);
