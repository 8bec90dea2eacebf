//! Clock, watchdog, noise and the flash that keeps settings.

use app::{Chip, RECORD_LEN, StoreError};
use embassy_nrf::nvmc::{Nvmc, PAGE_SIZE};
use embassy_nrf::peripherals::{NVMC, WDT};
use embassy_nrf::wdt::{self, Watchdog, WatchdogHandle};
use embassy_nrf::{Peri, pac};
use embassy_time::{Duration, Instant};
use embedded_storage::nor_flash::{NorFlash, ReadNorFlash};

/// Clock of the core.
const CORE_HZ: u32 = 64_000_000;
const WATCHDOG_MS: u32 = 8_000;
/// Where settings are kept: the last page.
const PLACE: u32 = 0x10_0000 - PAGE_SIZE as u32;
/// How long the generator may take for a byte; it takes an eighth of a millisecond.
const PATIENCE: Duration = Duration::from_millis(10);

/// The chip.
pub struct Device {
    /// `None` when a debug probe has left a watchdog running with other settings.
    watchdog: Option<WatchdogHandle>,
    flash: Nvmc<'static>,
}

impl Device {
    /// Starts the watchdog.
    pub fn new(watchdog: Peri<'static, WDT>, flash: Peri<'static, NVMC>) -> Self {
        let mut config = wdt::Config::default();
        config.timeout_ticks = WATCHDOG_MS / 1_000 * 32_768;
        let started = Watchdog::try_new(watchdog, config);
        Self {
            watchdog: started.ok().map(|(_, [handle])| handle),
            flash: Nvmc::new(flash),
        }
    }
}

/// Draws a byte from the generator, which has been started; one that is stuck gives none.
///
/// The driver of embassy would wait for ever.
fn random() -> Option<u8> {
    let start = Instant::now();
    while pac::RNG.events_valrdy().read() == 0 {
        if start.elapsed() > PATIENCE {
            return None;
        }
    }
    pac::RNG.events_valrdy().write_value(0);
    Some(pac::RNG.value().read().value())
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
        pac::RNG.config().write(|config| config.set_dercen(true));
        pac::RNG.tasks_start().write_value(1);
        let noise = (0..8).try_fold(0, |noise, _| Some(noise << 8 | u64::from(random()?)));
        pac::RNG.tasks_stop().write_value(1);
        noise
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
