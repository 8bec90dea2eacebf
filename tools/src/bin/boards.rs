//! `boards`: what the firmware of each board takes, from the ELF files that cargo builds, and how fast it
//! is, from emulators.

use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use checkpoint::{AlignedBytes, BOARDS, Board, blob, runs};
use clap::Parser;
use parity::emulators::{Machine, machine};
use runtime::Layout;
use tools::elf::{Elf, Part};
use tools::markdown;

/// Characters of a measurement.
const LEN: u32 = 257;
/// The columns of the table in README.md: board, chip, all of the flash, stack and speed.
const BRIEF: [usize; 6] = [1, 2, 4, 8, 9, 10];

/// Builds the firmware of every board around pocket.bin and prints what it takes as a table
///
/// Exit code 1 if a board does not build, does not keep to the memories of its chip, or its code takes more
/// than is kept for it.
#[derive(Parser)]
#[command(name = "boards")]
struct Arguments {
    /// Also boots the boards that have an emulator, for stack and speed: some minutes
    #[arg(long)]
    measure: bool,
    /// Writes the table to firmware/README.md too, and some of its columns to README.md
    #[arg(long, requires = "measure", conflicts_with = "boards")]
    update: bool,
    /// Boards, by their folders; all if left out
    #[arg(value_name = "BOARD")]
    boards: Vec<String>,
}

/// What a character takes of a core.
#[derive(Clone, Copy, Debug)]
struct Speed {
    /// Bytes of stack.
    stack: u32,
    /// Instructions; of the Pico, cycles.
    count: u64,
}

fn main() -> ExitCode {
    tools::exit_code(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut table = String::from(
        "| board | chip | code | with `pocket` | model at most | RAM for the model | other RAM |",
    );
    let mut rule = String::from("|---|---|---:|---:|---:|---:|---:|");
    if arguments.measure {
        table += " stack | per character | characters/s |";
        rule += "---:|---:|---:|";
    }
    writeln!(table, "\n{rule}")?;
    print!("{table}");
    let named = arguments.boards.iter().map(|name| Board::find(name));
    let boards: Vec<&Board> = if arguments.boards.is_empty() {
        BOARDS.iter().collect()
    } else {
        named.collect::<Result<_, _>>()?
    };
    let mut measured = Vec::new();
    for board in boards {
        eprintln!("boards: building {} with pocket.bin in it", board.name);
        let mut row = size(board).with_context(|| board.name)?;
        if arguments.measure {
            row += &cells(board, &mut measured).with_context(|| board.name)?;
        }
        println!("{row}");
        writeln!(table, "{row}")?;
    }
    if arguments.update {
        update("firmware/README.md", &table)?;
        update("README.md", &columns(&table, &BRIEF))?;
    }
    Ok(())
}

/// Writes a table between the marks of a page of the repository.
fn update(page: &str, table: &str) -> anyhow::Result<()> {
    let path = runs::repository().join(page);
    let old = fs::read_to_string(&path).with_context(|| format!("cannot read {page}"))?;
    let new = markdown::replaced(&old, "boards", table).with_context(|| page.to_string())?;
    fs::write(&path, new).with_context(|| format!("cannot write {page}"))
}

/// Returns these columns of a table.
fn columns(table: &str, wanted: &[usize]) -> String {
    let row = |line: &str| -> String {
        let cells: Vec<&str> = line.split('|').collect();
        let taken = wanted.iter().filter_map(|&at| cells.get(at).copied());
        format!("|{}|\n", taken.collect::<Vec<_>>().join("|"))
    };
    table.lines().map(row).collect()
}

/// Builds a board and returns the part of its row that needs no emulator.
fn size(board: &Board) -> anyhow::Result<String> {
    let elf = machine::build_board(board)?;
    let bytes = fs::read(&elf).with_context(|| format!("cannot read {}", elf.display()))?;
    let elf = Elf::new(&bytes).with_context(|| elf.display().to_string())?;
    for part in elf.parts() {
        let end = u64::from(part.address) + part.len as u64;
        let mut memories = board.code.iter().chain(board.ram);
        let inside = memories.any(|&(from, to)| from <= part.address && end <= u64::from(to));
        ensure!(
            inside,
            "section {} lies at {:#x}..{end:#x}, outside the memories of the chip",
            part.name,
            part.address
        );
    }
    let plain = AlignedBytes::read(&runs::repository().join("firmware/model/pocket.bin"))?;
    // As the build script lays it out.
    let model = blob::relayout(&plain, Layout::of_target(board.target, true))?.len();
    let stored: usize = elf
        .parts()
        .filter(|part| part.stored)
        .map(|part| part.len)
        .sum();
    let code = stored - model;
    ensure!(
        code <= board.app_flash,
        "{code} bytes of code, more than the {} that are kept for it",
        board.app_flash
    );
    // esp-hal's linker script makes a section of the stack.
    let in_ram = |part: &Part<'_>| {
        let mut ram = board.ram.iter();
        ram.any(|(from, to)| (from..to).contains(&&part.address)) && part.name != ".stack"
    };
    let ram: usize = elf.parts().filter(in_ram).map(|part| part.len).sum();
    let state = board.ram_len - board.app_ram;
    Ok(format!(
        "| `{}` | {} | {code} B | {stored} B | {} KiB | {} KiB | {} B |",
        board.name,
        board.chip,
        (board.flash_len - board.app_flash) / 1024,
        state / 1024,
        ram - state
    ))
}

/// Has a board measure itself in its emulator.
///
/// QEMU counts instructions, a nanosecond each; so does Unicorn, a cycle each; rp2040js counts cycles.
fn speed(machine: Machine) -> anyhow::Result<Speed> {
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
    let found = || format!("expected a row of /bench, found {answer:?}");
    ensure!(cells.len() == 11, "{}", found());
    let stack = cells[9]
        .trim_end_matches(" B")
        .parse()
        .with_context(found)?;
    let cycles: u64 = cells[6].parse().with_context(found)?;
    let mhz: u64 = cells[3].parse().with_context(found)?;
    let count = if in_qemu {
        cycles * 1_000 / mhz
    } else {
        cycles
    };
    Ok(Speed { stack, count })
}

/// Returns the last three cells of a board's row.
///
/// An instruction takes as many cycles as `tools/bench` finds on the core, which is that of another board
/// where this one has no emulator. `measured` keeps what has been measured.
fn cells(
    board: &'static Board,
    measured: &mut Vec<(&'static str, Speed)>,
) -> anyhow::Result<String> {
    let own = Machine::find(board.name).is_ok();
    let name = match board.target {
        _ if own => board.name,
        "riscv32imc-unknown-none-elf" => "virt",
        _ => "qemu",
    };
    let known = measured.iter().find(|(known, _)| *known == name);
    let speed = if let Some((_, speed)) = known {
        *speed
    } else {
        eprintln!("boards: measuring {name} in its emulator");
        let speed = speed(Machine::find(name)?).with_context(|| name)?;
        measured.push((name, speed));
        speed
    };
    let (stack, count) = if own {
        let what = if name == "pico" {
            "cycles"
        } else {
            "instructions"
        };
        (
            format!("{} B", speed.stack),
            format!("{} {what}", speed.count),
        )
    } else {
        ("not emulated".to_string(), format!("that of `{name}`"))
    };
    let rate = match board.mhz {
        Some(mhz) => {
            let cycles = speed.count as f64 * cycles_per_count(board)?;
            format!("{:.0}", f64::from(mhz) * 1e6 / cycles)
        }
        None => "no clock".to_string(),
    };
    Ok(format!(" {stack} | {count} | {rate} |"))
}

/// Returns how many cycles one of [`Speed::count`] is.
fn cycles_per_count(board: &Board) -> anyhow::Result<f64> {
    let core = match board.target {
        // Its count is one of cycles.
        "thumbv6m-none-eabi" => return Ok(1.0),
        "thumbv8m.main-none-eabihf" => "m33",
        "riscv32imc-unknown-none-elf" => "rv32",
        _ => "m4f",
    };
    let path = runs::repository().join("tools/bench.md");
    let bench =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    // A text of LEN characters fills half the window on the average.
    let row = ["pocket", core, "w8", "half"];
    let find = |column| markdown::number(&bench, &row, column, "run tools/bench --update");
    Ok(find("cycles")? / find("instructions")?)
}
