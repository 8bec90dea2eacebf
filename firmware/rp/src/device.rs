//! Clock, watchdog, noise and the flash that keeps settings.

use app::{Chip, Helpers, RECORD_LEN, StoreError};
use embassy_rp::Peri;
use embassy_rp::flash::{Blocking, ERASE_SIZE, Flash, PAGE_SIZE};
use embassy_rp::pac;
use embassy_rp::peripherals::{FLASH, WATCHDOG};
use embassy_rp::watchdog::Watchdog;
use embassy_time::{Duration, Instant};

use crate::help::{HELP, Parts};

/// What the watchdog of the RP2040 can count at most is 8,388 ms.
const WATCHDOG_MS: u32 = 8_000;

/// The chip of a Pico with `FLASH_LEN` bytes of flash, the last sector of it for settings.
pub(crate) struct Rp<const FLASH_LEN: usize> {
    watchdog: Watchdog,
    flash: Option<Flash<'static, FLASH, Blocking, FLASH_LEN>>,
    /// Until they are asked for.
    parts: Option<Parts>,
}

impl<const FLASH_LEN: usize> Rp<FLASH_LEN> {
    const PLACE: u32 = (FLASH_LEN - ERASE_SIZE) as u32;

    /// Starts the watchdog.
    pub(crate) fn new(
        watchdog: Peri<'static, WATCHDOG>,
        flash: Peri<'static, FLASH>,
        parts: Parts,
    ) -> Self {
        let mut watchdog = Watchdog::new(watchdog);
        watchdog.start(Duration::from_millis(WATCHDOG_MS.into()));
        Self {
            watchdog,
            // Flash is written by functions in the boot ROM, which an emulator may lack.
            flash: has_boot_rom().then(|| Flash::new_blocking(flash)),
            parts: Some(parts),
        }
    }
}

/// Returns whether the chip has its boot ROM, by the magic at 0x10 (RP2040 datasheet, 2.8.3).
fn has_boot_rom() -> bool {
    // SAFETY: the ROM is always mapped; reading it has no effect.
    let magic = unsafe { core::ptr::with_exposed_provenance::<u32>(0x10).read_volatile() };
    magic & 0xffff == u32::from(u16::from_le_bytes(*b"Mu"))
}

impl<const FLASH_LEN: usize> Chip for Rp<FLASH_LEN> {
    fn micros(&mut self) -> u64 {
        Instant::now().as_micros()
    }

    fn core_hz(&self) -> u32 {
        embassy_rp::clocks::clk_sys_freq()
    }

    fn feed(&mut self) {
        self.watchdog
            .feed(Duration::from_millis(WATCHDOG_MS.into()));
    }

    fn watchdog_ms(&self) -> Option<u32> {
        Some(WATCHDOG_MS)
    }

    /// Draws from the ring oscillator.
    fn entropy(&mut self) -> Option<u64> {
        app::noise::seed(|| Some(pac::ROSC.randombit().read().randombit()))
    }

    fn load(&mut self, record: &mut [u8; RECORD_LEN]) -> Result<(), StoreError> {
        let flash = self.flash.as_mut().ok_or(StoreError::Absent)?;
        flash
            .blocking_read(Self::PLACE, record)
            .map_err(|_| StoreError::Failed)
    }

    fn save(&mut self, record: &[u8; RECORD_LEN]) -> Result<(), StoreError> {
        let flash = self.flash.as_mut().ok_or(StoreError::Absent)?;
        let mut page = [0xff; PAGE_SIZE];
        page[..RECORD_LEN].copy_from_slice(record);
        let mut kept = [0; RECORD_LEN];
        flash
            .blocking_erase(Self::PLACE, Self::PLACE + ERASE_SIZE as u32)
            .and_then(|()| flash.blocking_write(Self::PLACE, &page))
            .and_then(|()| flash.blocking_read(Self::PLACE, &mut kept))
            .map_err(|_| StoreError::Failed)?;
        if kept == *record {
            Ok(())
        } else {
            Err(StoreError::Failed)
        }
    }

    fn assist(&mut self) -> Option<&'static dyn runtime::Assist> {
        if let Some(parts) = self.parts.take() {
            HELP.start(parts);
        }
        Some(&HELP)
    }

    fn helpers(&self) -> Helpers {
        HELP.states()
    }
}

/// Has the watchdog bite soon: nothing else is left to do.
pub(crate) fn hasten() {
    // In half microseconds on the RP2040 (erratum E1), in microseconds on the RP2350.
    pac::WATCHDOG
        .load()
        .write_value(pac::watchdog::regs::Load(200_000));
}
