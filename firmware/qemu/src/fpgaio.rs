//! The LED and the counter in the FPGA of the MPS2 boards (FPGA system control).

use core::convert::Infallible;

use chip::Register;
use embedded_hal::digital::{ErrorType, OutputPin};

use crate::map;

// SAFETY: the memory maps have FPGAIO there; none of its registers is memory.
const LED0: Register = unsafe { Register::new(map::FPGAIO) };
// SAFETY: as above.
const COUNTER: Register = unsafe { Register::new(map::FPGAIO + 0x18) };
// SAFETY: as above.
const PRESCALE: Register = unsafe { Register::new(map::FPGAIO + 0x1c) };

const PRESCALE_TO_MICROS: u32 = map::CLOCK_HZ / 1_000_000 - 1;

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
