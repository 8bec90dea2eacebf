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

/// A worker's place among the others.
#[derive(Debug)]
struct Member {
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
}

impl<B: TrainBackend> Peers<B> for Member {
    fn place(&self) -> (usize, usize) {
        (self.rank, self.count)
    }

    fn sum(
        &mut self,
        _step: u64,
        parts: Vec<Tensor<B, 1>>,
        _record: &mut Record,
    ) -> Result<Tensor<B, 1>> {
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

    fn end(&mut self, _step: u64, _steps: u64) {
        self.shared.over.store(true, Ordering::SeqCst);
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
    /// Starts workers on `devices` in turn, and makes `trainer` the first of `count`.
    ///
    /// # Errors
    ///
    /// Shards that cannot be divided, or a worker that cannot start.
    pub fn start(
        trainer: &mut Trainer<B>,
        count: usize,
        threads: usize,
        devices: &[B::Device],
    ) -> Result<Self> {
        check(trainer.settings.shards, count)?;
        let mut team = Self {
            shared: Arc::default(),
            workers: Vec::new(),
            backend: PhantomData,
        };
        let from = Arc::new(trainer.to_checkpoint("", true));
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
            let (settings, text) = (trainer.settings, trainer.text.clone());
            let (soft, from) = (trainer.soft.clone(), Arc::clone(&from));
            let (ready, device) = (ready.clone(), devices[rank % devices.len()].clone());
            let work = move || {
                let made =
                    Trainer::<B>::new(settings, text, threads, &device).and_then(|mut copy| {
                        copy.restore(&from)?;
                        copy.soft = soft;
                        Ok(copy)
                    });
                drop(from);
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
        drop(ready);
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
        trainer.peers = Some(Box::new(first));
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

fn work<B: TrainBackend>(mut trainer: Trainer<B>, watch: Watch<B>, device: &B::Device) {
    let shared = Arc::clone(&watch.member.shared);
    let (rank, count) = (watch.member.rank, watch.member.count);
    let member = Member {
        rank,
        count,
        shared,
    };
    let done = member.register::<B>(device).and_then(|()| {
        trainer.peers = Some(Box::new(member));
        while trainer.step < trainer.settings.steps {
            trainer.advance()?;
        }
        trainer.flush()
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
        let (mut first, second) = (member(0), member(1));
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
        let mut record = Record {
            dev_f32: 0.0,
            dev_ema: 0.0,
            dev_deployed: 0.0,
            best_dev: 0.0,
            best_step: 0,
            seconds: 0.0,
        };
        // before the panic it waits, after it the meeting place is closed
        let parts = vec![upload::<Flex>(vec![1.0], &FlexDevice)];
        let error = first.sum(0, parts, &mut record).unwrap_err();
        assert_eq!(error.to_string(), "worker 1 panicked");
        assert!(error.is::<Lost>());
        assert!(dying.join().is_err());
    }
}
