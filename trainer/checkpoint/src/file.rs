//! The checkpoint: weights, optimiser state, settings and provenance in one file.
//!
//! A frame (`container.rs`) with the magic `CHAPCKPT` around the body.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use runtime::{Config, ConfigError, Provenance, VocabError};
use serde::{Deserialize, Serialize};

use crate::container::{self, check_shapes};
use crate::vocabulary::Vocabulary;

const MAGIC: &[u8; 8] = b"CHAPCKPT";

/// Version of the file that this crate reads and writes.
pub const VERSION: u32 = 1;

/// A tensor under the name that the runtime's tensor list gives it.
///
/// # Shapes
///
/// `data` is row-major; matrices are `[out, in]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedTensor {
    /// Full name, for example `layers.3.w_qkv`.
    pub name: String,
    /// Lengths, outermost first.
    pub shape: Vec<u32>,
    /// Elements.
    #[serde(with = "floats")]
    pub data: Vec<f32>,
}

/// All that a training run knows at one step.
///
/// The lists of tensors hold the tensors in the order of the runtime's tensor list. `best.ckpt` has
/// no moments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Shape of the model.
    pub config: Config,
    /// The trainer's settings, JSON; empty in an imported model.
    pub settings: String,
    /// Name of the corpus, see [`Corpus::reopen`](crate::Corpus::reopen).
    pub corpus_name: String,
    /// SHA-256 of the normalised text.
    pub corpus_sha256: [u8; 32],
    /// The vocabulary, see [`Vocabulary::as_bytes`].
    pub vocab: Vec<u8>,
    /// Name of the run.
    pub run: String,
    /// Optimiser steps taken.
    pub step: u64,
    /// Seed of the run.
    pub seed: u64,
    /// Seconds of training so far.
    pub seconds: f64,
    /// Loss of `weights` on dev, nats per character; NaN before the first evaluation.
    pub dev_f32: f64,
    /// Loss of `ema` on dev, nats per character; NaN before the first evaluation.
    pub dev_ema: f64,
    /// Smallest `dev_ema` of the run.
    pub best_dev: f64,
    /// Step of `best_dev`.
    pub best_step: u64,
    /// Trained weights.
    pub weights: Vec<NamedTensor>,
    /// Exponential moving average of the weights.
    pub ema: Vec<NamedTensor>,
    /// First moments of the optimiser.
    pub moment_1: Vec<NamedTensor>,
    /// Second moments of the optimiser.
    pub moment_2: Vec<NamedTensor>,
    /// State of the random generators, in the trainer's order; behind it that of the loss scale,
    /// in a run that has one.
    pub rng: Vec<u64>,
}

impl Checkpoint {
    /// Returns the weights to deploy: the average, or the weights of a run that keeps none.
    #[must_use]
    pub fn deployed(&self) -> &[NamedTensor] {
        if self.ema.is_empty() {
            &self.weights
        } else {
            &self.ema
        }
    }

    /// Returns the loss on dev of [`Checkpoint::deployed`].
    #[must_use]
    pub const fn deployed_dev(&self) -> f64 {
        if self.ema.is_empty() {
            self.dev_f32
        } else {
            self.dev_ema
        }
    }

    /// Returns whether another program trained the weights: there are no settings of a training.
    #[must_use]
    pub const fn is_imported(&self) -> bool {
        self.settings.is_empty()
    }

    /// Returns what a blob of the deployed weights says about where it comes from; the loss of the
    /// blob itself is open.
    #[must_use]
    pub fn provenance(&self) -> Provenance<'_> {
        Provenance {
            run: &self.run,
            corpus_sha256: self.corpus_sha256,
            step: u32::try_from(self.step).unwrap_or(u32::MAX),
            seed: self.seed,
            dev_f32: self.deployed_dev() as f32,
            dev_blob: f32::NAN,
        }
    }

    /// Returns the vocabulary.
    ///
    /// # Errors
    ///
    /// As [`Vocabulary::from_bytes`]; not for a checkpoint that was read from a file.
    pub fn vocabulary(&self) -> Result<Vocabulary, VocabError> {
        Vocabulary::from_bytes(&self.vocab)
    }

    /// Shortens the context, for a board with less RAM; the weights stay, but for learned positions
    /// that nothing can reach any more.
    ///
    /// # Errors
    ///
    /// A length of 0 or above the one that the model has.
    pub fn shorten(&mut self, context_len: u16) -> Result<(), ContextError> {
        let longest = self.config.context_len;
        if !(1..=longest).contains(&context_len) {
            return Err(ContextError {
                longest,
                found: context_len,
            });
        }
        self.config.context_len = context_len;
        let all = [
            &mut self.weights,
            &mut self.ema,
            &mut self.moment_1,
            &mut self.moment_2,
        ];
        for tensor in all
            .into_iter()
            .flatten()
            .filter(|tensor| tensor.name == "w_pos")
        {
            tensor
                .data
                .truncate(usize::from(context_len) * usize::from(self.config.d_model));
            tensor.shape = vec![context_len.into(), self.config.d_model.into()];
        }
        Ok(())
    }

    /// Encodes the checkpoint as the bytes of its file.
    ///
    /// # Errors
    ///
    /// [`FormatError::Body`] if postcard cannot encode it.
    pub fn to_bytes(&self) -> Result<Vec<u8>, FormatError> {
        container::encode(MAGIC, VERSION, self)
    }

    /// Decodes the bytes of a checkpoint file.
    ///
    /// # Errors
    ///
    /// Bytes that are no checkpoint, cut, damaged, of another version or inconsistent.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FormatError> {
        let checkpoint: Self = container::decode(MAGIC, VERSION, bytes)?;
        checkpoint.check()?;
        Ok(checkpoint)
    }

    fn check(&self) -> Result<(), FormatError> {
        self.config.validate().map_err(FormatError::Config)?;
        self.vocabulary().map_err(FormatError::Vocabulary)?;
        check_shapes([&self.weights, &self.ema, &self.moment_1, &self.moment_2])
    }

    /// Writes the file under a temporary name and renames it, so that an interrupted save leaves
    /// the previous file.
    ///
    /// # Errors
    ///
    /// What the file system reports.
    pub fn save(&self, path: &Path) -> Result<(), FileError> {
        container::save(path, self.to_bytes())
    }

    /// Reads the file that [`Checkpoint::save`] wrote.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or [`FormatError`].
    pub fn load(path: &Path) -> Result<Self, FileError> {
        container::load(path, Self::from_bytes)
    }
}

/// Returns whether the bytes start like a checkpoint file.
#[must_use]
pub fn is_checkpoint(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Elements as little-endian bytes: one copy instead of one call per element.
mod floats {
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(data: &[f32], out: S) -> Result<S::Ok, S::Error> {
        // The runtime compiles for little-endian targets only, this host included.
        out.serialize_bytes(bytemuck::cast_slice(data))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<f32>, D::Error> {
        struct Floats;
        impl Visitor<'_> for Floats {
            type Value = Vec<f32>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the bytes of f32 values")
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<f32>, E> {
                let (words, []) = bytes.as_chunks::<4>() else {
                    return Err(E::invalid_length(bytes.len(), &self));
                };
                Ok(words.iter().map(|&word| f32::from_le_bytes(word)).collect())
            }
        }
        input.deserialize_bytes(Floats)
    }
}

/// A context that a model cannot be shortened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextError {
    /// Context of the model.
    pub longest: u16,
    /// Length asked for.
    pub found: u16,
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { longest, found } = self;
        write!(f, "the context can be 1 to {longest} tokens, not {found}")
    }
}

impl std::error::Error for ContextError {}

/// Why bytes are no checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes do not start with the magic.
    NotACheckpoint,
    /// The file ends too early.
    Truncated {
        /// Bytes that it should have, or at least that many.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// Bytes follow the end.
    TooLong {
        /// Bytes that it should have.
        expected: u64,
    },
    /// Another version of the file.
    Version {
        /// Version found.
        found: u32,
    },
    /// The bytes were changed after they were written.
    Crc {
        /// Checksum in the file.
        expected: u32,
        /// Checksum of the bytes.
        found: u32,
    },
    /// The body does not decode.
    Body(postcard::Error),
    /// The configuration describes no model.
    Config(ConfigError),
    /// The vocabulary is none.
    Vocabulary(VocabError),
    /// A tensor has another number of elements than its shape says.
    Shape {
        /// The tensor.
        name: String,
        /// Its shape.
        shape: Vec<u32>,
        /// Elements found.
        found: usize,
    },
}

impl FormatError {
    /// Returns what to do about it, for whoever has the folder of a run.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::NotACheckpoint => {
                "expected last.ckpt or best.ckpt of a GPT's run, last.lesson or best.lesson of another's"
            }
            Self::Truncated { .. } | Self::TooLong { .. } | Self::Crc { .. } => {
                "copy it again if it is a copy, or use the run's other checkpoint"
            }
            Self::Version { found } if *found > VERSION => "update this repository",
            Self::Version { .. } => "use the program that wrote it",
            Self::Vocabulary(_) => "train or import it again",
            Self::Body(_) | Self::Config(_) | Self::Shape { .. } => "train again",
        }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotACheckpoint => f.write_str(
                "not a checkpoint of this kind: it does not start with \"CHAPCKPT\" for a GPT or \
                 \"CHAPLESS\" for a model of the lesson",
            ),
            Self::Truncated { expected, found } => {
                write!(f, "truncated: expected {expected} bytes, found {found}")
            }
            Self::TooLong { expected } => {
                write!(f, "damaged: expected {expected} bytes, found more")
            }
            Self::Version { found } if *found > VERSION => write!(
                f,
                "written by a later program: expected version {VERSION}, found {found}"
            ),
            Self::Version { found } => write!(
                f,
                "of an unsupported version: expected {VERSION}, found {found}"
            ),
            Self::Crc { expected, found } => write!(
                f,
                "damaged: expected CRC-32 {expected:08x}, found {found:08x}"
            ),
            Self::Body(error) => write!(f, "the body does not decode: {error}"),
            Self::Config(error) => write!(f, "describes no valid model: {error}"),
            Self::Vocabulary(error) => error.fmt(f),
            Self::Shape { name, shape, found } => {
                write!(f, "tensor {name} of shape {shape:?} has {found} elements")
            }
        }
    }
}

impl std::error::Error for FormatError {}

/// Why a checkpoint file was not read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// The file system said no.
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The content is wrong.
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: FormatError,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "checkpoint {}: {source}", path.display()),
            Self::Format { path, source } => write!(
                f,
                "checkpoint {}: {source}; {}",
                path.display(),
                source.remedy()
            ),
        }
    }
}

impl std::error::Error for FileError {}
