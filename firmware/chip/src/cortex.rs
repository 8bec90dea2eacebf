//! Cortex-M: sleeping, and the handler of a fault that no stack is left for.

use app::{Chip, RECORD_LEN, Resets, Stack, StoreError};
use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;

/// A chip that leaves sleeping, stack and resets to what all cores have in common.
pub(crate) struct Cortex<C> {
    chip: C,
    resets: Resets,
}

impl<C: Chip> Cortex<C> {
    /// Counts this start and starts the ticks.
    pub(crate) fn new(chip: C) -> Self {
        let core = cortex_m::Peripherals::take().expect("taken once");
        start_ticks(core.SYST, chip.core_hz());
        let resets = crate::resets::count();
        Self { chip, resets }
    }
}

impl<C: Chip> Chip for Cortex<C> {
    fn micros(&mut self) -> u64 {
        self.chip.micros()
    }

    fn core_hz(&self) -> u32 {
        self.chip.core_hz()
    }

    fn idle(&mut self) {
        idle();
    }

    fn feed(&mut self) {
        self.chip.feed();
    }

    fn watchdog_ms(&self) -> Option<u32> {
        self.chip.watchdog_ms()
    }

    fn entropy(&mut self) -> Option<u64> {
        self.chip.entropy()
    }

    fn load(&mut self, record: &mut [u8; RECORD_LEN]) -> Result<(), StoreError> {
        self.chip.load(record)
    }

    fn save(&mut self, record: &[u8; RECORD_LEN]) -> Result<(), StoreError> {
        self.chip.save(record)
    }

    #[cfg(feature = "assist")]
    fn assist(&mut self) -> Option<&'static dyn runtime::Assist> {
        self.chip.assist()
    }

    #[cfg(feature = "assist")]
    fn helpers(&self) -> app::Helpers {
        self.chip.helpers()
    }

    fn stack(&self) -> Option<Stack> {
        Some(crate::stack::used())
    }

    fn resets(&self) -> Resets {
        self.resets
    }
}

/// Wakes the core 25 times a second, so that it feeds the watchdog while it waits for a byte.
///
/// `core_hz` is at most 419 MHz, for the counter has 24 bits.
fn start_ticks(mut syst: SYST, core_hz: u32) {
    syst.set_clock_source(SystClkSource::Core);
    syst.set_reload(core_hz / 25 - 1);
    syst.clear_current();
    syst.enable_counter();
    syst.enable_interrupt();
}

/// Sleeps until the next interrupt.
pub fn idle() {
    cortex_m::asm::wfi();
}

// The core has come here with a stack pointer that may be of no use, so the handler begins with the
// whole stack, and the old pointer as its argument.
core::arch::global_asm!(
    ".section .text.HardFault, \"ax\"",
    ".global HardFault",
    ".type HardFault, %function",
    ".thumb_func",
    ".syntax unified",
    "HardFault:",
    "mrs r0, msp",
    "ldr r1, =_stack_start",
    "msr msp, r1",
    "bl chapbook_fault",
    ".size HardFault, . - HardFault",
);
