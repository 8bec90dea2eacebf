//! What program and board say to each other.
//!
//! The order of variants and fields is the format. A change that is not a variant at the end of an
//! enum raises [`VERSION`]; `Hello`, `Bye` and the refusal of a version stay as they are for ever.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::board::Reset;
use crate::settings::Seed;

/// Version of the messages, which both ends name in their `Hello`.
pub const VERSION: u16 = 1;

/// A message and the request that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message<T> {
    /// Chosen by the program for a request; the board's answers repeat it. 0 belongs to none.
    pub id: u32,
    /// What is said.
    pub body: T,
}

/// From the program to the board.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request<'a> {
    /// Comes first; answered by [`Reply::Hello`] or, if the board has another version, by
    /// [`Error::Version`].
    Hello {
        /// [`VERSION`] of the program.
        version: u16,
    },
    /// Back to the terminal; answered by [`Reply::Bye`].
    Bye,
    /// Has a text made; answered by [`Reply::Begin`], a [`Reply::Token`] for each token and
    /// [`Reply::Done`].
    Prompt {
        /// The prompt as it is, without escapes; [`LINE_BYTES`](crate::line::LINE_BYTES) at most.
        text: &'a str,
    },
    /// Asks for the settings; answered by [`Reply::Settings`].
    Settings,
    /// Changes the settings of later prompts; answered by [`Reply::Settings`].
    Set(Settings),
    /// Answered by [`Reply::Stats`].
    Stats,
    /// Stops the text that the prompt with this id asked for, also one that waits, or with the id 0
    /// every text; otherwise nothing happens. Has no answer of its own: that is the text's
    /// [`Reply::Done`].
    Cancel,
}

/// What a text is made by, besides prompt and model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// As in [`runtime::Settings`].
    pub temperature: f32,
    /// As in [`runtime::Settings`].
    pub top_k: u16,
    /// As in [`runtime::Settings`].
    pub top_p: f32,
    /// Where the seed comes from.
    pub seed: Seed,
    /// Tokens in a text, at least 1.
    pub len: u32,
}

/// From the board to the program.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply<'a> {
    /// The versions agree.
    Hello {
        /// [`VERSION`] of the board.
        version: u16,
        /// The board's name.
        board: &'a str,
        /// What lies in the board's flash; `None` for no model.
        model: Option<ModelInfo<'a>>,
        /// Seed of this boot.
        boot_seed: u64,
    },
    /// The next byte is the terminal's.
    Bye,
    /// Something is wrong; nothing else is answered to the request.
    Error(Error<'a>),
    /// A text begins.
    Begin {
        /// The seed that it is made with.
        seed: u64,
        /// Tokens of the prompt.
        prompt: u32,
        /// Characters of the prompt that the model does not know and that were left out.
        unknown: u32,
    },
    /// A token of the text.
    Token {
        /// Its number.
        token: u16,
        /// The probability with which it was drawn, in units of 2^-24; see
        /// [`Sampler::probability`](runtime::Sampler::probability).
        probability: u32,
        /// The characters that it completes.
        text: &'a str,
    },
    /// Further characters of the last token.
    More {
        /// The characters.
        text: &'a str,
    },
    /// A text has ended.
    Done {
        /// Why.
        end: End,
        /// Tokens made.
        tokens: u32,
        /// Hash of the logits at every position, the prompt's included.
        hash: u64,
        /// Microseconds from the prompt to the first token.
        first_us: u64,
        /// Microseconds from the first token to the last.
        text_us: u64,
    },
    /// The settings in force.
    Settings(Settings),
    /// What the board has done so far.
    Stats(Stats),
}

/// The model in a board's flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo<'a> {
    /// Name of the run that trained it.
    pub run: &'a str,
    /// Parameters.
    pub n_params: u32,
    /// Positions that it sees.
    pub context_len: u16,
    /// Tokens that it knows.
    pub vocab_size: u16,
    /// CRC-32 of the blob, in the layout that the board has it in.
    pub crc: u32,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// It has the length asked for, or the model ended it.
    Complete,
    /// By [`Request::Cancel`].
    Cancelled,
}

/// What `/stats` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Seed of the last text; this and the next six are 0 where there is none yet.
    pub seed: u64,
    /// Tokens of its prompt.
    pub prompt: u32,
    /// Its tokens.
    pub tokens: u32,
    /// Its characters.
    pub characters: u32,
    /// Hash of its logits.
    pub hash: u64,
    /// Microseconds from the prompt to the first token.
    pub first_us: u64,
    /// Microseconds from the first token to the last.
    pub text_us: u64,
    /// Cycles of the core in a second.
    pub core_hz: u32,
    /// The longest time between two feeds of the watchdog while texts were made, in microseconds.
    pub longest_step_us: u64,
    /// The watchdog resets the chip after this time in milliseconds, if there is one.
    pub watchdog_ms: Option<u32>,
    /// Bytes of RAM that the model takes, and that there are for it.
    pub model_ram: (u32, u32),
    /// The stack, where the board knows.
    pub stack: Option<StackUse>,
    /// Starts since power, after the first.
    pub resets: u32,
    /// Why it last started over.
    pub last_reset: Reset,
    /// Bytes dropped because the queue was full.
    pub dropped: u32,
    /// Errors of the receiver.
    pub receive_errors: u32,
}

/// The stack: the highest use since the start, and what there is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackUse {
    /// Used at most.
    pub used: u32,
    /// Reserved.
    pub size: u32,
}

/// Why a request is not answered, or a frame not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Error<'a> {
    /// The ends speak different versions.
    Version {
        /// Of the board.
        board: u16,
        /// Of the program.
        program: u16,
    },
    /// The first request is not `Hello`.
    NoHello,
    /// COBS or CRC-32 of a frame is wrong: bytes were lost or changed, or are no frame.
    Damaged,
    /// A frame is longer than the longest message.
    TooLong,
    /// The frame is whole, and no message of this version.
    Unknown,
    /// The prompt is too long.
    Prompt {
        /// Bytes that it may have.
        limit: u32,
        /// Bytes that it has.
        found: u32,
    },
    /// There is no model to talk to; the board's own words.
    NoModel(&'a str),
    /// `temperature` is out of range.
    Temperature,
    /// `top_p` is out of range.
    TopP,
    /// `len` is 0.
    Len,
    /// Bytes were lost since the last request; frames are missing or damaged.
    Lost {
        /// Bytes that found the queue full.
        dropped: u32,
        /// Errors of the receiver, each of one or more bytes.
        receive_errors: u32,
    },
}

impl fmt::Display for Error<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { board, program } => write!(
                f,
                "the board speaks version {board} of the frames, this program version {program}; flash \
                 the board with the firmware of the same repository"
            ),
            Self::NoHello => f.write_str("the board expects Hello before any other request"),
            Self::Damaged => {
                f.write_str("the board got a damaged frame: its CRC-32 or COBS is wrong")
            }
            Self::TooLong => write!(
                f,
                "the board got a frame of more than {PAYLOAD} bytes",
                PAYLOAD = super::PAYLOAD_BYTES
            ),
            Self::Unknown => f.write_str("the board does not know this message"),
            Self::Prompt { limit, found } => {
                write!(
                    f,
                    "a prompt holds {limit} bytes, this one has {found}; shorten it"
                )
            }
            Self::NoModel(said) => f.write_str(said),
            Self::Temperature => runtime::SettingsError::Temperature.fmt(f),
            Self::TopP => runtime::SettingsError::TopP.fmt(f),
            Self::Len => f.write_str("the length must be a whole number from 1 to 4294967295"),
            Self::Lost {
                dropped,
                receive_errors,
            } => write!(
                f,
                "the board dropped {dropped} bytes past its queue and had {receive_errors} receive errors; \
                 send less at once"
            ),
        }
    }
}

impl core::error::Error for Error<'_> {}
