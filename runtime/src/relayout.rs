//! The same blob in another layout; exact both ways.

use core::fmt;

use crate::format::{self, EncodeError, LoadError, Sections};
use crate::kernel::Weights;
#[cfg(feature = "w4")]
use crate::kernel::w4::Nibbles;
use crate::layout::{self, Layout};
use crate::model::Model;
use crate::ops::Factor;
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
    if !matches!(from.kind, Kind::W8 | Kind::W4 { .. }) {
        out.copy_from_slice(bytes);
        return;
    }
    let matrix = model.matrix(from.id, usize::from(from.layer.unwrap_or(0)));
    let (weights, rest) = out.split_at_mut(to.multiplier_offset() as usize);
    let (multipliers, rest) = rest.split_at_mut((2 * to.rows as usize).next_multiple_of(4));
    put(multipliers, bytemuck::cast_slice(matrix.multiplier));
    let exponent = to.exponent_offset() as usize - weights.len() - multipliers.len();
    let (groups, exponent_out) = rest.split_at_mut(exponent);
    let mut exponent = matrix.exponent;
    match matrix.w {
        Factor::W8(w) => {
            let mut rows = (0..w.rows).map(|row| (0..w.cols).map(move |col| w.at(row, col)));
            let may_be = matches!(to.layout, Layout::M0 | Layout::M4);
            let biased = may_be && rows.all(layout::may_be_biased);
            write_w8(&w, biased, to.layout, weights);
            if may_be {
                exponent = (exponent & 0xFFFF) | i32::from(biased) << 16;
            }
        }
        #[cfg(feature = "w4")]
        Factor::W4(w) => write_w4(&w, to.layout, weights, groups),
    }
    let _ = groups;
    put(exponent_out, &exponent.to_le_bytes());
}

/// Writes the bytes, and zeros after them.
fn put(out: &mut [u8], bytes: &[u8]) {
    out[..bytes.len()].copy_from_slice(bytes);
}

fn write_w8(w: &Weights<'_>, biased: bool, to: Layout, out: &mut [u8]) {
    let row_len = to.row_len(w.cols);
    for row in 0..w.rows {
        for col in 0..w.cols {
            let bias = layout::bias(biased, col);
            out[to.place(row, col, row_len)] = w.at(row, col).cast_unsigned() ^ bias;
        }
    }
}

/// Writes weights and the multipliers of groups, the latter into `groups` in the plain layout.
#[cfg(feature = "w4")]
fn write_w4(w: &Nibbles<'_>, to: Layout, out: &mut [u8], groups: &mut [u8]) {
    // Only the places in it matter.
    let target = Nibbles {
        layout: to,
        words: &[],
        multiplier: &[],
        ..*w
    };
    let mut or = |word: usize, bits: u32| {
        for (out, byte) in out[4 * word..].iter_mut().zip(bits.to_le_bytes()) {
            *out |= byte;
        }
    };
    for row in 0..w.rows {
        for col in 0..w.cols {
            let bits = u32::from(w.at(row, col).cast_unsigned() & 15) ^ Nibbles::bias(to);
            let (word, right) = target.place(row, col);
            or(word, bits << right);
        }
        for group in 0..w.n_group() {
            let multiplier = w.multiplier(row, group).cast_unsigned();
            if to == Layout::Plain {
                let at = 2 * (row * w.n_group() + group);
                groups[at..at + 2].copy_from_slice(&multiplier.to_le_bytes());
            } else {
                let (word, right) = target.multiplier_place(row, group);
                or(word, u32::from(multiplier) << right);
            }
        }
    }
}
