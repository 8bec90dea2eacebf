//! The integer forward pass against the same mathematics in `f64`.

use checkpoint::synthetic;
use parity::compare::{real, relative_error};
use parity::reference::Reference;
use parity::shapes;
use runtime::{Config, Model, Session};

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
