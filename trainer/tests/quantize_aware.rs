//! Training that knows its rounding: the blob's own, resumable, and it learns.

mod common;

use burn_flex::{Flex, FlexDevice};
use checkpoint::{Checkpoint, NamedTensor, blob};
use common::{bits, scratch, settings, steps, trainer};
use gpt::evaluation::{Evaluator, host};
use gpt::optimizer;
use gpt::rounding::Rounding;
use gpt::shards::Shards;
use runtime::{Kind, Model, TensorSpec};

/// Reads the signed little-endian integer of `len` bytes at `place` of an array of such.
fn integer(bytes: &[u8], len: usize, place: usize) -> f64 {
    let mut word = [0; 4];
    word[4 - len..].copy_from_slice(&bytes[place * len..][..len]);
    f64::from(i32::from_le_bytes(word) >> (32 - 8 * len))
}

/// Reads the values of a tensor out of the bytes of a blob in the plain layout.
fn read(spec: &TensorSpec, section: &[u8]) -> Vec<f32> {
    let bytes = &section[spec.offset as usize..][..spec.len as usize];
    let (rows, cols) = (spec.rows as usize, spec.cols as usize);
    let at = spec.multiplier_offset() as usize;
    let power = integer(&bytes[bytes.len() - 4..], 4, 0).exp2();
    // the multipliers of rows have no sign
    let unit = |row: usize| (65_536.0 + integer(&bytes[at..], 2, row)) % 65_536.0 * power;
    let value = |place: usize| {
        let (row, col) = (place / cols, place % cols);
        match spec.kind {
            Kind::W8 => integer(bytes, 1, place) * unit(row),
            Kind::W4 { group } => {
                let byte = bytes[row * 4 * cols.div_ceil(8) + col / 2];
                let nibble = byte << (4 * (1 - col % 2));
                let groups = &bytes[at + (2 * rows).next_multiple_of(4)..];
                let group_index = row * cols.div_ceil(group as usize) + col / group as usize;
                let scale = integer(groups, 2, group_index) * unit(row);
                f64::from(nibble.cast_signed() >> 4) * scale
            }
            Kind::G16 => integer(bytes, 2, place) * power,
            Kind::I32 => integer(bytes, 4, place) / 65_536.0,
            kind => panic!("{spec} is {kind:?}"),
        }
    };
    (0..rows * cols).map(|place| value(place) as f32).collect()
}

fn exported(
    settings: &gpt::settings::Settings,
    weights: &[NamedTensor],
    from: &Checkpoint,
) -> Vec<f32> {
    let blob = blob::write_as(
        &settings.model,
        settings.kinds(),
        &from.vocab,
        weights,
        from.provenance(),
    )
    .unwrap();
    let model = Model::from_bytes(&blob.bytes).unwrap();
    weights
        .iter()
        .flat_map(|tensor| {
            let spec = model.tensors().find(|spec| spec.to_string() == tensor.name);
            read(&spec.unwrap(), model.tensor_bytes())
        })
        .collect()
}

#[test]
fn the_forward_pass_sees_what_the_blob_holds() {
    for shape in common::SHAPES {
        let fields = [&[("quantize_aware", "0.5")], *shape].concat();
        let settings = settings(&fields);
        let mut run = trainer(settings, 2);
        steps(&mut run, 5);
        let from = run.to_checkpoint("aware", false);
        let shards = Shards::new(2, 2).unwrap();
        let rounding = Rounding::new(&run.settings, &run.entries);
        let seen = rounding.apply(&shards, &host(run.state.weights.clone()));
        let held = exported(&run.settings, &from.weights, &from);
        assert_ne!(seen, host(run.state.weights.clone()));
        let evaluator = Evaluator::<Flex>::new(run.settings.model, &FlexDevice);
        let [seen, held] = [seen, held].map(|flat| {
            let weights = optimizer::upload(flat, &FlexDevice);
            evaluator.nll(&shards, &weights, &run.text.val)
        });
        assert_eq!(seen, held, "{fields:?}");
    }
}

#[test]
fn the_first_rounded_step_is_the_one_that_the_share_says() {
    let aware = settings(&[("quantize_aware", "0.25"), ("steps", "40")]);
    assert_eq!(aware.aware_from(), 30);
    let mut one = trainer(aware, 1);
    let mut other = trainer(settings(&[("steps", "40")]), 1);
    steps(&mut one, 30);
    steps(&mut other, 30);
    assert_eq!(bits(&one), bits(&other));
    steps(&mut one, 1);
    steps(&mut other, 1);
    assert_ne!(bits(&one), bits(&other));
}

#[test]
fn a_run_resumed_within_the_phase_equals_an_uninterrupted_one() {
    let settings = settings(&[("quantize_aware", "0.5"), ("steps", "60")]);
    let mut whole = trainer(settings, 2);
    steps(&mut whole, 60);
    let mut first = trainer(settings, 1);
    steps(&mut first, 40);
    first.evaluate();
    let path = scratch("aware").join("last.ckpt");
    first.to_checkpoint("aware", true).save(&path).unwrap();
    let mut second = trainer(settings, 2);
    second.restore(&Checkpoint::load(&path).unwrap()).unwrap();
    assert_eq!(second.record.best_dev, first.record.best_dev);
    steps(&mut second, 20);
    assert_eq!(bits(&second), bits(&whole));
    whole.evaluate();
    second.evaluate();
    assert_eq!(
        whole.record.dev_deployed.to_bits(),
        second.record.dev_deployed.to_bits()
    );
}

#[test]
fn rounded_weights_learn_and_lose_less_than_those_rounded_afterwards() {
    let loss = |share: &str| {
        let fields = [
            ("quantize_aware", share),
            ("steps", "300"),
            ("dropout", "0"),
        ];
        let settings = settings(&fields);
        let mut run = trainer(settings, 2);
        steps(&mut run, 150);
        run.evaluate();
        let half = run.record.dev_deployed;
        steps(&mut run, 150);
        run.evaluate();
        assert!(run.record.dev_deployed < half, "{half} at first");
        (run.record.dev_ema, run.record.dev_deployed)
    };
    // a share too small for a step scores the rounded average and trains as if there were none
    let (_, without) = loss("0.001");
    let (_, with) = loss("0.5");
    assert!(with < without, "{with} with the phase, {without} without");
}

#[test]
fn a_share_is_a_share() {
    let error = settings(&[("quantize_aware", "1.5")]).validate();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("quantize_aware is 1.5"), "{error}");
}
