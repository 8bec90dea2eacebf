//! Workers on threads of one process, each with a device, or with lanes of its own on the CPU.
//!
//! `burn-collective` adds what they bring, moving it between devices where these differ. It has no
//! order of its own among equal devices and waits for ever for a worker that is gone; hence each
//! worker brings all shards, those of the others as zeros, which is exact in any order, and a
//! worker that fails takes back what all have brought, which wakes the others with an error.

use core::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result, anyhow};
use burn::tensor::{Tensor, TensorPrimitive};
use burn_collective::{
    CollectiveConfig, CollectiveError, PeerId, ReduceOperation, all_reduce, register,
    reset_collective,
};

use super::{Ended, Lost, Peers, check, shards};
use crate::backend::TrainBackend;
use crate::training::{Record, Trainer};

/// What the workers know of each other.
#[derive(Debug, Default)]
struct Shared {
    /// Why the first that failed did.
    failure: Mutex<Option<String>>,
    /// The first worker takes no more steps.
    over: AtomicBool,
}

impl Shared {
    fn fail(&self, why: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(why);
    }

    /// Says why there is no sum.
    fn missing(&self, error: &CollectiveError) -> anyhow::Error {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match failure.as_ref() {
            Some(why) => Lost(why.clone()).into(),
            None if self.over.load(Ordering::SeqCst) => Ended.into(),
            None => Lost(format!("the workers cannot be summed over ({error:?})")).into(),
        }
    }
}

/// A training whose steps several workers can take together.
pub trait Replica<B: TrainBackend>: Sized {
    /// Returns the number of parts of a batch.
    fn shards(&self) -> usize;

    /// Returns what makes a copy in the state of this one, on another thread and device.
    fn copier(&self, threads: usize) -> Copier<B::Device, Self>;

    /// Takes a place among others: from here on each step is theirs too.
    fn join(&mut self, member: Member);

    /// Takes the steps that are left.
    ///
    /// # Errors
    ///
    /// [`Lost`] and [`Ended`] as [`Peers::sum`], and what makes a step fail.
    fn finish(&mut self) -> Result<()>;
}

/// Makes a copy of a training on a device.
pub type Copier<D, R> = Arc<dyn Fn(&D) -> Result<R> + Send + Sync>;

/// A worker's place among the others.
#[derive(Debug)]
pub struct Member {
    rank: usize,
    count: usize,
    shared: Arc<Shared>,
}

impl Member {
    fn register<B: TrainBackend>(&self, device: &B::Device) -> Result<()> {
        let config = CollectiveConfig::default().with_num_devices(self.count);
        register::<B>(PeerId::from(self.rank), device.clone(), config)
            .map_err(|error| self.shared.missing(&error))
    }

    /// Returns this worker's number, from 0, and how many there are.
    #[must_use]
    pub fn place(&self) -> (usize, usize) {
        (self.rank, self.count)
    }

    /// Sums vectors over all workers, as [`Peers::sum`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn sum<B: TrainBackend>(&self, parts: Vec<Tensor<B, 1>>) -> Result<Tensor<B, 1>> {
        let total = parts.len() * self.count;
        let own = shards(total, (self.rank, self.count));
        let ([len], device) = (parts[0].dims(), parts[0].device());
        let zeros = |rows| (rows > 0).then(|| Tensor::<B, 2>::zeros([rows, len], &device));
        let rows = [
            zeros(own.start),
            Some(Tensor::stack(parts, 0)),
            zeros(total - own.end),
        ];
        let all = Tensor::cat(rows.into_iter().flatten().collect(), 0);
        let all = all_reduce::<B>(
            PeerId::from(self.rank),
            all.into_primitive().tensor(),
            ReduceOperation::Sum,
        );
        let all = all.map_err(|error| self.shared.missing(&error))?;
        let all = Tensor::<B, 2>::from_primitive(TensorPrimitive::Float(all));
        let row = |i: usize| all.clone().slice([i..i + 1, 0..len]).reshape([len]);
        Ok((1..total).fold(row(0), |sum, i| sum + row(i)))
    }

    /// Tells the others that the first worker takes no more steps.
    pub fn end(&self) {
        self.shared.over.store(true, Ordering::SeqCst);
    }
}

impl<B: TrainBackend> Peers<B> for Member {
    fn place(&self) -> (usize, usize) {
        Self::place(self)
    }

    fn sum(
        &mut self,
        _step: u64,
        parts: Vec<Tensor<B, 1>>,
        _record: &mut Record,
    ) -> Result<Tensor<B, 1>> {
        Self::sum(self, parts)
    }

    fn end(&mut self, _step: u64, _steps: u64) {
        Self::end(self);
    }
}

impl<B: TrainBackend> Replica<B> for Trainer<B> {
    fn shards(&self) -> usize {
        self.settings.shards
    }

    fn copier(&self, threads: usize) -> Copier<B::Device, Self> {
        let (settings, text, soft) = (self.settings, self.text.clone(), self.soft.clone());
        let from = self.to_checkpoint("", true);
        Arc::new(move |device| {
            let mut copy = Self::new(settings, text.clone(), threads, device)?;
            copy.restore(&from)?;
            copy.soft = soft.clone();
            Ok(copy)
        })
    }

    fn join(&mut self, member: Member) {
        self.peers = Some(Box::new(member));
    }

    fn finish(&mut self) -> Result<()> {
        while self.step < self.settings.steps {
            self.advance()?;
        }
        self.flush().map(drop)
    }
}

/// Takes back what all have brought if its worker fails.
struct Watch<B: TrainBackend> {
    member: Member,
    backend: PhantomData<B>,
}

impl<B: TrainBackend> Watch<B> {
    fn fail(&self, how: &str) {
        self.member
            .shared
            .fail(format!("worker {} {how}", self.member.rank));
        reset_collective::<B>();
    }
}

impl<B: TrainBackend> Drop for Watch<B> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail("panicked");
        }
    }
}

/// The workers behind the first; they end when this is dropped.
#[derive(Debug)]
pub struct Team<B: TrainBackend> {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    backend: PhantomData<B>,
}

impl<B: TrainBackend> Team<B> {
    /// Starts workers on `devices` in turn, and makes `run` the first of `count`.
    ///
    /// # Errors
    ///
    /// Shards that cannot be divided, or a worker that cannot start.
    pub fn start<R: Replica<B> + 'static>(
        run: &mut R,
        count: usize,
        threads: usize,
        devices: &[B::Device],
    ) -> Result<Self> {
        check(run.shards(), count)?;
        let mut team = Self {
            shared: Arc::default(),
            workers: Vec::new(),
            backend: PhantomData,
        };
        let copier = run.copier(threads);
        let (ready, answers) = mpsc::channel();
        let mut signals = Vec::new();
        for rank in 1..count {
            let (go, started) = mpsc::channel::<()>();
            signals.push(go);
            let watch = Watch::<B> {
                member: Member {
                    rank,
                    count,
                    shared: Arc::clone(&team.shared),
                },
                backend: PhantomData,
            };
            let copier = Arc::clone(&copier);
            let (ready, device) = (ready.clone(), devices[rank % devices.len()].clone());
            let work = move || {
                let made = copier(&device);
                drop(copier);
                let (made, answer) = match made {
                    Ok(copy) => (Some(copy), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                // nobody listens, or gives the signal, when another could not start
                let _ = ready.send(answer);
                if let (Some(copy), Ok(())) = (made, started.recv()) {
                    work(copy, watch, &device);
                }
            };
            let thread = Builder::new().name(format!("worker {rank}")).spawn(work);
            team.workers
                .push(thread.context("cannot start a worker; try fewer --workers")?);
        }
        drop((ready, copier));
        for _ in 1..count {
            let answer = answers.recv();
            answer.map_err(|_| anyhow!("a worker did not start"))??;
        }
        for go in &signals {
            // its worker has answered and waits
            let _ = go.send(());
        }
        let first = Member {
            rank: 0,
            count,
            shared: Arc::clone(&team.shared),
        };
        first.register::<B>(&devices[0])?;
        run.join(first);
        Ok(team)
    }
}

impl<B: TrainBackend> Drop for Team<B> {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // those that wait for a sum are woken; after the last step nobody does
        reset_collective::<B>();
        for worker in self.workers.drain(..) {
            // a panic has been told already
            let _ = worker.join();
        }
    }
}

fn work<B: TrainBackend, R: Replica<B>>(mut run: R, watch: Watch<B>, device: &B::Device) {
    let shared = Arc::clone(&watch.member.shared);
    let (rank, count) = watch.member.place();
    let member = Member {
        rank,
        count,
        shared,
    };
    let done = member.register::<B>(device).and_then(|()| {
        run.join(member);
        run.finish()
    });
    if let Err(error) = done
        && !error.is::<Ended>()
        && !error.is::<Lost>()
    {
        watch.fail(&format!("failed: {error:#}"));
    }
}

#[cfg(test)]
mod tests {
    use burn_flex::{Flex, FlexDevice};

    use super::*;
    use crate::optimizer::upload;

    #[test]
    fn a_worker_that_panics_wakes_the_others_with_its_name() {
        let shared = Arc::<Shared>::default();
        let member = |rank| Member {
            rank,
            count: 2,
            shared: Arc::clone(&shared),
        };
        let (first, second) = (member(0), member(1));
        let watch = Watch::<Flex> {
            member: member(1),
            backend: PhantomData,
        };
        let dying = std::thread::spawn(move || {
            let _watch = watch;
            second.register::<Flex>(&FlexDevice).unwrap();
            panic!("on purpose");
        });
        first.register::<Flex>(&FlexDevice).unwrap();
        // before the panic it waits, after it the meeting place is closed
        let parts = vec![upload::<Flex>(vec![1.0], &FlexDevice)];
        let error = first.sum(parts).unwrap_err();
        assert_eq!(error.to_string(), "worker 1 panicked");
        assert!(error.is::<Lost>());
        assert!(dying.join().is_err());
    }
}
