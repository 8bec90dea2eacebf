//! The same blob in another layout; exact both ways.

use core::fmt;

use crate::format::{self, EncodeError, LoadError, Sections};
use crate::layout::{self, Layout};
use crate::model::Model;
use crate::tensor::{Kind, TensorSpec};

/// Why a blob was not rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayoutError {
    /// The bytes are not a model.
    Load(LoadError),
    /// The output does not take the blob; [`EncodeError::BufferTooSmall`] says what it needs.
    Encode(EncodeError),
}

impl From<LoadError> for RelayoutError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<EncodeError> for RelayoutError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

impl fmt::Display for RelayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => error.fmt(f),
            Self::Encode(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RelayoutError {}

/// Rewrites a blob in a layout into `out`, which must be zero, and returns its length.
///
/// Only the order of the weights changes, and with it the checksum: the logits are the same bits.
/// From plain to any layout and back gives the same bytes.
///
/// # Errors
///
/// See [`RelayoutError`].
pub fn relayout(blob: &[u8], to: Layout, out: &mut [u8]) -> Result<usize, RelayoutError> {
    let model = Model::from_bytes(blob)?;
    let Sections { tensors, total_len } = format::encode(model.header(), to, out)?;
    let out = &mut out[..total_len];
    let kinds = model.header().kinds;
    let pairs = model.tensors().zip(model.config().tensors_in(kinds, to));
    for (from, to) in pairs {
        let start = tensors.start + to.offset as usize;
        write(&model, &from, &to, &mut out[start..start + to.len as usize]);
    }
    format::seal(out);
    Ok(total_len)
}

fn write(model: &Model<'_>, from: &TensorSpec, to: &TensorSpec, out: &mut [u8]) {
    let bytes = &model.tensor_bytes()[from.offset as usize..][..from.len as usize];
    if from.kind != Kind::W8 {
        out.copy_from_slice(bytes);
        return;
    }
    let (w, exponent) = model.weights(from.id, usize::from(from.layer.unwrap_or(0)));
    let (rows, cols) = (w.rows, w.cols);
    let mut all_rows = (0..rows).map(|row| (0..cols).map(move |col| w.at(row, col)));
    let biased = to.layout == Layout::M4 && all_rows.all(layout::may_be_biased);
    let row_len = to.layout.row_len(cols);
    for row in 0..rows {
        for col in 0..cols {
            let bias = layout::bias(biased, col);
            out[to.layout.place(row, col, row_len)] = w.at(row, col).cast_unsigned() ^ bias;
        }
    }

    let multipliers = &bytes[from.multiplier_offset() as usize..from.exponent_offset() as usize];
    out[to.multiplier_offset() as usize..to.exponent_offset() as usize]
        .copy_from_slice(multipliers);
    let word = match to.layout {
        Layout::M4 => (exponent & 0xFFFF) | i32::from(biased) << 16,
        _ => exponent,
    };
    out[to.exponent_offset() as usize..].copy_from_slice(&word.to_le_bytes());
}
