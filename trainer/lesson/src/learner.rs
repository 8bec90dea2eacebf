//! One training run in memory of any model of the lesson: steps, checkpoint and back.
//!
//! Optimiser, clipping, shards and order are those of the GPT.

use std::sync::Arc;

use anyhow::{Result, bail};
use block::Dropout;
use burn::module::Module;
use burn::tensor::Tensor;
use checkpoint::{LessonCheckpoint, NamedTensor};
use gpt::attention::Maps;
use gpt::backend::TrainBackend;
use gpt::evaluation::host;
use gpt::optimizer::{self, State};
use gpt::params::{self, Entry};
use gpt::peers;
use gpt::peers::threads::{Copier, Member, Replica};
use gpt::settings::Settings;
use gpt::shards::Shards;
use gpt::training::{StepReport, flatten};

use crate::{init, run};

/// A model with its data; a copy of it gives the same batches.
pub trait Problem<B: TrainBackend>: Clone + Send + Sync + 'static {
    /// The model on the tape.
    type Model: Module<B::Train> + Sync;
    /// The model for evaluation.
    type Plain: Module<B>;
    /// Everything that a step is computed from.
    type Batch: Sync;

    /// Returns a model of any values.
    fn model(&self, device: &B::Device) -> Self::Model;

    /// Returns the same model for evaluation.
    fn plain(&self, device: &B::Device) -> Self::Plain;

    /// Returns the first value of an element that does not follow the common rule of
    /// [`init`].
    fn initial(&self, _name: &str, _index: usize) -> Option<f32> {
        None
    }

    /// Returns the batch of a step, a pure function of the step.
    fn batch(&mut self, step: u64) -> Self::Batch;

    /// Returns the loss of a shard of a batch: the shards' losses add up to the batch's.
    fn loss(
        &self,
        model: &Self::Model,
        batch: &Self::Batch,
        rows: core::ops::Range<usize>,
        dropout: Option<Dropout>,
        device: &B::Device,
    ) -> Tensor<B::Train, 1>;

    /// Returns the loss on dev in nats per token, and what else there is to say.
    fn evaluate(&self, model: &Self::Plain, shards: &Shards, device: &B::Device) -> (f64, String);

    /// Returns what is said and kept at the end, over val.
    fn conclude(&self, model: &Self::Plain, shards: &Shards, device: &B::Device) -> String;

    /// Returns what a reader sees of the model's attention at the end, if it has any to show.
    fn look(&self, _model: &Self::Plain, _device: &B::Device) -> Option<Maps> {
        None
    }
}

/// A run: problem, weights and everything that moves with them.
#[derive(Debug)]
pub struct Learner<B: TrainBackend, P: Problem<B>> {
    /// Optimiser, length, seed; the shape in them is not used.
    pub settings: Settings,
    /// The problem.
    pub problem: P,
    /// The model's tensors.
    pub entries: Vec<Entry>,
    /// Weights, average, moments.
    pub state: State<B>,
    /// Steps done.
    pub step: u64,
    /// Seconds of training.
    pub seconds: f64,
    /// Smallest loss of the averaged weights on dev, and its step.
    pub best: (f64, u64),
    /// This one's place among other workers, if there are any.
    pub member: Option<Member>,
    device: B::Device,
    shards: Shards,
    skeleton: P::Model,
}

impl<B: TrainBackend, P: Problem<B>> Learner<B, P> {
    /// Creates a run at step 0.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started.
    pub fn new(settings: Settings, problem: P, threads: usize, device: &B::Device) -> Result<Self> {
        let skeleton = problem.model(device);
        let entries = params::entries(&skeleton);
        let weights = init::weights(&entries, settings.seed, |name, i| problem.initial(name, i));
        Ok(Self {
            state: State::new(weights, &entries, &settings, device),
            shards: Shards::new(settings.shards, threads)?,
            step: 0,
            seconds: 0.0,
            best: (f64::INFINITY, 0),
            member: None,
            device: device.clone(),
            settings,
            problem,
            entries,
            skeleton,
        })
    }

    /// Returns the number of parameters.
    #[must_use]
    pub fn n_params(&self) -> usize {
        self.entries.iter().map(Entry::len).sum()
    }

    /// Returns loss and gradients of the next step's batch without taking the step, and without the
    /// other workers.
    ///
    /// # Panics
    ///
    /// Never: nobody is missing where nobody is asked.
    #[must_use]
    pub fn gradients(&mut self) -> (f64, Tensor<B, 1>) {
        let member = self.member.take();
        let alone = self.shard_gradients();
        self.member = member;
        alone.expect("nobody else is asked")
    }

    /// Returns the sums over all shards, whoever has computed them.
    fn shard_gradients(&mut self) -> Result<(f64, Tensor<B, 1>)> {
        let batch = self.problem.batch(self.step);
        let this = &*self;
        let settings = &this.settings;
        let n = settings.batch / settings.shards;
        let place = this.member.as_ref().map_or((0, 1), Member::place);
        let own = peers::shards(settings.shards, place);
        let parts = this.shards.map(own.len(), |i| {
            let shard = own.start + i;
            let dropout = (settings.dropout > 0.0).then_some(Dropout {
                rate: settings.dropout,
                seed: settings.seed,
                step: this.step,
                layer: 0,
                first_sequence: (shard * n) as u32,
            });
            let weights = Tensor::from_inner(this.state.weights.clone());
            let model = params::with_values(this.skeleton.clone(), weights);
            let rows = shard * n..(shard + 1) * n;
            let loss = this
                .problem
                .loss(&model, &batch, rows, dropout, &this.device);
            let grads = loss.backward();
            (loss.inner(), params::gradients(&model, &grads))
        });
        if let Some(member) = &this.member {
            // a loss travels behind its gradients
            let joined = parts
                .into_iter()
                .map(|(loss, grads)| Tensor::cat(vec![grads, loss], 0));
            let sum = member.sum(joined.collect())?;
            let len = sum.dims()[0] - 1;
            let loss = host(sum.clone().slice(len..len + 1))[0];
            return Ok((f64::from(loss), sum.slice(0..len)));
        }
        let (losses, grads): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let loss = losses
            .into_iter()
            .map(|loss| f64::from(host(loss)[0]))
            .sum();
        // in the order of the shards: a float sum depends on it
        let grads = grads.into_iter().reduce(|sum, part| sum + part);
        Ok((loss, grads.expect("at least one shard")))
    }

    /// Takes one step.
    ///
    /// # Errors
    ///
    /// A worker that is gone, see [`Member::sum`]; a loss or gradient that is not finite. The weights are
    /// left as they were.
    pub fn step(&mut self) -> Result<StepReport> {
        let (loss, grads) = self.shard_gradients()?;
        let norm = B::global_norm(&grads);
        let grad_norm = f64::from(host(norm.clone())[0]);
        if !loss.is_finite() || !grad_norm.is_finite() {
            bail!(
                "the loss is not finite at step {} (loss {loss}, gradient norm {grad_norm}); lower \
                 --lr, or continue from the last checkpoint with --resume",
                self.step
            );
        }
        let (state, settings, step) = (&mut self.state, &self.settings, self.step);
        self.shards
            .serial(|| B::update(state, grads, norm, settings, step));
        let lr = optimizer::learning_rate(settings, step);
        self.step += 1;
        Ok(StepReport {
            loss,
            grad_norm,
            lr,
            overflow: false,
        })
    }

    /// Returns the model with the given weights, for evaluation.
    #[must_use]
    pub fn plain(&self, weights: &Tensor<B, 1>) -> P::Plain {
        params::with_values(self.problem.plain(&self.device), weights.clone())
    }

    /// Runs `f` on the model with the averaged weights.
    pub fn scored<T>(&self, f: impl FnOnce(&P, &P::Plain, &Shards, &B::Device) -> T) -> T {
        let model = self.plain(&self.state.ema);
        f(&self.problem, &model, &self.shards, &self.device)
    }

    /// Scores dev with the averaged weights; returns the loss, what else there is to say, and
    /// whether it is the best so far.
    pub fn evaluate(&mut self) -> (f64, String, bool) {
        let model = self.plain(&self.state.ema);
        let (loss, text) = self.problem.evaluate(&model, &self.shards, &self.device);
        let best = loss < self.best.0;
        if best {
            self.best = (loss, self.step);
        }
        (loss, text, best)
    }

    /// Returns what there is to say about val, with the weights that a checkpoint deploys.
    ///
    /// # Errors
    ///
    /// A checkpoint of another model.
    pub fn conclude(&self, from: &LessonCheckpoint) -> Result<String> {
        let model = self.deployed(from)?;
        Ok(self.problem.conclude(&model, &self.shards, &self.device))
    }

    /// Returns what the weights that a checkpoint deploys attend to, if the model shows it.
    ///
    /// # Errors
    ///
    /// A checkpoint of another model.
    pub fn look(&self, from: &LessonCheckpoint) -> Result<Option<Maps>> {
        let model = self.deployed(from)?;
        Ok(self.problem.look(&model, &self.device))
    }

    fn deployed(&self, from: &LessonCheckpoint) -> Result<P::Plain> {
        let flat = optimizer::upload(flatten(&self.entries, &from.ema)?, &self.device);
        Ok(self.plain(&flat))
    }

    /// Fills the tensors and the numbers of a checkpoint whose other fields are given; without
    /// `moments` only what evaluation needs.
    #[must_use]
    pub fn to_checkpoint(&self, blank: &LessonCheckpoint, moments: bool) -> LessonCheckpoint {
        let named = |flat: &Tensor<B, 1>| -> Vec<NamedTensor> {
            let flat = host(flat.clone());
            let tensor = |entry: &Entry| NamedTensor {
                name: entry.name.clone(),
                shape: entry.shape.iter().map(|&len| len as u32).collect(),
                data: flat[entry.range()].to_vec(),
            };
            self.entries.iter().map(tensor).collect()
        };
        let kept = |flat| if moments { named(flat) } else { Vec::new() };
        LessonCheckpoint {
            step: self.step,
            seconds: self.seconds,
            best_dev: self.best.0,
            best_step: self.best.1,
            weights: kept(&self.state.weights),
            ema: named(&self.state.ema),
            moment_1: kept(&self.state.moment_1),
            moment_2: kept(&self.state.moment_2),
            ..blank.clone()
        }
    }

    /// Continues where a checkpoint left off.
    ///
    /// # Errors
    ///
    /// A checkpoint of another model or without optimiser state.
    pub fn restore(&mut self, from: &LessonCheckpoint) -> Result<()> {
        if from.moment_1.is_empty() {
            bail!("this checkpoint has no optimiser state; resume from the run's last.lesson");
        }
        let load = |tensors: &[NamedTensor]| -> Result<Tensor<B, 1>> {
            Ok(optimizer::upload(
                flatten(&self.entries, tensors)?,
                &self.device,
            ))
        };
        let (weights, ema) = (load(&from.weights)?, load(&from.ema)?);
        let (moment_1, moment_2) = (load(&from.moment_1)?, load(&from.moment_2)?);
        self.state.weights = weights;
        self.state.ema = ema;
        self.state.moment_1 = moment_1;
        self.state.moment_2 = moment_2;
        self.step = from.step;
        self.seconds = from.seconds;
        self.best = (from.best_dev, from.best_step);
        Ok(())
    }
}

impl<B: TrainBackend, P: Problem<B>> Replica<B> for Learner<B, P> {
    fn shards(&self) -> usize {
        self.settings.shards
    }

    fn copier(&self, threads: usize) -> Copier<B::Device, Self> {
        let (settings, problem) = (self.settings, self.problem.clone());
        let from = self.to_checkpoint(&run::blank("", String::new(), String::new()), true);
        Arc::new(move |device| {
            let mut copy = Self::new(settings, problem.clone(), threads, device)?;
            copy.restore(&from)?;
            Ok(copy)
        })
    }

    fn join(&mut self, member: Member) {
        self.member = Some(member);
    }

    fn finish(&mut self) -> Result<()> {
        while self.step < self.settings.steps {
            self.step()?;
        }
        Ok(())
    }
}
