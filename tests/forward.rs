//! The integer forward pass against the same mathematics in `f64`.

use checkpoint::synthetic;
use parity::reference::Reference;
use parity::shapes;
use runtime::fixed::ONE;
use runtime::{Config, Model, Session};

/// Returns the root of the mean square of the difference, relative to that of the reference.
fn relative_error(found: &[Vec<f64>], exact: &[Vec<f64>]) -> f64 {
    let square = |a: &[Vec<f64>]| a.iter().flatten().map(|x| x * x).sum::<f64>();
    let difference: Vec<Vec<f64>> = found
        .iter()
        .zip(exact)
        .map(|(a, b)| a.iter().zip(b).map(|(a, b)| a - b).collect())
        .collect();
    (square(&difference) / square(exact)).sqrt()
}

fn real(units: &[i32]) -> Vec<f64> {
    units
        .iter()
        .map(|&x| f64::from(x) / f64::from(ONE))
        .collect()
}

/// Returns the errors of residual stream and logits of one model over one full context.
fn errors(config: Config, seed: u64) -> (f64, f64) {
    let checkpoint = synthetic::checkpoint(config, seed);
    let blob = shapes::blob_of(&checkpoint);
    let model = Model::from_bytes(&blob).unwrap();
    let mut memory = vec![0; config.state_words()];
    let mut session = Session::new(&model, &mut memory).unwrap();
    let tokens = shapes::random_tokens(config.vocab_size, config.context_len.into(), seed);
    let exact = Reference::new(config, checkpoint.deployed()).forward(&tokens);
    let mut residual = Vec::new();
    let mut logits = Vec::new();
    for &token in &tokens {
        logits.push(real(session.feed(token).unwrap()));
        residual.push(real(session.residual()));
    }
    (
        relative_error(&residual, &exact.residual),
        relative_error(&logits, &exact.logits),
    )
}

#[test]
fn every_shape_is_close_to_the_reference() {
    for (seed, config) in shapes::all().into_iter().enumerate() {
        let (residual, logits) = errors(config, seed as u64);
        println!(
            "{:?} {:?} {:?}: residual {residual:.4} logits {logits:.4}",
            config.position, config.norm, config.activation
        );
        assert!(
            residual < 0.05 && logits < 0.05,
            "{config:?}: {residual} {logits}"
        );
    }
}
