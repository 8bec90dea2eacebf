//! The LED and the counter in the FPGA of the MPS2 boards (Arm DAI 0386, FPGA system control).

use core::convert::Infallible;

use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{ErrorType, OutputPin};

use crate::register::Register;

// SAFETY: the memory map of AN386 has FPGAIO at 0x4002_8000; none of its registers is memory.
const LED0: Register = unsafe { Register::new(0x4002_8000) };
// SAFETY: as above.
const COUNTER: Register = unsafe { Register::new(0x4002_8018) };
// SAFETY: as above.
const PRESCALE: Register = unsafe { Register::new(0x4002_801c) };

/// The system clock of AN386 over 1 MHz, less one.
const PRESCALE_TO_MICROS: u32 = 25 - 1;

/// User LED 0.
pub struct Led;

impl ErrorType for Led {
    type Error = Infallible;
}

impl OutputPin for Led {
    fn set_low(&mut self) -> Result<(), Infallible> {
        LED0.write(0);
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        LED0.write(1);
        Ok(())
    }
}

/// Microseconds, from the 32-bit cycle counter.
#[derive(Default)]
pub struct Clock {
    high: u64,
    last: u32,
}

impl Clock {
    /// Starts counting.
    pub fn new() -> Self {
        PRESCALE.write(PRESCALE_TO_MICROS);
        COUNTER.write(0);
        Self::default()
    }

    /// Returns the microseconds since [`Clock::new`]; wraps are seen if it is called every 71
    /// minutes.
    pub fn micros(&mut self) -> u64 {
        let now = COUNTER.read();
        if now < self.last {
            self.high += 1 << 32;
        }
        self.last = now;
        self.high + u64::from(now)
    }
}

/// Waits by the same counter.
pub struct Delay;

impl DelayNs for Delay {
    fn delay_ns(&mut self, ns: u32) {
        let start = COUNTER.read();
        while COUNTER.read().wrapping_sub(start) < ns.div_ceil(1_000) {}
    }
}
