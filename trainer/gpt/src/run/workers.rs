//! A run of several workers: who takes part, and what remains when one is gone.

use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use checkpoint::{Checkpoint, Corpus, runs};

use super::{interruption, supported, threads};
use crate::backend::TrainBackend;
use crate::peers::processes::{Hub, Leaf};
use crate::peers::threads::Team;
use crate::peers::{self, Ended, Lost};
use crate::request::TrainArgs;
use crate::settings::Settings;
use crate::training::{Text, Trainer};

/// Who takes the steps of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// How many there are.
    pub count: usize,
    /// Where the others, being processes, join; `None` if they are threads of this one.
    pub listen: Option<String>,
    /// How long a process may say nothing before it counts as gone.
    pub patience: Duration,
}

impl Workers {
    /// Returns the threads of each worker of this process.
    pub(super) fn threads(&self, all: usize) -> usize {
        if self.listen.is_some() {
            return all;
        }
        (all / self.count.max(1)).max(1)
    }

    /// Makes the trainer the first of them, and waits until the others can start.
    pub(super) fn gather<B: TrainBackend>(
        &self,
        trainer: &mut Trainer<B>,
        name: &str,
        threads: usize,
        devices: &[B::Device],
    ) -> Result<Option<Team<B>>> {
        let (shards, count) = (trainer.settings.shards, self.count);
        let Some(address) = &self.listen else {
            if count == 1 {
                return Ok(None);
            }
            crate::say!("workers: {count} threads, {} shards each", shards / count);
            return Team::start(trainer, count, threads, devices).map(Some);
        };
        if trainer.soft.is_some() {
            bail!("workers that join have no teachers; drop --listen, or the teachers");
        }
        let listener = TcpListener::bind(address)
            .with_context(|| format!("cannot listen at {address}; choose another --listen"))?;
        crate::say!(
            "workers: {count} processes, {} shards each; on each of the others run\n  cargo run \
             --release -p trainer -- --join {}",
            shards / count,
            listener.local_addr()?
        );
        let run = trainer.to_checkpoint(name, true);
        let hub = Hub::gather(&listener, count, shards / count, &run, self.patience)?;
        trainer.peers = Some(Box::new(hub));
        Ok(None)
    }
}

/// Checks what was asked for before the run has a folder.
pub(super) fn checked(args: &TrainArgs, settings: &Settings) -> Result<Workers> {
    let workers = Workers {
        count: args.workers,
        listen: args.listen.clone(),
        patience: args.patience,
    };
    peers::check(settings.shards, workers.count)?;
    if workers.listen.is_some() && workers.count < 2 {
        bail!(
            "--listen waits for others; say with --workers how many there are, this one included"
        );
    }
    Ok(workers)
}

/// Saves the run if the error is a lost worker: the weights are those of the last whole step.
pub(super) fn kept<B: TrainBackend>(
    trainer: &mut Trainer<B>,
    name: &str,
    error: anyhow::Error,
) -> anyhow::Error {
    if !error.is::<Lost>() {
        return error;
    }
    let mut save = || -> Result<()> {
        trainer.flush()?;
        let dir = runs::dir(name)?;
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join(runs::CONFIG), trainer.settings.to_json() + "\n")?;
        let last = trainer.to_checkpoint(name, true);
        Ok(last.save(&dir.join(runs::LAST))?)
    };
    match save() {
        Ok(()) => anyhow!(
            "{error}\nthe run is saved at step {} of {}; continue with\n  cargo run --release -p \
             trainer -- --resume {name}",
            trainer.step,
            trainer.settings.steps
        ),
        Err(other) => anyhow!("{error}\nand the run cannot be saved: {other:#}"),
    }
}

/// Works for a run whose first worker listens, until that ends.
///
/// # Errors
///
/// Options that the run decides, a text that is not the run's, a worker that is gone.
pub fn join<B: TrainBackend>(args: &TrainArgs, address: &str, device: &B::Device) -> Result<()> {
    let given = [
        (!args.overrides.is_empty(), "its settings"),
        (args.preset.is_some(), "the preset"),
        (args.resume.is_some(), "--resume"),
        (args.name.is_some(), "--name"),
        (args.board.is_some(), "--board"),
        (args.init.is_some(), "--init"),
        (!args.teachers.is_empty(), "--teacher"),
        (args.workers != 1, "--workers"),
        (args.listen.is_some(), "--listen"),
    ];
    if let Some((_, what)) = given.into_iter().find(|(given, _)| *given) {
        bail!("--join takes everything but the text from the run that it joins; drop {what}");
    }
    let (mut leaf, from) = Leaf::join(address, args.patience)?;
    let mut trainer = copy::<B>(args, &from, device)?;
    let (steps, name) = (trainer.settings.steps, from.run);
    let (rank, count) = leaf.place();
    crate::say!(
        "worker {rank} of {count} for run {name} at {address}, step {} of {steps}",
        trainer.step
    );
    leaf.ready()?;
    trainer.peers = Some(Box::new(leaf));
    let stop = interruption();
    while trainer.step < steps {
        match trainer.advance() {
            Ok(_) => {}
            Err(error) if error.is::<Ended>() => break,
            Err(error) => return Err(kept(&mut trainer, &name, error)),
        }
        if stop.load(Ordering::SeqCst) {
            bail!(
                "stopped at step {}; the run cannot go on without this worker",
                trainer.step
            );
        }
    }
    crate::say!("run {name} has ended at step {} of {steps}", trainer.step);
    Ok(())
}

/// Builds the run that a checkpoint describes.
fn copy<B: TrainBackend>(
    args: &TrainArgs,
    from: &Checkpoint,
    device: &B::Device,
) -> Result<Trainer<B>> {
    let settings = Settings::from_json(&from.settings)?;
    supported::<B>(&settings)?;
    let (name, sha256) = (&from.corpus_name, &from.corpus_sha256);
    let corpus = Corpus::of_run(args.data.as_deref(), name, sha256)?;
    let context_len = usize::from(settings.model.context_len);
    let text = Text::with_vocab(
        &corpus,
        from.vocabulary()?,
        context_len,
        settings.train_on_dev,
    )?;
    let mut trainer = Trainer::new(settings, text, threads(args.threads), device)?;
    trainer.restore(from)?;
    Ok(trainer)
}
