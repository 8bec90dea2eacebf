//! Clock, watchdog.

use app::{Chip, Resets, Stack};
use embassy_stm32::peripherals::IWDG;
use embassy_stm32::wdg::IndependentWatchdog;
use embassy_stm32::{Config, Peri, rcc, time};
use embassy_time::Instant;

/// The watchdog counts a clock of 32 kHz that is off by up to a half.
const WATCHDOG_MS: u32 = 8_000;

/// Clock of the core.
pub const CORE_HZ: u32 = 96_000_000;

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
    resets: Resets,
}

impl Device {
    /// Starts the watchdog.
    pub fn new(watchdog: Peri<'static, IWDG>) -> Self {
        let mut watchdog = IndependentWatchdog::new(watchdog, WATCHDOG_MS * 1_000);
        watchdog.unleash();
        let resets = chip::resets::count();
        Self { watchdog, resets }
    }
}

impl Chip for Device {
    fn micros(&mut self) -> u64 {
        Instant::now().as_micros()
    }

    fn core_hz(&self) -> u32 {
        CORE_HZ
    }

    fn idle(&mut self) {
        chip::cortex::idle();
    }

    fn feed(&mut self) {
        self.watchdog.pet();
    }

    fn watchdog_ms(&self) -> Option<u32> {
        Some(WATCHDOG_MS)
    }

    fn stack(&self) -> Option<Stack> {
        Some(chip::stack::used())
    }

    fn resets(&self) -> Resets {
        self.resets
    }
}
