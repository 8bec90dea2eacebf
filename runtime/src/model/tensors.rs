//! The tensors of a blob as the operations take them.

use bytemuck::AnyBitPattern;

use super::Model;
#[cfg(feature = "w4")]
use crate::kernel;
use crate::kernel::Weights;
use crate::layout::Layout;
use crate::ops::{Factor, Gains, Matrix};
use crate::part::part;
use crate::tensor::{Kind, TensorId};

impl<'a> Model<'a> {
    /// Returns the elements of a tensor of `f32`; none when the model has no such tensor.
    #[cfg(feature = "f32")]
    pub(crate) fn floats(&self, id: TensorId, layer: usize) -> &'a [f32] {
        let (rows, cols) = self.shape(id);
        cast(self.bytes(id, layer, 0, 4 * rows * cols))
    }

    /// Returns how far each angle turns per position, in 2^-32 turns.
    pub(crate) fn angle_steps(&self) -> &'a [u32] {
        cast(self.bytes(TensorId::AngleStep, 0, 0, 4 * self.config().n_angle()))
    }

    pub(super) fn bytes(&self, id: TensorId, layer: usize, skip: usize, len: usize) -> &'a [u8] {
        part(self.tensors, self.map.offset(id, layer) + skip, len)
    }

    #[inline(never)]
    pub(crate) fn matrix(&self, id: TensorId, layer: usize) -> Matrix<'a> {
        let (rows, cols) = self.shape(id);
        #[cfg(feature = "w4")]
        if let Kind::W4 { group } = self.header.kinds.of(id) {
            return self.matrix_w4(id, layer, group as usize);
        }
        let weights = self.layout.matrix_len(rows, cols).next_multiple_of(4);
        let exponent = weights + (2 * rows).next_multiple_of(4);
        let exponent = self.integer(id, layer, exponent);
        // In these layouts the word is the exponent in 16 bits, then 1 when even columns are biased.
        let (exponent, biased) = match self.layout {
            Layout::M0 | Layout::M4 => (i32::from(exponent as i16), exponent >> 16 == 1),
            _ => (exponent, false),
        };
        Matrix {
            w: Factor::W8(Weights {
                words: cast(self.bytes(id, layer, 0, weights)),
                rows,
                cols,
                row_len: self.layout.row_len(cols),
                layout: self.layout,
                biased,
            }),
            multiplier: cast(self.bytes(id, layer, weights, 2 * rows)),
            exponent,
            #[cfg(feature = "assist")]
            aid: self.aid(id, layer),
        }
    }

    #[cfg(feature = "w4")]
    fn matrix_w4(&self, id: TensorId, layer: usize, group: usize) -> Matrix<'a> {
        let (rows, cols) = self.shape(id);
        let weights = self.layout.w4_len(rows, cols, group);
        let groups = weights + (2 * rows).next_multiple_of(4);
        let groups_len = match self.layout {
            Layout::Plain => 2 * rows * kernel::w4::n_group(cols, group),
            _ => 0,
        };
        let exponent = groups + groups_len.next_multiple_of(4);
        Matrix {
            w: Factor::W4(kernel::w4::Nibbles {
                words: cast(self.bytes(id, layer, 0, weights)),
                multiplier: cast(self.bytes(id, layer, groups, groups_len)),
                rows,
                cols,
                group,
                layout: self.layout,
            }),
            multiplier: cast(self.bytes(id, layer, weights, 2 * rows)),
            exponent: self.integer(id, layer, exponent),
            #[cfg(feature = "assist")]
            aid: self.aid(id, layer),
        }
    }

    /// Returns the exponent of a tensor; 0 when the model has no such tensor or it needs none.
    pub(super) fn exponent(&self, id: TensorId, layer: usize) -> i32 {
        match id.shape(self.config()) {
            Some((_, _, Kind::W8)) => self.matrix(id, layer).exponent,
            Some((_, _, Kind::G16)) => self.gains(id, layer).exponent,
            _ => 0,
        }
    }

    #[inline(never)]
    pub(super) fn gains(&self, id: TensorId, layer: usize) -> Gains<'a> {
        let (_, cols) = self.shape(id);
        let exponent = (2 * cols).next_multiple_of(4);
        Gains {
            values: cast(self.bytes(id, layer, 0, 2 * cols)),
            exponent: self.integer(id, layer, exponent),
        }
    }

    fn integer(&self, id: TensorId, layer: usize, skip: usize) -> i32 {
        let integers = self.integers(id, layer, skip, 1);
        integers.first().copied().unwrap_or(0)
    }

    fn integers(&self, id: TensorId, layer: usize, skip: usize, n: usize) -> &'a [i32] {
        cast(self.bytes(id, layer, skip, 4 * n))
    }

    /// Returns the bias of a matrix, when the model has it.
    pub(super) fn bias(&self, id: TensorId, layer: usize) -> Option<&'a [i32]> {
        let (_, cols, _) = id.shape(self.config())?;
        Some(self.integers(id, layer, 0, cols as usize))
    }

    /// Returns the bias of a norm, when the model has it.
    pub(super) fn norm_bias(&self, id: TensorId, layer: usize) -> Option<Gains<'a>> {
        id.shape(self.config())?;
        Some(self.gains(id, layer))
    }

    pub(super) fn shape(&self, id: TensorId) -> (usize, usize) {
        let (rows, cols, _) = id.shape(self.config()).unwrap_or((0, 0, Kind::I32));
        (rows as usize, cols as usize)
    }
}

/// Reads bytes in place; every tensor lies aligned.
pub(super) fn cast<T: AnyBitPattern>(bytes: &[u8]) -> &[T] {
    debug_assert!(bytemuck::try_cast_slice::<u8, T>(bytes).is_ok());
    bytemuck::try_cast_slice(bytes).unwrap_or_default()
}
