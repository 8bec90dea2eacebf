//! Tests that a block is the same on every vector unit that this machine has.

use crate::backward::backward_on;
use crate::block::forward_on;
use crate::{Batch, Dropout, Grads, Params, Saved, Shape};
use pulp::Arch;
use runtime::{Activation, Norm};

/// Output, gradient of the input and gradients of all parameters, one after the other.
fn run(arch: Arch) -> Vec<f32> {
    let shape = Shape {
        d_model: 40,
        n_head: 4,
        n_kv_head: 2,
        head_dim: 10,
        d_ff: 72,
        norm: Norm::LayerNorm,
        activation: Activation::Gelu,
    };
    let dropout = Dropout {
        rate: 0.1,
        seed: 1,
        step: 2,
        layer: 3,
        first_sequence: 0,
    };
    let dropout = Some(dropout);
    let batch = Batch {
        batch: 2,
        len: 50,
        window: 40,
        rope: None,
        dropout,
    };
    let (d, qkv, d_ff) = (shape.d_model, shape.qkv_dim(), shape.d_ff);
    let sizes = [
        d,
        d,
        qkv * d,
        qkv,
        d * d,
        d,
        d,
        d,
        d_ff * d,
        d_ff,
        d * d_ff,
        d,
    ];
    let wave = |n: usize, scale: f32| -> Vec<f32> {
        (0..n)
            .map(|i| scale * (i as f32 * 1.7 + n as f32).sin())
            .collect()
    };
    let t = sizes.map(|n| wave(n, 0.4));
    let params = Params {
        g_attn: &t[0],
        b_attn: Some(&t[1]),
        w_qkv: &t[2],
        b_qkv: Some(&t[3]),
        w_o: &t[4],
        b_o: Some(&t[5]),
        g_ffn: &t[6],
        b_ffn: Some(&t[7]),
        w_gate: None,
        b_gate: None,
        w_up: &t[8],
        b_up: Some(&t[9]),
        w_down: &t[10],
        b_down: Some(&t[11]),
    };
    let n = batch.batch * batch.len * d;
    let (mut y, mut dx, saved) = (vec![0.0; n], vec![0.0; n], &mut Saved::new());
    forward_on(arch, &shape, &batch, &params, &wave(n, 1.0), &mut y, saved);
    let mut g = sizes.map(|n| vec![0.0; n]);
    let [g0, g1, g2, g3, g4, g5, g6, g7, g8, g9, g10, g11] = &mut g;
    let grads = &mut Grads {
        g_attn: g0,
        b_attn: Some(g1),
        w_qkv: g2,
        b_qkv: Some(g3),
        w_o: g4,
        b_o: Some(g5),
        g_ffn: g6,
        b_ffn: Some(g7),
        w_gate: None,
        b_gate: None,
        w_up: g8,
        b_up: Some(g9),
        w_down: g10,
        b_down: Some(g11),
    };
    backward_on(
        arch,
        &shape,
        &batch,
        &params,
        saved,
        &wave(n, 0.5),
        &mut dx,
        grads,
    );
    [y, dx].into_iter().chain(g).flatten().collect()
}

#[test]
fn every_vector_unit_computes_the_same() {
    let best = run(Arch::new());
    let mut units = vec![Arch::Scalar];
    #[cfg(target_arch = "x86_64")]
    units.extend(pulp::x86::V3::try_new().map(Arch::V3));
    for unit in units {
        for (i, (a, b)) in best.iter().zip(run(unit)).enumerate() {
            assert!(
                (a - b).abs() < 1e-5 * a.abs().max(10.0),
                "{i}: {a} and {b} on {unit:?}"
            );
        }
    }
}
