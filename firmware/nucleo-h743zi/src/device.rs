//! Clock, watchdog, noise, the flash that keeps settings, the bare transmitter.

use app::{Chip, RECORD_LEN, StoreError};
use embassy_stm32::flash::{Blocking, Flash};
use embassy_stm32::peripherals::{FLASH, IWDG1};
use embassy_stm32::wdg::IndependentWatchdog;
use embassy_stm32::{Config, Peri, pac, rcc};
use embassy_time::Instant;
use pac::iwdg::vals::Key;

/// The watchdog counts a clock of 32 kHz that is off by up to a half.
const WATCHDOG_MS: u32 = 8_000;
/// Counts of its prescaler for 8 seconds, 128 to 32 kHz: a fifth of a second.
const SOON: u16 = 100;

/// Clock of the core.
const CORE_HZ: u32 = 400_000_000;
/// Looks at the generator for one word.
const LOOKS: u32 = 100_000;
/// Where settings are kept, seen from the start of the flash: the second sector.
const PLACE: u32 = 128 * 1024;
const SECTOR: u32 = 128 * 1024;

/// Returns the clocks: the internal oscillator of 64 MHz, multiplied to 400 MHz.
pub fn clocks() -> Config {
    let mut config = Config::default();
    config.rcc.pll1 = Some(rcc::Pll {
        source: rcc::PllSource::HSI,
        prediv: rcc::PllPreDiv::DIV4,
        mul: rcc::PllMul::MUL50,
        fracn: None,
        divp: Some(rcc::PllDiv::DIV2),
        divq: None,
        divr: None,
    });
    config.rcc.sys = rcc::Sysclk::PLL1_P;
    config.rcc.ahb_pre = rcc::AHBPrescaler::DIV2;
    config.rcc.apb1_pre = rcc::APBPrescaler::DIV2;
    config.rcc.apb2_pre = rcc::APBPrescaler::DIV2;
    config.rcc.apb3_pre = rcc::APBPrescaler::DIV2;
    config.rcc.apb4_pre = rcc::APBPrescaler::DIV2;
    config.rcc.voltage_scale = rcc::VoltageScale::Scale1;
    config
}

/// The chip.
pub struct Device {
    watchdog: IndependentWatchdog<'static, IWDG1>,
    flash: Flash<'static, Blocking>,
}

impl Device {
    /// Starts watchdog and noise.
    pub fn new(watchdog: Peri<'static, IWDG1>, flash: Peri<'static, FLASH>) -> Self {
        let mut watchdog = IndependentWatchdog::new(watchdog, WATCHDOG_MS * 1_000);
        watchdog.unleash();
        // Its clock of 48 MHz runs by embassy's default.
        pac::RCC.ahb2enr().modify(|clocks| clocks.set_rngen(true));
        pac::RNG.cr().modify(|control| control.set_rngen(true));
        Self {
            watchdog,
            flash: Flash::new_blocking(flash),
        }
    }
}

/// Draws a word from the generator, which takes about a microsecond; one that is stuck or finds its own
/// noise bad gives none.
fn random() -> Option<u32> {
    for _ in 0..LOOKS {
        let status = pac::RNG.sr().read();
        if status.seis() || status.ceis() {
            return None;
        }
        if status.drdy() {
            return Some(pac::RNG.dr().read());
        }
    }
    None
}

impl Chip for Device {
    fn micros(&mut self) -> u64 {
        Instant::now().as_micros()
    }

    fn core_hz(&self) -> u32 {
        CORE_HZ
    }

    fn feed(&mut self) {
        self.watchdog.pet();
    }

    fn watchdog_ms(&self) -> Option<u32> {
        Some(WATCHDOG_MS)
    }

    fn entropy(&mut self) -> Option<u64> {
        Some(u64::from(random()?) << 32 | u64::from(random()?))
    }

    fn load(&mut self, record: &mut [u8; RECORD_LEN]) -> Result<(), StoreError> {
        (self.flash.blocking_read(PLACE, record)).map_err(|_| StoreError::Failed)
    }

    fn save(&mut self, record: &[u8; RECORD_LEN]) -> Result<(), StoreError> {
        (self.flash.blocking_erase(PLACE, PLACE + SECTOR))
            .and_then(|()| self.flash.blocking_write(PLACE, record))
            .map_err(|_| StoreError::Failed)
    }
}

/// Sends a byte by the bare transmitter of USART3.
pub fn put(byte: u8) {
    while !pac::USART3.isr().read().txe() {}
    pac::USART3.tdr().write(|data| data.set_dr(u16::from(byte)));
}

/// Has the watchdog bite soon: nothing else is left to do.
pub fn hasten() {
    pac::IWDG1.kr().write(|key| key.set_key(Key::ENABLE));
    pac::IWDG1.rlr().write(|reload| reload.set_rl(SOON));
    // The new value is in force once the slow clock has taken it.
    while pac::IWDG1.sr().read().rvu() {}
    pac::IWDG1.kr().write(|key| key.set_key(Key::RESET));
}
