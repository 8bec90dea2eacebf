//! `waits`: an estimate of what flash costs on the boards that read weights from serial flash.

use std::fs;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use checkpoint::{AlignedBytes, BOARDS, blob, runs};
use clap::Parser;
use runtime::{Layout, Model};
use tools::markdown::number;

/// Estimates cycles per character of `pocket` on boards whose weights lie in serial flash
#[derive(Parser)]
#[command(name = "waits")]
struct Arguments {
    /// The table of cycles without waits
    #[arg(long, value_name = "FILE")]
    bench: Option<PathBuf>,
}

/// What to do about a table that lacks a row.
const ADVICE: &str = "run tools/bench --update";
/// Clocks of quad flash for a line of the cache: address and wait, then eight bytes by halves (RP2040
/// datasheet, 2.6.3).
const LINE_CLOCKS: f64 = 12.0 + 16.0;
const LINE_BYTES: f64 = 8.0;
/// Clocks for each byte when one follows the other.
const STREAM_CLOCKS: f64 = 2.0;

/// A chip that executes and reads in place from serial flash.
struct Chip {
    board: &'static str,
    core: &'static str,
    layout: Layout,
    hz: f64,
    /// Cycles of the core for a clock of the flash.
    divider: f64,
}

const CHIPS: [Chip; 2] = [
    // What the second stage of the boot loader sets.
    Chip {
        board: "pico",
        core: "m0plus",
        layout: Layout::M0,
        hz: 125e6,
        divider: 2.0,
    },
    // What the boot ROM sets.
    Chip {
        board: "pico2",
        core: "m33",
        layout: Layout::M4,
        hz: 150e6,
        divider: 3.0,
    },
];

/// What one character takes of a chip without waits, and what it reads.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// Cycles of the matrices.
    matrix: f64,
    /// All others.
    other: f64,
    /// Bytes of the matrices.
    weights: f64,
    /// Bytes of them in RAM.
    kept: f64,
    /// Bytes of multipliers, gains and the rest.
    rest: f64,
}

/// How the weights that are not in RAM come from flash.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flash {
    InPlace,
    Streamed,
}

impl Work {
    /// Returns the cycles with a flash that has one clock in `divider` cycles.
    fn cycles(self, divider: f64, flash: Flash, cores: f64) -> f64 {
        let per_byte = divider * LINE_CLOCKS / LINE_BYTES;
        let left = self.weights - self.kept;
        let compute = self.matrix / cores;
        let (near, far) = (
            compute * self.kept / self.weights,
            compute * left / self.weights,
        );
        let far = match flash {
            // A core waits for its own bytes; both share one flash.
            Flash::InPlace => (far + per_byte * left / cores).max(per_byte * left),
            Flash::Streamed => far.max(STREAM_CLOCKS * divider * left),
        };
        self.other + per_byte * self.rest + near + far
    }
}

fn main() -> ExitCode {
    tools::exit_code(run(&Arguments::parse(), &mut stdout().lock()))
}

fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let bench = arguments
        .bench
        .clone()
        .unwrap_or_else(|| runs::repository().join("tools/bench.md"));
    let table =
        fs::read_to_string(&bench).with_context(|| format!("cannot read {}", bench.display()))?;
    let plain = AlignedBytes::read(&runs::repository().join("firmware/model/pocket.bin"))?;
    writeln!(
        out,
        "Estimates, nothing measured: cycles of tools/bench at a full window, and of the flash {} per line \
         of {LINE_BYTES} bytes in place or {STREAM_CLOCKS} per byte streamed, in its clocks. Code is taken \
         to hit the cache.\n",
        LINE_CLOCKS
    )?;
    writeln!(
        out,
        "| board | flash clock | weights | cores | cycles per character | characters/s |\n\
         |---|---|---|---:|---:|---:|"
    )?;
    for chip in &CHIPS {
        let blob = blob::relayout(&plain, chip.layout)?;
        let work = work(chip, &Model::from_bytes(&blob)?, &table)?;
        let nothing_kept = Work { kept: 0.0, ..work };
        let kib = work.kept / 1024.0;
        let rows = if work.kept < work.weights {
            let rest = |how| format!("{kib:.0} KiB in RAM, the rest {how}");
            vec![
                (work, rest("in place"), Flash::InPlace, 1),
                (work, rest("streamed"), Flash::Streamed, 1),
                (work, rest("in place"), Flash::InPlace, 2),
                (work, rest("streamed"), Flash::Streamed, 2),
            ]
        } else {
            let all = "all in RAM".to_string();
            vec![
                (work, all.clone(), Flash::InPlace, 1),
                (work, all, Flash::InPlace, 2),
            ]
        };
        let in_place = (nothing_kept, "in place".to_string(), Flash::InPlace, 1);
        for (work, weights, flash, cores) in [vec![in_place], rows].concat() {
            let cycles = work.cycles(chip.divider, flash, f64::from(cores));
            writeln!(
                out,
                "| `{}` | 1/{} | {weights} | {cores} | {:.2} M | {:.0} |",
                chip.board,
                chip.divider,
                cycles / 1e6,
                (chip.hz / cycles).floor()
            )?;
        }
        let cycles = work.matrix + work.other;
        writeln!(
            out,
            "| `{}` | | without waits | 1 | {:.2} M | {:.0} |",
            chip.board,
            cycles / 1e6,
            (chip.hz / cycles).floor()
        )?;
    }
    Ok(())
}

/// Puts together what a character of this model takes on this chip.
fn work(chip: &Chip, model: &Model<'_>, bench: &str) -> anyhow::Result<Work> {
    let board = BOARDS.iter().find(|board| board.name == chip.board);
    let board = board.with_context(|| format!("no board {}", chip.board))?;
    let cycles = number(
        bench,
        &["pocket", chip.core, "w8", "full"],
        "cycles",
        ADVICE,
    )?;
    let per_mac = number(bench, &[chip.core], "matrix", ADVICE)?;
    let matrix = per_mac * model.config().n_mac() as f64;
    let weights: usize = model.in_order().map(|rows| 4 * rows.words.len()).sum();
    let spare = board.ram_len - board.app_ram - model.state_bytes();
    Ok(Work {
        matrix,
        other: cycles - matrix,
        weights: weights as f64,
        kept: spare.min(weights) as f64,
        rest: (model.tensor_bytes().len() - weights) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Work = Work {
        matrix: 400.0,
        other: 50.0,
        weights: 100.0,
        kept: 20.0,
        rest: 2.0,
    };

    #[test]
    fn waits_add_up_in_place_and_hide_behind_the_longer_when_streamed() {
        // 7 cycles per byte in place and 4 streamed.
        let base = 50.0 + 7.0 * 2.0;
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        let all_flash = Work { kept: 0.0, ..WORK };
        close(
            all_flash.cycles(2.0, Flash::InPlace, 1.0),
            base + 400.0 + 700.0,
        );
        close(WORK.cycles(2.0, Flash::InPlace, 1.0), base + 400.0 + 560.0);
        close(WORK.cycles(2.0, Flash::Streamed, 1.0), base + 80.0 + 320.0);
        close(WORK.cycles(2.0, Flash::Streamed, 2.0), base + 40.0 + 320.0);
        close(WORK.cycles(2.0, Flash::InPlace, 2.0), base + 40.0 + 560.0);
    }

    #[test]
    fn the_committed_table_has_what_it_takes() {
        let mut out = Vec::new();
        run(&Arguments { bench: None }, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        for chip in &CHIPS {
            let rows = out.matches(&format!("| `{}` |", chip.board)).count();
            assert!(rows >= 4, "{out}");
        }
    }
}
