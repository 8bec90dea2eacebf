//! Gradients: finite, those of the plain path, clipped by their global norm.

mod common;

use burn::tensor::{Tensor, TensorData};
use burn_autodiff::Autodiff;
use burn_flex::{Flex, FlexDevice};
use gpt::backend::TrainBackend;
use gpt::evaluation::host;
use gpt::model::Gpt;
use gpt::ops::{Targets, plain_head_loss, plain_layer};
use gpt::precision::{self, Precision};
use gpt::settings::Settings;
use gpt::tables::Tables;
use gpt::{init, optimizer, params};

type Train = Autodiff<Flex>;

const ROWS: usize = 2;

/// How a block and the loss are computed.
#[derive(Clone, Copy, PartialEq)]
enum Path {
    Fused,
    Plain(Precision),
    /// Plain in f32, of weights that are rounded.
    Rounded(Precision),
}

/// Loss and gradients of random rows, with every `w_o` and `w_down` away from zero.
fn loss_and_grads(
    settings: &Settings,
    dropout: Option<block::Dropout>,
    soft: bool,
    path: Path,
) -> (f32, Vec<f32>) {
    let (config, len) = (settings.model, settings.train_len);
    let device = FlexDevice;
    let skeleton = Gpt::<Train>::zeroed(&config, &device);
    let entries = params::entries(&skeleton);
    let weights = init::weights(init::Init::Identity, &config, &entries, 1)
        .into_iter()
        .enumerate()
        .map(|(i, w)| w + 0.1 * (i as f32).sin())
        .collect();
    let mut weights = optimizer::upload::<Flex>(weights, &device);
    if let Path::Plain(precision) = path {
        weights = precision::to(weights, precision.dtype());
    }
    if let Path::Rounded(precision) = path {
        weights = precision::to(weights, precision.dtype());
        weights = precision::to(weights, Precision::F32.dtype());
    }
    let leaf = Tensor::from_inner(weights);
    let model = params::with_values(skeleton, leaf);
    let tables = Tables::new(&config, len, &device);
    let token = |i: usize| (i * i + 3 * i) as i32 % i32::from(config.vocab_size);
    let rows = |shift: usize| {
        let values: Vec<i32> = (shift..ROWS * len + shift).map(token).collect();
        Tensor::from_data(TensorData::new(values, [ROWS, len]), &device)
    };
    let vocab_size = usize::from(config.vocab_size);
    let soft = soft.then(|| {
        // rows that sum to 1, each with another order of sizes
        let total = (vocab_size * (vocab_size + 1) / 2) as f32;
        let part = |i: usize| ((i % vocab_size + i / vocab_size) % vocab_size + 1) as f32 / total;
        let values: Vec<f32> = (0..ROWS * len * vocab_size).map(part).collect();
        Tensor::from_data(TensorData::new(values, [ROWS, len, vocab_size]), &device)
    });
    let targets = Targets {
        tokens: rows(1),
        soft,
    };
    let loss = if path == Path::Fused {
        model.loss(&config, &tables, (rows(0), targets), 0.01, dropout)
    } else {
        let mut x = model.embed(&config, &tables, rows(0));
        for (index, layer) in model.layers.iter().enumerate() {
            let dropout = dropout.map(|dropout| block::Dropout {
                layer: index as u32,
                ..dropout
            });
            x = plain_layer(layer, &config, &tables, x, dropout);
        }
        plain_head_loss(&model, &config, x, targets) * 0.01
    };
    let grads = loss.backward();
    let value = host(loss.inner())[0];
    (value, host(params::gradients(&model, &grads)))
}

fn assert_close(fused: (f32, Vec<f32>), plain: (f32, Vec<f32>)) {
    assert!(
        (fused.0 - plain.0).abs() <= 1e-5 * plain.0,
        "{} {}",
        fused.0,
        plain.0
    );
    let largest = plain.1.iter().fold(0.0_f32, |max, g| max.max(g.abs()));
    let worst = fused
        .1
        .iter()
        .zip(&plain.1)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0_f32, f32::max);
    // sums of a few hundred products in another order: about 1e-6 of the largest
    assert!(worst <= 2e-5 * largest, "{worst} of {largest}");
}

#[test]
fn fused_nodes_equal_plain_operations() {
    for shape in common::SHAPES {
        let settings = common::settings(shape);
        assert_close(
            loss_and_grads(&settings, None, false, Path::Fused),
            loss_and_grads(&settings, None, false, Path::Plain(Precision::F32)),
        );
    }
}

#[test]
fn fused_soft_targets_equal_plain_ones() {
    for shape in common::SHAPES {
        let settings = common::settings(shape);
        let fused = loss_and_grads(&settings, None, true, Path::Fused);
        let hard = loss_and_grads(&settings, None, false, Path::Fused);
        assert_eq!(fused.0, hard.0);
        assert_ne!(fused.1, hard.1);
        assert_close(
            fused,
            loss_and_grads(&settings, None, true, Path::Plain(Precision::F32)),
        );
    }
}

#[test]
fn fused_dropout_equals_plain_dropout() {
    let dropout = block::Dropout {
        rate: 0.3,
        seed: 5,
        step: 7,
        layer: 0,
        first_sequence: 2,
    };
    for shape in common::SHAPES {
        let settings = common::settings(shape);
        let fused = loss_and_grads(&settings, Some(dropout), false, Path::Fused);
        assert_ne!(
            fused.0,
            loss_and_grads(&settings, None, false, Path::Fused).0
        );
        assert_close(
            fused,
            loss_and_grads(&settings, Some(dropout), false, Path::Plain(Precision::F32)),
        );
    }
}

#[test]
fn gradients_of_every_tensor_are_finite_and_used() {
    for shape in common::SHAPES {
        let mut trainer = common::trainer(common::settings(shape), 1);
        // from the second step on no output projection is zero
        common::steps(&mut trainer, 2);
        let (loss, grads) = trainer.gradients();
        assert!(loss.is_finite());
        let grads = host(grads);
        for entry in &trainer.entries {
            let part = &grads[entry.range()];
            assert!(part.iter().all(|g| g.is_finite()), "{}", entry.name);
            assert!(
                part.iter().any(|&g| g != 0.0),
                "{} has no gradient",
                entry.name
            );
        }
    }
}

#[test]
fn clipping_is_by_the_global_norm() {
    let device = FlexDevice;
    let grads = optimizer::upload::<Flex>(vec![3.0, 0.0, 4.0, 12.0], &device);
    let norm = optimizer::global_norm(&grads);
    assert_eq!(host(norm.clone()), [13.0]);
    let clipped = host(optimizer::clip(grads.clone(), norm.clone(), 1.0));
    let length = clipped.iter().map(|g| g * g).sum::<f32>().sqrt();
    assert!((length - 1.0).abs() < 1e-5);
    assert!((clipped[3] / clipped[0] - 4.0).abs() < 1e-5);
    // below the limit nothing changes
    assert_eq!(
        host(optimizer::clip(grads.clone(), norm, 20.0)),
        host(grads)
    );
}

#[test]
fn half_precision_stays_near_full_precision() {
    // how far the direction of a gradient turns away: half the square of the angle
    let turn = |a: &[f32], b: &[f32]| {
        let product = |(&a, &b): (&f32, &f32)| f64::from(a) * f64::from(b);
        let dot = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(product).sum() };
        1.0 - dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    };
    let formats = [Precision::Bf16, Precision::F16];
    for (shape, format) in common::SHAPES
        .iter()
        .flat_map(|&shape| formats.map(|format| (shape, format)))
    {
        let settings = common::settings(shape);
        let run = |path| loss_and_grads(&settings, None, false, path);
        let full = run(Path::Plain(Precision::F32));
        let half = run(Path::Plain(format));
        let rounded = run(Path::Rounded(format));
        assert_ne!(full.0, half.0);
        assert!(
            (full.0 - half.0).abs() < 0.01 * full.0,
            "{} {}",
            full.0,
            half.0
        );
        // Rounding the weights turns the gradient by what this model is sensitive to; activations
        // and gradients are rounded as coarsely at some twenty places, and the squares add up.
        let (allowed, found) = (20.0 * turn(&full.1, &rounded.1), turn(&full.1, &half.1));
        assert!(found < allowed, "{found}, allowed are {allowed}");
    }
}

#[test]
fn the_fused_update_equals_the_plain_one() {
    let settings = common::settings(&[("clip", "0.5"), ("weight_decay", "0.1")]);
    let mut trainer = common::trainer(settings, 1);
    common::steps(&mut trainer, 3);
    let (_, grads) = trainer.gradients();
    let norm = optimizer::global_norm(&grads);
    assert!(host(norm.clone())[0] > 0.5, "clipping must act");
    let (mut plain, mut fused) = (trainer.state.clone(), trainer.state.clone());
    plain.update(grads.clone(), norm, &trainer.settings, 3);
    let norm = Flex::global_norm(&grads);
    Flex::update(&mut fused, grads, norm, &trainer.settings, 3);
    let before = host(trainer.state.weights.clone());
    for (name, a, b) in [
        ("weights", plain.weights, fused.weights),
        ("ema", plain.ema, fused.ema),
        ("moment_1", plain.moment_1, fused.moment_1),
        ("moment_2", plain.moment_2, fused.moment_2),
    ] {
        for (a, b) in host(a).into_iter().zip(host(b)) {
            assert!((a - b).abs() <= 1e-6 * a.abs().max(0.1), "{name}: {a} {b}");
        }
    }
    // what another holder of the vectors sees is left alone
    assert_eq!(host(trainer.state.weights.clone()), before);
}
