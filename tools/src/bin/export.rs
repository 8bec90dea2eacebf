//! `export`: a checkpoint becomes the blob that a board runs.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use checkpoint::blob::{self, TensorReport};
use checkpoint::{AlignedBytes, Checkpoint, Corpus, Split, int4, score, write_durably};
use clap::Parser;
use import::description;
use runtime::format::FORMAT_VERSION;
use runtime::{Kind, Kinds, Layout, Model, Provenance};
use tools::input::{self, Input};
use tools::{paths, report, whole};

/// Rise of the loss from which on the report warns.
const LOSS_BUDGET: f64 = 0.01;
/// Multiply-accumulates from which on scoring is announced: about 10 s on two cores.
const SLOW_MAC: u64 = 30_000_000_000;

/// Turns a checkpoint into a blob for the boards, or upgrades an older blob without loss
#[derive(Parser)]
#[command(name = "export")]
struct Arguments {
    /// A run (name or folder), a checkpoint, or a blob to upgrade; the newest run if left out, an
    /// imported one only where none was trained
    input: Option<PathBuf>,
    /// Where the blob goes; firmware/model/model.bin if left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Order of the weights in the blob: plain, or that of a board's core. The boards' own builds
    /// rewrite what they embed, so plain is what to publish
    #[arg(long, value_name = "NAME", default_value = "plain", value_parser = layout)]
    layout: Layout,
    /// Keeps the weights as `f32`, for the host and for boards with an FPU
    #[arg(long)]
    f32: bool,
    /// Shortens the context to so many tokens, for a board with less RAM
    #[arg(long, value_name = "TOKENS", value_parser = whole::<u16>)]
    context: Option<u16>,
    /// Writes the weights to a safetensors file and its description beside it, not a blob
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "layout"])]
    safetensors: Option<PathBuf>,
    /// Bits of the weights of the layers: 8, or 4 with a scale per group of columns. Embedding and
    /// head keep 8
    #[arg(long, value_name = "N", default_value = "8", value_parser = bits, conflicts_with_all = ["f32", "safetensors"])]
    bits: u8,
    /// With --bits 4: columns in a group, 8, 16, 24 or 32; for each matrix those that take the fewest
    /// bytes if left out
    #[arg(long, value_name = "N", value_parser = whole::<u32>)]
    group: Option<u32>,
    /// With --bits 4: matrices that keep 8 bits all the same, separated by commas
    #[arg(long, value_name = "w_o,w_down", value_delimiter = ',')]
    w8: Vec<String>,
    /// The text that the run was trained on, if it is not where the checkpoint says
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
}

fn layout(name: &str) -> Result<Layout, String> {
    Layout::ALL
        .into_iter()
        .find(|layout| layout.name() == name)
        .ok_or_else(|| {
            let names = Layout::ALL.map(Layout::name).join(", ");
            format!("there is no layout {name:?}; known are {names}")
        })
}

fn bits(text: &str) -> Result<u8, String> {
    match text {
        "8" => Ok(8),
        "4" => Ok(4),
        _ => Err(format!("weights have 8 or 4 bits, not {text:?}")),
    }
}

fn main() -> ExitCode {
    tools::exit_code(run(&Arguments::parse(), &mut stdout().lock()))
}

fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    if arguments.bits == 8 && (arguments.group.is_some() || !arguments.w8.is_empty()) {
        bail!("--group and --w8 say how weights of 4 bits are made; add --bits 4");
    }
    for path in arguments.output.iter().chain(&arguments.safetensors) {
        paths::check_output(path)?;
    }
    let output = arguments.output.clone().unwrap_or_else(paths::default_blob);
    // The blob is on disk before the report starts, so a closed pipe loses text only.
    match input::open(arguments.input.as_deref())? {
        Input::Checkpoint(path, mut checkpoint) => {
            if let Some(context_len) = arguments.context {
                checkpoint.shorten(context_len)?;
            }
            if let Some(file) = &arguments.safetensors {
                return to_safetensors(out, &path, &checkpoint, file);
            }
            let export = export(&checkpoint, arguments)?;
            let blob = blob::relayout(&export.blob, arguments.layout)?;
            save(&output, &blob)?;
            print_export(out, &path, &checkpoint, &export)?;
            print_blob(out, &output, &blob)
        }
        Input::Blob(path, _)
            if arguments.f32 || arguments.context.is_some() || arguments.safetensors.is_some() =>
        {
            bail!(
                "{} is a blob, whose weights are rounded and whose self-test is for its context; \
                 name the checkpoint that it was made of",
                path.display()
            )
        }
        Input::Blob(path, bytes) => {
            if arguments.bits != 8 {
                bail!(
                    "--bits 4 needs the float weights: name a run or a checkpoint, not the blob {}",
                    path.display()
                );
            }
            let blob = upgrade(&bytes, arguments.layout)
                .with_context(|| format!("cannot rewrite the blob {}", path.display()))?;
            save(&output, &blob)?;
            print_upgrade(out, &path, &bytes, arguments.layout)?;
            print_blob(out, &output, &blob)
        }
    }
}

/// Writes the deployed weights as safetensors and JSON.
fn to_safetensors(
    out: &mut dyn Write,
    path: &Path,
    checkpoint: &Checkpoint,
    file: &Path,
) -> anyhow::Result<()> {
    let (tensors, json) = description::write(checkpoint)?;
    let beside = file.with_extension("json");
    for (file, bytes) in [(file, tensors.as_slice()), (&beside, json.as_bytes())] {
        write_durably(file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
    }
    report::line(out, "checkpoint", &paths::display(path))?;
    let wrote = format!(
        "{}, {} bytes, and {}",
        paths::display(file),
        tensors.len(),
        paths::display(&beside)
    );
    report::line(out, "wrote", &wrote)?;
    Ok(())
}

fn save(output: &Path, blob: &AlignedBytes) -> anyhow::Result<()> {
    write_durably(output, blob).with_context(|| format!("cannot write {}", output.display()))
}

/// A blob, what its tensors lost, and its loss on dev or the reason why that is unknown.
struct Export {
    blob: AlignedBytes,
    tensors: Vec<TensorReport>,
    dev_blob: Result<f64, String>,
    notes: Vec<String>,
}

fn export(checkpoint: &Checkpoint, arguments: &Arguments) -> anyhow::Result<Export> {
    let data = arguments.data.as_deref();
    let kinds = match arguments.bits {
        4 => int4::kinds(&checkpoint.config, arguments.group, &arguments.w8)
            .map_err(anyhow::Error::msg)?,
        _ if arguments.f32 => Kinds::F32,
        _ => Kinds::W8,
    };
    let provenance = checkpoint.provenance();
    let written = blob::write_as(
        &checkpoint.config,
        kinds,
        &checkpoint.vocab,
        checkpoint.deployed(),
        provenance,
    )?;
    let corpus = match data {
        // A text that the user names has to be the right one.
        Some(path) => {
            let corpus = Corpus::open(path)?;
            corpus.check_hash(&checkpoint.corpus_sha256)?;
            Ok(corpus)
        }
        // Without its text a model can still be exported.
        None => Corpus::reopen(&checkpoint.corpus_name, &checkpoint.corpus_sha256),
    };
    let corpus = match corpus {
        Ok(corpus) => corpus,
        Err(error) => {
            return Ok(Export {
                blob: written.bytes,
                tensors: written.tensors,
                dev_blob: Err(error.to_string()),
                notes: Vec::new(),
            });
        }
    };
    let model = Model::from_bytes(&written.bytes)?;
    let dev = dev_tokens(checkpoint, &corpus)?;
    if model.config().n_mac() * dev.len() as u64 > SLOW_MAC {
        eprintln!(
            "scoring {} characters of dev; a model of {} parameters takes minutes",
            dev.len(),
            model.config().n_params()
        );
    }
    let dev_blob = score::in_window(&model, &dev)?;
    let scored = Provenance {
        dev_blob: dev_blob as f32,
        ..provenance
    };
    Ok(Export {
        blob: blob::reencode(&model, scored)?,
        tensors: written.tensors,
        dev_blob: Ok(dev_blob),
        notes: corpus.notes,
    })
}

fn dev_tokens(checkpoint: &Checkpoint, corpus: &Corpus) -> anyhow::Result<Vec<u16>> {
    let tokens = corpus.tokens(&checkpoint.vocabulary()?)?;
    Ok(tokens[Split::of(tokens.len()).dev].to_vec())
}

fn upgrade(bytes: &AlignedBytes, layout: Layout) -> anyhow::Result<AlignedBytes> {
    Ok(blob::relayout(&blob::upgrade(bytes)?, layout)?)
}

fn print_export(
    out: &mut dyn Write,
    path: &Path,
    checkpoint: &Checkpoint,
    export: &Export,
) -> anyhow::Result<()> {
    let weights = if checkpoint.ema.is_empty() {
        "weights"
    } else {
        "averaged weights"
    };
    let source = format!(
        "{}, {}{weights} of step {}",
        paths::display(path),
        if checkpoint.is_imported() {
            "imported, "
        } else {
            ""
        },
        checkpoint.step
    );
    report::line(out, "checkpoint", &source)?;
    for note in &export.notes {
        report::line(out, "text", note)?;
    }
    report::errors(out, &export.tensors)?;
    let before = checkpoint.deployed_dev();
    let unit = score::unit(checkpoint.vocabulary()?.vocab());
    match &export.dev_blob {
        Ok(after) => {
            let losses = format!(
                "{} as f32, {} as blob",
                report::loss(before),
                report::loss(*after)
            );
            let rise = after - before;
            let rise_text = if rise.is_nan() {
                String::new()
            } else {
                format!(" ({rise:+.4})")
            };
            report::line(out, "loss on dev", &format!("{losses}{rise_text}, {unit}"))?;
            let int4 = (export.tensors.iter()).any(|t| matches!(t.kind, Kind::W4 { .. }));
            if rise > LOSS_BUDGET && int4 {
                let warning = format!(
                    "int4 costs more than {LOSS_BUDGET} nats; smaller groups (--group 8) or 8 bits \
                     for some matrices (--w8 w_down) cost less"
                );
                report::line(out, "warning", &warning)?;
            } else if rise > LOSS_BUDGET {
                let warning = format!(
                    "int8 costs more than {LOSS_BUDGET} nats; train longer with the learning rate \
                     decayed to 0, so that the weights have fewer outliers"
                );
                report::line(out, "warning", &warning)?;
            }
        }
        Err(reason) => {
            let losses = format!("{} as f32, not measured as blob", report::loss(before));
            report::line(out, "loss on dev", &losses)?;
            report::line(out, "note", reason)?;
        }
    }
    Ok(())
}

fn print_upgrade(
    out: &mut dyn Write,
    path: &Path,
    bytes: &[u8],
    layout: Layout,
) -> anyhow::Result<()> {
    let found = u16::from_le_bytes([bytes[8], bytes[9]]);
    let step = if found == FORMAT_VERSION && bytes[10] != layout.byte() {
        format!("rewritten in the {} layout without loss", layout.name())
    } else if found == FORMAT_VERSION {
        format!("format version {found}, which is the current one; the bytes stay the same")
    } else {
        format!(
            "format version {found}, upgraded to {FORMAT_VERSION}; weights and losses are kept, the \
             self-test is that of this engine"
        )
    };
    report::line(out, "blob", &format!("{}, {step}", paths::display(path)))?;
    Ok(())
}

fn print_blob(out: &mut dyn Write, output: &Path, blob: &AlignedBytes) -> anyhow::Result<()> {
    let model = Model::from_bytes(blob)?;
    report::fit(out, &model)?;
    let wrote = format!(
        "{}, {} bytes, CRC-32 {:08x}",
        paths::display(output),
        model.len(),
        model.crc()
    );
    report::line(out, "wrote", &wrote)?;
    let features = if model.vocab().is_byte_pair() {
        " --features byte-pair"
    } else {
        ""
    };
    let next = paths::boot_command(output) + features;
    report::line(out, "next", &next)?;
    Ok(())
}
