//! The boards' own REPL on this machine.

use std::thread;
use std::time::{Duration, Instant};

use app::{Board, Chip, Memory, NoLed};
use checkpoint::AlignedBytes;
use embedded_io::{Read, ReadReady, Write};
use runtime::Model;

/// RAM for a model whose shape is not known, in words.
const STATE_WORDS: usize = 1 << 20;
/// How often a board that waits looks at its line.
pub const NAP: Duration = Duration::from_millis(1);

/// Serves a line as the board `name` with this blob in its flash, until the line ends. `noise` is what the
/// board draws its seed from, if it has any.
pub fn serve<S>(name: &'static str, serial: S, blob: &AlignedBytes, noise: Option<u64>)
where
    S: Read + ReadReady + Write,
{
    let words = Model::from_bytes(blob).map_or(STATE_WORDS, |model| model.state_words());
    let board = Board {
        name,
        serial,
        led: NoLed,
        chip: Host {
            start: Instant::now(),
            noise,
        },
    };
    app::run(board, blob, &mut Memory::new(), &mut vec![0; words]);
}

/// The clock of this machine.
struct Host {
    start: Instant,
    noise: Option<u64>,
}

impl Chip for Host {
    fn micros(&mut self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Not known, so cycles are not shown.
    fn core_hz(&self) -> u32 {
        0
    }

    fn idle(&mut self) {
        thread::sleep(NAP);
    }

    fn entropy(&mut self) -> Option<u64> {
        self.noise
    }
}
