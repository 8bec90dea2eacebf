//! Tables about a blob.

use std::io::{self, Write};

use checkpoint::BOARDS;
use checkpoint::blob::TensorReport;
use runtime::{Kind, Model};

/// Prints one line: a label in a column of its own, then the rest.
///
/// # Errors
///
/// What `out` reports.
pub fn line(out: &mut dyn Write, label: &str, rest: &str) -> io::Result<()> {
    writeln!(out, "{label:<14}{rest}")
}

/// Prints a line per tensor with its largest error, and the sum of the bytes.
///
/// # Errors
///
/// What `out` reports.
pub fn errors(out: &mut dyn Write, tensors: &[TensorReport]) -> io::Result<()> {
    writeln!(
        out,
        "{:<20} {:>12} {:>7} {:>10} {:>14}",
        "tensor", "shape", "kind", "bytes", "largest error"
    )?;
    for tensor in tensors {
        let error = match tensor.kind {
            Kind::U32 => "exact".to_string(),
            _ => format!("{:.6}", tensor.max_error),
        };
        writeln!(
            out,
            "{:<20} {:>12} {:>7} {:>10} {error:>14}",
            tensor.name,
            shape(tensor.rows, tensor.cols),
            kind(tensor.kind),
            tensor.len
        )?;
    }
    let sum: u64 = tensors.iter().map(|tensor| u64::from(tensor.len)).sum();
    writeln!(out, "{:<20} {:>12} {:>7} {sum:>10}", "all", "", "")
}

/// Writes the shape of a tensor as `rows x cols`.
#[must_use]
pub fn shape(rows: u32, cols: u32) -> String {
    format!("{rows} x {cols}")
}

/// Writes the number format of a tensor; of int4 with the columns of a group.
#[must_use]
pub fn kind(kind: Kind) -> String {
    let name = match kind {
        Kind::W8 => "int8",
        Kind::F32 => "f32",
        Kind::W4 { group } => return format!("int4/{group}"),
        Kind::G16 => "i16",
        Kind::I32 => "i32",
        Kind::U32 => "u32",
        _ => "?",
    };
    name.to_string()
}

/// Prints the RAM that a session needs and, for each board, whether the model fits.
///
/// # Errors
///
/// What `out` reports.
pub fn fit(out: &mut dyn Write, model: &Model<'_>) -> io::Result<()> {
    let (blob_len, ram) = (model.len(), model.state_bytes());
    line(out, "RAM", &format!("{ram} bytes, kv_cache included"))?;
    for board in &BOARDS {
        let verdict = match board.check(blob_len, ram) {
            Ok(()) => format!(
                "fits; {} bytes of flash and {} of RAM stay free",
                board.flash_len - board.app_flash - blob_len,
                board.ram_len - board.app_ram - ram
            ),
            Err(error) => format!("does not fit: {error}"),
        };
        line(out, board.name, &format!("{verdict} ({})", board.chip))?;
    }
    Ok(())
}

/// Writes a loss, or that it is unknown.
#[must_use]
pub fn loss(loss: f64) -> String {
    if loss.is_nan() {
        "not measured".to_string()
    } else {
        format!("{loss:.4}")
    }
}
