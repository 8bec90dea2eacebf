//! The blob writer: error bounds, refused weights, a self-test that passes.

use checkpoint::quantize::{angle_steps, quantize_bias, quantize_gains, quantize_rows};
use checkpoint::{BlobError, Checkpoint, blob, score, synthetic};
use runtime::{Activation, Config, Kind, Kinds, Model, Norm, Position, Provenance};
use runtime::{Session, SplitMix64, TensorId};

const TINY: Config = Config {
    n_layer: 2,
    n_head: 2,
    n_kv_head: 1,
    d_model: 12,
    d_ff: 10,
    context_len: 8,
    vocab_size: 30,
    position: Position::Rope,
    rope_base: 100,
    norm: Norm::RmsNorm,
    activation: Activation::SwiGlu,
    tied: false,
    embed_scale: true,
    attn_bias: true,
    ff_bias: true,
    norm_bias: true,
    head_bias: true,
};

fn provenance() -> Provenance<'static> {
    Provenance {
        run: "test",
        corpus_sha256: [7; 32],
        step: 3,
        seed: 5,
        dev_f32: 1.5,
        dev_blob: f32::NAN,
    }
}

fn write(checkpoint: &Checkpoint) -> Result<blob::Blob, BlobError> {
    let weights = checkpoint.deployed();
    blob::write(&checkpoint.config, &checkpoint.vocab, weights, provenance())
}

/// Every combination of what the exporter has to treat differently.
fn shapes() -> Vec<Config> {
    let mut shapes = Vec::new();
    for position in [Position::Rope, Position::Learned, Position::Sinusoidal] {
        for activation in [Activation::SwiGlu, Activation::Gelu] {
            for flag in [false, true] {
                shapes.push(Config {
                    position,
                    activation,
                    tied: flag,
                    embed_scale: !flag,
                    attn_bias: flag,
                    ff_bias: !flag,
                    norm_bias: flag,
                    head_bias: !flag,
                    ..TINY
                });
            }
        }
    }
    shapes
}

#[test]
fn each_element_is_within_half_a_scale() {
    let mut rng = SplitMix64::new(1);
    for exponent in [-30, -6, 0, 6, 30] {
        for _ in 0..50 {
            let matrix: Vec<f32> = (0..5 * 37)
                .map(|_| (rng.next_u64() >> 40) as f32 / 16_777_216.0 - 0.5)
                .enumerate()
                // Each row is 32 times smaller than the one before.
                .map(|(index, x)| x * 2.0_f32.powi(exponent - 5 * (index / 37) as i32))
                .collect();
            let rows = quantize_rows(&matrix, 37).unwrap();
            assert!(rows.multiplier[0] >= 1 << 15);
            for (index, (x, x_q)) in matrix.iter().zip(&rows.w).enumerate() {
                let scale = rows.scale(index / 37);
                let error = (f64::from(*x) - f64::from(*x_q) * scale).abs();
                assert!(error <= scale * 0.500_001, "{x} became {x_q} * {scale}");
                assert!(*x_q > -128);
            }
            assert!(rows.w[..37].iter().any(|x_q| x_q.abs() == 127));
        }
    }
}

#[test]
fn gains_and_biases_are_within_half_a_unit() {
    let values = [1.0, -0.3, 0.001, 2.75, -3.999];
    let (gains, exponent) = quantize_gains(&values).unwrap();
    let unit = f64::from(exponent).exp2();
    assert!(unit <= 4.0 / 32_767.0 * 2.0);
    for (x, gain) in values.iter().zip(&gains) {
        assert!((f64::from(*x) - f64::from(*gain) * unit).abs() <= unit / 2.0);
    }
    assert_eq!(
        quantize_bias(&[1.0, -0.5, 1e9]).unwrap(),
        [65_536, -32_768, i32::MAX]
    );
    assert_eq!(quantize_bias(&[0.0, f32::NAN]), Err(1));
    assert_eq!(quantize_gains(&[f32::INFINITY]), Err(0));
    assert_eq!(quantize_gains(&[0.0, 0.0]).unwrap().0, [0, 0]);
}

#[test]
fn zero_row_and_extreme_rows_are_safe() {
    for (row, expected) in [
        ([0.0, -0.0, 0.0], [0, 0, 0]),
        ([1e-30, 1.0, -1e-30], [0, 127, 0]),
        ([f32::MAX, f32::MIN, 0.0], [127, -127, 0]),
    ] {
        let rows = quantize_rows(&row, 3).unwrap();
        assert_eq!(rows.w, expected);
        assert!(rows.scale(0).is_finite());
        assert_eq!(rows.multiplier == [0], expected == [0, 0, 0]);
    }
    // Below the smallest exponent of the format a row has fewer steps, never an overflow.
    let rows = quantize_rows(&[1e-40, 0.0, -1e-40], 3).unwrap();
    assert_eq!((rows.w, rows.exponent), (vec![0, 0, 0], -64));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(quantize_rows(&[0.0, bad, bad], 3), Err(1));
    }
}

#[test]
fn angles_turn_as_the_formula_says() {
    let rope = Config {
        d_model: 16,
        ..TINY
    };
    let sinusoidal = Config {
        position: Position::Sinusoidal,
        ..rope
    };
    for (config, base) in [(rope, 100.0_f64), (sinusoidal, 10_000.0)] {
        let steps = angle_steps(&config);
        assert_eq!(steps.len(), config.n_angle());
        for (i, step) in steps.iter().enumerate() {
            let radians = base.powf(-(i as f64) / config.n_angle() as f64);
            let found = f64::from(*step) / 4_294_967_296.0 * std::f64::consts::TAU;
            assert!((found - radians).abs() < 1e-9, "angle {i}");
        }
    }
}

#[test]
fn blob_of_every_shape_loads_and_passes_its_self_test() {
    for (seed, config) in shapes().into_iter().enumerate() {
        let checkpoint = synthetic::checkpoint(config, seed as u64);
        let blob = write(&checkpoint).unwrap();
        let model = Model::from_bytes(&blob.bytes).unwrap();
        assert_eq!(model.len(), blob.bytes.len());
        assert_eq!(model.config(), &config);
        assert_eq!(model.header().vocab, checkpoint.vocab);
        assert_eq!(model.header().provenance.run, "test");
        assert_eq!(model.header().golden.tokens().count(), blob::GOLDEN_LEN);
        let mut state = vec![0; config.state_words()];
        let mut session = Session::new(&model, &mut state).unwrap();
        session.self_test().unwrap();
        assert_eq!(blob.tensors.len(), config.tensors().count());
        for tensor in &blob.tensors {
            assert!(tensor.max_error.is_finite());
            assert_eq!(tensor.max_error > 0.0, tensor.kind != Kind::U32);
        }
        let vocab = checkpoint.vocabulary().unwrap();
        let bound = blob::max_len(&config, &vocab);
        assert!((blob.bytes.len()..blob.bytes.len() + 1024).contains(&bound));
    }
}

#[test]
fn same_checkpoint_gives_the_same_blob() {
    let checkpoint = synthetic::checkpoint(TINY, 1);
    assert_eq!(
        write(&checkpoint).unwrap().bytes,
        write(&checkpoint).unwrap().bytes
    );
}

#[test]
fn reencoding_changes_the_provenance_only() {
    let blob = write(&synthetic::checkpoint(TINY, 1)).unwrap().bytes;
    let model = Model::from_bytes(&blob).unwrap();
    let same = blob::reencode(&model, model.header().provenance).unwrap();
    assert_eq!(same, blob);
    let scored = Provenance {
        run: "a much longer name than before",
        dev_blob: 1.25,
        ..provenance()
    };
    let bytes = blob::reencode(&model, scored).unwrap();
    let other = Model::from_bytes(&bytes).unwrap();
    assert_eq!(other.header().provenance, scored);
    assert_eq!(other.header().golden, model.header().golden);
    assert_eq!(other.tensor_bytes(), model.tensor_bytes());
}

#[test]
fn rows_of_zeros_make_a_model_that_runs() {
    let mut checkpoint = synthetic::checkpoint(TINY, 1);
    for tensor in &mut checkpoint.ema {
        tensor.data.fill(0.0);
    }
    let blob = write(&checkpoint).unwrap();
    let model = Model::from_bytes(&blob.bytes).unwrap();
    let loss = score::in_window(&model, &[0, 1, 2, 3, 4]).unwrap();
    assert!((loss - 30.0_f64.ln()).abs() < 1e-12, "{loss}");
}

#[test]
fn weights_that_do_not_fit_are_named() {
    let good = synthetic::checkpoint(TINY, 1);
    let refused = |change: &dyn Fn(&mut Checkpoint)| {
        let mut checkpoint = good.clone();
        change(&mut checkpoint);
        write(&checkpoint).unwrap_err()
    };
    let named = |name: &str| good.ema.iter().position(|t| t.name == name).unwrap();
    for name in ["layers.1.w_up", "g_final"] {
        let index = named(name);
        let error = refused(&|checkpoint| checkpoint.ema[index].data[5] = f32::NAN);
        let BlobError::NotFinite {
            name: found,
            index: element,
            ..
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((found.as_str(), element), (name, 5));
    }
    let index = named("layers.0.w_qkv");
    let error = refused(&|checkpoint| checkpoint.ema[index].shape.reverse());
    assert!(matches!(error, BlobError::Shape { name, .. } if name == "layers.0.w_qkv"));
    let error = refused(&|checkpoint| drop(checkpoint.ema.remove(index)));
    assert_eq!(error, BlobError::Missing("layers.0.w_qkv".to_string()));
    let error = refused(&|checkpoint| checkpoint.ema[index].name = "w_extra".to_string());
    assert_eq!(error, BlobError::Missing("layers.0.w_qkv".to_string()));
    let error = refused(&|checkpoint| checkpoint.ema.push(checkpoint.weights[index].clone()));
    assert_eq!(error, BlobError::Unexpected("layers.0.w_qkv".to_string()));
    let error = refused(&|checkpoint| checkpoint.vocab.pop().map(drop).unwrap());
    assert!(matches!(error, BlobError::Load(_)), "{error}");
}

/// Runs the model that these changes of a checkpoint give, and returns its last logits.
fn logits_of(kinds: Kinds, change: impl Fn(&str, &mut [f32])) -> Vec<i32> {
    let config = Config {
        d_model: 16,
        d_ff: 24,
        ..TINY
    };
    let mut checkpoint = synthetic::checkpoint(config, 3);
    for tensor in checkpoint.ema.iter_mut().chain(&mut checkpoint.weights) {
        // The name without its layer.
        let name = tensor.name.rsplit('.').next().unwrap_or_default();
        change(name, &mut tensor.data);
    }
    let weights = checkpoint.deployed();
    let blob = blob::write_as(&config, kinds, &checkpoint.vocab, weights, provenance()).unwrap();
    let model = Model::from_bytes(&blob.bytes).unwrap();
    let mut state = vec![0; model.state_words()];
    let mut session = Session::new(&model, &mut state).unwrap();
    session.self_test().unwrap();
    for token in 0..11 {
        session.feed(token).unwrap();
    }
    session.logits().to_vec()
}

fn every_kind() -> [Kinds; 2] {
    let w4 = Kinds::W8.with(TensorId::WUp, Kind::W4 { group: 8 });
    let w4 = w4.and_then(|kinds| kinds.with(TensorId::WOut, Kind::W4 { group: 8 }));
    [Kinds::W8, w4.unwrap()]
}

#[test]
fn an_all_zero_row_gives_zero_and_an_all_zero_group_changes_no_other() {
    for kinds in every_kind() {
        let before = logits_of(kinds, |_, _| {});
        // The second row of the head; the first group of its third row.
        let after = logits_of(kinds, |name, data| match name {
            "w_out" => {
                data[16..32].fill(0.0);
                data[32..40].fill(0.0);
            }
            "b_out" => data[1] = 0.0,
            _ => {}
        });
        assert_eq!(after[1], 0);
        assert_ne!(after[2], before[2]);
        assert_eq!((after[0], &after[3..]), (before[0], &before[3..]));
        // A matrix of zeros alone leaves the biases.
        let after = logits_of(kinds, |name, data| match name {
            "w_out" => data.fill(0.0),
            "b_out" => data.fill(0.25),
            _ => {}
        });
        assert!(after.iter().all(|&logit| logit == 1 << 14), "{after:?}");
    }
}

#[test]
fn a_denormal_scale_counts_as_zero() {
    for kinds in every_kind() {
        let zeros = logits_of(kinds, |name, data| match name {
            "w_out" | "w_up" => data.fill(0.0),
            _ => {}
        });
        for scale in [1e-38, f32::MIN_POSITIVE / 8.0, f32::from_bits(1)] {
            let found = logits_of(kinds, |name, data| match name {
                "w_out" | "w_up" => data.iter_mut().for_each(|x| *x *= scale),
                _ => {}
            });
            assert_eq!(found, zeros, "{scale}");
        }
    }
}

#[test]
fn a_saturating_activation_stays_at_its_end() {
    for kinds in every_kind() {
        // 2^15 is the end of the activations; the head's bias adds to it.
        for (scale, end) in [(1e6, i32::MAX), (-1e6, i32::MIN)] {
            let found = logits_of(kinds, |name, data| match name {
                "w_out" => data.fill(0.0),
                "b_out" => data.fill(scale),
                // The residual stream, hidden layer and values far beyond their ends.
                "w_embed" | "w_up" | "w_down" | "w_qkv" | "w_o" => {
                    data.iter_mut().for_each(|x| *x *= 1e6);
                }
                _ => {}
            });
            assert!(found.iter().all(|&logit| logit == end), "{found:?}");
        }
    }
}
