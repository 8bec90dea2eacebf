//! `talk`: a model answers on the host, on an emulated board or on a real one.

mod board;
mod client;
mod host;
mod json;
mod options;
mod ports;
mod replay;
mod stand_in;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use checkpoint::read_bounded;
use clap::Parser;
use parity::emulators::script;

use crate::options::Options;

/// Continues a prompt as a board does: the same blob, settings, seed and prompt give the same text
///
/// Without --port and --emulate the model runs on this machine.
#[derive(Parser)]
#[command(name = "talk")]
struct Arguments {
    /// The prompt, `\n` for a newline; without it, the lines of the standard input, commands such as
    /// /help among them
    prompt: Option<String>,
    /// The blob, also for --emulate; firmware/model/model.bin if left out, or else the committed
    /// pocket.bin
    #[arg(long)]
    blob: Option<PathBuf>,
    /// Talks to the board on this serial port; `auto` finds it
    #[arg(long, conflicts_with = "emulate")]
    port: Option<String>,
    /// Builds the firmware of this board, boots it in its emulator and talks to it
    #[arg(long, value_name = "BOARD")]
    emulate: Option<String>,
    /// Holds the conversation in this file: exit code 1 and a message if an answer is another
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "json", "replay"])]
    script: Option<PathBuf>,
    /// One JSON object a line: tokens with their probabilities, settings, statistics
    #[arg(long, conflicts_with = "replay")]
    json: bool,
    /// Makes the board's text again on this machine, with the board's seed, and compares
    #[arg(long)]
    replay: bool,
    #[command(flatten)]
    options: Options,
}

/// Longest script, in bytes.
const SCRIPT_BYTES: u64 = 1 << 20;

fn main() -> ExitCode {
    tools::exit_code(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let far = arguments.port.is_some() || arguments.emulate.is_some();
    if let Some(path) = &arguments.script {
        let script = read_bounded(path, SCRIPT_BYTES)
            .and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other))
            .with_context(|| format!("cannot read {}", path.display()))?;
        let mut chat = board::at_prompt(arguments)?;
        for line in arguments.options.commands() {
            chat.ask(&line)?;
        }
        let turns = script::hold(&mut chat, &script).with_context(|| path.display().to_string())?;
        println!("{}: {turns} turns as expected", path.display());
        return Ok(());
    }
    if arguments.json {
        return json::run(arguments);
    }
    if arguments.replay {
        return replay::run(arguments);
    }
    match &arguments.prompt {
        Some(prompt) if far => client::print(arguments, prompt),
        Some(prompt) => host::run(arguments, prompt),
        None => terminal::run(arguments),
    }
}

/// Returns a flag that Ctrl-C raises from here on, instead of ending the program.
fn interrupts() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    ctrlc::set_handler(move || raised.store(true, std::sync::atomic::Ordering::Relaxed))
        .context("cannot take Ctrl-C")?;
    Ok(flag)
}
