//! A training text: where it comes from, what was normalised, how it is split.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::bounded::read_bounded;
use crate::tiny_shakespeare;
use crate::vocabulary::{UnknownChar, Vocabulary};

/// Most distinct characters that a corpus may have.
pub const MAX_VOCAB: usize = 256;
/// Longest text, in bytes: places in it are counted in `u32`.
const MAX_BYTES: u64 = u32::MAX as u64;
/// Characters that a message lists.
const LISTED: usize = 12;

/// A text to train on, free of a byte order mark and of CRLF line ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    /// Name for reports: `tiny-shakespeare`, or the absolute path of the file.
    pub name: String,
    /// The normalised text.
    pub text: String,
    /// SHA-256 of the normalised text.
    pub sha256: [u8; 32],
    /// What was changed while reading, one sentence each; empty if nothing was.
    pub notes: Vec<String>,
}

impl Corpus {
    /// Finds tiny Shakespeare, from the cache or from the published package that ships it.
    ///
    /// The text is checked against its SHA-256 on every call.
    ///
    /// # Errors
    ///
    /// [`CorpusError::TinyShakespeare`] with the reason and the way out.
    pub fn tiny_shakespeare() -> Result<Self, CorpusError> {
        let text = tiny_shakespeare::find().map_err(CorpusError::TinyShakespeare)?;
        Ok(Self::of_text(tiny_shakespeare::NAME, text, Vec::new()))
    }

    /// Reads any UTF-8 text file that a model of characters can be trained on; drops a byte order mark
    /// and makes CRLF into LF, both noted.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is empty, is not UTF-8 or has too many distinct characters.
    pub fn from_file(path: &Path) -> Result<Self, CorpusError> {
        Self::open(path)?.checked()
    }

    /// Reads a file as [`Corpus::from_file`], however many distinct characters it has: for a model
    /// that has its vocabulary already.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is empty or is not UTF-8.
    pub fn open(path: &Path) -> Result<Self, CorpusError> {
        let bytes = read_bounded(path, MAX_BYTES).map_err(|error| CorpusError::Read {
            path: path.to_path_buf(),
            reason: error.to_string(),
        })?;
        // Absolute, so that a checkpoint finds its text from another folder.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        Self::normalised(&path.display().to_string(), bytes)
    }

    /// Makes a corpus of the bytes of a file; see [`Corpus::from_file`].
    ///
    /// # Errors
    ///
    /// Bytes that are empty, not UTF-8 or have too many distinct characters.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, CorpusError> {
        Self::normalised(name, bytes)?.checked()
    }

    fn normalised(name: &str, bytes: Vec<u8>) -> Result<Self, CorpusError> {
        let name = name.to_string();
        let mut text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let offset = error.utf8_error().valid_up_to();
                let byte = error.as_bytes()[offset];
                return Err(CorpusError::NotUtf8 { name, offset, byte });
            }
        };
        let mut notes = Vec::new();
        if let Some(rest) = text.strip_prefix('\u{feff}') {
            text = rest.to_string();
            notes.push("dropped the byte order mark at the start".to_string());
        }
        let n_crlf = text.matches("\r\n").count();
        if n_crlf > 0 {
            text = text.replace("\r\n", "\n");
            notes.push(format!("made {n_crlf} CRLF line ends into LF"));
        }
        if text.is_empty() {
            return Err(CorpusError::Empty { name });
        }
        Ok(Self::of_text(&name, text, notes))
    }

    fn checked(self) -> Result<Self, CorpusError> {
        let found = self.vocab().len();
        if found > MAX_VOCAB {
            return Err(CorpusError::TooManyChars {
                rarest: rarest(&self.text),
                name: self.name,
                found,
            });
        }
        Ok(self)
    }

    /// Finds the corpus that a checkpoint names: tiny Shakespeare, or the file it was trained on.
    ///
    /// # Errors
    ///
    /// As [`Corpus::tiny_shakespeare`] and [`Corpus::from_file`], and [`CorpusError::Changed`] if
    /// the text is not the one that was trained on.
    pub fn reopen(name: &str, sha256: &[u8; 32]) -> Result<Self, CorpusError> {
        if name.is_empty() {
            return Err(CorpusError::Nameless);
        }
        let corpus = if name == tiny_shakespeare::NAME {
            Self::tiny_shakespeare()?
        } else {
            Self::open(Path::new(name)).map_err(|error| match error {
                CorpusError::Read { path, reason } => CorpusError::Gone { path, reason },
                other => other,
            })?
        };
        corpus.check_hash(sha256)?;
        Ok(corpus)
    }

    /// Reads the text of a checkpoint from `data` if it is given, else from where it was then.
    ///
    /// # Errors
    ///
    /// As [`Corpus::reopen`].
    pub fn of_run(data: Option<&Path>, name: &str, sha256: &[u8; 32]) -> Result<Self, CorpusError> {
        let Some(path) = data else {
            return Self::reopen(name, sha256);
        };
        let corpus = Self::open(path)?;
        corpus.check_hash(sha256)?;
        Ok(corpus)
    }

    /// Checks that this is the text with the given SHA-256; zeros stand for a text that nobody
    /// knows, and any will do.
    ///
    /// # Errors
    ///
    /// [`CorpusError::Changed`].
    pub fn check_hash(&self, sha256: &[u8; 32]) -> Result<(), CorpusError> {
        if self.sha256 == *sha256 || *sha256 == [0; 32] {
            return Ok(());
        }
        Err(CorpusError::Changed {
            name: self.name.clone(),
            expected: hex(sha256),
            found: hex(&self.sha256),
        })
    }

    fn of_text(name: &str, text: String, notes: Vec<String>) -> Self {
        Self {
            name: name.to_string(),
            sha256: Sha256::digest(&text).into(),
            text,
            notes,
        }
    }

    /// Collects the distinct characters, sorted by code point.
    #[must_use]
    pub fn vocab(&self) -> Vocabulary {
        Vocabulary::of_text(&self.text)
    }

    /// Checks that a vocabulary has every character of the text.
    ///
    /// # Errors
    ///
    /// [`CorpusError::Unknown`] with the characters that it lacks.
    pub fn check_vocab(&self, vocab: &Vocabulary) -> Result<(), CorpusError> {
        let mut missing = counts(&self.text);
        missing.retain(|&(char, _)| vocab.encode(char.encode_utf8(&mut [0; 4])).is_err());
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort_unstable_by_key(|&(char, count)| (Reverse(count), char));
        Err(CorpusError::Unknown {
            name: self.name.clone(),
            missing,
        })
    }

    /// Turns the text into tokens.
    ///
    /// # Errors
    ///
    /// A character that the vocabulary lacks; it cannot happen with [`Corpus::vocab`].
    pub fn tokens(&self, vocab: &Vocabulary) -> Result<Vec<u16>, UnknownChar> {
        vocab.encode(&self.text)
    }

    /// Checks that each part of the split is longer than the sequences that are cut from it, where the
    /// text has `found` tokens.
    ///
    /// The part trained on must hold a sequence of `context_len` and its next token; dev and val are
    /// scored with a short last window, so two tokens each are enough.
    ///
    /// # Errors
    ///
    /// [`CorpusError::TooShort`] with the length that would do.
    pub fn check_len(&self, found: usize, context_len: usize) -> Result<(), CorpusError> {
        if long_enough(found, context_len) {
            return Ok(());
        }
        // The split keeps 85.5 % for training; step up from there to the first length that fits.
        let mut expected = (context_len + 1).max(found);
        while !long_enough(expected, context_len) {
            expected += 1;
        }
        Err(CorpusError::TooShort {
            name: self.name.clone(),
            context_len,
            expected,
            found,
        })
    }
}

fn long_enough(n: usize, context_len: usize) -> bool {
    let split = Split::of(n);
    split.train.len() > context_len && split.dev.len() >= 2 && split.val.len() >= 2
}

/// Counts every character, in no order.
fn counts(text: &str) -> Vec<(char, usize)> {
    let mut count = HashMap::new();
    for char in text.chars() {
        *count.entry(char).or_insert(0_usize) += 1;
    }
    count.into_iter().collect()
}

/// Lists the rarest characters, the ones to replace first, rarest first.
fn rarest(text: &str) -> Vec<char> {
    let mut chars = counts(text);
    chars.sort_unstable_by_key(|&(char, count)| (count, char));
    chars
        .into_iter()
        .take(LISTED)
        .map(|(char, _)| char)
        .collect()
}

/// Writes a hash as lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The three parts of a corpus, as ranges of tokens.
///
/// Of `n` tokens the first `floor(0.9 n)` are the training part of the usual 90/10 split; its last
/// 5 % are `dev`, on which the trainer chooses, and `val` is only ever reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Trained on.
    pub train: Range<usize>,
    /// Chosen on: the last 5 % of the 90 %.
    pub dev: Range<usize>,
    /// Reported only: the last 10 %.
    pub val: Range<usize>,
}

impl Split {
    /// Splits `n` tokens.
    #[must_use]
    pub const fn of(n: usize) -> Self {
        // Integer arithmetic: 0.9 and 0.95 are no binary fractions, and a rounding error would
        // move a boundary.
        let val_start = n * 9 / 10;
        let dev_start = val_start * 19 / 20;
        Self {
            train: 0..dev_start,
            dev: dev_start..val_start,
            val: val_start..n,
        }
    }

    /// Returns `train` and `dev` together, for a preset that trains on both.
    #[must_use]
    pub const fn train_all(&self) -> Range<usize> {
        0..self.dev.end
    }
}

/// Why there is no corpus to train on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CorpusError {
    /// The file cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The file that a run was trained on cannot be read.
    Gone {
        /// Where it was.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The file holds no text.
    Empty {
        /// The corpus.
        name: String,
    },
    /// The bytes are not UTF-8.
    NotUtf8 {
        /// The corpus.
        name: String,
        /// Where the first wrong byte is.
        offset: usize,
        /// The wrong byte.
        byte: u8,
    },
    /// More than [`MAX_VOCAB`] distinct characters.
    TooManyChars {
        /// The corpus.
        name: String,
        /// Distinct characters found.
        found: usize,
        /// The rarest of them, rarest first.
        rarest: Vec<char>,
    },
    /// The training part holds no whole sequence.
    TooShort {
        /// The corpus.
        name: String,
        /// Tokens in a sequence.
        context_len: usize,
        /// Tokens that would do.
        expected: usize,
        /// Tokens found.
        found: usize,
    },
    /// The text is not the one that a checkpoint was trained on.
    Changed {
        /// The corpus.
        name: String,
        /// SHA-256 in the checkpoint.
        expected: String,
        /// SHA-256 of the text.
        found: String,
    },
    /// The text has characters that the model does not know.
    Unknown {
        /// The corpus.
        name: String,
        /// The characters and how often they come, the most frequent first.
        missing: Vec<(char, usize)>,
    },
    /// The model was imported, and nobody knows what it was trained on.
    Nameless,
    /// Tiny Shakespeare was not found; the text says why and what to do.
    TinyShakespeare(String),
}

impl fmt::Display for CorpusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, reason } => {
                write!(f, "cannot read the text {}: {reason}", path.display())
            }
            Self::Gone { path, reason } => write!(
                f,
                "cannot read the text of the run, {}: {reason}; if it has moved, name it with \
                 --data FILE",
                path.display()
            ),
            Self::Empty { name } => write!(
                f,
                "{name} is empty; expected UTF-8 text, a few thousand characters or more"
            ),
            Self::NotUtf8 { name, offset, byte } => write!(
                f,
                "{name} is not UTF-8: byte 0x{byte:02x} at offset {offset} starts no valid \
                 character; convert the file, for example with `iconv -f WINDOWS-1252 -t UTF-8`"
            ),
            Self::TooManyChars {
                name,
                found,
                rarest,
            } => {
                write!(
                    f,
                    "{name} has {found} distinct characters; at most {MAX_VOCAB} are supported. \
                     Replace or remove some; the rarest are"
                )?;
                rarest.iter().try_for_each(|char| write!(f, " {char:?}"))
            }
            Self::TooShort {
                name,
                context_len,
                expected,
                found,
            } => write!(
                f,
                "{name} has {found} characters or tokens; sequences of {context_len} need at least \
                 {expected} (85.5 % of a text is trained on). Use a longer text or a shorter context"
            ),
            Self::Changed {
                name,
                expected,
                found,
            } => write!(
                f,
                "{name} is not the text that was trained on: expected SHA-256 {expected}, found \
                 {found}; name the right text with --data FILE"
            ),
            Self::Unknown { name, missing } => {
                let listed: Vec<String> = missing
                    .iter()
                    .take(LISTED)
                    .map(|(char, count)| format!("{char:?} ({count} times)"))
                    .collect();
                write!(
                    f,
                    "{name} has {} characters that the model does not know: {}{}; replace or remove \
                     them, or train a new model on this text, without --init",
                    missing.len(),
                    listed.join(", "),
                    if missing.len() > LISTED { ", ..." } else { "" }
                )
            }
            Self::Nameless => f.write_str(
                "the model was imported without a text to score it on; --data FILE names one",
            ),
            Self::TinyShakespeare(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for CorpusError {}
