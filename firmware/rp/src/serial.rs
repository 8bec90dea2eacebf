//! Both serial lines as one terminal: what is sent goes to both, and both are heard.

use embassy_rp::pac;
use embassy_rp::uart::{BufferedUart, Error};
use embedded_io::{ErrorType, Read, ReadReady, Write};

use crate::usb;

/// UART0 and the USB serial port.
pub(crate) struct Serial(pub(crate) BufferedUart);

impl Serial {
    /// Returns whether embassy has stopped receiving because of an error that nobody has read.
    ///
    /// It then masks the receive interrupt until a read takes the error, and says no word of it.
    fn error_waits() -> bool {
        !pac::UART0.uartimsc().read().rxim()
    }

    fn uart_ready(&mut self) -> Result<bool, Error> {
        Ok(self.0.read_ready()? || Self::error_waits())
    }
}

impl ErrorType for Serial {
    type Error = Error;
}

impl ReadReady for Serial {
    fn read_ready(&mut self) -> Result<bool, Error> {
        Ok(usb::has_received() || self.uart_ready()?)
    }
}

impl Read for Serial {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Error> {
        loop {
            if let Some(count) = usb::receive(bytes) {
                return Ok(count);
            }
            if self.uart_ready()? {
                return Read::read(&mut self.0, bytes);
            }
            chip::idle();
        }
    }
}

impl Write for Serial {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        // The UART sends whether somebody listens or not; the USB port takes what it can.
        let count = Write::write(&mut self.0, bytes)?;
        usb::send(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Write::flush(&mut self.0)
    }
}

/// Sends a byte by the bare transmitter of UART0.
pub(crate) fn put(byte: u8) {
    while pac::UART0.uartfr().read().txff() {}
    pac::UART0.uartdr().write(|data| data.set_data(byte));
}
