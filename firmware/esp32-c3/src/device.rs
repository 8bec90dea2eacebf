//! Clock, watchdog, noise and the flash that keeps settings.

use app::{Chip, RECORD_LEN, StoreError};
use esp_hal::peripherals::{ADC1, FLASH, RNG, TIMG0};
use esp_hal::rng::{Rng, TrngSource};
use esp_hal::time::{Duration, Instant};
use esp_hal::timer::timg::{MwdtStage, TimerGroup, Wdt};
use esp_storage::FlashStorage;

const WATCHDOG_MS: u32 = 8_000;
/// Where settings are kept: the partition `nvs` of espflash's default table, which nothing else uses.
const PLACE: u32 = 0x9000;

/// The driver takes aligned bytes as they are and needs 4 KiB of stack for others.
#[repr(align(4))]
struct Aligned([u8; RECORD_LEN]);

/// The chip.
pub struct Device {
    watchdog: Wdt<TIMG0<'static>>,
    flash: FlashStorage<'static>,
    /// Noise of the ADC for the generator.
    _noise: TrngSource<'static>,
}

impl Device {
    /// Starts watchdog and noise.
    pub fn new(
        timer_group: TIMG0<'static>,
        flash: FLASH<'static>,
        generator: RNG<'static>,
        adc: ADC1<'static>,
    ) -> Self {
        let mut watchdog = TimerGroup::new(timer_group).wdt;
        let timeout = Duration::from_millis(WATCHDOG_MS.into());
        watchdog.set_timeout(MwdtStage::Stage0, timeout);
        watchdog.enable();
        Self {
            watchdog,
            flash: FlashStorage::new(flash),
            _noise: TrngSource::new(generator, adc),
        }
    }
}

impl Chip for Device {
    fn micros(&mut self) -> u64 {
        Instant::now().duration_since_epoch().as_micros()
    }

    fn core_hz(&self) -> u32 {
        esp_hal::clock::cpu_clock().as_hz()
    }

    fn feed(&mut self) {
        self.watchdog.feed();
    }

    fn watchdog_ms(&self) -> Option<u32> {
        Some(WATCHDOG_MS)
    }

    /// Draws from the generator, into which the noise of the ADC is mixed.
    fn entropy(&mut self) -> Option<u64> {
        let rng = Rng::new();
        Some(u64::from(rng.random()) << 32 | u64::from(rng.random()))
    }

    fn load(&mut self, record: &mut [u8; RECORD_LEN]) -> Result<(), StoreError> {
        let mut kept = Aligned([0; RECORD_LEN]);
        (self.flash.read_nor(PLACE, &mut kept.0)).map_err(|_| StoreError::Failed)?;
        *record = kept.0;
        Ok(())
    }

    fn save(&mut self, record: &[u8; RECORD_LEN]) -> Result<(), StoreError> {
        let (record, mut kept) = (Aligned(*record), Aligned([0; RECORD_LEN]));
        (self.flash.erase(PLACE, PLACE + FlashStorage::SECTOR_SIZE))
            .and_then(|()| self.flash.write_nor(PLACE, &record.0))
            .and_then(|()| self.flash.read_nor(PLACE, &mut kept.0))
            .map_err(|_| StoreError::Failed)?;
        if kept.0 == record.0 {
            Ok(())
        } else {
            Err(StoreError::Failed)
        }
    }
}
