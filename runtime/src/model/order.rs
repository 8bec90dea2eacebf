//! The matrices in the order in which a forward pass multiplies by them.

use core::iter;

use super::Model;
use super::tensors::cast;
use crate::assist::{Aid, Assist, Assistant, Rows};
use crate::config::Activation;
#[cfg(feature = "w4")]
use crate::kernel::w4::Nibbles;
#[cfg(feature = "w4")]
use crate::tensor::Kind;
use crate::tensor::TensorId;

impl<'a> Model<'a> {
    /// Returns the model with help for its products; see [`Assist`].
    #[must_use]
    pub const fn assisted(mut self, assist: &'a dyn Assist) -> Self {
        self.assist = Assistant(Some(assist));
        self
    }

    /// Returns the weights of all matrices in the order in which a forward pass multiplies by them, each
    /// once; none of a blob of [`Kinds::F32`](crate::Kinds::F32).
    pub fn in_order(&self) -> impl Iterator<Item = Rows<'a>> {
        let of_layer = match self.config().activation {
            Activation::SwiGlu => 5,
            _ => 4,
        };
        let n = if self.header().kinds.is_f32() {
            0
        } else {
            of_layer * usize::from(self.config().n_layer) + 1
        };
        iter::successors(Some((TensorId::WQkv, 0)), |&(id, layer)| {
            Some(self.after(id, layer))
        })
        .take(n)
        .map(|(id, layer)| self.rows(id, layer))
    }

    /// Returns the help for a matrix.
    pub(super) fn aid(&self, id: TensorId, layer: usize) -> Option<Aid<'a>> {
        let assist = self.assist.0?;
        let (id, layer) = self.after(id, layer);
        let next = self.rows(id, layer);
        Some(Aid { assist, next })
    }

    /// Returns the matrix that a forward pass multiplies by after this one.
    fn after(&self, id: TensorId, layer: usize) -> (TensorId, usize) {
        let config = self.config();
        let gated = config.activation == Activation::SwiGlu;
        match id {
            TensorId::WQkv => (TensorId::WO, layer),
            TensorId::WO => (TensorId::WUp, layer),
            TensorId::WUp if gated => (TensorId::WGate, layer),
            TensorId::WUp | TensorId::WGate => (TensorId::WDown, layer),
            TensorId::WDown if layer + 1 < usize::from(config.n_layer) => {
                (TensorId::WQkv, layer + 1)
            }
            TensorId::WDown if config.tied => (TensorId::WEmbed, 0),
            TensorId::WDown => (TensorId::WOut, 0),
            // The head is the last of a pass.
            _ => (TensorId::WQkv, 0),
        }
    }

    /// Returns the weights of a matrix.
    fn rows(&self, id: TensorId, layer: usize) -> Rows<'a> {
        let (rows, cols) = self.shape(id);
        #[cfg(feature = "w4")]
        if let Kind::W4 { group } = self.header.kinds.of(id) {
            let group = group as usize;
            let len = self.layout.w4_len(rows, cols, group);
            let nibbles = Nibbles {
                words: cast(self.bytes(id, layer, 0, len)),
                multiplier: &[],
                rows,
                cols,
                group,
                layout: self.layout,
            };
            return crate::ops::Factor::W4(nibbles).rows();
        }
        let len = self.layout.matrix_len(rows, cols).next_multiple_of(4);
        Rows {
            words: cast(self.bytes(id, layer, 0, len)),
            unit: self.layout.row_len(cols),
        }
    }
}
