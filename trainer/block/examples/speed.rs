//! Speed of the block and the head: tokens/s and GFLOP/s, forward and backward, on one thread.
//!
//! `cargo run --release -p block --example speed [SECONDS [NAME]]`
//!
//! `best` is the fastest step, `CPU` counts the time that Linux had the thread running: neither suffers
//! from what else runs on the machine as much as the mean does.
//!
//! FLOPs are `6 * parameters` per token (no embedding) plus `6 * n_layer * d_model * len` for causal
//! attention, the usual count of a step.

use block::{Batch, Dropout, Grads, Params, Saved, Shape};
use block::{HeadBuffers, HeadGrads, HeadParams, head_loss_and_grads};
use runtime::{Activation, Norm};
use std::time::Instant;

struct Case {
    name: &'static str,
    n_layer: usize,
    shape: Shape,
    vocab_size: usize,
    len: usize,
    batch: usize,
    dropout: f32,
}

/// Numbers in -0.5..0.5 times `scale`.
fn random(n: usize, scale: f32, seed: &mut u64) -> Vec<f32> {
    let mut next = || {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((*seed >> 40) as f32 / 16_777_216.0 - 0.5) * scale
    };
    (0..n).map(|_| next()).collect()
}

struct Layer {
    gain: Vec<f32>,
    shift: Vec<f32>,
    w_qkv: Vec<f32>,
    w_o: Vec<f32>,
    w_up: Vec<f32>,
    b_up: Vec<f32>,
    w_down: Vec<f32>,
}

impl Layer {
    fn new(s: &Shape, seed: &mut u64) -> Self {
        let d = s.d_model;
        let scale = 2.0 / (d as f32).sqrt();
        Self {
            gain: vec![1.0; d],
            shift: vec![0.0; d],
            w_qkv: random(s.qkv_dim() * d, scale, seed),
            w_o: random(d * s.attention_dim(), scale, seed),
            w_up: random(s.d_ff * d, scale, seed),
            b_up: vec![0.0; s.d_ff],
            w_down: random(s.d_ff * d, 0.5 * scale, seed),
        }
    }

    fn params(&self) -> Params<'_> {
        Params {
            g_attn: &self.gain,
            b_attn: Some(&self.shift),
            w_qkv: &self.w_qkv,
            b_qkv: None,
            w_o: &self.w_o,
            b_o: None,
            g_ffn: &self.gain,
            b_ffn: Some(&self.shift),
            w_gate: None,
            b_gate: None,
            w_up: &self.w_up,
            b_up: Some(&self.b_up),
            w_down: &self.w_down,
            b_down: Some(&self.shift),
        }
    }
}

struct LayerGrads {
    vectors: [Vec<f32>; 5],
    w_qkv: Vec<f32>,
    w_o: Vec<f32>,
    w_up: Vec<f32>,
    b_up: Vec<f32>,
    w_down: Vec<f32>,
}

impl LayerGrads {
    fn new(s: &Shape) -> Self {
        let d = s.d_model;
        Self {
            vectors: core::array::from_fn(|_| vec![0.0; d]),
            w_qkv: vec![0.0; s.qkv_dim() * d],
            w_o: vec![0.0; d * s.attention_dim()],
            w_up: vec![0.0; s.d_ff * d],
            b_up: vec![0.0; s.d_ff],
            w_down: vec![0.0; s.d_ff * d],
        }
    }

    fn grads(&mut self) -> Grads<'_> {
        let [g_attn, b_attn, g_ffn, b_ffn, b_down] = &mut self.vectors;
        Grads {
            g_attn,
            b_attn: Some(b_attn),
            w_qkv: &mut self.w_qkv,
            b_qkv: None,
            w_o: &mut self.w_o,
            b_o: None,
            g_ffn,
            b_ffn: Some(b_ffn),
            w_gate: None,
            b_gate: None,
            w_up: &mut self.w_up,
            b_up: Some(&mut self.b_up),
            w_down: &mut self.w_down,
            b_down: Some(b_down),
        }
    }
}

/// Seconds that this thread has been running, where the system tells.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    nanoseconds.map_or(f64::NAN, |n| n / 1e9)
}

fn run(case: &Case, seconds: f64) {
    let mut seed = 1;
    let s = &case.shape;
    let layers: Vec<Layer> = (0..case.n_layer)
        .map(|_| Layer::new(s, &mut seed))
        .collect();
    let mut grads: Vec<LayerGrads> = layers.iter().map(|_| LayerGrads::new(s)).collect();
    let mut saved: Vec<Saved> = layers.iter().map(|_| Saved::new()).collect();
    let tokens = case.batch * case.len;
    let mut x: Vec<Vec<f32>> = vec![vec![0.0; tokens * s.d_model]; case.n_layer + 1];
    x[0] = random(tokens * s.d_model, 2.0, &mut seed);
    let mut dx = vec![0.0; tokens * s.d_model];
    let mut dx_in = dx.clone();
    let w_out = random(case.vocab_size * s.d_model, 0.2, &mut seed);
    let gain = vec![1.0; s.d_model];
    let (mut dw_out, mut dgain) = (vec![0.0; w_out.len()], vec![0.0; s.d_model]);
    let targets: Vec<u16> = (0..tokens)
        .map(|i| (i * 31 % case.vocab_size) as u16)
        .collect();
    let mut buffers = HeadBuffers::new();

    let (mut forward, mut head, mut backward, mut best) = (0.0, 0.0, 0.0, f64::INFINITY);
    let mut cpu_start = 0.0;
    let (mut steps, start) = (0_u64, Instant::now());
    while steps < 3 || start.elapsed().as_secs_f64() < seconds {
        let batch = |layer: usize| Batch {
            batch: case.batch,
            len: case.len,
            window: case.len,
            rope: None,
            dropout: (case.dropout > 0.0).then_some(Dropout {
                rate: case.dropout,
                seed: 1,
                step: steps,
                layer: layer as u32,
                first_sequence: 0,
            }),
        };
        let begin = Instant::now();
        for (i, layer) in layers.iter().enumerate() {
            let (before, after) = x.split_at_mut(i + 1);
            let (x_in, x_out) = (&before[i], &mut after[0]);
            block::forward(s, &batch(i), &layer.params(), x_in, x_out, &mut saved[i]);
        }
        let middle = Instant::now();
        let norm = s.norm;
        let (b_final, b_out) = (None, None);
        let params = HeadParams {
            norm,
            g_final: &gain,
            b_final,
            w_out: &w_out,
            b_out,
        };
        let (b_final, b_out) = (None, None);
        let mut grad = HeadGrads {
            g_final: &mut dgain,
            b_final,
            w_out: &mut dw_out,
            b_out,
        };
        let (x_out, scale) = (&x[case.n_layer], 1.0 / tokens as f32);
        head_loss_and_grads(
            &params,
            x_out,
            targets[..].into(),
            scale,
            &mut dx,
            &mut grad,
            &mut buffers,
        );
        let after_head = Instant::now();
        for (i, layer) in layers.iter().enumerate().rev() {
            let (saved, mut grads) = (&mut saved[i], grads[i].grads());
            block::backward(
                s,
                &batch(i),
                &layer.params(),
                saved,
                &dx,
                &mut dx_in,
                &mut grads,
            );
            core::mem::swap(&mut dx, &mut dx_in);
        }
        let end = Instant::now();
        if steps > 0 {
            forward += (middle - begin).as_secs_f64();
            head += (after_head - middle).as_secs_f64();
            backward += (end - after_head).as_secs_f64();
            best = best.min((end - begin).as_secs_f64());
        }
        steps += 1;
        if steps == 1 {
            cpu_start = cpu_seconds();
        }
    }
    let cpu = cpu_seconds() - cpu_start;
    let d = s.d_model;
    let matrices = s.qkv_dim() * d + d * s.attention_dim() + 2 * d * s.d_ff;
    let params = case.n_layer * matrices + w_out.len();
    let flops = (6 * params + 6 * case.n_layer * s.attention_dim() * case.len) as f64;
    let n = (steps - 1) as f64 * tokens as f64;
    let rate = n / (forward + head + backward);
    println!(
        "{:<22} {:>7} params  {:>8.0} tokens/s mean, {:>8.0} CPU, {:>8.0} best  {:>6.1} GFLOP/s best  forward {:>4.1} %, head {:>4.1} %",
        case.name,
        params,
        rate,
        n / cpu,
        tokens as f64 / best,
        flops * tokens as f64 / best / 1e9,
        100.0 * forward / (forward + head + backward),
        100.0 * head / (forward + head + backward),
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().and_then(|s| s.parse().ok()).unwrap_or(2.0);
    let only = args.next();
    let shape = |d_model, n_head, d_ff| Shape {
        d_model,
        n_head,
        n_kv_head: n_head,
        head_dim: d_model / n_head,
        d_ff,
        norm: Norm::LayerNorm,
        activation: Activation::Gelu,
    };
    let case = |name, n_layer, shape, len, batch| Case {
        name,
        n_layer,
        shape,
        vocab_size: 65,
        len,
        batch,
        dropout: 0.0,
    };
    for case in [
        case("lesson", 2, shape(64, 4, 256), 64, 16),
        Case {
            dropout: 0.1,
            ..case("lesson, dropout 0.1", 2, shape(64, 4, 256), 64, 16)
        },
        case("pocket", 3, shape(40, 4, 160), 128, 16),
        case("nanoGPT on a CPU", 4, shape(128, 4, 512), 64, 12),
        case("4 x 128, ctx 128", 4, shape(128, 4, 512), 128, 16),
        case("6 x 192, ctx 256", 6, shape(192, 6, 768), 256, 8),
    ] {
        if only.as_ref().is_none_or(|name| *name == case.name) {
            run(&case, seconds);
        }
    }
}
