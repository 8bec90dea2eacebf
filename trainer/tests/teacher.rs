//! Distillation: teachers are asked rightly, refused when they do not fit, and change the run.

mod common;

use burn::tensor::Tensor;
use burn_flex::{Flex, FlexDevice};
use gpt::evaluation::{Evaluator, host};
use gpt::optimizer;
use gpt::shards::Shards;
use gpt::teacher::soft_targets;

fn softmax(logits: &[f32]) -> Vec<f32> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exps: Vec<f32> = logits.iter().map(|l| (l - max).exp()).collect();
    let sum: f32 = exps.iter().sum();
    exps.iter().map(|e| e / sum).collect()
}

#[test]
fn soft_targets_are_the_mean_of_the_teachers_in_their_windows() {
    let mut first = common::trainer(common::settings(&[]), 1);
    common::steps(&mut first, 12);
    let wider = common::settings(&[("context_len", "24"), ("train_len", "24"), ("seed", "5")]);
    let mut second = common::trainer(wider, 1);
    common::steps(&mut second, 9);
    let teachers = [
        first.to_checkpoint("a", false),
        second.to_checkpoint("b", false),
    ];
    let shards = Shards::new(2, 2).unwrap();
    let device = FlexDevice;
    let soft =
        soft_targets::<Flex>(&teachers, &first.text, &first.settings, &shards, &device).unwrap();
    let text = &first.text.train;
    assert_eq!(soft.len(), text.len() - 1);

    let vocab_size = first.text.vocab.len();
    let mut row = vec![0.0; vocab_size];
    // the first places, one in the middle, the first of a chunk's kind, the last
    for place in [0, 1, 7, 8, 23, 24, 1_000, 9_999, text.len() - 2] {
        let mut want = vec![0.0_f32; vocab_size];
        for teacher in &teachers {
            let context_len = usize::from(teacher.config.context_len);
            let half = context_len / 2;
            let end = ((place / half + 1) * half).min(text.len() - 1);
            let window = &text[end.saturating_sub(context_len)..end];
            let flat: Vec<f32> = teacher.ema.iter().flat_map(|t| t.data.clone()).collect();
            let weights: Tensor<Flex, 1> = optimizer::upload(flat, &device);
            let logits = Evaluator::<Flex>::new(teacher.config, &device).logits(&weights, window);
            let at = window.len() - (end - place);
            let probs = softmax(&logits[at * vocab_size..(at + 1) * vocab_size]);
            want.iter_mut().zip(probs).for_each(|(w, p)| *w += p / 2.0);
        }
        // what is not among the likeliest is left out of both
        soft.write(place, 1.0, &mut row);
        let kept: f32 = want
            .iter()
            .zip(&row)
            .filter(|(_, r)| **r > 0.0)
            .map(|(w, _)| w)
            .sum();
        for (token, (got, want)) in row.iter().zip(&want).enumerate() {
            let want = if *got > 0.0 { want / kept } else { 0.0 };
            assert!(
                (got - want).abs() < 1e-4,
                "{token} after {place}: {got}, not {want}"
            );
        }
    }
}

#[test]
fn a_teacher_changes_the_run_and_its_folder_brings_it_back() {
    let settings = common::settings(&[("teacher_share", "0.7")]);
    let mut teacher = common::trainer(settings, 1);
    common::steps(&mut teacher, 20);
    let teachers = [teacher.to_checkpoint("teacher", false)];
    let file = common::scratch("teacher").join("teacher.bin");
    let _ = std::fs::remove_file(&file);

    let mut alone = common::trainer(settings, 1);
    common::steps(&mut alone, 10);
    let mut taught = common::trainer(settings, 2);
    taught.learn_from(&teachers, &file).unwrap();
    common::steps(&mut taught, 10);
    assert_ne!(
        host(alone.state.weights.clone()),
        host(taught.state.weights.clone())
    );

    let mut begun = common::trainer(settings, 1);
    begun.learn_from(&teachers, &file).unwrap();
    common::steps(&mut begun, 4);
    let mut resumed = common::trainer(settings, 1);
    resumed
        .restore(&begun.to_checkpoint("begun", true))
        .unwrap();
    resumed.learn_from(&[], &file).unwrap();
    common::steps(&mut resumed, 6);
    assert_eq!(common::bits(&resumed), common::bits(&taught));
    std::fs::remove_file(file).unwrap();
}

#[test]
fn teachers_that_do_not_fit_are_refused() {
    let trainer = common::trainer(common::settings(&[]), 1);
    let shards = Shards::new(1, 1).unwrap();
    let refuse = |teacher| {
        soft_targets::<Flex>(
            &[teacher],
            &trainer.text,
            &trainer.settings,
            &shards,
            &FlexDevice,
        )
        .unwrap_err()
        .to_string()
    };
    let fits = trainer.to_checkpoint("dunce", false);

    let mut strange = fits.clone();
    strange.vocab.pop();
    let message = refuse(strange);
    assert!(
        message.contains("dunce") && message.contains("vocabulary"),
        "{message}"
    );

    let mut seen = fits;
    seen.settings = common::settings(&[("train_on_dev", "true")]).to_json();
    let message = refuse(seen);
    assert!(
        message.contains("dev") && message.contains("--train-on-dev"),
        "{message}"
    );
}
