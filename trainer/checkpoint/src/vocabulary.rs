//! The tokens of a model: characters by rank, or byte pairs.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use runtime::{Decoder, Vocab, VocabError};

use crate::byte_pair;

/// Tokens in the form that checkpoints and blobs store, with a table to find them fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    bytes: Vec<u8>,
    len: usize,
    /// Token of each character, or of each piece that is one character.
    chars: HashMap<char, u16>,
}

impl Vocabulary {
    /// Collects the distinct characters of `text` in the order of their code points.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let mut chars = BTreeSet::new();
        // to collect a set is to sort all of the text first
        chars.extend(text.chars());
        Self::of_chars(&chars.into_iter().collect::<String>())
    }

    /// Takes the characters of `chars` in the order given.
    #[must_use]
    pub fn of_chars(chars: &str) -> Self {
        Self {
            bytes: chars.as_bytes().to_vec(),
            len: chars.chars().count(),
            chars: chars.chars().zip(0..).collect(),
        }
    }

    /// Takes the bytes that a checkpoint or a blob stores.
    ///
    /// # Errors
    ///
    /// Bytes that are neither characters nor byte pairs.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, VocabError> {
        match Vocab::from_bytes(bytes)? {
            Vocab::Chars(chars) => Ok(Self::of_chars(chars)),
            Vocab::Pieces(pieces) => {
                let len = u16::try_from(pieces.len()).map_err(|_| VocabError::Invalid)?;
                Vocab::Pieces(pieces).check(len)?;
                let piece = |token| {
                    let text = str::from_utf8(pieces.piece(token)?).ok()?;
                    let mut chars = text.chars();
                    let char = chars.next().filter(|_| chars.next().is_none())?;
                    Some((char, token))
                };
                Ok(Self {
                    bytes: bytes.to_vec(),
                    len: len.into(),
                    // Of equal pieces the lowest token counts, so it comes last.
                    chars: (0..len).rev().filter_map(piece).collect(),
                })
            }
        }
    }

    /// Returns the bytes that checkpoints and blobs store.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the vocabulary as the runtime reads it.
    #[must_use]
    pub fn vocab(&self) -> Vocab<'_> {
        // The bytes have been read before.
        Vocab::from_bytes(&self.bytes).unwrap_or(Vocab::Chars(""))
    }

    /// Returns the number of tokens.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no token.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the token of a character, if there is one that is just this character.
    #[must_use]
    pub fn token(&self, char: char) -> Option<u16> {
        self.chars.get(&char).copied()
    }

    /// Returns the character of a token, if it is one.
    #[must_use]
    pub fn char(&self, token: u16) -> Option<char> {
        self.vocab().char(token)
    }

    /// Turns text into tokens; byte pairs begin with the token that begins a text.
    ///
    /// # Errors
    ///
    /// The first character that is not in the vocabulary.
    pub fn encode(&self, text: &str) -> Result<Vec<u16>, UnknownChar> {
        let unknown = |(offset, char)| UnknownChar { char, offset };
        match self.vocab() {
            Vocab::Chars(_) => {
                // at most one a byte: a long text is not moved while its tokens come
                let mut tokens = Vec::with_capacity(text.len());
                for at in text.char_indices() {
                    tokens.push(self.token(at.1).ok_or_else(|| unknown(at))?);
                }
                Ok(tokens)
            }
            Vocab::Pieces(pieces) => byte_pair::encode(&pieces, &self.chars, text).map_err(unknown),
        }
    }

    /// Turns tokens into text; a token that the vocabulary lacks becomes U+FFFD.
    #[must_use]
    pub fn decode(&self, tokens: &[u16]) -> String {
        let vocab = self.vocab();
        let Vocab::Chars(chars) = vocab else {
            let mut text = String::new();
            let mut decoder = Decoder::after(vocab, &[]);
            for &token in tokens {
                decoder.decode(vocab, token, |char| text.push(char));
            }
            return text;
        };
        let chars: Vec<char> = chars.chars().collect();
        let char = |&token: &u16| chars.get(usize::from(token)).copied();
        let chars = tokens.iter().map(char);
        chars
            .map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    }
}

/// A character that the vocabulary lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownChar {
    /// The character.
    pub char: char,
    /// Where it starts in the text, in bytes.
    pub offset: usize,
}

impl fmt::Display for UnknownChar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the model's vocabulary has no {:?} (at byte {})",
            self.char, self.offset
        )
    }
}

impl std::error::Error for UnknownChar {}
