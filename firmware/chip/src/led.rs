//! LEDs that shine while their pin is low.

use embedded_hal::digital::{ErrorType, OutputPin};

/// An LED between the supply and a pin.
pub struct ActiveLow<P>(pub P);

impl<P: ErrorType> ErrorType for ActiveLow<P> {
    type Error = P::Error;
}

impl<P: OutputPin> OutputPin for ActiveLow<P> {
    fn set_low(&mut self) -> Result<(), P::Error> {
        self.0.set_high()
    }

    fn set_high(&mut self) -> Result<(), P::Error> {
        self.0.set_low()
    }
}
