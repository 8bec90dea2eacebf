//! Writes the table of the committed models from the JSON beside them.
//!
//! `firmware/model/NAME.json` is what `trainer eval --json` printed of a run; runs of one model with
//! other seeds are `NAME-2.json`, `NAME-3.json`. `NAME.bin` is the blob of the first.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use checkpoint::{corpus::hex, runs};
use clap::Parser;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tools::markdown;

/// Writes the table of firmware/model/README.md from the JSON of its models
#[derive(Parser)]
struct Args {
    /// Compares instead of writing, the blobs' checksums too
    #[arg(long)]
    check: bool,
}

/// What the table takes from a report of `trainer eval --json`.
#[derive(Deserialize)]
struct Report {
    val: f64,
    val_first: f64,
    val_second: f64,
    streaming: f64,
    f32_ema: f64,
    context_len: u16,
    blob_sha256: String,
    blob_len: u64,
    n_params: u64,
    state_bytes: u64,
    seed: u64,
    seconds: f64,
    command: String,
    machine: String,
}

fn main() -> ExitCode {
    tools::exit_code(run(&Args::parse()))
}

fn run(args: &Args) -> Result<()> {
    let folder = runs::repository().join("firmware/model");
    let models = read(&folder)?;
    let path = folder.join("README.md");
    let old =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let new = markdown::replaced(&old, "models", &table(&models)?)
        .with_context(|| path.display().to_string())?;
    if !args.check {
        return fs::write(&path, new).with_context(|| format!("cannot write {}", path.display()));
    }
    if old != new {
        bail!("the table of firmware/model/README.md is not that of the JSON; run tools/models");
    }
    for (name, reports) in &models {
        let blob = folder.join(format!("{name}.bin"));
        let bytes = fs::read(&blob).with_context(|| format!("cannot read {}", blob.display()))?;
        let found = hex(&Sha256::digest(&bytes));
        if found != reports[0].blob_sha256 {
            bail!(
                "{} has SHA-256 {found}, but {name}.json is about {}; score it again with \
                 trainer eval --blob",
                blob.display(),
                reports[0].blob_sha256
            );
        }
    }
    Ok(())
}

/// Reads the reports by model, the smallest model first; of each, that of the blob comes first.
fn read(folder: &Path) -> Result<Vec<(String, Vec<Report>)>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    // by the name alone: `small` comes before `small-2`
    files.sort_by_key(|path| path.file_stem().map(ToOwned::to_owned));
    let mut models: Vec<(String, Vec<Report>)> = Vec::new();
    for path in files {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = stem.split('-').next().unwrap_or_default().to_owned();
        let json = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let report: Report = serde_json::from_slice(&json).with_context(|| {
            format!(
                "{} is no report; write it with trainer eval --blob {name}.bin --json while the \
                 run's folder is there",
                path.display()
            )
        })?;
        match models.iter_mut().find(|(known, _)| *known == name) {
            Some((_, reports)) => reports.push(report),
            None => models.push((name, vec![report])),
        }
    }
    models.sort_by_key(|(_, reports)| reports[0].blob_len);
    Ok(models)
}

fn table(models: &[(String, Vec<Report>)]) -> Result<String> {
    let mut out = String::from(
        "| model | parameters | context | blob, bytes | RAM, bytes | val, `f32` | val, blob \
         | first half | second half | streaming |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for (name, reports) in models {
        for report in reports {
            writeln!(
                out,
                "| `{name}`, seed {} | {} | {} | {} | {} | {:.4} | {:.4} | {:.4} | {:.4} | {:.4} |",
                report.seed,
                report.n_params,
                report.context_len,
                report.blob_len,
                report.state_bytes,
                report.f32_ema,
                report.val,
                report.val_first,
                report.val_second,
                report.streaming
            )?;
        }
        if reports.len() > 1 {
            let n = reports.len() as f64;
            let mean = reports.iter().map(|report| report.val).sum::<f64>() / n;
            let square = |report: &Report| (report.val - mean).powi(2);
            let deviation = (reports.iter().map(square).sum::<f64>() / (n - 1.0)).sqrt();
            writeln!(
                out,
                "| `{name}`, mean of {n} | | | | | | {mean:.4} ± {deviation:.4} | | | |"
            )?;
        }
    }
    out.push_str("\n| model | seed | trained in | on | command |\n|---|---:|---:|---|---|\n");
    for (name, reports) in models {
        for report in reports {
            writeln!(
                out,
                "| `{name}` | {} | {:.2} h | {} | `{}` |",
                report.seed,
                report.seconds / 3_600.0,
                report.machine,
                report.command
            )?;
        }
    }
    Ok(out)
}
