//! `boards`: what the firmware of each board takes, from the ELF files that cargo left, and how fast it
//! is, from emulators.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use checkpoint::{BOARDS, Board, runs};
use clap::Parser;
use parity::emulators::Machine;
use tools::elf::Elf;

/// Characters of a measurement.
const LEN: u32 = 257;

/// Prints flash and RAM of every board's firmware as a table; build the boards before
#[derive(Parser)]
#[command(name = "boards")]
struct Arguments {
    /// Also build the emulated boards with pocket.bin and measure stack and speed: some minutes
    #[arg(long)]
    measure: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tools::exit_code(run(arguments.measure))
}

fn run(measure: bool) -> anyhow::Result<()> {
    let more = if measure {
        " stack | per character |"
    } else {
        ""
    };
    println!(
        "| board | chip | code in flash | kept for code and settings | model at most | RAM for the model | other RAM |{more}"
    );
    println!(
        "|---|---|---:|---:|---:|---:|---:|{}",
        if measure { "---:|---:|" } else { "" }
    );
    let mut missing = Vec::new();
    for board in &BOARDS {
        let speed = if measure {
            speed(board).unwrap_or_else(|error| {
                missing.push(format!("{}: not measured: {error:#}", board.name));
                " | |".to_string()
            })
        } else {
            String::new()
        };
        match size(board) {
            Ok(row) => println!("{row}{speed}"),
            Err(error) => missing.push(format!("{error:#}")),
        }
    }
    ensure!(missing.is_empty(), "{}", missing.join("; "));
    Ok(())
}

/// Returns the row of a board.
fn size(board: &Board) -> anyhow::Result<String> {
    let elf = runs::repository()
        .join("firmware/target")
        .join(board.target)
        .join("release")
        .join(board.name);
    let bytes = fs::read(&elf).with_context(|| {
        format!(
            "{0}: not built: cd firmware/{0} && cargo build --release",
            board.name
        )
    })?;
    let elf = Elf::new(&bytes).with_context(|| elf.display().to_string())?;
    let (code, state) = (elf.code_len(), board.ram_len - board.app_ram);
    ensure!(
        code <= board.app_flash,
        "{}: {code} bytes of code, more than the {} that are kept for it",
        board.name,
        board.app_flash
    );
    Ok(format!(
        "| `{}` | {} | {} B | {} KiB | {} KiB | {} KiB | {} B |",
        board.name,
        board.chip,
        code,
        board.app_flash / 1024,
        (board.flash_len - board.app_flash) / 1024,
        state / 1024,
        elf.ram_len() - state
    ))
}

/// Has the emulated board measure itself, and returns the last two cells of its row.
///
/// QEMU counts instructions, a nanosecond each; so does Unicorn, a cycle each; rp2040js counts cycles.
fn speed(board: &Board) -> anyhow::Result<String> {
    let Ok(machine) = Machine::find(board.name) else {
        return Ok(" | not emulated |".to_string());
    };
    let firmware = machine.build_default()?;
    let in_qemu = matches!(machine, Machine::Qemu | Machine::Virt);
    let mut chat = if in_qemu {
        firmware.boot_counting()?
    } else {
        firmware.boot()?
    };
    chat.prompt()?;
    let answer = chat.ask(&format!("/bench {LEN}"))?;
    let cells: Vec<&str> = (answer.lines().last().unwrap_or_default().split('|'))
        .map(str::trim)
        .collect();
    ensure!(
        cells.len() == 11,
        "expected a row of /bench, found {answer:?}"
    );
    let cycles: u64 = cells[6].parse().context("no cycles per character")?;
    let mhz: u64 = cells[3].parse().context("no clock")?;
    let count = if in_qemu {
        cycles * 1_000 / mhz
    } else {
        cycles
    };
    let unit = match machine {
        Machine::Pico => format!("{count} cycles, {}/s", cells[5]),
        _ => format!("{count} instructions"),
    };
    Ok(format!(" {} | {unit} |", cells[9]))
}
