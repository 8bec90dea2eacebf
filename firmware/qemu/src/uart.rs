//! UART0 of the MPS2 boards (CMSDK APB UART), received by interrupt.
//!
//! The device holds one byte, and a forward pass takes thousands of byte times, so the interrupt
//! moves each byte into a queue. Sending polls.

use chip::Register;
use chip::line::{self, Line};

use crate::map::UART0;

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

/// Sets it up; its interrupt must be unmasked in the NVIC and call [`receive`].
pub fn open() -> Line {
    BAUD_DIV.write(BAUD_115200);
    CTRL.write(CTRL_TX_RX_AND_RX_INTERRUPT);
    Line { put, flush }
}

/// The receive interrupt.
pub fn receive() {
    INT_CLEAR.write(INT_RX);
    line::receive(|received| {
        while STATE.read() & STATE_RX_FULL != 0 {
            received.push(DATA.read() as u8);
        }
        if STATE.read() & STATE_RX_OVERRUN != 0 {
            STATE.write(STATE_RX_OVERRUN);
            received.lose();
        }
    });
}

/// Waits until the transmitter has room.
fn flush() {
    while STATE.read() & STATE_TX_FULL != 0 {}
}

/// Sends a byte.
pub fn put(byte: u8) {
    flush();
    DATA.write(u32::from(byte));
}
