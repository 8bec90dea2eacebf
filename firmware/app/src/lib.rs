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
pub mod line;
mod log;
mod panic;
pub mod prompt;
mod received;
mod repl;
mod report;
mod settings;
mod text;

use core::fmt::Write as _;

use embedded_hal::digital::OutputPin;
use embedded_io::{Read, ReadReady, Write};
use runtime::Model;

pub use board::{
    Board, Chip, Memory, RECORD_LEN, Reset, Resets, Stack, StoreError, TYPE_AHEAD_BYTES,
};
pub use panic::PanicLine;
pub use received::{Overrun, Received};
pub use repl::PROMPT;

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
    let session = boot::boot(&mut console, &mut chip, &loaded, state);
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
        tokens,
        choices,
        counters: repl::Counters::default(),
    }
    .run(editor);
}
