//! Work on the fixed shards of a batch, on as many threads as there are.
//!
//! The shards are a setting of the run and not the number of threads, and results come back in
//! the order of the shards: so the bits do not depend on the machine's cores.

use anyhow::{Context, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// One single-thread pool per lane; burn's own parallelism stays inside its lane.
#[derive(Debug)]
pub struct Shards {
    count: usize,
    lanes: Vec<ThreadPool>,
}

impl Shards {
    /// Creates lanes for `count` shards on at most `threads` threads.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started.
    pub fn new(count: usize, threads: usize) -> Result<Self> {
        let lanes = (0..threads.clamp(1, count.max(1)))
            .map(|_| ThreadPoolBuilder::new().num_threads(1).build())
            .collect::<Result<_, _>>()
            .context("cannot start a worker thread; try --threads 1")?;
        Ok(Self { count, lanes })
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Runs `job` on the first lane.
    pub fn serial<T: Send>(&self, job: impl FnOnce() -> T + Send) -> T {
        self.lanes[0].install(job)
    }

    /// Runs `job` for `0..n` and returns the results in that order.
    pub fn map<T: Send>(&self, n: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let stride = self.lanes.len();
        let job = &job;
        let run = |lane: usize| -> Vec<T> {
            self.lanes[lane].install(|| (lane..n).step_by(stride).map(job).collect())
        };
        let run = &run;
        let mut results: Vec<std::vec::IntoIter<T>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..stride)
                .map(|lane| scope.spawn(move || run(lane)))
                .collect();
            let first = run(0);
            core::iter::once(first)
                .chain(others.into_iter().map(|other| match other.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                }))
                .map(Vec::into_iter)
                .collect()
        });
        (0..n).filter_map(|i| results[i % stride].next()).collect()
    }
}
