//! Noise: the lowest bit of what the ADC makes of the chip's temperature. The chip has no generator.

use embassy_stm32::pac;
use pac::adccommon::vals::Adcpre;

/// The channel of the temperature sensor.
const TEMPERATURE: u8 = 18;
/// A conversion takes 15 cycles of the ADC's 24 MHz; one that takes so many looks does not end.
const LOOKS: u32 = 10_000;

/// Turns ADC and sensor on.
pub fn start() {
    pac::RCC.apb2enr().modify(|clocks| clocks.set_adc1en(true));
    pac::ADC1_COMMON.ccr().modify(|common| {
        common.set_adcpre(Adcpre::DIV4);
        common.set_tsvrefe(true);
    });
    // The shortest of samples, the default, is the noisiest.
    pac::ADC1.sqr3().write(|order| order.set_sq(0, TEMPERATURE));
    pac::ADC1.cr2().modify(|control| control.set_adon(true));
}

/// Draws a bit, or nothing where the ADC does not answer.
pub fn bit() -> Option<bool> {
    pac::ADC1.cr2().modify(|control| control.set_swstart(true));
    for _ in 0..LOOKS {
        if pac::ADC1.sr().read().eoc() {
            return Some(pac::ADC1.dr().read().data() & 1 != 0);
        }
    }
    None
}
