//! UART0 of the MPS2 boards (CMSDK APB UART), received by interrupt.
//!
//! The device holds one byte, and a forward pass takes thousands of byte times, so the interrupt
//! moves each byte into a queue. Sending polls.

use core::cell::RefCell;

use app::{Overrun, Received};
use chip::Register;
use critical_section::Mutex;
use embedded_io::{ErrorType, Read, ReadReady, Write};

use crate::map::UART0;

/// Bytes that arrive during one forward pass and wait.
const QUEUE_LEN: usize = 2048;

// SAFETY: the memory maps have UART0 there; none of its registers is memory.
const DATA: Register = unsafe { Register::new(UART0) };
// SAFETY: as above.
const STATE: Register = unsafe { Register::new(UART0 + 0x04) };
// SAFETY: as above.
const CTRL: Register = unsafe { Register::new(UART0 + 0x08) };
// SAFETY: as above.
const INT_CLEAR: Register = unsafe { Register::new(UART0 + 0x0c) };
// SAFETY: as above.
const BAUD_DIV: Register = unsafe { Register::new(UART0 + 0x10) };

const STATE_TX_FULL: u32 = 1 << 0;
const STATE_RX_FULL: u32 = 1 << 1;
const STATE_RX_OVERRUN: u32 = 1 << 3;
const CTRL_TX_RX_AND_RX_INTERRUPT: u32 = 1 << 0 | 1 << 1 | 1 << 3;
const INT_RX: u32 = 1 << 1;
const BAUD_115200: u32 = crate::map::CLOCK_HZ / 115_200;

static RECEIVED: Mutex<RefCell<Received<QUEUE_LEN>>> = Mutex::new(RefCell::new(Received::new()));

/// UART0.
pub struct Uart(());

impl Uart {
    /// Sets it up; its interrupt must be unmasked in the NVIC and call [`receive`].
    pub fn new() -> Self {
        BAUD_DIV.write(BAUD_115200);
        CTRL.write(CTRL_TX_RX_AND_RX_INTERRUPT);
        Self(())
    }
}

/// The receive interrupt.
pub fn receive() {
    INT_CLEAR.write(INT_RX);
    critical_section::with(|cs| {
        let mut received = RECEIVED.borrow_ref_mut(cs);
        while STATE.read() & STATE_RX_FULL != 0 {
            received.push(DATA.read() as u8);
        }
        if STATE.read() & STATE_RX_OVERRUN != 0 {
            STATE.write(STATE_RX_OVERRUN);
            received.lose();
        }
    });
}

impl ErrorType for Uart {
    type Error = Overrun;
}

impl Read for Uart {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Overrun> {
        while !bytes.is_empty() && !self.read_ready()? {
            chip::idle();
        }
        critical_section::with(|cs| RECEIVED.borrow_ref_mut(cs).take(bytes))
    }
}

impl ReadReady for Uart {
    fn read_ready(&mut self) -> Result<bool, Overrun> {
        critical_section::with(|cs| Ok(RECEIVED.borrow_ref(cs).is_ready()))
    }
}

/// Sends a byte.
pub fn put(byte: u8) {
    while STATE.read() & STATE_TX_FULL != 0 {}
    DATA.write(u32::from(byte));
}

impl Write for Uart {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Overrun> {
        bytes.iter().copied().for_each(put);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Overrun> {
        while STATE.read() & STATE_TX_FULL != 0 {}
        Ok(())
    }
}
