//! The text of a run and its parts.

use std::sync::Arc;

use anyhow::Result;
use checkpoint::{Corpus, Split, Vocabulary};

/// What a run is about: the text and how it is split.
#[derive(Clone, Debug)]
pub struct Text {
    /// Name of the corpus.
    pub name: String,
    /// SHA-256 of the normalised text.
    pub sha256: [u8; 32],
    /// Characters in token order, or byte pairs.
    pub vocab: Vocabulary,
    /// Bytes of the text.
    pub n_bytes: u64,
    /// Part that is trained on; shared, as it is what is long.
    pub train: Arc<Vec<u16>>,
    /// Part that is chosen on.
    pub dev: Vec<u16>,
    /// Part that is reported.
    pub val: Vec<u16>,
}

impl Text {
    /// Splits a corpus.
    ///
    /// # Errors
    ///
    /// A text too short for `context_len`.
    pub fn new(corpus: &Corpus, context_len: usize, train_on_dev: bool) -> Result<Self> {
        Self::with_vocab(corpus, corpus.vocab(), context_len, train_on_dev)
    }

    /// Splits a corpus into tokens of a vocabulary that a model has already.
    ///
    /// # Errors
    ///
    /// Characters that the vocabulary lacks, or a text too short for `context_len`.
    pub fn with_vocab(
        corpus: &Corpus,
        vocab: Vocabulary,
        context_len: usize,
        train_on_dev: bool,
    ) -> Result<Self> {
        corpus.check_vocab(&vocab)?;
        let mut tokens = corpus.tokens(&vocab)?;
        corpus.check_len(tokens.len(), context_len)?;
        let split = Split::of(tokens.len());
        let val = tokens.split_off(split.val.start);
        let dev = if train_on_dev {
            tokens[split.dev].to_vec()
        } else {
            tokens.split_off(split.dev.start)
        };
        Ok(Self {
            name: corpus.name.clone(),
            sha256: corpus.sha256,
            vocab,
            n_bytes: corpus.text.len() as u64,
            train: Arc::new(tokens),
            dev,
            val,
        })
    }
}
