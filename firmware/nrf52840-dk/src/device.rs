//! Clock, watchdog, noise and the flash that keeps settings.

use app::{Chip, RECORD_LEN, StoreError};
use embassy_nrf::Peri;
use embassy_nrf::mode::Blocking;
use embassy_nrf::nvmc::{Nvmc, PAGE_SIZE};
use embassy_nrf::peripherals::{NVMC, RNG, WDT};
use embassy_nrf::rng::Rng;
use embassy_nrf::wdt::{self, Watchdog, WatchdogHandle};
use embassy_time::Instant;
use embedded_storage::nor_flash::{NorFlash, ReadNorFlash};

/// Clock of the core.
const CORE_HZ: u32 = 64_000_000;
const WATCHDOG_MS: u32 = 8_000;
/// Where settings are kept: the last page.
const PLACE: u32 = 0x10_0000 - PAGE_SIZE as u32;

/// The chip.
pub struct Device {
    /// `None` when a debug probe has left a watchdog running with other settings.
    watchdog: Option<WatchdogHandle>,
    rng: Rng<'static, Blocking>,
    flash: Nvmc<'static>,
}

impl Device {
    /// Starts the watchdog.
    pub fn new(
        watchdog: Peri<'static, WDT>,
        rng: Peri<'static, RNG>,
        flash: Peri<'static, NVMC>,
    ) -> Self {
        let mut config = wdt::Config::default();
        config.timeout_ticks = WATCHDOG_MS / 1_000 * 32_768;
        let started = Watchdog::try_new(watchdog, config);
        Self {
            watchdog: started.ok().map(|(_, [handle])| handle),
            rng: Rng::new_blocking(rng),
            flash: Nvmc::new(flash),
        }
    }
}

impl Chip for Device {
    fn micros(&mut self) -> u64 {
        Instant::now().as_micros()
    }

    fn core_hz(&self) -> u32 {
        CORE_HZ
    }

    fn feed(&mut self) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.pet();
        }
    }

    fn watchdog_ms(&self) -> Option<u32> {
        self.watchdog.as_ref().map(|_| WATCHDOG_MS)
    }

    fn entropy(&mut self) -> Option<u64> {
        self.rng.set_bias_correction(true);
        Some(self.rng.blocking_next_u64())
    }

    fn load(&mut self, record: &mut [u8; RECORD_LEN]) -> Result<(), StoreError> {
        self.flash
            .read(PLACE, record)
            .map_err(|_| StoreError::Failed)
    }

    fn save(&mut self, record: &[u8; RECORD_LEN]) -> Result<(), StoreError> {
        (self.flash.erase(PLACE, PLACE + PAGE_SIZE as u32))
            .and_then(|()| self.flash.write(PLACE, record))
            .map_err(|_| StoreError::Failed)
    }
}
