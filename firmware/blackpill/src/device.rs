//! Clock, watchdog, the bare transmitter.

use app::Chip;
use embassy_stm32::peripherals::IWDG;
use embassy_stm32::wdg::IndependentWatchdog;
use embassy_stm32::{Config, Peri, pac, rcc, time};
use embassy_time::Instant;
use pac::iwdg::vals::Key;

/// The watchdog counts a clock of 32 kHz that is off by up to a half.
const WATCHDOG_MS: u32 = 8_000;
/// Counts of its prescaler for 8 seconds, 128 to 32 kHz: a fifth of a second.
const SOON: u16 = 100;

/// Clock of the core.
const CORE_HZ: u32 = 96_000_000;

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
pub struct Device(IndependentWatchdog<'static, IWDG>);

impl Device {
    /// Starts the watchdog.
    pub fn new(watchdog: Peri<'static, IWDG>) -> Self {
        let mut watchdog = IndependentWatchdog::new(watchdog, WATCHDOG_MS * 1_000);
        watchdog.unleash();
        Self(watchdog)
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
        self.0.pet();
    }

    fn watchdog_ms(&self) -> Option<u32> {
        Some(WATCHDOG_MS)
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
