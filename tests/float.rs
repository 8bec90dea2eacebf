//! The engine in `f32` against the mathematics in `f64`, for models of every shape.

use checkpoint::synthetic;
use parity::budget;
use parity::compare::{real, relative_error};
use parity::reference::Reference;
use parity::shapes;
use runtime::{Kinds, Model, Session};

#[test]
fn float_engine_computes_the_mathematics() {
    let mut largest = 0.0_f64;
    for (seed, config) in shapes::all().into_iter().enumerate() {
        let checkpoint = synthetic::checkpoint(config, seed as u64);
        let tokens = shapes::random_tokens(config.vocab_size, config.context_len.into(), 1);
        let exact = Reference::new(config, checkpoint.deployed()).forward(&tokens);
        let blob = shapes::blob_as(&checkpoint, Kinds::F32);
        let model = Model::from_bytes(&blob).unwrap();
        let mut memory = vec![0xDEAD_BEEF; model.state_words()];
        let mut session = Session::new(&model, &mut memory).unwrap();
        session.self_test().unwrap();
        for (place, &token) in tokens.iter().enumerate() {
            let found = real(session.feed(token).unwrap());
            let error =
                |found: Vec<f64>, exact: &[f64]| relative_error(&[found], &[exact.to_vec()]);
            largest = largest.max(error(found, &exact.logits[place]));
            largest = largest.max(error(real(session.residual()), &exact.residual[place]));
        }
    }
    budget::FLOAT.check("f32 engine against f64", largest);
}

/// A text that outgrows its context stays finite, and one that starts again is the same.
#[test]
fn float_sessions_go_on_and_start_again() {
    for (seed, config) in shapes::all().into_iter().enumerate() {
        let blob = shapes::blob_as(&synthetic::checkpoint(config, seed as u64), Kinds::F32);
        let model = Model::from_bytes(&blob).unwrap();
        let mut memory = vec![0; model.state_words()];
        let mut session = Session::new(&model, &mut memory).unwrap();
        let n = 3 * usize::from(config.context_len);
        let tokens = shapes::random_tokens(config.vocab_size, n, 2);
        let run = |session: &mut Session<'_>| -> Vec<Vec<i32>> {
            session.reset();
            tokens
                .iter()
                .map(|&token| session.feed(token).unwrap().to_vec())
                .collect()
        };
        let first = run(&mut session);
        assert!(first.iter().flatten().all(|&logit| logit.abs() < 1 << 24));
        assert_eq!(run(&mut session), first);
    }
}
