//! Workers of one run: each takes its part of every batch, and the gradients are summed before the
//! step.
//!
//! Every worker holds the weights and takes the same steps, so that only gradients travel: those of
//! single shards, which are added in the order of the shards. The sum is therefore that of one
//! worker, bit for bit, however many there are and wherever they run.
//!
//! Workers are threads of one process, each with a device or with lanes of its own ([`threads`]),
//! or processes on one machine or several ([`processes`]).

use core::fmt;
use core::ops::Range;

use anyhow::{Result, bail};
use burn::tensor::Tensor;

use crate::backend::TrainBackend;
use crate::training::Record;

pub mod processes;
pub mod threads;

/// The other workers, as one of them sees them.
pub trait Peers<B: TrainBackend>: fmt::Debug + Send + Sync {
    /// Returns this worker's number, from 0, and how many there are.
    fn place(&self) -> (usize, usize);

    /// Sums vectors over all workers; each gives those of its shards, in order, all of the same
    /// length. The first worker's losses so far become those of all.
    ///
    /// # Errors
    ///
    /// [`Lost`] when another worker is gone, [`Ended`] when the first has ended the run.
    fn sum(
        &mut self,
        step: u64,
        parts: Vec<Tensor<B, 1>>,
        record: &mut Record,
    ) -> Result<Tensor<B, 1>>;

    /// Tells the others that no step follows `step`; only the first worker has to.
    fn end(&mut self, step: u64, steps: u64);
}

/// Another worker is gone: no sum can be made any more. The weights are those of the last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost(pub String);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Lost {}

/// The first worker has ended the run before its last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the first worker has ended the run")
    }
}

impl core::error::Error for Ended {}

/// Returns the shards of a worker.
#[must_use]
pub fn shards(shards: usize, (rank, count): (usize, usize)) -> Range<usize> {
    let own = shards / count.max(1);
    rank * own..(rank + 1) * own
}

/// Checks that every worker gets as many shards.
///
/// # Errors
///
/// No worker, or shards that cannot be divided.
pub fn check(shards: usize, count: usize) -> Result<()> {
    if count == 0 {
        bail!("a run has at least one worker");
    }
    if !shards.is_multiple_of(count) {
        bail!(
            "{shards} shards cannot be divided among {count} workers; set --shards to a multiple of \
             {count} that divides the batch"
        );
    }
    Ok(())
}
