//! What a model sees, and that it learns.

mod common;

use burn_flex::{Flex, FlexDevice};
use checkpoint::Corpus;
use gpt::evaluation::{Evaluator, mean};
use gpt::model::Gpt;
use gpt::shards::Shards;
use gpt::training::{Text, Trainer};
use gpt::{init, optimizer, params};

#[test]
fn a_future_token_changes_nothing_before_it() {
    for shape in common::SHAPES {
        let config = common::settings(shape).model;
        let entries = params::entries(&Gpt::<Flex>::zeroed(&config, &FlexDevice));
        let weights = init::weights(init::Init::Identity, &config, &entries, 3)
            .into_iter()
            .enumerate()
            .map(|(i, w)| w + 0.1 * (i as f32).sin())
            .collect();
        let weights = optimizer::upload::<Flex>(weights, &FlexDevice);
        let evaluator = Evaluator::<Flex>::new(config, &FlexDevice);
        let tokens: Vec<u16> = (0..16).map(|i| i * 7 % config.vocab_size).collect();
        let mut changed = tokens.clone();
        changed[9] = (changed[9] + 1) % config.vocab_size;
        let [a, b] = [tokens, changed].map(|tokens| evaluator.logits(&weights, &tokens));
        let row = usize::from(config.vocab_size);
        assert_eq!(a[..9 * row], b[..9 * row]);
        assert_ne!(a[9 * row..10 * row], b[9 * row..10 * row]);
    }
}

#[test]
fn a_short_text_is_learnt_by_heart() {
    let text =
        "a rose is a rose is a rose; the quick brown fox jumps over the lazy dog. ".repeat(12);
    let corpus = Corpus::from_bytes("rose", text.into_bytes()).unwrap();
    let settings = common::settings(&[("dropout", "0"), ("steps", "300")]);
    let text = Text::new(&corpus, 16, false).unwrap();
    let mut trainer = Trainer::<Flex>::new(settings, text, 2, &FlexDevice).unwrap();
    let first = trainer.step().unwrap().loss;
    common::steps(&mut trainer, 298);
    let last = trainer.step().unwrap().loss;
    assert!(first > 3.0, "{first}");
    assert!(last < 0.2, "{last}");
    trainer.evaluate();
    assert!(trainer.record.dev_ema < 0.5, "{}", trainer.record.dev_ema);
}

#[test]
fn every_transition_is_scored_once() {
    let settings = common::settings(&[]);
    let trainer = common::trainer(settings, 2);
    let evaluator = Evaluator::<Flex>::new(trainer.settings.model, &FlexDevice);
    let shards = Shards::new(2, 2).unwrap();
    for n in [2, 16, 17, 18, 600] {
        let tokens = &trainer.text.val[..n];
        let nll = evaluator.nll(&shards, &trainer.state.weights, tokens);
        assert_eq!(nll.len(), n - 1);
        assert!(nll.iter().all(|x| x.is_finite()));
    }
    // untrained: about the logarithm of the number of characters
    let nll = evaluator.nll(&shards, &trainer.state.weights, &trainer.text.val);
    let uniform = f64::from(trainer.settings.model.vocab_size).ln();
    assert!((mean(&nll) - uniform).abs() < 0.1);
}
