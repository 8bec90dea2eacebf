//! The part of a chip that is the same for all.

use app::{Chip, RECORD_LEN, Resets, Stack, StoreError};

use crate::arch;

/// A chip that leaves stack and resets, and sleeping where there is a tick, to what the boards have in common.
pub struct Common<C> {
    chip: C,
    resets: Resets,
}

impl<C: Chip> Common<C> {
    /// Counts this start and starts the ticks; to be called once.
    pub fn new(chip: C) -> Self {
        arch::start_ticks(chip.core_hz());
        let resets = crate::resets::count();
        Self { chip, resets }
    }
}

impl<C: Chip> Chip for Common<C> {
    fn micros(&mut self) -> u64 {
        self.chip.micros()
    }

    fn core_hz(&self) -> u32 {
        self.chip.core_hz()
    }

    fn idle(&mut self) {
        // Only with a tick that wakes the core again.
        if cfg!(feature = "whole") {
            arch::idle();
        } else {
            self.chip.idle();
        }
    }

    fn feed(&mut self) {
        self.chip.feed();
    }

    fn watchdog_ms(&self) -> Option<u32> {
        self.chip.watchdog_ms()
    }

    /// Mixes the count of starts in: noise that a reset repeats gives another seed nonetheless.
    fn entropy(&mut self) -> Option<u64> {
        let starts = u64::from(self.resets.count);
        self.chip.entropy().map(|noise| noise ^ starts << 32)
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
