//! Clock, watchdog and noise.

use app::Chip;
use esp_hal::peripherals::TIMG0;
use esp_hal::rng::Rng;
use esp_hal::time::{Duration, Instant};
use esp_hal::timer::timg::{MwdtStage, TimerGroup, Wdt};

const WATCHDOG_MS: u32 = 8_000;

/// The chip.
pub struct Device(Wdt<TIMG0<'static>>);

impl Device {
    /// Starts the watchdog.
    pub fn new(timer_group: TIMG0<'static>) -> Self {
        let mut watchdog = TimerGroup::new(timer_group).wdt;
        let timeout = Duration::from_millis(WATCHDOG_MS.into());
        watchdog.set_timeout(MwdtStage::Stage0, timeout);
        watchdog.enable();
        Self(watchdog)
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
        self.0.feed();
    }

    fn watchdog_ms(&self) -> Option<u32> {
        Some(WATCHDOG_MS)
    }

    /// Draws from the generator, which is noise of the ADC as long as the radio is off.
    fn entropy(&mut self) -> Option<u64> {
        let rng = Rng::new();
        Some(u64::from(rng.random()) << 32 | u64::from(rng.random()))
    }
}
