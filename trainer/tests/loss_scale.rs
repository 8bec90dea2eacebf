//! Training in `f16`: the loss is scaled, steps that overflow are left out, weights stay `f32`.

mod common;

use burn_flex::{Flex, FlexDevice};
use gpt::evaluation::host;
use gpt::optimizer;
use gpt::precision::LossScale;
use gpt::training::Trainer;

fn run(precision: &str) -> Trainer<Flex> {
    common::trainer(common::settings(&[("precision", precision)]), 1)
}

#[test]
fn training_in_f16_follows_training_in_f32() {
    let (mut half, mut full) = (run("f16"), run("f32"));
    let mut differs = false;
    for step in 0..20 {
        let (a, b) = (half.step().unwrap(), full.step().unwrap());
        assert!(!a.overflow, "step {step}");
        assert!(
            (a.loss - b.loss).abs() < 0.01 * b.loss,
            "step {step}: {} {}",
            a.loss,
            b.loss
        );
        differs |= a.loss.to_bits() != b.loss.to_bits();
    }
    assert!(differs, "f16 must have been used");
}

#[test]
fn small_gradients_are_lost_without_the_loss_scale() {
    // a batch so large that its mean makes every gradient small
    let run = |precision, scale| {
        let settings = [("precision", precision), ("batch", "256"), ("shards", "1")];
        let mut trainer = common::trainer(common::settings(&settings), 1);
        // matrices that are no longer zero pass gradients on
        let wave: Vec<f32> = (0..trainer.settings.model.n_params())
            .map(|i| 0.05 * (i as f32).sin())
            .collect();
        trainer.state.weights =
            trainer.state.weights.clone() + optimizer::upload(wave, &FlexDevice);
        if let Some(log2) = scale {
            trainer.loss_scale = Some(LossScale::new(log2));
        }
        host(trainer.gradients().1)
    };
    let full = run("f32", None);
    let error = |grads: Vec<f32>| -> f64 {
        let squares = grads
            .iter()
            .zip(&full)
            .map(|(a, b)| f64::from(a - b).powi(2));
        squares.sum::<f64>().sqrt()
    };
    let (plain, scaled) = (error(run("f16", Some(0))), error(run("f16", Some(16))));
    // what remains is the rounding of the weights
    assert!(1.2 * scaled < plain, "{scaled} {plain}");
}

#[test]
fn a_step_that_overflows_changes_nothing_but_the_loss_scale() {
    let mut trainer = run("f16");
    // far above what f16 holds
    trainer.loss_scale = Some(LossScale::new(40));
    let before = common::bits(&trainer);
    let report = trainer.step().unwrap();
    assert!(report.overflow && report.loss.is_finite());
    assert_eq!(common::bits(&trainer), before);
    assert_eq!(trainer.loss_scale, Some(LossScale::new(39)));
    assert_eq!(trainer.step, 1);
    // it comes down until the gradients fit, and then the run goes on
    let fits = (0..40).find(|_| !trainer.step().unwrap().overflow);
    assert!(fits.is_some());
    assert_ne!(common::bits(&trainer), before);
}

#[test]
fn a_loss_that_is_not_finite_is_an_error_and_no_overflow() {
    let mut trainer = run("f16");
    trainer.state.weights = trainer.state.weights.clone() * f32::NAN;
    let error = trainer.step().unwrap_err().to_string();
    assert!(error.contains("not finite"), "{error}");
    assert_eq!(trainer.step, 0);
}

#[test]
fn the_loss_scale_is_doubled_after_many_good_steps_and_never_below_1() {
    let mut scale = LossScale::new(3);
    for _ in 1..LossScale::PATIENCE {
        scale = scale.after_step();
        assert_eq!(scale.value(), 8.0);
    }
    assert_eq!(scale.after_step(), LossScale::new(4));
    assert_eq!(scale.after_overflow(), Some(LossScale::new(2)));
    assert_eq!(LossScale::new(0).after_overflow(), None);
}

#[test]
fn a_resumed_run_keeps_its_loss_scale() {
    let mut whole = run("f16");
    whole.loss_scale = Some(LossScale::new(40));
    common::steps(&mut whole, 3);
    let mut second = run("f16");
    second.restore(&whole.to_checkpoint("f16", true)).unwrap();
    assert_eq!(second.loss_scale, whole.loss_scale);
    common::steps(&mut second, 2);
    common::steps(&mut whole, 2);
    assert_eq!(common::bits(&second), common::bits(&whole));
}
