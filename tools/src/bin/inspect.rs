//! `inspect`: everything that a blob says about itself.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use checkpoint::corpus::hex;
use checkpoint::{file, score};
use clap::Parser;
use runtime::fixed::ONE;
use runtime::format::{FORMAT_VERSION, MAGIC, OLDEST_VERSION, PRELUDE_LEN, TRAILER_LEN};
use runtime::kernel::w4::Nibbles;
use runtime::{Config, Decoder, Kind, Layout, Model, Session, TensorSpec, Vocab};
use sha2::{Digest, Sha256};
use tools::{input, paths, report};

/// Prints a blob: shape, vocabulary, provenance, self-test, tensors, and which boards it fits
#[derive(Parser)]
#[command(name = "inspect")]
struct Arguments {
    /// The blob; firmware/model/model.bin if left out, or else the committed pocket.bin
    blob: Option<PathBuf>,
}

fn main() -> ExitCode {
    tools::exit_code(run(&Arguments::parse(), &mut stdout().lock()))
}

fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let (path, bytes) = input::blob(arguments.blob.as_deref())?;
    print_file(out, &path, &bytes)?;
    let model = match Model::from_bytes(&bytes) {
        Ok(model) => model,
        Err(_) if file::is_checkpoint(&bytes) => bail!(
            "{} is a checkpoint, not a blob; turn it into one with tools/export",
            path.display()
        ),
        Err(error) => bail!("{}: {error}", path.display()),
    };
    print_header(out, &model, &bytes[..model.len()])?;
    let passed = print_golden(out, &model)?;
    print_tensors(out, &model)?;
    report::fit(out, &model)?;
    if passed {
        Ok(())
    } else {
        bail!("{}: the self-test failed on this machine", path.display())
    }
}

/// Prints what can be read without trusting the blob; of a damaged one it is all there is.
fn print_file(out: &mut dyn Write, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    // the bytes of what is no blob are only its start
    let len = path
        .metadata()
        .map_or(bytes.len() as u64, |data| data.len());
    let about = format!("{}, {len} bytes", paths::display(path));
    report::line(out, "file", &about)?;
    if bytes.len() < PRELUDE_LEN || !bytes.starts_with(&MAGIC) {
        return Ok(());
    }
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let version = u16::from_le_bytes([bytes[8], bytes[9]]);
    let prelude = format!(
        "format version {version} (this build reads {OLDEST_VERSION} to {FORMAT_VERSION}), header of {} bytes, tensors \
         from byte {}, {} bytes in all",
        word(12),
        word(16),
        word(20)
    );
    report::line(out, "prelude", &prelude)?;
    let surplus = len.saturating_sub(word(20).into());
    if surplus > 0 {
        let about =
            format!("{surplus} bytes behind the blob, which are no part of it and are not read");
        report::line(out, "warning", &about)?;
    }
    Ok(())
}

fn print_header(out: &mut dyn Write, model: &Model<'_>, blob: &[u8]) -> anyhow::Result<()> {
    let crc = format!("{:08x}, correct", model.crc());
    report::line(out, "CRC-32", &crc)?;
    report::line(out, "layout", model.layout().name())?;
    let sha256 = Sha256::digest(blob);
    report::line(out, "SHA-256", &hex(&sha256))?;
    print_config(out, model.config())?;
    report::line(out, "vocabulary", &vocabulary(model.vocab()))?;
    let provenance = model.header().provenance;
    let trained = format!(
        "run {}, step {}, seed {}",
        provenance.run, provenance.step, provenance.seed
    );
    report::line(out, "trained", &trained)?;
    report::line(
        out,
        "text",
        &format!("SHA-256 {}", hex(&provenance.corpus_sha256)),
    )?;
    let losses = format!(
        "{} as f32, {} as blob, {}",
        report::loss(provenance.dev_f32.into()),
        report::loss(provenance.dev_blob.into()),
        score::unit(model.vocab())
    );
    report::line(out, "loss on dev", &losses)?;
    Ok(())
}

fn vocabulary(vocab: Vocab<'_>) -> String {
    let pieces = match vocab {
        Vocab::Chars(chars) => return format!("{chars:?}"),
        Vocab::Pieces(pieces) => pieces,
    };
    let special = pieces.special();
    let mut about = format!("{} byte pairs", pieces.len());
    for (name, token) in [
        ("a text begins with", special.bos),
        ("ends with", special.eos),
        ("bytes are tokens from", special.byte_base),
    ] {
        if let Some(token) = token {
            about += &format!(", {name} {token}");
        }
    }
    if special.leading_space {
        about += ", a space before each text";
    }
    about
}

fn print_config(out: &mut dyn Write, config: &Config) -> anyhow::Result<()> {
    let Config {
        n_layer,
        n_head,
        n_kv_head,
        d_model,
        d_ff,
        context_len,
        vocab_size,
        ..
    } = config;
    let shape = format!(
        "n_layer {n_layer}, n_head {n_head}, n_kv_head {n_kv_head}, head_dim {}, d_model \
         {d_model}, d_ff {d_ff}, context_len {context_len}, vocab_size {vocab_size}",
        config.head_dim()
    );
    report::line(out, "shape", &shape)?;
    let kinds = format!(
        "{:?} positions (rope_base {}), {:?}, {:?}",
        config.position, config.rope_base, config.norm, config.activation
    );
    report::line(out, "kinds", &kinds)?;
    let flags = [
        ("tied", config.tied),
        ("embed_scale", config.embed_scale),
        ("attn_bias", config.attn_bias),
        ("ff_bias", config.ff_bias),
        ("norm_bias", config.norm_bias),
        ("head_bias", config.head_bias),
    ]
    .map(|(name, on)| format!("{name} {}", if on { "yes" } else { "no" }));
    report::line(out, "flags", &flags.join(", "))?;
    let size = format!(
        "{} parameters, {} multiply-accumulates per character beside attention",
        config.n_params(),
        config.n_mac()
    );
    report::line(out, "size", &size)?;
    Ok(())
}

/// Prints the self-test, runs it and returns whether it passed.
fn print_golden(out: &mut dyn Write, model: &Model<'_>) -> anyhow::Result<bool> {
    let golden = model.header().golden;
    let mut prompt = String::new();
    let mut decoder = Decoder::after(model.vocab(), &[]);
    for token in golden.tokens() {
        decoder.decode(model.vocab(), token, |char| prompt.push(char));
    }
    let mut state = vec![0; model.state_words()];
    let result = Session::new(model, &mut state)?.self_test();
    let verdict = match result {
        Ok(_) => "passed here".to_string(),
        Err(error) => format!("FAILED here: found {:016x}", error.found),
    };
    let expected = golden.logits_hash;
    let about = format!("{prompt:?} gives {expected:016x}; {verdict}");
    report::line(out, "self-test", &about)?;
    Ok(result.is_ok())
}

fn print_tensors(out: &mut dyn Write, model: &Model<'_>) -> anyhow::Result<()> {
    writeln!(
        out,
        "{:<20} {:>12} {:>7} {:>10} {:>10} {:>14}",
        "tensor", "shape", "kind", "first byte", "bytes", "largest value"
    )?;
    let section_start = model.len() - TRAILER_LEN - model.tensor_bytes().len();
    for spec in model.tensors() {
        let bytes = &model.tensor_bytes()[spec.offset as usize..][..spec.len as usize];
        writeln!(
            out,
            "{:<20} {:>12} {:>7} {:>10} {:>10} {:>14}",
            spec.to_string(),
            report::shape(spec.rows, spec.cols),
            report::kind(spec.kind),
            section_start + spec.offset as usize,
            spec.len,
            largest(&spec, bytes)
        )?;
    }
    Ok(())
}

/// Writes the element of a tensor with the largest magnitude.
fn largest(spec: &TensorSpec, bytes: &[u8]) -> String {
    let words: Vec<i32> = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&word| i32::from_le_bytes(word))
        .collect();
    let halves = |bytes: &[u8]| -> Vec<u16> {
        let (halves, _) = bytes.as_chunks::<2>();
        halves
            .iter()
            .map(|&half| u16::from_le_bytes(half))
            .collect()
    };
    let power = |exponent: i32| f64::from(exponent).exp2();
    let exponent = match (spec.layout, spec.kind) {
        // The upper half says whether even columns are biased.
        (Layout::M0 | Layout::M4, Kind::W8) => {
            words.last().map_or(0, |&word| i32::from(word as i16))
        }
        _ => words.last().copied().unwrap_or(0),
    };
    let largest = match spec.kind {
        Kind::U32 => {
            let turns = words.iter().map(|word| word.cast_unsigned()).max();
            return format!("{}/2^32", turns.unwrap_or(0));
        }
        Kind::I32 => {
            let units = words.iter().map(|word| word.unsigned_abs()).max();
            f64::from(units.unwrap_or(0)) / f64::from(ONE)
        }
        Kind::F32 => {
            let largest =
                |max: f32, &word: &i32| max.max(f32::from_bits(word.cast_unsigned()).abs());
            words.iter().fold(0.0, largest).into()
        }
        Kind::G16 => {
            let gains = halves(&bytes[..2 * spec.cols as usize]);
            let gain = gains
                .iter()
                .map(|&gain| gain.cast_signed().unsigned_abs())
                .max();
            f64::from(gain.unwrap_or(0)) * power(exponent)
        }
        Kind::W4 { group } => {
            let at = spec.multiplier_offset() as usize;
            let rows = halves(&bytes[at..][..2 * spec.rows as usize]);
            let groups = &bytes[at + (2 * rows.len()).next_multiple_of(4)..bytes.len() - 4];
            let groups: Vec<i16> = halves(groups).iter().map(|&m| m.cast_signed()).collect();
            let weights: Vec<u32> = words[..at / 4].iter().map(|w| w.cast_unsigned()).collect();
            let w = Nibbles {
                words: &weights,
                multiplier: &groups,
                rows: spec.rows as usize,
                cols: spec.cols as usize,
                group: group as usize,
                layout: spec.layout,
            };
            let elements = (0..w.rows).flat_map(|row| (0..w.cols).map(move |col| (row, col)));
            let value = |(row, col): (usize, usize)| {
                let scale = i32::from(w.multiplier(row, col / w.group)) * i32::from(w.at(row, col));
                f64::from(rows[row]) * f64::from(scale.unsigned_abs())
            };
            elements.map(value).fold(0.0, f64::max) * power(exponent)
        }
        // The writer gives each row that is not all zeros an element of about 127 multipliers.
        _ => {
            let multipliers = halves(&bytes[spec.multiplier_offset() as usize..bytes.len() - 4]);
            127.0 * f64::from(multipliers.into_iter().max().unwrap_or(0)) * power(exponent)
        }
    };
    format!("{largest:.6}")
}
