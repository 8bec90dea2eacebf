//! UART0 of the MPS2 boards (CMSDK APB UART), received by interrupt.
//!
//! The device holds one byte, and a forward pass takes thousands of byte times, so the interrupt
//! moves each byte into a queue. Sending polls.

use core::cell::RefCell;

use critical_section::Mutex;
use embedded_io::{ErrorKind, ErrorType, Read, ReadReady, Write};
use heapless::Deque;

use crate::map::UART0;
use crate::register::Register;

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

struct Received {
    bytes: Deque<u8, QUEUE_LEN>,
    overrun: bool,
}

static RECEIVED: Mutex<RefCell<Received>> = Mutex::new(RefCell::new(Received {
    bytes: Deque::new(),
    overrun: false,
}));

/// Bytes were lost, because the device or the queue was full.
#[derive(Debug)]
pub struct Overrun;

impl core::fmt::Display for Overrun {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("bytes were lost in the receiver")
    }
}

impl core::error::Error for Overrun {}

impl embedded_io::Error for Overrun {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

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
            let byte = DATA.read() as u8;
            received.overrun |= received.bytes.push_back(byte).is_err();
        }
        if STATE.read() & STATE_RX_OVERRUN != 0 {
            STATE.write(STATE_RX_OVERRUN);
            received.overrun = true;
        }
    });
}

impl ErrorType for Uart {
    type Error = Overrun;
}

impl Read for Uart {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Overrun> {
        if bytes.is_empty() {
            return Ok(0);
        }
        while matches!(self.read_ready(), Ok(false)) {
            chip::cortex::idle();
        }
        critical_section::with(|cs| {
            let mut received = RECEIVED.borrow_ref_mut(cs);
            let mut count = 0;
            while count < bytes.len() {
                let Some(byte) = received.bytes.pop_front() else {
                    break;
                };
                bytes[count] = byte;
                count += 1;
            }
            if count == 0 && core::mem::take(&mut received.overrun) {
                return Err(Overrun);
            }
            Ok(count)
        })
    }
}

impl ReadReady for Uart {
    fn read_ready(&mut self) -> Result<bool, Overrun> {
        critical_section::with(|cs| {
            let received = RECEIVED.borrow_ref(cs);
            Ok(!received.bytes.is_empty() || received.overrun)
        })
    }
}

impl core::fmt::Write for Uart {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let _ = Write::write_all(self, text.as_bytes());
        Ok(())
    }
}

impl Write for Uart {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Overrun> {
        for &byte in bytes {
            while STATE.read() & STATE_TX_FULL != 0 {}
            DATA.write(u32::from(byte));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Overrun> {
        while STATE.read() & STATE_TX_FULL != 0 {}
        Ok(())
    }
}
