//! Training windows and learning rate.

mod common;

use gpt::batch::Batches;
use gpt::optimizer::learning_rate;

#[test]
fn an_epoch_uses_every_window_once() {
    let tokens: Vec<u16> = (0..1_000).collect();
    let mut batches = Batches::new(tokens, 10, 9, 1).unwrap();
    let windows = batches.windows();
    assert_eq!(windows, 99);
    let mut starts: Vec<i32> = (0..11)
        .flat_map(|step| {
            batches
                .get(step)
                .tokens
                .into_iter()
                .step_by(10)
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(starts.len(), windows);
    starts.sort_unstable();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 10));
    assert!(starts[0] < 10);
}

#[test]
fn targets_follow_their_tokens() {
    let tokens: Vec<u16> = (0..1_000).collect();
    let mut batches = Batches::new(tokens, 16, 4, 3).unwrap();
    for step in [0, 7, 1_000_000] {
        let batch = batches.get(step);
        assert_eq!(batch.tokens.len(), 64);
        assert!(
            batch
                .tokens
                .iter()
                .zip(&batch.targets)
                .all(|(a, b)| a + 1 == *b)
        );
    }
}

#[test]
fn a_batch_is_a_function_of_its_step() {
    let tokens: Vec<u16> = (0..1_000).collect();
    let mut forwards = Batches::new(tokens.clone(), 16, 4, 3).unwrap();
    let mut backwards = Batches::new(tokens, 16, 4, 3).unwrap();
    let ahead: Vec<_> = (0..50).map(|step| forwards.get(step)).collect();
    for step in (0..50).rev() {
        assert_eq!(backwards.get(step), ahead[step as usize]);
    }
}

#[test]
fn the_learning_rate_warms_up_and_falls_to_its_end() {
    let settings = common::settings(&[
        ("steps", "1000"),
        ("warmup", "100"),
        ("lr", "1"),
        ("min_lr_ratio", "0.01"),
    ]);
    let lr = |step| learning_rate(&settings, step);
    assert!(lr(0) > 0.0 && lr(0) < 0.02);
    assert!((lr(99) - 100.0 / 101.0).abs() < 1e-12);
    assert!((lr(100) - 1.0).abs() < 1e-12);
    assert!((1..100).all(|step| lr(step) > lr(step - 1)));
    assert!((101..1_000).all(|step| lr(step) < lr(step - 1)));
    assert!((lr(1_000) - 0.01).abs() < 1e-12);
}
