//! Instructions per character on the QEMU board and cycles per character on the Pico.
//!
//! ```text
//! cargo run --release -p parity --bin count -- [BLOB]
//! ```
//!
//! The firmware's own `/stats` tells how long the characters after the first one took. In QEMU the
//! clock counts instructions (`-icount shift=0`: one is a nanosecond); the figure is exact and says
//! nothing of wait states. rp2040js counts the cycles of a Cortex-M0+ at 125 MHz whose flash is
//! always in its cache, so the figure is a lower bound. Both are the same in each run.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use checkpoint::AlignedBytes;
use parity::emulators::{Chat, Machine};
use runtime::Model;

const PROMPT: &str = "ROMEO:";
/// Instructions per microsecond of QEMU's clock.
const QEMU_PER_MICRO: u64 = 1_000;
const QEMU_LEN: u64 = 257;
/// Cycles per microsecond of the Pico.
const PICO_PER_MICRO: u64 = 125;
/// rp2040js runs at a twentieth of the chip's speed.
const PICO_LEN: u64 = 257;

fn main() -> Result<()> {
    let path = std::env::args_os()
        .nth(1)
        .map_or_else(default_blob, |path| Ok(PathBuf::from(path)))?;
    let blob =
        AlignedBytes::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let config = *Model::from_bytes(&blob)
        .with_context(|| path.display().to_string())?
        .config();
    println!(
        "{}: {} parameters, {} multiply-accumulates per character without attention",
        path.display(),
        config.n_params(),
        config.n_mac()
    );

    let firmware = Machine::Qemu.build("count", &blob)?;
    let micros = time(firmware.boot_counting()?, QEMU_LEN)?;
    let count = micros * QEMU_PER_MICRO / (QEMU_LEN - 1);
    println!("qemu (Cortex-M4F): {count} instructions per character, {QEMU_LEN} characters");

    let firmware = Machine::Pico.build("count", &blob)?;
    let micros = time(firmware.boot()?, PICO_LEN)?;
    let count = micros * PICO_PER_MICRO / (PICO_LEN - 1);
    println!(
        "pico (Cortex-M0+): {count} cycles per character, {PICO_LEN} characters, {} characters/s at 125 MHz",
        1_000_000 * PICO_PER_MICRO / count
    );
    Ok(())
}

/// The blob that the boards embed by default.
fn default_blob() -> Result<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../firmware/model");
    ["model.bin", "pocket.bin"]
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
        .context("firmware/model has no blob: name one")
}

/// Returns the microseconds from the first character of a text to its last.
fn time(mut chat: Chat, len: u64) -> Result<u64> {
    chat.prompt()?;
    chat.ask(&format!("/len {len}"))?;
    chat.ask(PROMPT)?;
    let stats = chat.ask("/stats")?;
    let micros = stats
        .split_once("the rest in ")
        .and_then(|(_, rest)| rest.split(' ').next())
        .and_then(|micros| micros.parse().ok());
    match micros {
        Some(micros) => Ok(micros),
        None => bail!("expected a time from /stats, found {stats:?}"),
    }
}
