//! UART0 as app wants it: embassy's interrupt-driven UART that sleeps while it waits.

use core::fmt::Write as _;
use core::panic::PanicInfo;

use embassy_rp::pac;
use embassy_rp::uart::{BufferedUart, Error};
use embedded_io::{ErrorType, Read, ReadReady, Write};

/// The serial port on GPIO0 (out) and GPIO1 (in).
pub struct Serial(pub BufferedUart);

impl Serial {
    /// Returns whether embassy has stopped receiving because of an error that nobody has read.
    ///
    /// It then masks the receive interrupt until a read takes the error, and says no word of it.
    fn error_waits() -> bool {
        !pac::UART0.uartimsc().read().rxim()
    }
}

impl ErrorType for Serial {
    type Error = Error;
}

impl ReadReady for Serial {
    fn read_ready(&mut self) -> Result<bool, Error> {
        Ok(self.0.read_ready()? || Self::error_waits())
    }
}

impl Read for Serial {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Error> {
        while !self.read_ready()? {
            critical_section::with(|_| {
                // A pending interrupt ends the sleep even while interrupts are off, so a byte that
                // comes between the check and the sleep is not missed.
                if matches!(self.read_ready(), Ok(false)) {
                    cortex_m::asm::wfi();
                }
            });
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
struct Raw;

impl core::fmt::Write for Raw {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.bytes() {
            while pac::UART0.uartfr().read().txff() {}
            pac::UART0.uartdr().write(|data| data.set_data(byte));
        }
        Ok(())
    }
}

/// Writes the panic on the serial port and starts over a second later.
pub fn report_panic(info: &PanicInfo<'_>) -> ! {
    cortex_m::interrupt::disable();
    defmt::error!("panic");
    let _ = write!(Raw, "{}", app::PanicLine(info));
    while pac::UART0.uartfr().read().busy() {}
    cortex_m::asm::delay(embassy_rp::clocks::clk_sys_freq());
    cortex_m::peripheral::SCB::sys_reset()
}
