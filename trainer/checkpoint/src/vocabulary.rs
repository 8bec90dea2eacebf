//! The characters of a model: token `i` is the character of rank `i`.

use std::fmt;

/// Distinct characters in token order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    chars: Vec<char>,
}

impl Vocabulary {
    /// Collects the distinct characters of `text` in the order of their code points.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let chars: std::collections::BTreeSet<char> = text.chars().collect();
        Self {
            chars: chars.into_iter().collect(),
        }
    }

    /// Takes the characters of `chars` in the order given, as a checkpoint or a blob stores them.
    #[must_use]
    pub fn of_chars(chars: &str) -> Self {
        Self {
            chars: chars.chars().collect(),
        }
    }

    /// Returns the number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chars.len()
    }

    /// Returns whether there is no token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chars.is_empty()
    }

    /// Returns the token of a character, if the model knows it.
    #[must_use]
    pub fn token(&self, char: char) -> Option<u16> {
        let rank = self.chars.iter().position(|&known| known == char)?;
        u16::try_from(rank).ok()
    }

    /// Returns the character of a token, if there is such a token.
    #[must_use]
    pub fn char(&self, token: u16) -> Option<char> {
        self.chars.get(usize::from(token)).copied()
    }

    /// Returns the characters in token order, the form that checkpoints and blobs store.
    #[must_use]
    pub fn to_chars(&self) -> String {
        self.chars.iter().collect()
    }

    /// Turns text into tokens.
    ///
    /// # Errors
    ///
    /// The first character that is not in the vocabulary.
    pub fn encode(&self, text: &str) -> Result<Vec<u16>, UnknownChar> {
        // A corpus has a million characters: one table beats a million searches.
        let table: std::collections::HashMap<char, u16> =
            self.chars.iter().copied().zip(0..).collect();
        text.char_indices()
            .map(|(offset, char)| {
                table
                    .get(&char)
                    .copied()
                    .ok_or(UnknownChar { char, offset })
            })
            .collect()
    }

    /// Turns tokens into text; a token that the vocabulary lacks becomes U+FFFD.
    #[must_use]
    pub fn decode(&self, tokens: &[u16]) -> String {
        tokens
            .iter()
            .map(|&token| self.char(token).unwrap_or(char::REPLACEMENT_CHARACTER))
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
