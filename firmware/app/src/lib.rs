#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod bench;
mod board;
mod boot;
pub mod command;
mod console;
#[cfg(feature = "faults")]
mod fault;
#[cfg(feature = "frames")]
pub mod frames;
pub mod generate;
mod help;
pub mod journal;
#[cfg(feature = "assist")]
mod kept;
pub mod line;
mod log;
pub mod noise;
#[cfg(feature = "assist")]
mod pair;
mod panic;
pub mod prompt;
mod received;
mod repl;
mod report;
mod settings;
#[cfg(feature = "assist")]
mod stream;
mod text;

use core::fmt::Write as _;

use embedded_hal::digital::OutputPin;
use embedded_io::{Read, ReadReady, Write};
use runtime::Model;

pub use board::{
    Board, Chip, Memory, NoLed, RECORD_LEN, Reset, Resets, Stack, StoreError, TYPE_AHEAD_BYTES,
};
#[cfg(feature = "assist")]
pub use board::{Helper, Helpers};
#[cfg(feature = "assist")]
pub use kept::Kept;
#[cfg(feature = "assist")]
pub use pair::{Pair, SecondCore};
pub use panic::PanicLine;
pub use received::{Overrun, Received};
pub use repl::PROMPT;
#[cfg(feature = "assist")]
pub use stream::{Copier, Stream};

/// Runs the REPL over the model in `blob` with `state` as its RAM.
///
/// A blob that is no model, or too little RAM, is said on the serial port and the REPL stays alive.
/// Returns when reading from the serial port gives the end of the stream, which a UART never does.
pub fn run<S, L, C>(board: Board<S, L, C>, blob: &[u8], memory: &mut Memory, state: &mut [u32])
where
    S: Read + ReadReady + Write,
    L: OutputPin,
    C: Chip,
{
    let Board {
        name,
        serial,
        mut led,
        mut chip,
    } = board;
    let Memory {
        type_ahead,
        editor,
        tokens,
    } = memory;
    let mut console = console::Console::new(serial, type_ahead);
    let _ = writeln!(console, "\nChapbook on {name}");
    let resets = chip.resets();
    if resets.last != Reset::Power {
        let (last, count) = (resets.last, resets.count);
        let _ = writeln!(
            console,
            "(started over by {last}, {count} times since power)"
        );
    }
    let state_bytes = size_of_val(state);
    chip.feed();
    let loaded = Model::from_bytes(blob);
    chip.feed();
    #[cfg(feature = "assist")]
    let (state, spare) = boot::split(&loaded, state);
    #[cfg(feature = "assist")]
    let kept = (loaded.as_ref().ok()).map(|model| Kept::new(model, spare, chip.assist()));
    #[cfg(feature = "assist")]
    let loaded = loaded.map(|model| match &kept {
        Some(kept) => model.assisted(kept),
        None => model,
    });
    #[cfg(feature = "assist")]
    let help = help::Help {
        kept: kept.as_ref(),
    };
    #[cfg(not(feature = "assist"))]
    let help = help::Help::default();
    let session = boot::boot(&mut console, &mut chip, &loaded, (state, state_bytes), help);
    if let Err(fault) = &session {
        log::info!("no model");
        let _ = writeln!(console, "({fault})");
        boot::blink(&mut led, &mut chip);
    }
    let choices = boot::choices(&mut console, &mut chip);
    if session.is_ok() {
        let _ = writeln!(console, "Type a prompt, or /help");
    }
    let model = loaded.as_ref().ok();
    repl::Repl {
        name,
        console,
        led,
        chip,
        model,
        session,
        state_bytes,
        help,
        tokens,
        choices,
        counters: repl::Counters::default(),
    }
    .run(editor);
}
