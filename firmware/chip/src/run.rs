//! The REPL on a board.

use app::{Board, Chip, Memory};
use embedded_hal::digital::OutputPin;
use embedded_io::{Read, ReadReady, Write};
use static_cell::ConstStaticCell;

use crate::arch;
use crate::common::Common;

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
        chip: Common::new(board.chip),
    };
    app::run(board, crate::model::region(), MEMORY.take(), state);
    arch::reset()
}
