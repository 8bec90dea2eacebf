//! UARTE0 as app wants it: embassy's interrupt-driven UART, whose futures are polled once.

use embassy_futures::{block_on, poll_once};
use embassy_nrf::buffered_uarte::{BufferedUarte, Error};
use embassy_nrf::pac;
use embedded_io::{ErrorType, Read, ReadReady, Write};

/// The serial port.
pub struct Serial(pub BufferedUarte<'static>);

impl ErrorType for Serial {
    type Error = Error;
}

impl ReadReady for Serial {
    fn read_ready(&mut self) -> Result<bool, Error> {
        let (rx, _) = self.0.split_by_ref();
        // An error is something to read, too; the read after it reports the bytes that follow.
        Ok(poll_once(rx.fill_buf()).is_ready())
    }
}

impl Read for Serial {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Error> {
        let (rx, _) = self.0.split_by_ref();
        let found = block_on(rx.fill_buf())?;
        let count = found.len().min(bytes.len());
        bytes[..count].copy_from_slice(&found[..count]);
        rx.consume(count);
        Ok(count)
    }
}

impl Write for Serial {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let (_, tx) = self.0.split_by_ref();
        block_on(tx.write(bytes))
    }

    fn flush(&mut self) -> Result<(), Error> {
        let (_, tx) = self.0.split_by_ref();
        block_on(tx.flush())
    }
}

/// The bare transmitter, for when nothing else can be trusted.
pub struct Raw;

impl core::fmt::Write for Raw {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let uart = pac::UARTE0;
        for byte in text.bytes() {
            // EasyDMA reads RAM only, and this is on the stack.
            let buffer = [byte];
            uart.events_dma().tx().end().write_value(0);
            uart.dma().tx().ptr().write_value(buffer.as_ptr() as u32);
            uart.dma().tx().maxcnt().write(|count| count.set_maxcnt(1));
            uart.tasks_dma().tx().start().write_value(1);
            while uart.events_dma().tx().end().read() == 0 {}
        }
        Ok(())
    }
}
