//! Training windows: each epoch covers the text once, in a shuffled order, from a drawn offset.

use std::sync::Arc;

use anyhow::{Result, bail};

use crate::rng::{self, Purpose};

/// Source of training batches; a pure function of (seed, step).
#[derive(Clone, Debug)]
pub struct Batches {
    tokens: Arc<Vec<u16>>,
    len: usize,
    batch: usize,
    seed: u64,
    /// Epoch whose order is held.
    epoch: Option<u64>,
    order: Vec<u32>,
}

/// Rows of tokens and, one place later in the text, their targets; `[batch, len]` each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Inputs.
    pub tokens: Vec<i32>,
    /// Targets.
    pub targets: Vec<i32>,
    /// Place of each row's first token in the text, `[batch]`.
    pub starts: Vec<usize>,
}

impl Batches {
    /// Creates a source of batches of `batch` windows of `len` tokens.
    ///
    /// # Errors
    ///
    /// If the text is too short for one window.
    pub fn new(
        tokens: impl Into<Arc<Vec<u16>>>,
        len: usize,
        batch: usize,
        seed: u64,
    ) -> Result<Self> {
        let tokens = tokens.into();
        // a window takes len + 1 characters and may start up to len - 1 characters late
        let needed = 2 * len;
        if tokens.len() < needed {
            bail!(
                "the training part has {} characters, but windows of train_len = {len} need at \
                 least {needed}; use a longer text or a smaller --context-len and --train-len",
                tokens.len()
            );
        }
        Ok(Self {
            tokens,
            len,
            batch,
            seed,
            epoch: None,
            order: Vec::new(),
        })
    }

    /// Returns the number of windows in an epoch.
    #[must_use]
    pub fn windows(&self) -> usize {
        (self.tokens.len() - self.len) / self.len
    }

    /// Returns the batch of a step.
    pub fn get(&mut self, step: u64) -> Batch {
        let mut batch = Batch {
            tokens: Vec::with_capacity(self.batch * self.len),
            targets: Vec::with_capacity(self.batch * self.len),
            starts: Vec::with_capacity(self.batch),
        };
        let windows = self.windows() as u64;
        for row in 0..self.batch as u64 {
            let sample = step * self.batch as u64 + row;
            let start = self.start(sample / windows, (sample % windows) as usize);
            batch.starts.push(start);
            let widened = |part: &[u16]| part.iter().map(|&t| i32::from(t)).collect::<Vec<_>>();
            batch
                .tokens
                .extend(widened(&self.tokens[start..start + self.len]));
            batch
                .targets
                .extend(widened(&self.tokens[start + 1..start + self.len + 1]));
        }
        batch
    }

    /// Returns where window `place` in the order of `epoch` starts.
    fn start(&mut self, epoch: u64, place: usize) -> usize {
        if self.epoch != Some(epoch) {
            let key = rng::key(self.seed, Purpose::Order, epoch);
            self.order = (0..self.windows() as u32).collect();
            // Fisher-Yates
            for i in (1..self.order.len()).rev() {
                self.order.swap(i, rng::below(key, i as u64, i + 1));
            }
            self.epoch = Some(epoch);
        }
        let phase = rng::below(rng::key(self.seed, Purpose::Phase, epoch), 0, self.len);
        phase + self.order[place] as usize * self.len
    }
}
