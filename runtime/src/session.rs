//! A running text: tokens in, logits out, however long it grows.

use core::fmt;

use crate::config::Position;
use crate::crc::LogitsHash;
use crate::model::{Model, Place};
use crate::part::{part, split};
use crate::sampler::Sampler;
use crate::state::{State, StateTooSmall};

/// Why a token was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PushError {
    /// The token is not in the vocabulary.
    UnknownToken {
        /// The token.
        token: u16,
        /// Tokens in the vocabulary.
        vocab_size: u16,
    },
    /// The token before has not been computed; call [`Session::step`] until it returns false.
    Busy,
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownToken { token, vocab_size } => {
                write!(f, "token {token} is not below vocab_size {vocab_size}")
            }
            Self::Busy => f.write_str("the token before has not been computed"),
        }
    }
}

impl core::error::Error for PushError {}

/// The engine computes other bits than the exporter did: bad flash, bad RAM or a bad build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SelfTestError {
    /// Hash in the blob.
    pub expected: u64,
    /// Hash computed.
    pub found: u64,
}

impl fmt::Display for SelfTestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "self-test failed: the logits hash should be {:016x} and is {:016x}",
            self.expected, self.found
        )
    }
}

impl core::error::Error for SelfTestError {}

/// One text in progress: the model, its buffers and the position.
///
/// # When the text outgrows the context
///
/// With rotary positions `kv_cache` is a ring: the oldest position is overwritten and the angles
/// wrap. With absolute positions cached keys cannot move, so when the cache is full the last
/// `context_len / 2` tokens are computed anew from position 0; [`step`](Self::step) then has
/// several passes to make for one token.
#[derive(Debug)]
pub struct Session<'m> {
    model: &'m Model<'m>,
    state: State<'m>,
    /// Tokens taken since the last reset.
    pos: u64,
    /// `pos` modulo `context_len`, kept because small cores divide slowly.
    slot: usize,
    /// First token in the cache, for absolute positions.
    start: u64,
    /// Tokens computed since the last reset, or since `start` moved.
    done: u64,
}

impl<'m> Session<'m> {
    /// Creates a session in the caller's memory; its contents do not matter.
    ///
    /// # Errors
    ///
    /// When `memory` is shorter than [`Model::state_words`].
    pub fn new(model: &'m Model<'m>, memory: &'m mut [u32]) -> Result<Self, StateTooSmall> {
        Ok(Self {
            model,
            state: State::new(model.config(), model.plan(), memory)?,
            pos: 0,
            slot: 0,
            start: 0,
            done: 0,
        })
    }

    /// Returns the model.
    #[must_use]
    pub const fn model(&self) -> &'m Model<'m> {
        self.model
    }

    /// Returns the number of tokens taken since the last reset.
    #[must_use]
    pub const fn pos(&self) -> u64 {
        self.pos
    }

    /// Forgets the text.
    pub const fn reset(&mut self) {
        self.pos = 0;
        self.slot = 0;
        self.start = 0;
        self.done = 0;
    }

    /// Takes the next token of the text; [`step`](Self::step) computes it.
    ///
    /// # Errors
    ///
    /// See [`PushError`]; the session is unchanged then.
    pub fn push(&mut self, token: u16) -> Result<(), PushError> {
        let config = self.model.config();
        if token >= config.vocab_size {
            return Err(PushError::UnknownToken {
                token,
                vocab_size: config.vocab_size,
            });
        }
        if self.done < self.pos {
            return Err(PushError::Busy);
        }
        let context_len = u64::from(config.context_len);
        if config.position != Position::Rope && self.pos - self.start == context_len {
            self.start = self.pos - context_len / 2;
            self.done = self.start;
        }
        if let Some(place) = self.state.history.get_mut(self.slot) {
            *place = token;
        }
        self.pos += 1;
        self.slot += 1;
        if self.slot == usize::from(config.context_len) {
            self.slot = 0;
        }
        Ok(())
    }

    /// Makes one forward pass and returns whether more are to be made before the logits are ready.
    ///
    /// Does nothing when nothing is to be made.
    pub fn step(&mut self) -> bool {
        let ahead = (self.pos - self.done) as usize;
        if ahead == 0 {
            return false;
        }
        // At most `context_len` tokens are ahead.
        let context_len = u64::from(self.model.config().context_len);
        let slot = match self.slot.checked_sub(ahead) {
            Some(slot) => slot,
            None => self.slot + context_len as usize - ahead,
        };
        let token = self.state.history.get(slot).copied().unwrap_or(0);
        let place = if self.model.config().position == Position::Rope {
            Place {
                pos: self.done as u32,
                slot,
                n: (self.done + 1).min(context_len) as usize,
            }
        } else {
            let pos = (self.done - self.start) as usize;
            Place {
                pos: pos as u32,
                slot: pos,
                n: pos + 1,
            }
        };
        self.done += 1;
        let more = self.done < self.pos;
        self.model.forward(&mut self.state, token, place, !more);
        more
    }

    /// Returns the logits of the token that follows the text.
    ///
    /// Natural logarithms of unnormalised probabilities, in units of 2^-16. They hold after [`step`](Self::step) has returned false, until the next step or sample.
    ///
    /// # Shapes
    ///
    /// - `[vocab_size]`
    #[must_use]
    pub fn logits(&self) -> &[i32] {
        part(self.state.scratch, 0, self.model.config().vocab_size.into())
    }

    /// Returns the residual stream of the last token after the last layer, before the final norm, in
    /// units of 2^-16.
    ///
    /// # Shapes
    ///
    /// - `[d_model]`
    #[must_use]
    pub fn residual(&self) -> &[i32] {
        self.state.x
    }

    /// Takes a token and computes it: [`push`](Self::push), then [`step`](Self::step) to the end.
    ///
    /// # Errors
    ///
    /// See [`PushError`].
    pub fn feed(&mut self, token: u16) -> Result<&[i32], PushError> {
        self.push(token)?;
        while self.step() {}
        Ok(self.logits())
    }

    /// Chooses the token that follows; the logits are used up by this.
    pub fn sample(&mut self, sampler: &mut Sampler) -> u16 {
        let vocab_size = usize::from(self.model.config().vocab_size);
        let (logits, order) = split(self.state.scratch, vocab_size);
        sampler.sample(logits, bytemuck::cast_slice_mut(order))
    }

    /// Computes the golden prompt of the blob and compares the logits with those of the exporter.
    ///
    /// Forgets the text. Returns the hash.
    ///
    /// # Errors
    ///
    /// When the bits differ.
    pub fn self_test(&mut self) -> Result<u64, SelfTestError> {
        let golden = self.model.header().golden;
        self.reset();
        let mut hash = LogitsHash::new();
        for token in golden.tokens() {
            // The loader has checked that every golden token is in the vocabulary.
            if let Ok(logits) = self.feed(token) {
                hash.update(logits);
            }
        }
        self.reset();
        let found = hash.finish();
        if found == golden.logits_hash {
            Ok(found)
        } else {
            Err(SelfTestError {
                expected: golden.logits_hash,
                found,
            })
        }
    }
}
