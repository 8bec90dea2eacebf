//! A serial line that an interrupt receives from, for boards without a driver; sending polls.

use core::cell::RefCell;

use app::{Overrun, Received};
use critical_section::Mutex;
use embedded_io::{ErrorType, Read, ReadReady, Write};

/// Bytes that arrive during one forward pass and wait.
const QUEUE_LEN: usize = 2048;

static RECEIVED: Mutex<RefCell<Received<QUEUE_LEN>>> = Mutex::new(RefCell::new(Received::new()));

/// Lends the queue to the receive interrupt.
pub fn receive(fill: impl FnOnce(&mut Received<QUEUE_LEN>)) {
    critical_section::with(|cs| fill(&mut RECEIVED.borrow_ref_mut(cs)));
}

/// The line, for the REPL.
pub struct Line {
    /// Sends a byte.
    pub put: fn(u8),
    /// Waits until the transmitter has room.
    pub flush: fn(),
}

impl ErrorType for Line {
    type Error = Overrun;
}

impl Read for Line {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Overrun> {
        while !bytes.is_empty() && !self.read_ready()? {
            crate::idle();
        }
        critical_section::with(|cs| RECEIVED.borrow_ref_mut(cs).take(bytes))
    }
}

impl ReadReady for Line {
    fn read_ready(&mut self) -> Result<bool, Overrun> {
        critical_section::with(|cs| Ok(RECEIVED.borrow_ref(cs).is_ready()))
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Overrun> {
        bytes.iter().copied().for_each(self.put);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Overrun> {
        (self.flush)();
        Ok(())
    }
}
