//! UART0, received by interrupt: the device holds 128 bytes, and a forward pass lasts longer.

use core::cell::RefCell;

use app::{Overrun, Received};
use critical_section::Mutex;
use embedded_io::{ErrorType, Read, ReadReady, Write};
use esp_hal::peripherals::UART0;
use esp_hal::uart::{Uart, UartInterrupt};
use esp_hal::{Blocking, handler};

struct Line {
    uart: Option<Uart<'static, Blocking>>,
    received: Received<2048>,
}

static LINE: Mutex<RefCell<Line>> = Mutex::new(RefCell::new(Line {
    uart: None,
    received: Received::new(),
}));

/// The serial port.
pub struct Serial(());

impl Serial {
    /// Takes over the UART and receives from now on.
    pub fn new(mut uart: Uart<'static, Blocking>) -> Self {
        uart.set_interrupt_handler(receive);
        uart.listen(UartInterrupt::RxFifoFull | UartInterrupt::RxTimeout);
        critical_section::with(|cs| LINE.borrow_ref_mut(cs).uart = Some(uart));
        Self(())
    }
}

#[handler]
fn receive() {
    critical_section::with(|cs| {
        let Line {
            uart: Some(uart),
            received,
        } = &mut *LINE.borrow_ref_mut(cs)
        else {
            return;
        };
        let mut bytes = [0; 64];
        while Uart::read_ready(uart) {
            match uart.read_buffered(&mut bytes) {
                Ok(count) => {
                    for &byte in &bytes[..count] {
                        received.push(byte);
                    }
                }
                Err(_) => received.lose(),
            }
        }
        uart.clear_interrupts(UartInterrupt::RxFifoFull | UartInterrupt::RxTimeout);
    });
}

impl ErrorType for Serial {
    type Error = Overrun;
}

impl ReadReady for Serial {
    fn read_ready(&mut self) -> Result<bool, Overrun> {
        critical_section::with(|cs| Ok(LINE.borrow_ref(cs).received.is_ready()))
    }
}

impl Read for Serial {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Overrun> {
        while !bytes.is_empty() && !self.read_ready()? {}
        critical_section::with(|cs| LINE.borrow_ref_mut(cs).received.take(bytes))
    }
}

impl Write for Serial {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Overrun> {
        for &byte in bytes {
            Raw::put(byte);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Overrun> {
        Ok(())
    }
}

/// The bare transmitter. It needs no lock, so that receiving goes on while the text waits.
pub struct Raw;

impl Raw {
    fn put(byte: u8) {
        const FIFO_LEN: u8 = 128;
        let uart = UART0::regs();
        while uart.status().read().txfifo_cnt().bits() >= u16::from(FIFO_LEN - 1) {}
        // SAFETY: the register takes every byte.
        uart.fifo()
            .write(|fifo| unsafe { fifo.rxfifo_rd_byte().bits(byte) });
    }
}

impl core::fmt::Write for Raw {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        text.bytes().for_each(Self::put);
        Ok(())
    }
}
