//! Trainer, engine and the mathematics in `f64`, layer by layer.

use burn::tensor::{Tensor, TensorData};
use burn_flex::Flex;
use burn_flex::FlexDevice;
use checkpoint::{Checkpoint, int4, synthetic};
use gpt::model::Gpt;
use gpt::params;
use gpt::tables::Tables;
use parity::budget;
use parity::compare::{real, relative_error};
use parity::guests::stories;
use parity::reference::Reference;
use parity::shapes;
use runtime::{Config, Kinds, Model, Session};

/// Residual stream and logits after each token of a text.
struct Activations {
    residual: Vec<Vec<f64>>,
    logits: Vec<Vec<f64>>,
}

/// Returns the model that ends after the first `n_layer` layers.
fn first_layers(checkpoint: &Checkpoint, n_layer: u16) -> Checkpoint {
    let mut part = checkpoint.clone();
    part.config.n_layer = n_layer;
    let names: Vec<String> = part.config.tensors().map(|spec| spec.to_string()).collect();
    part.ema.retain(|tensor| names.contains(&tensor.name));
    part
}

fn on_engine(checkpoint: &Checkpoint, tokens: &[u16]) -> Activations {
    on_engine_as(&shapes::blob_of(checkpoint), tokens)
}

fn on_engine_as(blob: &[u8], tokens: &[u16]) -> Activations {
    let model = Model::from_bytes(blob).unwrap();
    let mut memory = vec![0; model.config().state_words()];
    let mut session = Session::new(&model, &mut memory).unwrap();
    let (mut residual, mut logits) = (Vec::new(), Vec::new());
    for &token in tokens {
        logits.push(real(session.feed(token).unwrap()));
        residual.push(real(session.residual()));
    }
    Activations { residual, logits }
}

fn on_trainer(checkpoint: &Checkpoint, tokens: &[u16]) -> Activations {
    let config = &checkpoint.config;
    let device = FlexDevice;
    let skeleton = Gpt::<Flex>::zeroed(config, &device);
    // The trainer's own names and shapes say where each tensor of the checkpoint goes.
    let mut flat = Vec::new();
    for entry in params::entries(&skeleton) {
        let tensor = checkpoint.deployed().iter().find(|t| t.name == entry.name);
        let tensor = tensor.unwrap_or_else(|| panic!("{} is not in the blob's list", entry.name));
        assert_eq!(tensor.data.len(), entry.len(), "{}", entry.name);
        flat.extend_from_slice(&tensor.data);
    }
    assert_eq!(flat.len() as u64, config.n_params());
    let n = flat.len();
    let flat = Tensor::<Flex, 1>::from_data(TensorData::new(flat, [n]), &device);
    let model = params::with_values(skeleton, flat);
    let tables = Tables::new(config, tokens.len(), &device);
    let input: Vec<i32> = tokens.iter().map(|&token| token.into()).collect();
    let input = Tensor::from_data(TensorData::new(input, [1, tokens.len()]), &device);
    let rows = |tensor: Tensor<Flex, 3>| -> Vec<Vec<f64>> {
        let width = tensor.dims()[2];
        let values: Vec<f32> = tensor.into_data().to_vec().unwrap();
        let widen = |row: &[f32]| row.iter().map(|&x| x.into()).collect();
        values.chunks_exact(width).map(widen).collect()
    };
    Activations {
        residual: rows(model.trunk(config, &tables, input.clone(), None)),
        logits: rows(model.logits(config, &tables, input)),
    }
}

/// A model of every shape, with a text of one full context.
fn cases() -> impl Iterator<Item = (Checkpoint, Vec<u16>)> {
    shapes::all()
        .into_iter()
        .enumerate()
        .map(|(seed, config): (usize, Config)| {
            let tokens = shapes::random_tokens(config.vocab_size, config.context_len.into(), 1);
            (synthetic::checkpoint(config, seed as u64), tokens)
        })
}

#[test]
fn trainer_computes_the_mathematics() {
    let mut largest = 0.0_f64;
    for (checkpoint, tokens) in cases() {
        let exact = Reference::new(checkpoint.config, checkpoint.deployed()).forward(&tokens);
        let found = on_trainer(&checkpoint, &tokens);
        largest = largest
            .max(relative_error(&found.residual, &exact.residual))
            .max(relative_error(&found.logits, &exact.logits));
    }
    budget::TRAINER.check("trainer against f64", largest);
}

#[test]
fn engine_follows_the_trainer_layer_by_layer() {
    for (n_layer, budget) in (1..).zip(budget::RESIDUAL) {
        let error = |(checkpoint, tokens): (Checkpoint, Vec<u16>)| {
            let part = first_layers(&checkpoint, n_layer);
            let exact = on_trainer(&part, &tokens);
            relative_error(&on_engine(&part, &tokens).residual, &exact.residual)
        };
        let largest = cases().map(error).fold(0.0, f64::max);
        budget.check(&format!("residual after {n_layer} layers"), largest);
    }
    let error = |(checkpoint, tokens): (Checkpoint, Vec<u16>)| {
        let exact = on_trainer(&checkpoint, &tokens);
        relative_error(&on_engine(&checkpoint, &tokens).logits, &exact.logits)
    };
    let largest = cases().map(error).fold(0.0, f64::max);
    budget::LOGITS.check("logits", largest);
}

#[test]
fn engine_with_int4_follows_the_mathematics_of_the_same_weights() {
    let mut largest = 0.0_f64;
    for (index, (checkpoint, tokens)) in cases().enumerate() {
        let group = [8, 16, 24, 32][index % 4];
        let found = on_engine_as(&shapes::int4_blob_of(&checkpoint, Some(group)), &tokens);
        let mut rounded = checkpoint.clone();
        for tensor in &mut rounded.ema {
            if tensor.name.contains(".w_") {
                let cols = tensor.shape[1] as usize;
                tensor.data = int4::fake_quantize(&tensor.data, cols, group as usize).unwrap();
            }
        }
        let exact = Reference::new(rounded.config, rounded.deployed()).forward(&tokens);
        largest = largest.max(relative_error(&found.logits, &exact.logits));
    }
    budget::INT4.check("logits with int4 matrices", largest);
}

/// Each token of a greedy text is the one that burn finds most probable after those before it.
#[test]
fn greedy_text_of_an_imported_model_is_burns() {
    let Some(stories) = stories() else { return };
    let blob = shapes::blob_as(&stories, Kinds::F32);
    let model = Model::from_bytes(&blob).unwrap();
    let mut memory = vec![0; model.state_words()];
    let mut session = Session::new(&model, &mut memory).unwrap();
    for prompt in [
        "The big dog",
        "Lily wanted a red ball.\nHer mom said",
        "7 €",
    ] {
        let prompt = stories.vocabulary().unwrap().encode(prompt).unwrap();
        session.reset();
        let mut tokens = prompt.clone();
        for at in 0..256 {
            let logits = session.feed(tokens[at]).unwrap();
            if at + 1 == tokens.len() {
                tokens.push(top(logits));
            }
        }
        let oracle = on_trainer(&stories, &tokens[..256]);
        for (at, logits) in oracle.logits.iter().enumerate().skip(prompt.len() - 1) {
            assert_eq!(tokens[at + 1], top(logits), "token {at}");
        }
    }
}

/// Returns the first token of the largest logit.
fn top<T: PartialOrd>(logits: &[T]) -> u16 {
    let larger = |best, token| {
        if logits[token] > logits[best] {
            token
        } else {
            best
        }
    };
    (0..logits.len()).fold(0, larger) as u16
}
