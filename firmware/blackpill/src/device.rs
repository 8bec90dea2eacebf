//! Clock, watchdog, the flash that keeps settings, the bare transmitter.

use app::{Chip, RECORD_LEN, StoreError, journal};
use embassy_stm32::flash::{Blocking, Flash};
use embassy_stm32::peripherals::{FLASH, IWDG};
use embassy_stm32::wdg::IndependentWatchdog;
use embassy_stm32::{Config, Peri, pac, rcc, time};
use embassy_time::Instant;
use pac::iwdg::vals::Key;

use crate::noise;

/// The watchdog counts a clock of 32 kHz that is off by up to a half.
const WATCHDOG_MS: u32 = 8_000;
/// Counts of its prescaler for 8 seconds, 128 to 32 kHz: a fifth of a second.
const SOON: u16 = 100;

/// Clock of the core.
const CORE_HZ: u32 = 96_000_000;

/// Where settings are kept, seen from the start of the flash: after the model.
const PLACE: usize = 0x7_f000;
const SLOTS: usize = 4096 / RECORD_LEN;

/// Returns the clocks: the crystal of 25 MHz, multiplied to 96 MHz.
pub fn clocks() -> Config {
    let mut config = Config::default();
    config.rcc.hse = Some(rcc::Hse {
        freq: time::Hertz(25_000_000),
        mode: rcc::HseMode::Oscillator,
    });
    config.rcc.pll_src = rcc::PllSource::HSE;
    config.rcc.pll = Some(rcc::Pll {
        prediv: rcc::PllPreDiv::DIV25,
        mul: rcc::PllMul::MUL192,
        divp: Some(rcc::PllPDiv::DIV2),
        divq: None,
        divr: None,
    });
    config.rcc.apb1_pre = rcc::APBPrescaler::DIV2;
    config.rcc.sys = rcc::Sysclk::PLL1_P;
    config
}

/// The chip.
pub struct Device {
    watchdog: IndependentWatchdog<'static, IWDG>,
    flash: Flash<'static, Blocking>,
}

impl Device {
    /// Starts watchdog and noise.
    pub fn new(watchdog: Peri<'static, IWDG>, flash: Peri<'static, FLASH>) -> Self {
        noise::start();
        let mut watchdog = IndependentWatchdog::new(watchdog, WATCHDOG_MS * 1_000);
        watchdog.unleash();
        Self {
            watchdog,
            flash: Flash::new_blocking(flash),
        }
    }

    /// Reads the record of a slot.
    fn read(&mut self, slot: usize) -> Result<[u8; RECORD_LEN], StoreError> {
        let mut record = [0; RECORD_LEN];
        let place = (PLACE + slot * RECORD_LEN) as u32;
        (self.flash.blocking_read(place, &mut record)).map_err(|_| StoreError::Failed)?;
        Ok(record)
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
        self.watchdog.pet();
    }

    fn watchdog_ms(&self) -> Option<u32> {
        Some(WATCHDOG_MS)
    }

    fn entropy(&mut self) -> Option<u64> {
        app::noise::seed(noise::bit)
    }

    fn load(&mut self, record: &mut [u8; RECORD_LEN]) -> Result<(), StoreError> {
        let taken = journal::taken(SLOTS, |slot| self.read(slot))?;
        *record = self.read(taken.saturating_sub(1))?;
        Ok(())
    }

    fn save(&mut self, record: &[u8; RECORD_LEN]) -> Result<(), StoreError> {
        let slot = journal::taken(SLOTS, |slot| self.read(slot))?;
        if slot == SLOTS {
            return Err(StoreError::Full);
        }
        let place = (PLACE + slot * RECORD_LEN) as u32;
        (self.flash.blocking_write(place, record)).map_err(|_| StoreError::Failed)?;
        if self.read(slot)? == *record {
            Ok(())
        } else {
            Err(StoreError::Failed)
        }
    }
}

/// Sends a byte by the bare transmitter of USART1.
pub fn put(byte: u8) {
    while !pac::USART1.sr().read().txe() {}
    pac::USART1.dr().write(|data| data.set_dr(u16::from(byte)));
}

/// Has the watchdog bite soon: nothing else is left to do.
pub fn hasten() {
    pac::IWDG.kr().write(|key| key.set_key(Key::ENABLE));
    pac::IWDG.rlr().write(|reload| reload.set_rl(SOON));
    // The new value is in force once the slow clock has taken it.
    while pac::IWDG.sr().read().rvu() {}
    pac::IWDG.kr().write(|key| key.set_key(Key::RESET));
}
