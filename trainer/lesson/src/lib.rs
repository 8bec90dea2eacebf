//! The other models of the lesson, each in a file of its own, trained by one loop.
//!
//! | module | what it is |
//! |---|---|
//! | [`seq2seq`] | encoder-decoder Transformer of "Attention Is All You Need", of [`attention`], [`layers`], [`embedding`] |
//! | [`task`], [`pairs`], [`decode`] | what it learns, as tokens, and how it answers |
//! | [`translator`] | its settings, batches and evaluation |
//! | [`rnn`], [`recurrent`], [`ablation`] | recurrent networks, and a GPT with switches; both are a [`char_lm`] |
//! | [`study`], [`curve`] | models side by side: a table and a plot |
//! | [`learner`], [`run`], [`report`] | a training run of any of these models |

pub mod ablation;
pub mod attention;
pub mod char_lm;
pub mod curve;
pub mod decode;
pub mod edit;
pub mod embedding;
pub mod init;
pub mod layers;
pub mod learner;
pub mod mask;
pub mod pairs;
pub mod recurrent;
pub mod report;
pub mod rnn;
pub mod run;
pub mod seq2seq;
pub mod settings;
pub mod study;
pub mod task;
pub mod translator;
