//! The checkpoint of a model of the lesson, which no board runs and no blob is made of.
//!
//! A frame (`container.rs`) with the magic `CHAPLESS` around the body, under other names than those of a
//! GPT, so that the tools that look for the newest GPT pass it by.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::container;
use crate::file::{FileError, FormatError, NamedTensor};

const MAGIC: &[u8; 8] = b"CHAPLESS";

/// Version of the file that this crate reads and writes.
pub const VERSION: u32 = 1;

/// Everything that a run needs to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LessonCheckpoint {
    /// Name of the model on the command line.
    pub model: String,
    /// Its settings, JSON.
    pub settings: String,
    /// Name of the corpus, see [`Corpus::reopen`](crate::Corpus::reopen); empty if it needs none.
    pub corpus_name: String,
    /// SHA-256 of the normalised text.
    pub corpus_sha256: [u8; 32],
    /// Name of the run.
    pub run: String,
    /// Optimiser steps taken.
    pub step: u64,
    /// Seconds of training so far.
    pub seconds: f64,
    /// Smallest loss of `ema` on dev.
    pub best_dev: f64,
    /// Step of `best_dev`.
    pub best_step: u64,
    /// Trained weights.
    pub weights: Vec<NamedTensor>,
    /// Exponential moving average of the weights.
    pub ema: Vec<NamedTensor>,
    /// First moments of the optimiser; empty in the best checkpoint.
    pub moment_1: Vec<NamedTensor>,
    /// Second moments of the optimiser; empty in the best checkpoint.
    pub moment_2: Vec<NamedTensor>,
}

impl LessonCheckpoint {
    /// Writes the file under a temporary name and renames it, so that an interrupted save leaves
    /// the previous file.
    ///
    /// # Errors
    ///
    /// What the file system reports.
    pub fn save(&self, path: &Path) -> Result<(), FileError> {
        container::save(path, container::encode(MAGIC, VERSION, self))
    }

    /// Reads the file that [`LessonCheckpoint::save`] wrote.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or [`FormatError`].
    pub fn load(path: &Path) -> Result<Self, FileError> {
        container::load(path, Self::from_bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, FormatError> {
        let this: Self = container::decode(MAGIC, VERSION, bytes)?;
        container::check_shapes([&this.weights, &this.ema, &this.moment_1, &this.moment_2])?;
        Ok(this)
    }
}
