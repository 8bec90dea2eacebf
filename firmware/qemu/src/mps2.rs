//! Clock and watchdog.

use core::sync::atomic::{AtomicBool, Ordering};

use app::{Chip, RECORD_LEN, StoreError};
use chip::Register;

use crate::fpgaio::Clock;
use crate::map;

// SAFETY: the memory maps have the CMSDK watchdog there; none of its registers is memory.
const LOAD: Register = unsafe { Register::new(map::WATCHDOG) };
// SAFETY: as above.
const CONTROL: Register = unsafe { Register::new(map::WATCHDOG + 8) };
// SAFETY: as above.
const CLEAR: Register = unsafe { Register::new(map::WATCHDOG + 0xc) };
// SAFETY: as above.
const LOCK: Register = unsafe { Register::new(map::WATCHDOG + 0xc00) };
const UNLOCK: u32 = 0x1acc_e551;
const INTERRUPT_AND_RESET: u32 = 0b11;

/// The watchdog interrupts after this time and resets after as much again.
const WATCHDOG_MS: u32 = 8_000;

/// Has the watchdog reset the board when it is not fed for `ms`, twice over.
fn start_watchdog(ms: u32) {
    LOCK.write(UNLOCK);
    LOAD.write(map::CLOCK_HZ / 1_000 * ms);
    CONTROL.write(INTERRUPT_AND_RESET);
}

/// Whether the board only waits for its reset, so that the interrupt before it says nothing more.
static GAVE_UP: AtomicBool = AtomicBool::new(false);

/// Has the watchdog reset the board soon: nothing else is left to do.
pub fn give_up() {
    GAVE_UP.store(true, Ordering::Relaxed);
    start_watchdog(200);
}

/// Returns whether [`give_up`] was called.
pub fn gave_up() -> bool {
    GAVE_UP.load(Ordering::Relaxed)
}

/// The chip of an MPS2 board.
pub struct Mps2(Clock);

impl Mps2 {
    /// Starts clock and watchdog.
    pub fn new() -> Self {
        start_watchdog(WATCHDOG_MS);
        Self(Clock::new())
    }
}

impl Chip for Mps2 {
    fn micros(&mut self) -> u64 {
        self.0.micros()
    }

    fn core_hz(&self) -> u32 {
        map::CLOCK_HZ
    }

    fn feed(&mut self) {
        CLEAR.write(1);
    }

    fn watchdog_ms(&self) -> Option<u32> {
        Some(2 * WATCHDOG_MS)
    }

    fn load(&mut self, record: &mut [u8; RECORD_LEN]) -> Result<(), StoreError> {
        *record = chip::kept::load();
        Ok(())
    }

    fn save(&mut self, record: &[u8; RECORD_LEN]) -> Result<(), StoreError> {
        chip::kept::save(record);
        Ok(())
    }
}
