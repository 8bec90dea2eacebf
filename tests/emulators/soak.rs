//! A long text on the emulated boards: the watchdog stays quiet and RAM stays as it was.
//!
//! ```text
//! cargo run --release -p parity --bin soak -- QEMU_CHARACTERS PICO_CHARACTERS
//! ```
//!
//! The text is that of a small model with random weights, whose context every text outgrows a
//! thousand times; the logits hash at its end has to be the host's.

use anyhow::{Context, Result, ensure};
use app::generate::Request;
use parity::emulators::{Machine, host};
use parity::shapes::{PLAIN, random_blob};
use runtime::Config;

const CONFIG: Config = Config {
    vocab_size: 65,
    n_kv_head: 2,
    ..PLAIN
};

/// Bytes of stack that an interrupt may take on top, when it comes at the deepest place.
const INTERRUPT: u32 = 256;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    for machine in [Machine::Qemu, Machine::Pico] {
        let len = arguments.next().context("two numbers of characters")?;
        soak(machine, len.parse()?)?;
    }
    Ok(())
}

/// Has a board make one text of `len` characters and compares what it says before and after.
fn soak(machine: Machine, len: u32) -> Result<()> {
    let blob = random_blob(CONFIG, 1);
    let mut chat = machine.build("soak", &blob)?.boot()?;
    chat.prompt()?;
    // The first text, and the first look at it, use as much of the stack as any.
    chat.ask("/bench 20")?;
    chat.ask("/stats")?;
    let before = stack(&chat.ask("/stats")?)?;
    chat.ask(&format!("/len {len}"))?;
    chat.send(b"ROMEO:\r")?;
    chat.expect("ROMEO:\r\n")?;
    // A chunk at a time, so that a board that has gone quiet is noticed.
    let mut text = String::new();
    let mut count = 0;
    while count < len as usize {
        // CR comes before LF only.
        let chunk = chat.receive()?.replace('\r', "");
        count += chunk.chars().count();
        text += &chunk;
    }
    let stats = chat.ask("/stats")?;

    let request = Request {
        len,
        ..Request::default()
    };
    let (known, hash) = host::text(&blob, "ROMEO:", request)?;
    let same = known.chars().zip(text.chars()).take_while(|(a, b)| a == b);
    let same = same.count();
    ensure!(
        same == len as usize,
        "after {same} characters the text is not the host's: {:?}",
        text.chars().skip(same).take(200).collect::<String>()
    );
    ensure!(
        stats.contains(&format!("logits hash {hash:016x}")),
        "expected the hash {hash:016x}, found {stats}"
    );
    ensure!(
        stats.contains("0 resets since power") && stats.contains("\n0 bytes dropped"),
        "{stats}"
    );
    let after = stack(&stats)?;
    ensure!(
        after <= before + INTERRUPT,
        "stack {before} bytes before, {after} after"
    );
    println!("{machine:?}: {len} characters, no reset, stack {before} bytes before, {after} after");
    Ok(())
}

/// Returns the bytes of stack that `/stats` says were used.
fn stack(stats: &str) -> Result<u32> {
    let rest = stats
        .split_once(", stack ")
        .context("no stack in /stats")?
        .1;
    let digits = rest.split(' ').next().unwrap_or_default();
    digits.parse().context("no number of bytes of stack")
}
