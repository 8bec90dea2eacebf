//! What a board lends to the REPL: a serial port, an LED, a chip and memory.

use core::convert::Infallible;
use core::fmt;

use embedded_hal::digital::{ErrorType, OutputPin};
use heapless::Deque;
use runtime::Vocab;

use crate::line::{LINE_BYTES, LineEditor};

/// Bytes that wait for their turn while a text is made: 10 KiB of paste and more.
pub const TYPE_AHEAD_BYTES: usize = 12 * 1024;
/// Bytes of the settings that a [`Chip`] keeps.
pub const RECORD_LEN: usize = 32;

/// What a board lends to the REPL.
#[derive(Debug)]
pub struct Board<S, L, C> {
    /// Shop name, for the banner.
    pub name: &'static str,
    /// The serial port. It should hold what arrives during one forward pass.
    pub serial: S,
    /// The activity LED: changes with each character, blinks three times on a fault.
    pub led: L,
    /// The rest of the chip.
    pub chip: C,
}

/// The LED of a board that has none.
#[derive(Clone, Copy, Debug)]
pub struct NoLed;

impl ErrorType for NoLed {
    type Error = Infallible;
}

impl OutputPin for NoLed {
    fn set_low(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// What the REPL asks of a chip. Only time is a must; whatever a chip lacks is said where it is
/// asked for.
pub trait Chip {
    /// Returns microseconds since some moment.
    fn micros(&mut self) -> u64;

    /// Returns the cycles of the core in a second.
    fn core_hz(&self) -> u32;

    /// Sleeps until an interrupt, or for a moment: the REPL has nothing to do.
    fn idle(&mut self) {}

    /// Feeds the watchdog. The REPL does so before each forward pass and while it waits.
    fn feed(&mut self) {}

    /// Returns the time after which a watchdog that is not fed resets the chip.
    fn watchdog_ms(&self) -> Option<u32> {
        None
    }

    /// Draws a seed from noise; `None` where there is no noise or it is stuck.
    fn entropy(&mut self) -> Option<u64> {
        None
    }

    /// Reads the settings that [`Chip::save`] wrote, or whatever else lies in their place.
    ///
    /// # Errors
    ///
    /// Where there is no place for settings.
    fn load(&mut self, _record: &mut [u8; RECORD_LEN]) -> Result<(), StoreError> {
        Err(StoreError::Absent)
    }

    /// Keeps settings over a reset and a loss of power.
    ///
    /// # Errors
    ///
    /// Where there is no place for settings, or writing failed.
    fn save(&mut self, _record: &[u8; RECORD_LEN]) -> Result<(), StoreError> {
        Err(StoreError::Absent)
    }

    /// Returns how much of the stack has been used.
    fn stack(&self) -> Option<Stack> {
        None
    }

    /// Returns how often the chip has started over.
    fn resets(&self) -> Resets {
        Resets::default()
    }

    /// Returns what helps with the products of the model, after a trial of each; asked for once.
    #[cfg(feature = "assist")]
    fn assist(&mut self) -> Option<&'static dyn runtime::Assist> {
        None
    }

    /// Returns how the helpers of [`Chip::assist`] are.
    #[cfg(feature = "assist")]
    fn helpers(&self) -> Helpers {
        Helpers::default()
    }
}

/// How a part of the chip is that helps with the products of the model.
#[cfg(feature = "assist")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Helper {
    /// It is not there, or not in use.
    #[default]
    Absent,
    /// It does its part.
    Works,
    /// It did not answer in time, and is not asked any more.
    Failed,
}

/// What a chip may have to help with the products of the model.
#[cfg(feature = "assist")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Helpers {
    /// Copies weights from flash ahead of their use.
    pub stream: Helper,
    /// Computes half of the rows.
    pub core: Helper,
}

#[cfg(feature = "assist")]
impl fmt::Display for Helpers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.stream {
            Helper::Absent => "stream: none; cores: ",
            Helper::Works => "stream: ahead of use; cores: ",
            Helper::Failed => "stream: stopped, it took too long; cores: ",
        })?;
        f.write_str(match self.core {
            Helper::Absent => "1",
            Helper::Works => "2",
            Helper::Failed => "1, the other does not answer",
        })
    }
}

/// Why settings are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// This board has no place for them.
    Absent,
    /// The flash did not take them.
    Failed,
    /// The place takes no more of them until it is erased.
    Full,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "this board has no place to keep settings",
            Self::Full => {
                "the place for settings is full; erase the chip (probe-rs erase) and flash it again"
            }
            Self::Failed => "the flash did not take the settings; they hold until the next reset",
        })
    }
}

impl core::error::Error for StoreError {}

/// The stack: the highest use since the start, and what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Bytes used at most, found by paint that was overwritten.
    pub used: usize,
    /// Bytes reserved.
    pub size: usize,
}

/// How often a chip has started over since it got power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resets {
    /// Starts after the first.
    pub count: u32,
    /// Why it last started over.
    pub last: Reset,
}

/// Why a chip started over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "frames", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Reset {
    /// It got power.
    #[default]
    Power,
    /// A panic.
    Panic,
    /// The stack overflowed.
    Stack,
    /// The core took a fault.
    Fault,
    /// The reset button, the watchdog alone, or a debug probe.
    Unannounced,
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Power => "power",
            Self::Panic => "a panic",
            Self::Stack => "a stack overflow",
            Self::Fault => "a fault of the core",
            Self::Unannounced => "button, probe or watchdog",
        })
    }
}

/// The buffers of the REPL, for a `static`: they are too large for a stack.
#[derive(Debug)]
pub struct Memory {
    pub(crate) type_ahead: Deque<u8, TYPE_AHEAD_BYTES>,
    pub(crate) editor: LineEditor,
    /// Tokens of the prompt, and room to make them.
    pub(crate) tokens: [u16; Vocab::encode_len(LINE_BYTES)],
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// Creates empty buffers.
    pub const fn new() -> Self {
        Self {
            type_ahead: Deque::new(),
            editor: LineEditor::new(),
            tokens: [0; Vocab::encode_len(LINE_BYTES)],
        }
    }
}
