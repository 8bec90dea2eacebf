//! `bench`: cycles per character of the engine on emulated cores, the same in each run.

mod emulator;
mod table;

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use checkpoint::{AlignedBytes, blob, int4, runs, synthetic, write_durably};
use clap::Parser;
use runtime::{
    Activation, Config, Kinds, LogitsHash, Model, Norm, Position, Provenance, Session, TensorId,
};

use emulator::{CORES, Core, Run};
use table::{Kernel, Row, Table};

/// The shape of `HardGPT` (`AdamA1024/HardGPT`), the closest peer: 88,704 parameters, 86,064
/// multiply-accumulates per character without attention. Its weights here are random, because the
/// cost does not depend on them.
const PEER: Config = Config {
    n_layer: 3,
    n_head: 4,
    n_kv_head: 4,
    d_model: 48,
    d_ff: 192,
    context_len: 48,
    vocab_size: 65,
    position: Position::Learned,
    rope_base: 10_000,
    norm: Norm::LayerNorm,
    activation: Activation::Gelu,
    tied: true,
    embed_scale: false,
    attn_bias: false,
    ff_bias: false,
    norm_bias: false,
    head_bias: false,
};

/// RAM, and code and constants, that the peer's shape with int8 weights may take each.
const PEER_LEN: usize = 24 * 1024;
const _: () = assert!(PEER.state_bytes() <= PEER_LEN);

/// Multiply-accumulates that each region of the program `kernels` counts.
const KERNEL_MAC: f64 = 64.0 * 256.0;

/// Counts cycles per character and per multiply-accumulate on emulated cores
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Compares with the committed table and fails when cycles or bytes rose by more than 1 %
    #[arg(long)]
    check: bool,
    /// Rewrites the committed table
    #[arg(long, conflicts_with = "check")]
    update: bool,
    /// Prints the rows as JSON
    #[arg(long)]
    json: bool,
    /// Prints which functions the cycles of a full window go to
    #[arg(long)]
    parts: bool,
    /// Measures this blob instead of the usual ones, and says what flash would cost
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "update"])]
    model: Option<PathBuf>,
    /// Measures this core only
    #[arg(long, value_name = "NAME", conflicts_with_all = ["check", "update"])]
    core: Option<String>,
}

fn main() -> ExitCode {
    tools::exit_code(run(&Arguments::parse(), &mut stdout().lock()))
}

fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let folder = runs::repository().join("firmware/bench/target");
    std::fs::create_dir_all(&folder)?;
    let plugin = emulator::plugin(&folder)?;
    let (peer, peer_w4) = (folder.join("peer.bin"), folder.join("peer-w4.bin"));
    write_peer(&peer, Kinds::W8)?;
    let kinds = int4::kinds(&PEER, None, &[]).map_err(anyhow::Error::msg)?;
    write_peer(&peer_w4, kinds)?;
    let pocket = runs::repository().join("firmware/model/pocket.bin");
    let mut models = vec![("peer", peer), ("peer", peer_w4), ("pocket", pocket)];
    if let Some(model) = &arguments.model {
        let model = std::path::absolute(model).context("--model")?;
        models = vec![("model", model)];
    }
    let cores: Vec<&Core> = CORES
        .iter()
        .filter(|core| {
            arguments
                .core
                .as_deref()
                .is_none_or(|name| name == core.name)
        })
        .collect();
    if cores.is_empty() {
        let names = CORES.map(|core| core.name).join(", ");
        bail!("there is no such core; known are {names}");
    }

    let bytes = AlignedBytes::read(&models[0].1)?;
    let kernel_features = match Model::from_bytes(&bytes)?.vocab().is_byte_pair() {
        false => "w4",
        true => "w4,byte-pair",
    };
    let mut table = Table::default();
    for core in &cores {
        let kernels = core.run("kernels", &models[0].1, kernel_features, &plugin)?;
        ensure!(
            kernels.output.starts_with("equal"),
            "{}: {}",
            core.name,
            kernels.output
        );
        table.kernels.extend(kernel_rows(core, &kernels)?);
    }
    let mut flash = String::new();
    for (name, path) in &models {
        for core in &cores {
            let bytes = AlignedBytes::read(path)?;
            let model = Model::from_bytes(&bytes)?;
            let w4 = model.header().kinds != Kinds::W8;
            let speed = core.run("speed", path, features(&model), &plugin)?;
            ensure!(
                *name != "peer" || w4 || speed.ram_len.max(speed.code_len) <= PEER_LEN,
                "peer on {}: {} bytes of RAM and {} of code; at most {PEER_LEN} of each may be",
                core.name,
                speed.ram_len,
                speed.code_len
            );
            let rows = speed_rows(name, &model, core, &speed)?;
            if arguments.model.is_some() {
                let len = model.tensor_bytes().len() as u64;
                flash += &rows.iter().map(|row| row.flash(len)).collect::<String>();
            }
            table.rows.extend(rows);
            if arguments.parts {
                print_parts(out, name, core, &speed)?;
            }
        }
    }

    if arguments.json {
        writeln!(out, "{}", table.json())?;
    } else {
        write!(out, "{}", table.text())?;
        if !flash.is_empty() {
            write!(out, "\n{}{flash}", table::FLASH)?;
        }
    }
    let committed = runs::repository().join("tools/bench.md");
    if arguments.update {
        write_durably(&committed, table.text().as_bytes())?;
    }
    if arguments.check {
        let before = std::fs::read_to_string(&committed)
            .with_context(|| format!("cannot read {}", committed.display()))?;
        table.check(&before)?;
    }
    Ok(())
}

fn write_peer(path: &Path, kinds: Kinds) -> anyhow::Result<()> {
    let checkpoint = synthetic::checkpoint(PEER, 1);
    let provenance = Provenance {
        run: "peer",
        corpus_sha256: [0; 32],
        step: 0,
        seed: 1,
        dev_f32: f32::NAN,
        dev_blob: f32::NAN,
    };
    let weights = checkpoint.deployed();
    let blob = blob::write_as(&PEER, kinds, &checkpoint.vocab, weights, provenance)?;
    // An unchanged file keeps its time stamp, and cargo its build.
    if std::fs::read(path).ok().as_deref() != Some(&*blob.bytes) {
        write_durably(path, &blob.bytes)?;
    }
    Ok(())
}

fn kernel_rows(core: &Core, run: &Run) -> anyhow::Result<Vec<Kernel>> {
    let [matrix, values, w4] = &run.regions[..] else {
        bail!("{}: expected three regions of kernels", core.name);
    };
    let per_mac = |region: &emulator::Region| region.cycles as f64 / KERNEL_MAC;
    Ok(vec![Kernel {
        core: core.name,
        floor: core.floor,
        matrix: per_mac(matrix),
        values: per_mac(values),
        floor_w4: core.floor_w4,
        w4: per_mac(w4),
    }])
}

fn speed_rows(name: &str, model: &Model<'_>, core: &Core, run: &Run) -> anyhow::Result<Vec<Row>> {
    let config = model.config();
    let expected = format!("hash {:016x}", host_hash(model)?);
    ensure!(
        run.output == expected,
        "{} computes other logits than this machine: {}, not {expected}",
        core.name,
        run.output
    );
    ensure!(
        run.panics.is_empty(),
        "{}: there is a panic path: {}",
        core.name,
        run.panics.join(", ")
    );
    let window = u64::from(config.context_len);
    let places = [("0", 1), ("half", window / 2 + 1), ("full", window)];
    let attention = 2 * u64::from(config.n_layer) * u64::from(config.d_model);
    let rows = places.into_iter().zip(&run.regions);
    Ok(rows
        .map(|((window, seen), region)| {
            let mac = config.n_mac() + attention * seen;
            Row {
                model: name.to_string(),
                core: core.name,
                weights: match model.header().kinds {
                    Kinds::W8 => "w8",
                    _ => "w4",
                },
                window,
                instructions: region.instructions,
                cycles: region.cycles,
                mac,
                ratio: region.cycles as f64 / (core.floor * mac as f64),
                flash_len: flash_len(model),
                ram_len: run.ram_len,
                code_len: run.code_len,
            }
        })
        .collect())
}

/// Returns what a model needs of the bench firmware.
fn features(model: &Model<'_>) -> &'static str {
    match (
        model.header().kinds != Kinds::W8,
        model.vocab().is_byte_pair(),
    ) {
        (false, false) => "",
        (true, false) => "w4",
        (false, true) => "byte-pair",
        (true, true) => "w4,byte-pair",
    }
}

/// Returns the bytes of tensors that a character reads: all, but of tables only a row.
fn flash_len(model: &Model<'_>) -> u64 {
    let tensors = model.tensors().map(|tensor| {
        let table = tensor.id == TensorId::WEmbed && !model.config().tied;
        let rows = if table || tensor.id == TensorId::WPos {
            tensor.rows
        } else {
            1
        };
        u64::from(tensor.len / rows)
    });
    tensors.sum()
}

/// Returns the logits hash of the text that the program `speed` feeds.
fn host_hash(model: &Model<'_>) -> anyhow::Result<u64> {
    let mut state = vec![0; model.state_words()];
    let mut session = Session::new(model, &mut state)?;
    let mut hash = LogitsHash::new();
    let mut token = 0;
    for _ in 0..model.config().context_len {
        hash.update(session.feed(token)?);
        token += 7;
        if token >= model.config().vocab_size {
            token -= model.config().vocab_size;
        }
    }
    Ok(hash.finish())
}

fn print_parts(out: &mut dyn Write, name: &str, core: &Core, run: &Run) -> anyhow::Result<()> {
    let full = run.regions.last().context("no region")?;
    let mut parts = full.parts.clone();
    parts.sort_by_key(|part| std::cmp::Reverse(part.1));
    writeln!(out, "{name} on {}, {} cycles:", core.name, full.cycles)?;
    for (part, cycles) in parts.iter().filter(|part| part.1 > full.cycles / 500) {
        writeln!(out, "    {part:<32} {cycles:>9}")?;
    }
    Ok(())
}
