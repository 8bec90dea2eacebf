//! Pairs as rectangles of tokens.

use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use checkpoint::{UnknownChar, Vocabulary};

use crate::embedding::{BOS, EOS, FIRST_CHAR, PAD};
use crate::task::Pair;

/// Rows of tokens, padded to the longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    tokens: Vec<i32>,
    len: usize,
    /// Tokens of each row that are no padding.
    pub lengths: Vec<usize>,
}

impl Rows {
    /// Pads rows to the longest of them, or further to `at_least`.
    #[must_use]
    pub fn new(rows: &[Vec<i32>], at_least: usize) -> Self {
        let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        let len = lengths.iter().copied().max().unwrap_or(0).max(at_least);
        let mut tokens = Vec::with_capacity(rows.len() * len);
        for row in rows {
            tokens.extend(row);
            tokens.extend(core::iter::repeat_n(PAD, len - row.len()));
        }
        Self {
            tokens,
            len,
            lengths,
        }
    }

    /// Returns rows `range` on a device, `[rows, len]`.
    pub fn tensor<B: Backend>(
        &self,
        range: core::ops::Range<usize>,
        device: &B::Device,
    ) -> Tensor<B, 2, Int> {
        let rows = range.len();
        let values = self.tokens[range.start * self.len..range.end * self.len].to_vec();
        Tensor::from_data(TensorData::new(values, [rows, self.len]), device)
    }
}

/// A batch of pairs.
#[derive(Clone, Debug)]
pub struct PairBatch {
    /// Sources.
    pub sources: Rows,
    /// What the decoder is fed: `BOS`, then the target.
    pub inputs: Rows,
    /// What it is to say: the target, then `EOS`; the inputs shifted by one.
    pub targets: Rows,
}

impl PairBatch {
    /// Turns pairs into tokens.
    ///
    /// # Errors
    ///
    /// A character that the task does not name.
    pub fn new(pairs: &[Pair], vocab: &Vocabulary) -> Result<Self, UnknownChar> {
        let (mut sources, mut inputs, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        for pair in pairs {
            sources.push(encoded(&pair.source, vocab)?);
            let target = encoded(&pair.target, vocab)?;
            inputs.push([&[BOS], target.as_slice()].concat());
            targets.push([target.as_slice(), &[EOS]].concat());
        }
        Ok(Self {
            sources: Rows::new(&sources, 1),
            inputs: Rows::new(&inputs, 1),
            targets: Rows::new(&targets, 1),
        })
    }

    /// Returns the number of targets that are no padding.
    #[must_use]
    pub fn n_target(&self) -> usize {
        self.targets.lengths.iter().sum()
    }
}

/// Turns a string into tokens.
///
/// # Errors
///
/// A character that `vocab` lacks.
pub fn encoded(text: &str, vocab: &Vocabulary) -> Result<Vec<i32>, UnknownChar> {
    let tokens = vocab.encode(text)?;
    Ok(tokens
        .into_iter()
        .map(|token| i32::from(token) + FIRST_CHAR)
        .collect())
}

/// Turns tokens into a string; special tokens are left out.
#[must_use]
pub fn decoded(tokens: &[i32], vocab: &Vocabulary) -> String {
    let chars = tokens.iter().filter_map(|&token| {
        let rank = u16::try_from(token - FIRST_CHAR).ok()?;
        vocab.char(rank)
    });
    chars.collect()
}
