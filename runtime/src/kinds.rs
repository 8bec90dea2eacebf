//! Number format of each matrix of a blob.

use crate::config::Config;
use crate::tensor::{Kind, TensorId};

/// Number format of each matrix, the same in all layers.
///
/// Four bits for each matrix, the first in the lowest: 0 is [`Kind::W8`], 1 to 4 are [`Kind::W4`] with
/// groups of 8 to 32 columns. `w_embed` and `w_pos` are W8, because single rows of them are read, and
/// so says a matrix that the model does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u32);

/// Matrices in the order of their bits.
const MATRICES: [TensorId; 8] = [
    TensorId::WEmbed,
    TensorId::WPos,
    TensorId::WQkv,
    TensorId::WO,
    TensorId::WGate,
    TensorId::WUp,
    TensorId::WDown,
    TensorId::WOut,
];

/// Columns of the smallest group; the others are its multiples.
pub const GROUP_STEP: u32 = 8;
/// Columns of the largest group; the sum of its products fits 16 bits.
pub const MAX_GROUP: u32 = 32;

impl Kinds {
    /// All matrices int8.
    pub const W8: Self = Self(0);

    /// All tensors [`Kind::F32`], but the angles: nothing is quantised.
    pub const F32: Self = Self(u32::MAX);

    /// Returns whether these are [`Kinds::F32`], which a build without the feature `f32` does not read.
    #[must_use]
    pub const fn is_f32(self) -> bool {
        cfg!(feature = "f32") && self.0 == Self::F32.0
    }

    /// Returns the kinds that a blob's header states; see `Kinds::check`.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the number in the blob's header.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the kinds with that of one matrix replaced; `None` when `id` is no matrix that may have
    /// this kind.
    #[must_use]
    pub const fn with(self, id: TensorId, kind: Kind) -> Option<Self> {
        let code = match kind {
            Kind::W8 => 0,
            Kind::W4 { group } if may_be_w4(id) && is_group(group) => group / GROUP_STEP,
            _ => return None,
        };
        match place(id) {
            Some(right) => Some(Self(self.0 & !(15 << right) | code << right)),
            None => None,
        }
    }

    /// Returns the kind of a matrix; [`Kind::W8`] for other tensors.
    #[must_use]
    pub const fn of(self, id: TensorId) -> Kind {
        match self.code(id) {
            0 => Kind::W8,
            code => Kind::W4 {
                group: code * GROUP_STEP,
            },
        }
    }

    const fn code(self, id: TensorId) -> u32 {
        match place(id) {
            Some(right) => (self.0 >> right) & 15,
            None => 0,
        }
    }

    /// Checks that a model of this configuration may have these kinds; returns the first matrix that
    /// may not.
    pub(crate) fn check(self, config: &Config) -> Result<(), TensorId> {
        if self == Self::W8 || self.is_f32() {
            return Ok(());
        }
        let may = |id: TensorId| {
            let known = self.code(id) <= MAX_GROUP / GROUP_STEP;
            cfg!(feature = "w4") && known && may_be_w4(id) && id.shape(config).is_some()
        };
        let bad = |id: &TensorId| self.code(*id) != 0 && !may(*id);
        MATRICES.into_iter().find(bad).map_or(Ok(()), Err)
    }
}

const fn may_be_w4(id: TensorId) -> bool {
    !matches!(id, TensorId::WEmbed | TensorId::WPos)
}

/// Returns whether int4 weights may have groups of this many columns.
#[must_use]
pub const fn is_group(group: u32) -> bool {
    group > 0 && group <= MAX_GROUP && group.is_multiple_of(GROUP_STEP)
}

const fn place(id: TensorId) -> Option<u32> {
    match id {
        TensorId::WEmbed => Some(0),
        TensorId::WPos => Some(4),
        TensorId::WQkv => Some(8),
        TensorId::WO => Some(12),
        TensorId::WGate => Some(16),
        TensorId::WUp => Some(20),
        TensorId::WDown => Some(24),
        TensorId::WOut => Some(28),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_matrix_has_bits_of_its_own() {
        let mut kinds = Kinds::W8;
        for (index, id) in MATRICES.into_iter().enumerate() {
            assert_eq!(place(id), Some(4 * index as u32));
            let group = 8 * (1 + index as u32 % 4);
            match kinds.with(id, Kind::W4 { group }) {
                Some(more) => {
                    assert_eq!(more.of(id), Kind::W4 { group });
                    assert_eq!(more.with(id, Kind::W8), Some(kinds));
                    kinds = more;
                }
                None => assert!(index < 2),
            }
        }
        assert_eq!(kinds.bits(), 0x4321_4300);
        for group in [0, 4, 12, 40, 256] {
            assert_eq!(kinds.with(TensorId::WO, Kind::W4 { group }), None);
        }
        assert_eq!(kinds.with(TensorId::BO, Kind::W8), None);
    }
}
