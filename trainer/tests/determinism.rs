//! One seed, one result: whatever the threads, and whether or not the run was interrupted.

mod common;

use checkpoint::Checkpoint;
use common::{bits, scratch, settings, steps, trainer};

#[test]
fn threads_do_not_change_a_bit() {
    let mut one = trainer(settings(&[]), 1);
    let mut two = trainer(settings(&[]), 2);
    steps(&mut one, 40);
    steps(&mut two, 40);
    assert_eq!(bits(&one), bits(&two));
    assert_eq!(one.evaluate(), two.evaluate());
    assert_eq!(one.record.dev_ema.to_bits(), two.record.dev_ema.to_bits());
}

#[test]
fn seeds_change_weights_order_and_dropout() {
    let mut one = trainer(settings(&[]), 1);
    let mut other = trainer(settings(&[("seed", "2")]), 1);
    steps(&mut one, 1);
    steps(&mut other, 1);
    assert_ne!(bits(&one), bits(&other));
}

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    let settings = settings(&[("steps", "200")]);
    let mut whole = trainer(settings, 2);
    steps(&mut whole, 200);

    let mut first = trainer(settings, 2);
    steps(&mut first, 100);
    first.evaluate();
    let path = scratch("resume").join("last.ckpt");
    first.to_checkpoint("resume", true).save(&path).unwrap();

    let loaded = Checkpoint::load(&path).unwrap();
    let mut second = trainer(settings, 1);
    second.restore(&loaded).unwrap();
    assert_eq!(second.step, 100);
    assert_eq!(second.record.best_dev, first.record.best_dev);
    steps(&mut second, 100);
    assert_eq!(bits(&second), bits(&whole));
}

#[test]
fn a_checkpoint_without_moments_does_not_resume() {
    let mut run = trainer(settings(&[]), 1);
    let best = run.to_checkpoint("best", false);
    let error = run.restore(&best).unwrap_err().to_string();
    assert!(error.contains("last.ckpt"), "{error}");
}

#[test]
fn a_gradient_that_is_not_finite_stops_before_the_weights_change() {
    let mut run = trainer(settings(&[]), 1);
    steps(&mut run, 3);
    let mut broken = run.to_checkpoint("broken", true);
    broken.weights[3].data[0] = f32::NAN;
    let name = broken.weights[3].name.clone();
    run.restore(&broken).unwrap();
    let before = bits(&run);
    let error = run.step().unwrap_err().to_string();
    assert!(error.contains(&name), "{error}");
    assert_eq!(bits(&run), before);
    assert_eq!(run.step, 3);
}
