//! `import`: a checkpoint of another program becomes one of this.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use checkpoint::{Checkpoint, read_bounded, runs};
use clap::Parser;
use import::{description, llama2c, nanogpt, tokenizer};
use tools::{paths, report, whole};

/// Makes a run of a checkpoint of llama2.c or nanoGPT, or of safetensors with a JSON description
#[derive(Parser)]
#[command(name = "import")]
struct Arguments {
    /// llama2.c's model.bin, nanoGPT's ckpt.pt, or a safetensors file
    file: PathBuf,
    /// llama2.c's tokenizer.bin of a model.bin
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// nanoGPT's meta.pkl, which lists the characters
    #[arg(long, value_name = "FILE")]
    meta: Option<PathBuf>,
    /// Heads of a nanoGPT model in safetensors
    #[arg(long, value_name = "N", value_parser = whole::<u16>)]
    n_head: Option<u16>,
    /// The description of a safetensors file; FILE with .json instead of its ending if left out
    #[arg(long, value_name = "FILE")]
    description: Option<PathBuf>,
    /// Name of the run; that of the file if left out
    #[arg(long)]
    name: Option<String>,
}

/// Largest file that is read: four bytes for each that a blob can have.
const MAX_BYTES: u64 = 4 << 32;

fn main() -> ExitCode {
    tools::exit_code(run(&Arguments::parse(), &mut stdout().lock()))
}

fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let name = match &arguments.name {
        Some(name) => name.clone(),
        None => match arguments.file.file_stem() {
            Some(stem) => stem.to_string_lossy().into_owned(),
            None => bail!("{} is no file", arguments.file.display()),
        },
    };
    let run = runs::dir(&name).context("--name NAME names the run otherwise")?;
    if run.exists() {
        bail!(
            "{} is there already; choose another name with --name, or remove it",
            paths::display(&run)
        );
    }
    let checkpoint = read(arguments, &name)?;
    let path = run.join(runs::BEST);
    checkpoint.save(&path)?;
    let config = &checkpoint.config;
    let shape = format!(
        "n_layer {}, n_head {}, n_kv_head {}, d_model {}, d_ff {}, context_len {}, vocab_size {}",
        config.n_layer,
        config.n_head,
        config.n_kv_head,
        config.d_model,
        config.d_ff,
        config.context_len,
        config.vocab_size
    );
    report::line(out, "shape", &shape)?;
    let size = format!("{} parameters", config.n_params());
    report::line(out, "size", &size)?;
    report::line(out, "wrote", &paths::display(&path))?;
    report::line(out, "next", &format!("tools/export {name}"))?;
    Ok(())
}

fn read(arguments: &Arguments, name: &str) -> anyhow::Result<Checkpoint> {
    let file = &arguments.file;
    let bytes = contents(file)?;
    let in_file = || format!("cannot import {}", file.display());
    let safetensors = bytes.get(8) == Some(&b'{');
    if let Some(meta) = &arguments.meta {
        let meta = contents(meta)?;
        let guest = nanogpt::read(&bytes, &meta, arguments.n_head).with_context(in_file)?;
        return Ok(guest.into_checkpoint(name));
    }
    if bytes.starts_with(b"PK") {
        bail!(
            "{} is a file of PyTorch; of nanoGPT's, --meta FILE names the meta.pkl in the folder \
             of its text",
            file.display()
        );
    }
    if safetensors {
        let beside = file.with_extension("json");
        let path = arguments.description.as_ref().unwrap_or(&beside);
        let json = contents(path).context("a safetensors file needs a description")?;
        return description::read(&bytes, &json, name).with_context(in_file);
    }
    let Some(tokenizer) = &arguments.tokenizer else {
        bail!(
            "{} is neither of PyTorch nor safetensors; of llama2.c's, --tokenizer FILE names the \
             tokenizer.bin",
            file.display()
        );
    };
    let pieces = contents(tokenizer)?;
    let guest = llama2c::read(&bytes, |size| tokenizer::vocabulary(&pieces, size));
    Ok(guest.with_context(in_file)?.into_checkpoint(name))
}

fn contents(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_bounded(path, MAX_BYTES).with_context(|| format!("cannot read {}", path.display()))
}
