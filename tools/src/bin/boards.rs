//! `boards`: what the firmware of each board takes, from the ELF files that cargo left.

use std::fs;
use std::process::ExitCode;

use anyhow::Context;
use checkpoint::{BOARDS, runs};
use clap::Parser;
use tools::elf::Elf;

/// Prints flash and RAM of every board's firmware as a table; build the boards before
#[derive(Parser)]
#[command(name = "boards")]
struct Arguments {}

fn main() -> ExitCode {
    let Arguments {} = Arguments::parse();
    tools::exit_code(run())
}

fn run() -> anyhow::Result<()> {
    println!(
        "| board | chip | code in flash | kept for code and settings | model at most | RAM for the model | other RAM |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|");
    for board in &BOARDS {
        let elf = runs::repository()
            .join("firmware/target")
            .join(board.target)
            .join("release")
            .join(board.name);
        let bytes = fs::read(&elf).with_context(|| {
            format!(
                "cannot read {}; build it: cd firmware/{} && cargo build --release",
                elf.display(),
                board.name
            )
        })?;
        let elf = Elf::new(&bytes).with_context(|| elf.display().to_string())?;
        let state = board.ram_len - board.app_ram;
        println!(
            "| `{}` | {} | {} B | {} KiB | {} KiB | {} KiB | {} B |",
            board.name,
            board.chip,
            elf.code_len(),
            board.app_flash / 1024,
            (board.flash_len - board.app_flash) / 1024,
            state / 1024,
            elf.ram_len() - state
        );
    }
    Ok(())
}
