//! `flash-model`: a blob for the flash of one board, and the command that puts it there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use checkpoint::{Board, blob, read_bounded, runs};
use clap::Parser;
use runtime::{Layout, Model};
use tools::{input, paths, uf2};

/// Prepares a model to be flashed beside a board's firmware, which stays as it is
#[derive(Parser)]
#[command(name = "flash-model")]
struct Arguments {
    /// The board: the name of its folder under firmware/
    board: String,
    /// The blob; firmware/model/model.bin if left out, or else the committed pocket.bin
    blob: Option<PathBuf>,
    /// Where to write; target/flash-model/BOARD-model.bin at the top of the repository if left out
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Also turns an ELF file of firmware into the UF2 file beside it, for a Pico without a probe
    #[arg(long, value_name = "FILE")]
    elf: Option<PathBuf>,
}

/// Largest firmware that is read, its debugging information included.
const ELF_BYTES: u64 = 1 << 28;

fn main() -> ExitCode {
    tools::exit_code(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let board = Board::find(&arguments.board)?;
    let (path, bytes) = input::blob(arguments.blob.as_deref())?;
    let model = Model::from_bytes(&bytes).with_context(|| path.display().to_string())?;
    let bytes = blob::relayout(&bytes, Layout::of_target(board.target, true))?;
    board.check(bytes.len(), model.config().state_bytes())?;
    let Some(at) = board.model_at else {
        bail!(
            "the model of {0} is a part of its firmware: cd firmware/{0} && CHAPBOOK_MODEL={1} cargo run \
             --release",
            board.name,
            fs::canonicalize(&path).unwrap_or(path).display()
        );
    };
    // Nothing is written before all is known to be good.
    let elf = arguments.elf.as_deref();
    let firmware = elf.map(|elf| Ok::<_, anyhow::Error>((elf, firmware(board, at, elf)?)));
    let firmware = firmware.transpose()?;

    let output = match &arguments.output {
        Some(output) => output.clone(),
        None => own_output(board)?,
    };
    write(&output, &bytes)?;
    if let Some(chip) = board.probe_chip {
        println!(
            "with a probe: probe-rs download --chip {chip} --binary-format bin --base-address \
             {at:#010x} --restore-unwritten {}",
            paths::display(&output)
        );
    } else {
        println!(
            "in QEMU: -device loader,file={},addr={at:#010x},force-raw=on",
            paths::display(&output)
        );
    }
    if let Some(family) = board.uf2_family {
        let file = output.with_extension("uf2");
        write(&file, &uf2::encode(family, &[(at, bytes.to_vec())]))?;
        println!(
            "without one: hold BOOTSEL while plugging in, then copy {} to the drive",
            paths::display(&file)
        );
    }
    if let Some((elf, uf2)) = firmware {
        let file = elf.with_extension("uf2");
        write(&file, &uf2)?;
        println!("firmware for BOOTSEL: {}", file.display());
    }
    Ok(())
}

/// Returns where the files of a board go unless told otherwise: where git does not look.
fn own_output(board: &Board) -> anyhow::Result<PathBuf> {
    let folder = runs::repository().join("target/flash-model");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.join(format!("{}-model.bin", board.name)))
}

/// Returns the UF2 file of an ELF file.
fn firmware(board: &Board, model_at: u32, elf: &Path) -> anyhow::Result<Vec<u8>> {
    let Some(family) = board.uf2_family else {
        bail!("{} takes no UF2 files; flash it with a probe", board.name);
    };
    let bytes =
        read_bounded(elf, ELF_BYTES).with_context(|| format!("cannot read {}", elf.display()))?;
    let flash_start = model_at & 0xff00_0000;
    let flash = flash_start..flash_start + board.flash_len as u32;
    let parts = uf2::flash_parts(&bytes, flash)
        .filter(|parts| !parts.is_empty())
        .with_context(|| {
            format!(
                "{} is no firmware of {}: expected an ELF file with segments in its flash",
                elf.display(),
                board.name
            )
        })?;
    Ok(uf2::encode(family, &parts))
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{} ({} bytes)", paths::display(path), bytes.len());
    Ok(())
}
