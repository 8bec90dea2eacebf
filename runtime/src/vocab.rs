//! Characters to tokens and back.

/// The vocabulary of a character-level model: token `i` is the i-th character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vocab<'a>(&'a str);

impl<'a> Vocab<'a> {
    /// Creates the vocabulary of these characters, in token order.
    #[must_use]
    pub const fn new(chars: &'a str) -> Self {
        Self(chars)
    }

    /// Returns the token of a character, or `None` when the model does not know it.
    #[must_use]
    pub fn token(&self, char: char) -> Option<u16> {
        let place = self.0.chars().position(|c| c == char)?;
        u16::try_from(place).ok()
    }

    /// Returns the character of a token, or `None` when there is no such token.
    #[must_use]
    pub fn char(&self, token: u16) -> Option<char> {
        self.0.chars().nth(usize::from(token))
    }

    /// Returns the characters in token order.
    pub fn chars(&self) -> core::str::Chars<'a> {
        self.0.chars()
    }
}
