//! A matrix of the model: its integers and the multipliers of its rows.

use crate::fixed::{ONE, Scale, leading_zeros};
#[cfg(feature = "assist")]
use crate::kernel::Vector;
#[cfg(feature = "w4")]
use crate::kernel::w4::Nibbles;
use crate::kernel::{self, Element, Weights};

/// A matrix of integers with one multiplier per row: the value is
/// `w[r, c] * multiplier[r] * 2^exponent`.
///
/// # Shapes
///
/// - `w`: `[rows, cols]`
/// - `multiplier`: `[rows]`
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Weights.
    pub w: Factor<'a>,
    /// Multipliers of the rows.
    pub multiplier: &'a [u16],
    /// Exponent of all multipliers.
    pub exponent: i32,
    /// Help with the products.
    #[cfg(feature = "assist")]
    pub(crate) aid: Option<crate::assist::Aid<'a>>,
}

impl Matrix<'_> {
    /// Returns the scale of a row in activation units; 0 when there is no such row.
    #[must_use]
    pub fn row_scale(&self, row: usize) -> Scale {
        let multiplier = self.multiplier.get(row).copied().map_or(0, u32::from);
        Scale::new(multiplier, self.exponent + ONE.trailing_zeros() as i32)
    }

    /// Returns the value of 1 in the result of [`products`](super::products) when that of 1 in the vector is known.
    #[must_use]
    pub fn unit(&self, x_scale: Scale) -> Scale {
        x_scale.shl(self.exponent + self.w.cut() as i32)
    }
}

/// The integers of a matrix.
#[derive(Clone, Copy, Debug)]
pub enum Factor<'a> {
    /// int8.
    W8(Weights<'a>),
    /// int4 with a multiplier per row and group of columns.
    #[cfg(feature = "w4")]
    W4(Nibbles<'a>),
}

impl Factor<'_> {
    /// Returns the number of columns.
    #[must_use]
    pub const fn cols(&self) -> usize {
        match self {
            Self::W8(w) => w.cols,
            #[cfg(feature = "w4")]
            Self::W4(w) => w.cols,
        }
    }

    /// Returns by how many bits the largest possible sum is to be cut to have 15 bits and a sign.
    #[must_use]
    pub fn cut(&self) -> u32 {
        match self {
            Self::W8(w) => 17_u32.saturating_sub(leading_zeros(w.cols as u32 * 128 * 127)),
            // The writer of a blob gives the multipliers as many bits as there are.
            #[cfg(feature = "w4")]
            Self::W4(_) => 16,
        }
    }

    /// Computes the sums of the matrix times a vector.
    #[cfg(feature = "assist")]
    pub fn sums(&self, x_q: &[Element], lanes: &mut [u32], out: &mut [i32]) {
        match self {
            Self::W8(w) => kernel::sums(w, Vector::Int8(x_q), lanes, out),
            #[cfg(feature = "w4")]
            Self::W4(w) => kernel::w4::sums(w, x_q, lanes, out),
        }
    }

    /// Computes the sums of the matrix times a vector; returns the bits of [`Self::cut`] that are
    /// left to cut.
    pub fn sums_cut(&self, x_q: &[Element], lanes: &mut [u32], out: &mut [i32]) -> u32 {
        match self {
            Self::W8(w) => kernel::sums_cut(w, x_q, self.cut(), lanes, out),
            #[cfg(feature = "w4")]
            Self::W4(w) => {
                kernel::w4::sums(w, x_q, lanes, out);
                self.cut()
            }
        }
    }
}
