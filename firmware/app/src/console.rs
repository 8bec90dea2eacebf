//! The terminal on the serial port: text out, bytes in, and what was typed too early.

use core::fmt;

use embedded_io::{Read, ReadReady, Write};
use heapless::Deque;

use crate::board::{Chip, TYPE_AHEAD_BYTES};
use crate::line::CTRL_C;

/// The serial port as a terminal.
///
/// Writing sends LF as CR LF. Write errors are ignored: a text goes on when nobody listens.
#[derive(Debug)]
pub(crate) struct Console<'b, S> {
    serial: S,
    type_ahead: &'b mut Deque<u8, TYPE_AHEAD_BYTES>,
    /// Bytes that found the type-ahead queue full, since the last report.
    surplus: u32,
    /// Errors of the receiver, since the last report; each stands for one or more lost bytes.
    receive_errors: u32,
}

/// What a terminal lost since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) surplus: u32,
    pub(crate) receive_errors: u32,
}

impl<'b, S: Read + ReadReady + Write> Console<'b, S> {
    pub(crate) fn new(serial: S, type_ahead: &'b mut Deque<u8, TYPE_AHEAD_BYTES>) -> Self {
        Self {
            serial,
            type_ahead,
            surplus: 0,
            receive_errors: 0,
        }
    }

    /// Waits for the next byte, feeding the watchdog; `None` when the line has ended.
    pub(crate) fn next_byte(&mut self, chip: &mut impl Chip) -> Option<u8> {
        if let Some(byte) = self.type_ahead.pop_front() {
            return Some(byte);
        }
        let _ = self.serial.flush();
        let mut byte = [0];
        loop {
            chip.feed();
            if matches!(self.serial.read_ready(), Ok(false)) {
                chip.idle();
                continue;
            }
            match self.serial.read(&mut byte) {
                Ok(0) => return None,
                Ok(_) => return Some(byte[0]),
                Err(_) => self.receive_errors = self.receive_errors.saturating_add(1),
            }
        }
    }

    /// Hands each byte that has arrived to `take`, which says what to do with it.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(u8) -> Taken) {
        let mut bytes = [0; 32];
        loop {
            if !matches!(self.serial.read_ready(), Ok(true)) {
                return;
            }
            match self.serial.read(&mut bytes) {
                Ok(0) => return,
                Ok(count) => {
                    for &byte in &bytes[..count] {
                        match take(byte) {
                            Taken::Clear => self.type_ahead.clear(),
                            Taken::Later => {
                                if self.type_ahead.push_back(byte).is_err() {
                                    self.surplus = self.surplus.saturating_add(1);
                                }
                            }
                        }
                    }
                }
                Err(_) => {
                    // One error a pass: a receiver that is broken for good must not stop the text.
                    self.receive_errors = self.receive_errors.saturating_add(1);
                    return;
                }
            }
        }
    }

    /// Queues what has arrived and returns whether Ctrl-C was among it.
    ///
    /// As on a terminal of old, Ctrl-C empties the queue: lines typed before it do not run.
    pub(crate) fn poll(&mut self) -> bool {
        let mut interrupted = false;
        self.receive(|byte| {
            if byte == CTRL_C {
                interrupted = true;
                Taken::Clear
            } else {
                Taken::Later
            }
        });
        interrupted
    }

    /// Returns the bytes that wait for their turn.
    #[cfg(feature = "frames")]
    pub(crate) fn waiting(&self) -> impl Iterator<Item = u8> + '_ {
        self.type_ahead.iter().copied()
    }

    /// Returns what was lost since the last call.
    pub(crate) fn take_lost(&mut self) -> Lost {
        Lost {
            surplus: core::mem::take(&mut self.surplus),
            receive_errors: core::mem::take(&mut self.receive_errors),
        }
    }

    /// Sends one character.
    pub(crate) fn put(&mut self, character: char) {
        let mut bytes = [0; 4];
        let text = match character {
            '\n' => "\r\n",
            _ => character.encode_utf8(&mut bytes),
        };
        self.send(text.as_bytes());
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.serial.write_all(bytes);
    }
}

/// What becomes of a byte that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It waits.
    Later,
    /// It is dealt with, and what waits is dropped.
    Clear,
}

impl<S: Read + ReadReady + Write> fmt::Write for Console<'_, S> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().for_each(|character| self.put(character));
        Ok(())
    }
}
