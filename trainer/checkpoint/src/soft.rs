//! Soft targets: what teachers expect after every character of the training text.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use runtime::crc32;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::durable::write_durably;

const MAGIC: &[u8; 8] = b"CHAPSOFT";

/// Characters kept per place.
pub const TOP: usize = 16;

/// Distributions over the next token at every place of a text, the [`TOP`] likeliest tokens of each.
///
/// # Numerics
///
/// A probability is kept in steps of 2^-16. What the other tokens had is shared out in proportion,
/// so each distribution sums to 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoftTargets {
    text_sha256: [u8; 32],
    vocab_size: u16,
    places: u64,
    tokens: Vec<u8>,
    weights: Vec<u16>,
}

impl SoftTargets {
    /// Creates an empty list for a text.
    ///
    /// # Panics
    ///
    /// If `vocab_size` is 0 or over 256; a character vocabulary never is.
    #[must_use]
    pub fn new(text: &[u16], vocab_size: usize) -> Self {
        assert!(
            (1..=256).contains(&vocab_size),
            "vocab_size {vocab_size} is not from 1 to 256"
        );
        Self {
            text_sha256: hash(text),
            vocab_size: vocab_size as u16,
            places: 0,
            tokens: Vec::new(),
            weights: Vec::new(),
        }
    }

    /// Returns the number of places.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places as usize
    }

    /// Returns whether there is no place yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places == 0
    }

    fn kept(&self) -> usize {
        TOP.min(self.vocab_size.into())
    }

    /// Appends the distribution of the next place, `[vocab_size]`.
    ///
    /// # Panics
    ///
    /// If the length is not `vocab_size`.
    pub fn push(&mut self, probs: &[f32]) {
        assert!(
            probs.len() == usize::from(self.vocab_size),
            "expected {} probabilities",
            self.vocab_size
        );
        let mut order: Vec<u8> = (0..probs.len()).map(|token| token as u8).collect();
        let at = |token: &u8| probs[usize::from(*token)];
        // ties in the order of the tokens, so that the file is a function of the probabilities
        order.sort_by(|a, b| at(b).total_cmp(&at(a)).then(a.cmp(b)));
        order.truncate(self.kept());
        for token in order {
            self.tokens.push(token);
            // a float-to-integer cast saturates: 1.0 becomes the largest step
            self.weights.push((at(&token) * 65_536.0) as u16);
        }
        self.places += 1;
    }

    /// Writes the distribution at a place, `[vocab_size]`, times `share` to `out`.
    ///
    /// # Panics
    ///
    /// If there is no such place or `out` is shorter than `vocab_size`.
    pub fn write(&self, place: usize, share: f32, out: &mut [f32]) {
        let kept = self.kept();
        let part = place * kept..(place + 1) * kept;
        let weights = &self.weights[part.clone()];
        let total: f32 = weights.iter().map(|&weight| f32::from(weight)).sum();
        out.fill(0.0);
        for (&token, &weight) in self.tokens[part].iter().zip(weights) {
            out[usize::from(token)] = share * f32::from(weight) / total;
        }
    }

    /// Writes the list to a file, whole or not at all.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    ///
    /// # Panics
    ///
    /// Never: vectors of numbers have a postcard form.
    pub fn save(&self, path: &Path) -> Result<(), SoftError> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(postcard::to_allocvec(self).expect("numbers have a postcard form"));
        bytes.extend(crc32(&bytes).to_le_bytes());
        write_durably(path, &bytes).map_err(|source| SoftError::Io(path.to_path_buf(), source))
    }

    /// Reads the file that [`SoftTargets::save`] wrote for this text.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is damaged, or was made for another text.
    pub fn load(path: &Path, text: &[u16]) -> Result<Self, SoftError> {
        let bytes =
            std::fs::read(path).map_err(|source| SoftError::Io(path.to_path_buf(), source))?;
        let damaged = || SoftError::Damaged(path.to_path_buf());
        let (body, _) = bytes
            .split_last_chunk()
            .filter(|(body, crc)| crc32(body) == u32::from_le_bytes(**crc))
            .ok_or_else(damaged)?;
        let body = body.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let soft: Self = postcard::from_bytes(body).map_err(|_| damaged())?;
        let whole = soft.places as usize * soft.kept();
        let in_vocab = |&token: &u8| u16::from(token) < soft.vocab_size;
        if soft.tokens.len() != whole
            || soft.weights.len() != whole
            || !soft.tokens.iter().all(in_vocab)
        {
            return Err(damaged());
        }
        if soft.text_sha256 != hash(text) || soft.len() + 1 != text.len() {
            return Err(SoftError::OtherText(path.to_path_buf()));
        }
        Ok(soft)
    }
}

fn hash(text: &[u16]) -> [u8; 32] {
    let mut sha = Sha256::new();
    for token in text {
        sha.update(token.to_le_bytes());
    }
    sha.finalize().into()
}

/// Why soft targets cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum SoftError {
    /// The file cannot be read or written.
    Io(PathBuf, io::Error),
    /// The file is cut or changed.
    Damaged(PathBuf),
    /// The file belongs to another text.
    OtherText(PathBuf),
}

impl fmt::Display for SoftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, source) => write!(f, "cannot use {}: {source}", path.display()),
            Self::Damaged(path) => write!(
                f,
                "{} is damaged: its checksum or its lengths do not agree; start the run again",
                path.display()
            ),
            Self::OtherText(path) => write!(
                f,
                "{} was made for another text; start the run again",
                path.display()
            ),
        }
    }
}

impl std::error::Error for SoftError {}
