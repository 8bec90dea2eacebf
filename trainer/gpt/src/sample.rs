//! Text from a checkpoint, made as a board makes it: int8 blob, runtime, sampler.

use anyhow::{Context, Result};
use checkpoint::{Blob, Checkpoint, Vocabulary, blob};
use runtime::{Kinds, Model, Sampler, Session, Settings};

use crate::settings;

/// Prompt of the samples during and after training.
pub const PROMPT: &str = "ROMEO:\n";

/// Quantises the weights that a checkpoint deploys, in the formats that its run rounds to.
///
/// # Errors
///
/// Weights that do not make a blob.
pub fn blob(from: &Checkpoint) -> Result<Blob> {
    let settings = settings::Settings::from_json(&from.settings);
    Ok(blob::write_as(
        &from.config,
        // an imported model has no settings
        settings.map_or(Kinds::W8, |settings| settings.kinds()),
        &from.vocab,
        from.deployed(),
        from.provenance(),
    )?)
}

/// Continues `prompt` by `len` tokens; the result starts with the prompt.
///
/// # Errors
///
/// A prompt with a character that the model does not know, or a temperature out of range.
pub fn from_checkpoint(
    from: &Checkpoint,
    prompt: &str,
    temperature: f32,
    seed: u64,
    len: usize,
) -> Result<String> {
    let bytes = blob(from)?.bytes;
    let model = Model::from_bytes(&bytes)?;
    let mut state = vec![0; model.state_words()];
    let mut session = Session::new(&model, &mut state)?;
    let settings = Settings {
        temperature,
        ..Settings::default()
    };
    let mut sampler = Sampler::new(settings, seed)?;
    let vocab = from.vocabulary()?;
    let mut tokens = vocab.encode(prompt).with_context(|| {
        format!("the prompt {prompt:?} cannot be used; choose other characters")
    })?;
    if tokens.is_empty() {
        // something has to come first: a line end, as before every line of the text
        tokens.push(vocab.token('\n').unwrap_or(0));
    }
    for &token in &tokens {
        session.feed(token)?;
    }
    for _ in 0..len {
        let token = session.sample(&mut sampler);
        tokens.push(token);
        session.feed(token)?;
    }
    Ok(vocab.decode(&tokens))
}

/// Drops the characters of `prompt` that the vocabulary lacks.
#[must_use]
pub fn known(prompt: &str, vocab: &Vocabulary) -> String {
    prompt
        .chars()
        .filter(|&char| vocab.encode(char.encode_utf8(&mut [0; 4])).is_ok())
        .collect()
}
