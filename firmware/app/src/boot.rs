//! What happens once, before the first prompt string.

use core::fmt::Write as _;

use embedded_hal::digital::OutputPin;
use embedded_io::{Read, ReadReady, Write};
use runtime::{LoadError, LogitsHash, Model, SelfTestError, Session};

use crate::board::{Chip, RECORD_LEN};
use crate::console::Console;
use crate::help::Help;
use crate::log::info;
use crate::report::Fault;
use crate::settings::{Choices, RecordError};

/// Half a period of the LED that shows a fault, and how often it blinks.
const BLINK_US: u64 = 60_000;
const BLINKS: u32 = 3;

/// Splits the RAM of a board in what the model needs and what is left.
#[cfg(feature = "assist")]
pub(crate) fn split<'s>(
    loaded: &Result<Model<'_>, LoadError>,
    state: &'s mut [u32],
) -> (&'s mut [u32], &'s mut [u32]) {
    let needed = loaded.as_ref().map_or(state.len(), Model::state_words);
    let needed = needed.min(state.len());
    state.split_at_mut(needed)
}

/// Says what the board found in its flash and proves that it computes what the exporter did.
///
/// `found` are the bytes of RAM for a model, of which `state` is as much as this one needs.
pub(crate) fn boot<'s, S: Read + ReadReady + Write>(
    console: &mut Console<'_, S>,
    chip: &mut impl Chip,
    loaded: &'s Result<Model<'s>, LoadError>,
    (state, found): (&'s mut [u32], usize),
    help: Help<'_>,
) -> Result<Session<'s>, Fault> {
    let model = loaded.as_ref().map_err(|error| Fault::Load(*error))?;
    let _ = writeln!(
        console,
        "model {}: {} parameters, blob {} bytes, RAM {} of {found} bytes",
        model.header().provenance.run,
        model.config().n_params(),
        model.len(),
        model.state_bytes(),
    );
    let _ = write!(console, "CRC-32 {:08x} ok, self-test ", model.crc());
    let mut session = Session::new(model, state).map_err(Fault::State)?;
    let tested = self_test(&mut session, chip).or_else(|error| {
        if !help.dismiss() {
            return Err(error);
        }
        let found = error.found;
        let _ = write!(
            console,
            "{found:016x} is wrong: once more, with weights in place and one core: "
        );
        self_test(&mut session, chip)
    });
    let hash = tested.map_err(Fault::SelfTest)?;
    let _ = writeln!(console, "{hash:016x} ok");
    info!(
        "self-test ok, {=usize} bytes of {=usize} in use",
        model.state_bytes(),
        found
    );
    Ok(session)
}

/// The self-test of [`Session::self_test`], with the watchdog fed before each forward pass: 64 of
/// a large model may take longer than a watchdog waits.
fn self_test(session: &mut Session<'_>, chip: &mut impl Chip) -> Result<u64, SelfTestError> {
    let golden = session.model().header().golden;
    let mut hash = LogitsHash::new();
    session.reset();
    for token in golden.tokens() {
        // The loader has checked that every golden token is in the vocabulary.
        let _ = session.push(token);
        chip.feed();
        while session.step() {
            chip.feed();
        }
        hash.update(session.logits());
    }
    session.reset();
    let (expected, found) = (golden.logits_hash, hash.finish());
    if found == expected {
        Ok(found)
    } else {
        Err(SelfTestError { expected, found })
    }
}

/// Takes the kept settings and the seed of this boot, and says so.
pub(crate) fn choices<S: Read + ReadReady + Write>(
    console: &mut Console<'_, S>,
    chip: &mut impl Chip,
) -> Choices {
    let mut choices = Choices::default();
    let mut record = [0; RECORD_LEN];
    if chip.load(&mut record).is_ok() {
        let _ = match choices.restore(&record) {
            Ok(()) => writeln!(console, "saved settings are in force"),
            Err(RecordError::Empty) => Ok(()),
            Err(RecordError::Damaged) => writeln!(
                console,
                "(the saved settings are damaged or of another version: the defaults hold; /save \
                 writes them again)"
            ),
        };
    }
    let _ = match chip.entropy() {
        Some(noise) => {
            // Short enough to be typed.
            choices.boot_seed = noise >> 32;
            writeln!(
                console,
                "seed {}, from noise: /seed {0} repeats these texts on any board",
                choices.boot_seed
            )
        }
        None => writeln!(
            console,
            "seed {}: no source of noise here, so each boot makes the same texts",
            choices.boot_seed
        ),
    };
    choices
}

/// Shows a fault without a terminal.
pub(crate) fn blink(led: &mut impl OutputPin, chip: &mut impl Chip) {
    for _ in 0..BLINKS {
        let _ = led.set_high();
        wait(chip);
        let _ = led.set_low();
        wait(chip);
    }
}

fn wait(chip: &mut impl Chip) {
    let start = chip.micros();
    while chip.micros().wrapping_sub(start) < BLINK_US {
        chip.feed();
    }
}
