//! The head against plain f64: loss, and its gradients in closed form and by central differences.

#[expect(dead_code, reason = "the f64 block serves the other test files")]
mod reference;

use block::{HeadBuffers, HeadGrads, HeadParams, Targets, head_loss, head_loss_and_grads};
use reference::{Random, linear, norm};
use runtime::Norm;

/// Sum of the cross-entropies; `t` is gain, norm bias, matrix and bias.
fn loss(kind: Norm, t: &[Vec<f64>; 4], x: &[f64], targets: &[u16]) -> Vec<f64> {
    let tokens = x.chunks_exact(t[0].len()).zip(targets);
    let one = |(x, &target): (&[f64], &u16)| {
        let logits = linear(&t[2], &norm(kind, x, &t[0], &t[1]), &t[3]);
        let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|l| (l - max).exp()).sum();
        sum.ln() + max - logits[usize::from(target)]
    };
    tokens.map(one).collect()
}

fn check(kind: Norm, d: usize, vocab_size: usize, n: usize, norm_bias: bool, head_bias: bool) {
    let mut random = Random(5);
    let sizes = [
        d,
        if norm_bias { d } else { 0 },
        vocab_size * d,
        if head_bias { vocab_size } else { 0 },
    ];
    let t: [Vec<f64>; 4] = core::array::from_fn(|i| random.vector(sizes[i], 1.0));
    let x = random.vector(n * d, 2.0);
    let targets: Vec<u16> = (0..n).map(|i| (i * 7 % vocab_size) as u16).collect();
    let f32s: [Vec<f32>; 4] = core::array::from_fn(|i| t[i].iter().map(|&v| v as f32).collect());
    let x32: Vec<f32> = x.iter().map(|&v| v as f32).collect();
    let params = HeadParams {
        norm: kind,
        g_final: &f32s[0],
        b_final: norm_bias.then_some(&f32s[1]),
        w_out: &f32s[2],
        b_out: head_bias.then_some(&f32s[3]),
    };
    let mut grads: [Vec<f32>; 4] = core::array::from_fn(|i| vec![0.0; sizes[i]]);
    let [g_final, b_final, w_out, b_out] = &mut grads;
    let mut places = HeadGrads {
        g_final,
        b_final: norm_bias.then_some(b_final),
        w_out,
        b_out: head_bias.then_some(b_out),
    };
    let mut dx = vec![f32::NAN; n * d];
    let scale = 1.0 / n as f32;
    let buffers = &mut HeadBuffers::new();
    let total = head_loss_and_grads(
        &params,
        &x32,
        targets[..].into(),
        scale,
        &mut dx,
        &mut places,
        buffers,
    );
    let mut losses = vec![f32::NAN; n];
    let same = head_loss(&params, &x32, &targets, Some(&mut losses), buffers);
    assert_eq!(total.to_bits(), same.to_bits());
    let want = loss(kind, &t, &x, &targets);
    assert!((total - want.iter().sum::<f64>()).abs() < 1e-5 * n as f64);
    for (loss, want) in losses.iter().zip(&want) {
        assert!(
            (f64::from(*loss) - want).abs() < 1e-5,
            "loss {loss}, not {want}"
        );
    }

    let step = 1e-5;
    let mean =
        |t: &[Vec<f64>; 4], x: &[f64]| loss(kind, t, x, &targets).iter().sum::<f64>() / n as f64;
    for (tensor, grads) in grads.iter().enumerate() {
        for i in (0..grads.len()).step_by(grads.len().div_ceil(40).max(1)) {
            let mut moved = t.clone();
            moved[tensor][i] += step;
            let above = mean(&moved, &x);
            moved[tensor][i] -= 2.0 * step;
            let want = (above - mean(&moved, &x)) / (2.0 * step);
            let error = (f64::from(grads[i]) - want).abs();
            assert!(
                error < 2e-6,
                "tensor {tensor}[{i}] is {}, not {want}",
                grads[i]
            );
        }
    }
    for i in (0..n * d).step_by((n * d).div_ceil(40)) {
        let mut moved = x.clone();
        moved[i] += step;
        let above = mean(&t, &moved);
        moved[i] -= 2.0 * step;
        let want = (above - mean(&t, &moved)) / (2.0 * step);
        assert!(
            (f64::from(dx[i]) - want).abs() < 2e-6,
            "dx[{i}] is {}, not {want}",
            dx[i]
        );
    }
}

#[test]
fn loss_and_gradients_of_every_head() {
    for kind in [Norm::LayerNorm, Norm::RmsNorm] {
        for (norm_bias, head_bias) in [(false, false), (true, false), (false, true), (true, true)] {
            check(kind, 20, 65, 40, norm_bias, head_bias);
        }
    }
    check(Norm::LayerNorm, 40, 256, 32, true, true);
    check(Norm::LayerNorm, 3, 2, 1, true, true);
}

#[test]
fn soft_targets_move_the_gradients_and_not_the_loss() {
    let (d, vocab_size, n, scale) = (12, 9, 37, 0.25);
    let mut random = Random(8);
    let mut vector = |len: usize| -> Vec<f32> {
        let values = random.vector(len, 1.0);
        values.into_iter().map(|v| v as f32).collect()
    };
    let (g_final, w_out, x) = (vector(d), vector(vocab_size * d), vector(n * d));
    let params = HeadParams {
        norm: Norm::RmsNorm,
        g_final: &g_final,
        b_final: None,
        w_out: &w_out,
        b_out: None,
    };
    let run = |tokens: &[u16], soft: Option<&[f32]>| {
        let (mut dx, mut dgain) = (vec![0.0; n * d], vec![0.0; d]);
        let mut dw = vec![0.0; vocab_size * d];
        let mut grads = HeadGrads {
            g_final: &mut dgain,
            b_final: None,
            w_out: &mut dw,
            b_out: None,
        };
        let targets = Targets { tokens, soft };
        let buffers = &mut HeadBuffers::new();
        let loss = head_loss_and_grads(&params, &x, targets, scale, &mut dx, &mut grads, buffers);
        (loss, [dx, dgain, dw].concat())
    };
    let tokens: Vec<u16> = (0..n).map(|i| (i * 5 % vocab_size) as u16).collect();
    let others: Vec<u16> = tokens.iter().map(|t| (t + 2) % vocab_size as u16).collect();
    // a quarter on the text's token and the rest on another: so are the gradients
    let mut soft = vec![0.0; n * vocab_size];
    for (row, (&token, &other)) in tokens.iter().zip(&others).enumerate() {
        soft[row * vocab_size + usize::from(token)] = 0.25;
        soft[row * vocab_size + usize::from(other)] = 0.75;
    }
    let (hard, on_token) = run(&tokens, None);
    let (_, on_other) = run(&others, None);
    let (loss, mixed) = run(&tokens, Some(&soft));
    assert_eq!(loss.to_bits(), hard.to_bits());
    for (i, got) in mixed.iter().enumerate() {
        let want = 0.25 * on_token[i] + 0.75 * on_other[i];
        assert!(
            (got - want).abs() < 1e-5,
            "gradient {i} is {got}, not {want}"
        );
    }
}
