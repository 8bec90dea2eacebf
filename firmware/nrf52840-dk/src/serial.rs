//! UARTE0 as app wants it: embassy's interrupt-driven UART, whose futures are polled once.

use core::task::Poll;

use embassy_futures::{block_on, poll_once};
use embassy_nrf::buffered_uarte::{BufferedUarte, Error};
use embassy_nrf::pac;
use embedded_io::{ErrorType, Read, ReadReady, Write};

/// The serial port.
pub struct Serial {
    uart: BufferedUarte<'static>,
    /// Asking whether something has come takes an error out of the driver; it waits here for a read.
    error: Option<Error>,
}

impl Serial {
    /// Takes over the UART.
    pub fn new(uart: BufferedUarte<'static>) -> Self {
        Self { uart, error: None }
    }
}

impl ErrorType for Serial {
    type Error = Error;
}

impl ReadReady for Serial {
    fn read_ready(&mut self) -> Result<bool, Error> {
        if self.error.is_some() {
            return Ok(true);
        }
        let (rx, _) = self.uart.split_by_ref();
        match poll_once(rx.fill_buf()) {
            Poll::Ready(Ok(_)) => Ok(true),
            Poll::Ready(Err(error)) => {
                self.error = Some(error);
                Ok(true)
            }
            Poll::Pending => Ok(false),
        }
    }
}

impl Read for Serial {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Error> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let (rx, _) = self.uart.split_by_ref();
        let found = block_on(rx.fill_buf())?;
        let count = found.len().min(bytes.len());
        bytes[..count].copy_from_slice(&found[..count]);
        rx.consume(count);
        Ok(count)
    }
}

impl Write for Serial {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let (_, tx) = self.uart.split_by_ref();
        block_on(tx.write(bytes))
    }

    fn flush(&mut self) -> Result<(), Error> {
        let (_, tx) = self.uart.split_by_ref();
        block_on(tx.flush())
    }
}

/// Sends a byte by the bare transmitter of UARTE0.
pub fn put(byte: u8) {
    let uart = pac::UARTE0;
    // EasyDMA reads RAM only, and this is on the stack.
    let buffer = [byte];
    uart.events_dma().tx().end().write_value(0);
    uart.dma().tx().ptr().write_value(buffer.as_ptr() as u32);
    uart.dma().tx().maxcnt().write(|count| count.set_maxcnt(1));
    uart.tasks_dma().tx().start().write_value(1);
    while uart.events_dma().tx().end().read() == 0 {}
}
