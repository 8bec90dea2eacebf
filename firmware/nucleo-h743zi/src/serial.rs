//! USART3 as app wants it: embassy's interrupt-driven UART that sleeps while it waits.

use embassy_stm32::pac;
use embassy_stm32::usart::{BufferedUart, Error};
use embedded_io::{ErrorType, Read, ReadReady, Write};

/// The serial port.
pub struct Serial(pub BufferedUart<'static>);

impl ErrorType for Serial {
    type Error = Error;
}

impl ReadReady for Serial {
    fn read_ready(&mut self) -> Result<bool, Error> {
        self.0.read_ready()
    }
}

impl Read for Serial {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Error> {
        while !self.read_ready()? {
            chip::cortex::idle();
        }
        Read::read(&mut self.0, bytes)
    }
}

impl Write for Serial {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        Write::write(&mut self.0, bytes)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Write::flush(&mut self.0)
    }
}

/// The bare transmitter, for when nothing else can be trusted.
pub struct Raw;

impl core::fmt::Write for Raw {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.bytes() {
            while !pac::USART3.isr().read().txe() {}
            pac::USART3.tdr().write(|data| data.set_dr(u16::from(byte)));
        }
        Ok(())
    }
}
