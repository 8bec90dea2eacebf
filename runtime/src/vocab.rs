//! Text to tokens and back.

use core::fmt;

#[cfg(feature = "byte-pair")]
use crate::pieces::Pieces;

/// First byte of a byte-pair vocabulary; no UTF-8 text has it.
pub const BYTE_PAIR_MARK: u8 = 0xFF;

/// The vocabulary of a model, in place: its characters, or byte pairs.
///
/// Without the feature `byte-pair` there are characters only, and a model of byte pairs does not
/// load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocab<'a> {
    /// Token `i` is the i-th character; ascending.
    Chars(&'a str),
    /// Tokens are pieces of text.
    #[cfg(feature = "byte-pair")]
    Pieces(Pieces<'a>),
}

/// Why bytes are no vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum VocabError {
    /// Byte pairs, for which this build has no code.
    Unsupported,
    /// Not as many tokens as the model has, or not in order.
    Invalid,
}

impl fmt::Display for VocabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsupported => {
                "the model's tokens are byte pairs, which this program was built without; build \
                 it with `--features byte-pair`"
            }
            Self::Invalid => "the vocabulary does not have vocab_size tokens in order",
        })
    }
}

impl core::error::Error for VocabError {}

impl<'a> Vocab<'a> {
    /// Reads the bytes that checkpoint and blob store: UTF-8, or [`BYTE_PAIR_MARK`] and what
    /// `FORMAT.md` says.
    ///
    /// # Errors
    ///
    /// See [`VocabError`].
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, VocabError> {
        if bytes.first() == Some(&BYTE_PAIR_MARK) {
            #[cfg(feature = "byte-pair")]
            return Pieces::from_bytes(bytes).map(Self::Pieces);
            #[cfg(not(feature = "byte-pair"))]
            return Err(VocabError::Unsupported);
        }
        core::str::from_utf8(bytes)
            .map(Self::Chars)
            .map_err(|_| VocabError::Invalid)
    }

    /// Checks that there are `vocab_size` tokens in order.
    ///
    /// # Errors
    ///
    /// [`VocabError::Invalid`].
    pub fn check(&self, vocab_size: u16) -> Result<(), VocabError> {
        let valid = match self {
            Self::Chars(chars) => {
                let (mut last, mut count) = (None, 0);
                for char in chars.chars() {
                    if last >= Some(char) {
                        return Err(VocabError::Invalid);
                    }
                    last = Some(char);
                    count += 1;
                }
                count == usize::from(vocab_size)
            }
            #[cfg(feature = "byte-pair")]
            Self::Pieces(pieces) => pieces.is_valid() && pieces.len() == vocab_size.into(),
        };
        if valid {
            Ok(())
        } else {
            Err(VocabError::Invalid)
        }
    }

    /// Returns the token of a character, or `None` when no token is just this character.
    #[must_use]
    pub fn token(&self, char: char) -> Option<u16> {
        match self {
            Self::Chars(chars) => {
                let place = chars.chars().position(|c| c == char)?;
                u16::try_from(place).ok()
            }
            #[cfg(feature = "byte-pair")]
            Self::Pieces(pieces) => pieces.token(char.encode_utf8(&mut [0; 4]).as_bytes(), &[]),
        }
    }

    /// Returns the character of a token, or `None` when there is no such token or it is more or
    /// less than one character.
    #[must_use]
    pub fn char(&self, token: u16) -> Option<char> {
        match self {
            Self::Chars(chars) => chars.chars().nth(usize::from(token)),
            #[cfg(feature = "byte-pair")]
            Self::Pieces(pieces) => {
                let mut chars = core::str::from_utf8(pieces.piece(token)?).ok()?.chars();
                chars.next().filter(|_| chars.next().is_none())
            }
        }
    }

    /// Returns whether this token ends a text: the one that begins texts, or the one that ends them.
    #[must_use]
    #[cfg_attr(
        not(feature = "byte-pair"),
        expect(unused_variables, reason = "a text of characters has no end")
    )]
    pub fn is_end(&self, token: u16) -> bool {
        match self {
            Self::Chars(_) => false,
            #[cfg(feature = "byte-pair")]
            Self::Pieces(pieces) => pieces.bos() == Some(token) || pieces.eos() == Some(token),
        }
    }

    /// Returns whether tokens are pieces of text, not characters.
    #[must_use]
    pub const fn is_byte_pair(&self) -> bool {
        match self {
            Self::Chars(_) => false,
            #[cfg(feature = "byte-pair")]
            Self::Pieces(_) => true,
        }
    }

    /// Returns how many elements the buffer of [`encode`](Self::encode) needs for a text of so many
    /// bytes: a token per byte and one for an empty text; for byte pairs one that begins the text and
    /// a space, and as much again for their merges.
    #[must_use]
    pub const fn encode_len(text_len: usize) -> usize {
        if cfg!(feature = "byte-pair") {
            2 * (text_len + 2)
        } else {
            text_len + 1
        }
    }

    /// Turns a text into tokens, hands each character that the vocabulary lacks to `unknown`, and
    /// returns the number of tokens.
    ///
    /// The tokens are at the start of `buffer`, which has [`encode_len`](Self::encode_len) elements;
    /// what does not fit is left out. Byte pairs are merged as llama2.c does, see `FORMAT.md`, and
    /// begin with the token that begins a text, where there is one.
    pub fn encode(
        &self,
        text: impl Iterator<Item = char>,
        buffer: &mut [u16],
        mut unknown: impl FnMut(char),
    ) -> usize {
        match self {
            Self::Chars(_) => {
                let mut n = 0;
                for char in text {
                    let Some(token) = self.token(char) else {
                        unknown(char);
                        continue;
                    };
                    if let Some(place) = buffer.get_mut(n) {
                        *place = token;
                        n += 1;
                    }
                }
                n
            }
            #[cfg(feature = "byte-pair")]
            Self::Pieces(pieces) => {
                let (tokens, merges) = crate::part::split(buffer, buffer.len() / 2);
                pieces.encode(text, tokens, merges, unknown)
            }
        }
    }
}

/// Tokens to text, one by one.
///
/// A character is complete when its last byte is; bytes that are no UTF-8 become U+FFFD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoder {
    #[cfg(feature = "byte-pair")]
    pub(crate) state: crate::pieces::Partial,
}

impl Decoder {
    /// Creates the decoder of a text that goes on after `tokens`.
    #[must_use]
    #[cfg_attr(
        not(feature = "byte-pair"),
        expect(unused_variables, reason = "characters do not depend on those before")
    )]
    pub fn after(vocab: Vocab<'_>, tokens: &[u16]) -> Self {
        Self {
            #[cfg(feature = "byte-pair")]
            state: crate::pieces::Partial::after(vocab, tokens.last().copied()),
        }
    }

    /// Hands the characters that a token completes to `emit`; none for a token that ends a text or
    /// that the vocabulary lacks.
    #[cfg_attr(
        not(feature = "byte-pair"),
        allow(
            clippy::unused_self,
            reason = "characters need no state; the lint spares what a crate exports"
        )
    )]
    pub fn decode(&mut self, vocab: Vocab<'_>, token: u16, emit: impl FnMut(char)) {
        match vocab {
            Vocab::Chars(_) => vocab.char(token).into_iter().for_each(emit),
            #[cfg(feature = "byte-pair")]
            Vocab::Pieces(pieces) => self.state.decode(&pieces, token, emit),
        }
    }
}
