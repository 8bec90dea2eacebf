//! What the boards share below the REPL: the stack, the resets, the faults and the model's region.
//!
//! A board's linker script puts the stack at the bottom of RAM, so that an overflow leaves RAM and
//! faults at once instead of writing over variables.

#![cfg(target_os = "none")]
#![no_std]

#[cfg_attr(target_arch = "arm", path = "cortex.rs")]
#[cfg_attr(target_arch = "riscv32", path = "riscv.rs")]
mod arch;
mod common;
mod fault;
pub mod kept;
pub mod led;
pub mod line;
mod model;
mod register;
mod resets;
pub mod stack;

pub use arch::idle;
pub use fault::{fault, panic};
pub use register::Register;

use app::{Board, Chip, Memory};
use embedded_hal::digital::OutputPin;
use embedded_io::{Read, ReadReady, Write};
use static_cell::ConstStaticCell;

/// Runs the REPL over the model in its region, with `state` as its RAM; to be called once.
pub fn run<S, L, C>(board: Board<S, L, C>, state: &mut [u32]) -> !
where
    S: Read + ReadReady + Write,
    L: OutputPin,
    C: Chip,
{
    static MEMORY: ConstStaticCell<Memory> = ConstStaticCell::new(Memory::new());
    defmt::info!("boot");
    let board = Board {
        name: board.name,
        serial: board.serial,
        led: board.led,
        chip: common::Common::new(board.chip),
    };
    app::run(board, model::region(), MEMORY.take(), state);
    arch::reset()
}
