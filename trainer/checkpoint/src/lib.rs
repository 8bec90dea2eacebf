//! The files of a training run: corpus, vocabulary, checkpoint, run folder, blob and its score.
//!
//! Everything that the trainer, the export tool and the tests share about files lives here, free of
//! burn, so that a tool over a finished run compiles in seconds.
//!
//! | module | what it does |
//! |---|---|
//! | [`corpus`], [`vocabulary`] | a text, its characters and its split |
//! | [`file`](mod@file) | the checkpoint: weights, optimiser state and provenance in one file |
//! | [`runs`] | where runs lie and which is the newest |

pub mod corpus;
mod durable;
pub mod file;
pub mod runs;
mod tiny_shakespeare;
pub mod vocabulary;

pub use corpus::{Corpus, CorpusError, Split};
pub use durable::write_durably;
pub use file::{Checkpoint, FileError, FormatError, NamedTensor};
pub use vocabulary::{UnknownChar, Vocabulary};
