//! Generation: the one order of forward passes, hashing and sampling that host and boards share.
//!
//! Nothing here does I/O. A board calls [`Generation::advance`] and looks after its serial port
//! between the calls; the host calls [`text`]. Both make the same text and the same hash.

use core::fmt;

use runtime::{Decoder, LogitsHash, PushError, Sampler, Session, Settings, SettingsError};

/// The seed until `/seed` changes it.
pub const DEFAULT_SEED: u64 = 1;
/// The length of a text until `/len` changes it.
pub const DEFAULT_LEN: u32 = 256;

/// What a text depends on besides the model and the prompt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// How characters are drawn.
    pub settings: Settings,
    /// Seed of the sampler.
    pub seed: u64,
    /// Tokens to generate; a text that the model ends is shorter.
    pub len: u32,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            seed: DEFAULT_SEED,
            len: DEFAULT_LEN,
        }
    }
}

/// Why a text cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GenerateError {
    /// A setting is out of range.
    Settings(SettingsError),
    /// The prompt holds a token that the model does not have.
    Prompt(PushError),
}

impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(error) => error.fmt(f),
            Self::Prompt(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for GenerateError {}

/// What one call of [`Generation::advance`] brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A forward pass; no character yet.
    Working,
    /// The next token of the text.
    Token(u16),
    /// The text is complete.
    Done,
}

/// A text in the making.
#[derive(Debug)]
pub struct Generation<'g, 'm> {
    session: &'g mut Session<'m>,
    prompt: &'g [u16],
    sampler: Sampler,
    hash: LogitsHash,
    left: u32,
    /// Forward passes are due before the logits can be read.
    pending: bool,
}

impl<'g, 'm> Generation<'g, 'm> {
    /// Starts a text in a fresh context.
    ///
    /// # Errors
    ///
    /// If a setting is out of range.
    pub fn new(
        session: &'g mut Session<'m>,
        prompt: &'g [u16],
        request: Request,
    ) -> Result<Self, GenerateError> {
        let sampler =
            Sampler::new(request.settings, request.seed).map_err(GenerateError::Settings)?;
        session.reset();
        let hash = LogitsHash::new();
        Ok(Self {
            session,
            prompt,
            sampler,
            hash,
            left: request.len,
            pending: false,
        })
    }

    /// Does a bounded piece of work: at most one forward pass.
    ///
    /// # Errors
    ///
    /// If the prompt holds a token that the model does not have.
    pub fn advance(&mut self) -> Result<Progress, GenerateError> {
        if self.pending {
            self.pending = self.session.step();
            if !self.pending {
                self.hash.update(self.session.logits());
            }
            return Ok(Progress::Working);
        }
        if let Some((&token, rest)) = self.prompt.split_first() {
            self.prompt = rest;
            self.push(token)?;
            return Ok(Progress::Working);
        }
        if self.left == 0 {
            return Ok(Progress::Done);
        }
        self.left -= 1;
        let token = self.session.sample(&mut self.sampler);
        if self.session.model().vocab().is_end(token) {
            self.left = 0;
            return Ok(Progress::Done);
        }
        // The last character needs no logits after it.
        if self.left > 0 {
            self.push(token)?;
        }
        Ok(Progress::Token(token))
    }

    /// Returns the probability of the last token, see [`Sampler::probability`].
    pub fn probability(&self) -> u32 {
        self.sampler.probability()
    }

    /// Returns the hash of the logits at every position so far, the prompt's included.
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    fn push(&mut self, token: u16) -> Result<(), GenerateError> {
        self.session.push(token).map_err(GenerateError::Prompt)?;
        self.pending = true;
        Ok(())
    }
}

/// Generates a whole text, hands its characters to `emit` and returns the logits hash.
///
/// # Errors
///
/// As [`Generation::new`] and [`Generation::advance`].
pub fn text(
    session: &mut Session<'_>,
    prompt: &[u16],
    request: Request,
    mut emit: impl FnMut(char),
) -> Result<u64, GenerateError> {
    let vocab = session.model().vocab();
    let mut decoder = Decoder::after(vocab, prompt);
    let mut generation = Generation::new(session, prompt, request)?;
    loop {
        match generation.advance()? {
            Progress::Working => {}
            Progress::Token(token) => decoder.decode(vocab, token, &mut emit),
            Progress::Done => return Ok(generation.hash()),
        }
    }
}
