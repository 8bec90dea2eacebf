//! What happens once, before the first prompt string.

use core::fmt::Write as _;

use embedded_hal::delay::DelayNs;
use embedded_hal::digital::OutputPin;
use embedded_io::{Read, ReadReady, Write};
use runtime::{LoadError, Model, Session};

use crate::console::Console;
use crate::log::info;
use crate::report::Fault;

/// Half a period of the LED that shows a fault, and how often it blinks.
const BLINK_MS: u32 = 60;
const BLINKS: u32 = 3;

/// Says what the board found in its flash and proves that it computes what the exporter did.
pub(crate) fn boot<'s, S: Read + ReadReady + Write>(
    console: &mut Console<S>,
    loaded: &'s Result<Model<'s>, LoadError>,
    state: &'s mut [u32],
) -> Result<Session<'s>, Fault> {
    let found = size_of_val(state);
    let model = loaded.as_ref().map_err(|error| Fault::Load(*error))?;
    let _ = writeln!(
        console,
        "model {}: {} parameters, blob {} bytes, RAM {} of {found} bytes",
        model.header().provenance.run,
        model.config().n_params(),
        model.len(),
        model.config().state_bytes(),
    );
    let _ = write!(console, "CRC-32 {:08x} ok, self-test ", model.crc());
    let mut session = Session::new(model, state).map_err(Fault::State)?;
    let hash = session.self_test().map_err(Fault::SelfTest)?;
    let _ = writeln!(console, "{hash:016x} ok");
    info!(
        "self-test ok, {=usize} bytes of {=usize} in use",
        model.config().state_bytes(),
        found
    );
    Ok(session)
}

/// Shows a fault without a terminal.
pub(crate) fn blink(led: &mut impl OutputPin, delay: &mut impl DelayNs) {
    for _ in 0..BLINKS {
        let _ = led.set_high();
        delay.delay_ms(BLINK_MS);
        let _ = led.set_low();
        delay.delay_ms(BLINK_MS);
    }
}
