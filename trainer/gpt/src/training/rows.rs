//! Rows of a batch as tensors.

use core::ops::Range;

use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};

use crate::batch::Batch;

/// Which token of each place of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The one that goes in.
    Inputs,
    /// The one that follows it.
    Targets,
}

/// Where the tokens of rows come from.
#[derive(Debug)]
pub(super) enum Rows<B: Backend> {
    /// The batch, which the host has at hand.
    Host {
        /// Tokens of a row.
        len: usize,
    },
    /// A text that lies on the device: only where the rows start travels.
    Device {
        /// The text.
        text: Tensor<B, 1, Int>,
        /// Distances from the start of a row, `[1, len]`.
        offsets: Tensor<B, 2, Int>,
    },
}

impl<B: Backend> Rows<B> {
    /// Takes rows of `len` tokens from the batch.
    pub(super) const fn from_host(len: usize) -> Self {
        Self::Host { len }
    }

    /// Takes rows of `len` tokens from this text, once it is on the device.
    pub(super) fn from_device(text: &[u16], len: usize, device: &B::Device) -> Self {
        Self::Device {
            text: ints(text.iter().copied(), [text.len()], device),
            offsets: ints(0..len, [1, len], device),
        }
    }

    /// Returns a part of some rows of a batch, `[rows, len]`.
    pub(super) fn get(
        &self,
        batch: &Batch,
        rows: Range<usize>,
        part: Part,
        device: &B::Device,
    ) -> Tensor<B, 2, Int> {
        let n = rows.len();
        match self {
            Self::Host { len } => {
                let tokens = match part {
                    Part::Inputs => &batch.tokens,
                    Part::Targets => &batch.targets,
                };
                let places = rows.start * len..rows.end * len;
                ints(tokens[places].iter().copied(), [n, *len], device)
            }
            Self::Device { text, offsets } => {
                let late = usize::from(part == Part::Targets);
                let starts = batch.starts[rows].iter().map(|start| start + late);
                let places = ints(starts, [n, 1], device) + offsets.clone();
                let [n, len] = places.dims();
                text.clone()
                    .select(0, places.reshape([n * len]))
                    .reshape([n, len])
            }
        }
    }
}

/// Makes a tensor of whole numbers.
fn ints<B: Backend, N: TryInto<i32>, const D: usize>(
    values: impl Iterator<Item = N>,
    shape: [usize; D],
    device: &B::Device,
) -> Tensor<B, D, Int> {
    let values: Vec<i32> = values
        .map(|value| value.try_into().unwrap_or(i32::MAX))
        .collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

#[cfg(test)]
mod tests {
    use burn_flex::{Flex, FlexDevice};

    use super::{Part, Rows};
    use crate::batch::Batches;

    #[test]
    fn rows_of_a_text_on_the_device_are_those_of_the_host() {
        let text: Vec<u16> = (0..1_000).map(|place| place * 7 % 61).collect();
        let (len, device) = (8, FlexDevice);
        let host = Rows::<Flex>::from_host(len);
        let on_device = Rows::<Flex>::from_device(&text, len, &device);
        let mut batches = Batches::new(text, len, 6, 1).unwrap();
        for step in 0..40 {
            let batch = batches.get(step);
            for (rows, part) in [(0..6, Part::Inputs), (2..4, Part::Targets)] {
                let of = |rows_of: &Rows<Flex>| {
                    let rows = rows_of.get(&batch, rows.clone(), part, &device);
                    (rows.dims(), rows.into_data().to_vec::<i32>().unwrap())
                };
                assert_eq!(of(&host), of(&on_device));
            }
        }
    }
}
