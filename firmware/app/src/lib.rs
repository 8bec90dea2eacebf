#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod boot;
pub mod command;
mod console;
pub mod generate;
pub mod line;
mod log;
mod panic;
pub mod prompt;
mod repl;
mod report;

use core::fmt::Write as _;

use embedded_hal::delay::DelayNs;
use embedded_hal::digital::OutputPin;
use embedded_io::{Read, ReadReady, Write};
use runtime::Model;

pub use console::TYPE_AHEAD_BYTES;
pub use panic::PanicLine;
pub use repl::PROMPT;

/// What a board lends to the REPL.
#[derive(Debug)]
pub struct Board<S, L, D, C> {
    /// Shop name, for the banner.
    pub name: &'static str,
    /// The serial port. It should hold what arrives during one forward pass.
    pub serial: S,
    /// The activity LED: changes with each character, blinks three times on a fault.
    pub led: L,
    /// Paces the blinks.
    pub delay: D,
    /// Microseconds since some moment.
    pub clock: C,
}

/// Runs the REPL over the model in `blob` with `state` as its RAM.
///
/// A blob that is no model, or too little RAM, is said on the serial port and the REPL stays alive.
/// Returns when reading from the serial port gives the end of the stream, which a UART never does.
pub fn run<S, L, D, C>(board: Board<S, L, D, C>, blob: &[u8], state: &mut [u32])
where
    S: Read + ReadReady + Write,
    L: OutputPin,
    D: DelayNs,
    C: FnMut() -> u64,
{
    let Board {
        name,
        serial,
        mut led,
        mut delay,
        clock,
    } = board;
    let mut console = console::Console::new(serial);
    let _ = writeln!(console, "\nChapbook on {name}");
    let state_bytes = size_of_val(state);
    let loaded = Model::from_bytes(blob);
    let session = boot::boot(&mut console, &loaded, state);
    match &session {
        Ok(_) => {
            let _ = writeln!(console, "Type a prompt, or /help");
        }
        Err(fault) => {
            log::info!("no model");
            let _ = writeln!(console, "({fault})");
            boot::blink(&mut led, &mut delay);
        }
    }
    let model = loaded.as_ref().ok();
    repl::Repl {
        console,
        led,
        clock,
        model,
        session,
        state_bytes,
    }
    .run();
}
