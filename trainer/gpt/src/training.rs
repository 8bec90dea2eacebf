//! One training run in memory: steps and evaluation.

use std::path::Path;

use anyhow::{Context, Result, bail};
use block::Dropout;
use burn::tensor::{Tensor, TensorData};
use checkpoint::{Checkpoint, SoftTargets};

use crate::backend::TrainBackend;
use crate::batch::{Batch, Batches};
use crate::evaluation::{Evaluator, host, mean};
use crate::init;
use crate::model::Gpt;
use crate::ops::Targets;
use crate::optimizer::{self, State};
use crate::params::{self, Entry};
use crate::peers::{self, Peers};
use crate::precision::{self, LossScale, Precision};
use crate::rounding::Rounding;
use crate::settings::Settings;
use crate::shards::Shards;
use crate::tables::Tables;
use crate::teacher;

mod rows;
mod saved;
mod text;

use rows::{Part, Rows};

pub use saved::flatten;
pub use text::Text;

/// Losses of a run so far; kept in its checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Loss of the weights on dev.
    pub dev_f32: f64,
    /// Loss of the averaged weights on dev.
    pub dev_ema: f64,
    /// Loss on dev of what would be deployed: `dev_ema`, or where the run knows its rounding, that of
    /// the average rounded as in the blob. Not kept: NaN until a run that goes on is evaluated.
    pub dev_deployed: f64,
    /// Smallest `dev_deployed`.
    pub best_dev: f64,
    /// Step of `best_dev`.
    pub best_step: u64,
    /// Seconds of training.
    pub seconds: f64,
}

/// What a step did.
#[derive(Clone, Copy, Debug)]
pub struct StepReport {
    /// Loss of the batch before the step, nats per character.
    pub loss: f64,
    /// Global norm of the gradients before clipping.
    pub grad_norm: f64,
    /// Learning rate.
    pub lr: f64,
    /// The gradients did not fit `f16`: the weights are as they were, and the next loss scale is
    /// half as large. The norm is 0 then.
    pub overflow: bool,
}

/// A step whose numbers are still on the device.
#[derive(Debug)]
struct Queued<B: TrainBackend> {
    losses: Vec<Tensor<B, 1>>,
    norm: Tensor<B, 1>,
    lr: f64,
}

/// A run: settings, text, weights and everything that moves with them.
#[derive(Debug)]
pub struct Trainer<B: TrainBackend> {
    /// Settings; `vocab_size` is the text's.
    pub settings: Settings,
    /// The text.
    pub text: Text,
    /// The model's tensors.
    pub entries: Vec<Entry>,
    /// Weights, average, moments.
    pub state: State<B>,
    /// Steps done.
    pub step: u64,
    /// Losses so far.
    pub record: Record,
    /// What the teachers expect at every place of the training text, if there are any.
    pub soft: Option<SoftTargets>,
    /// Factor of the loss, under `f16`.
    pub loss_scale: Option<LossScale>,
    /// The other workers, if there are any.
    pub peers: Option<Box<dyn Peers<B>>>,
    device: B::Device,
    rows: Rows<B::Train>,
    queued: Vec<Queued<B>>,
    shards: Shards,
    batches: Batches,
    rounding: Rounding,
    skeleton: Gpt<B::Train>,
    tables: Tables<B::Train>,
    evaluator: Evaluator<B>,
}

impl<B: TrainBackend> Trainer<B> {
    /// Creates a run at step 0.
    ///
    /// # Errors
    ///
    /// Settings that do not fit together or do not fit the text.
    pub fn new(
        mut settings: Settings,
        text: Text,
        threads: usize,
        device: &B::Device,
    ) -> Result<Self> {
        settings.model.vocab_size =
            u16::try_from(text.vocab.len()).context("the text has too many characters")?;
        settings.validate()?;
        let batches = Batches::new(
            text.train.clone(),
            settings.train_len,
            settings.batch,
            settings.seed,
        )?;
        let skeleton = Gpt::zeroed(&settings.model, device);
        let entries = params::entries(&skeleton);
        let weights = init::weights(settings.init_rule, &settings.model, &entries, settings.seed);
        Ok(Self {
            state: State::new(weights, &entries, &settings, device),
            shards: Shards::new(settings.shards, threads)?,
            rounding: Rounding::new(&settings, &entries),
            tables: Tables::new(&settings.model, settings.train_len, device),
            evaluator: Evaluator::new(settings.model, device),
            record: Record {
                dev_f32: f64::NAN,
                dev_ema: f64::NAN,
                dev_deployed: f64::NAN,
                best_dev: f64::INFINITY,
                best_step: 0,
                seconds: 0.0,
            },
            step: 0,
            soft: None,
            loss_scale: (settings.precision == Precision::F16).then(LossScale::default),
            peers: None,
            rows: if B::GPU {
                Rows::from_device(&text.train, settings.train_len, device)
            } else {
                Rows::from_host(settings.train_len)
            },
            queued: Vec::new(),
            device: device.clone(),
            settings,
            text,
            entries,
            batches,
            skeleton,
        })
    }

    /// Returns loss and gradients of the next step's batch without taking the step, and without the
    /// other workers.
    ///
    /// # Panics
    ///
    /// Never: nobody is missing where nobody is asked.
    #[must_use]
    pub fn gradients(&mut self) -> (f64, Tensor<B, 1>) {
        let peers = self.peers.take();
        let alone = self.shard_gradients();
        self.peers = peers;
        let (losses, grads) = alone.expect("nobody else is asked");
        (sum(losses), grads)
    }

    /// Returns the losses of the shards, each already divided by the whole batch, or their sum, and
    /// the sum of their gradients, without waiting for them.
    fn shard_gradients(&mut self) -> Result<(Vec<Tensor<B, 1>>, Tensor<B, 1>)> {
        let batch = self.batches.get(self.step);
        let this = &*self;
        let weights = if this.step < this.settings.aware_from() {
            this.state.weights.clone()
        } else {
            this.rounded(&this.state.weights)
        };
        let all = this.settings.shards;
        let place = this.peers.as_ref().map_or((0, 1), |peers| peers.place());
        let own = peers::shards(all, place);
        let parts = this.shards.map(own.len(), |i| {
            this.shard(weights.clone(), &batch, own.start + i)
        });
        if let Some(peers) = &mut self.peers {
            // a loss travels behind its gradients
            let joined = parts
                .into_iter()
                .map(|(loss, grads)| Tensor::cat(vec![grads, loss], 0));
            let sum = peers.sum(self.step, joined.collect(), &mut self.record)?;
            let len = sum.dims()[0] - 1;
            return Ok((vec![sum.clone().slice(len..len + 1)], sum.slice(0..len)));
        }
        Ok(self.shards.serial(|| {
            let (losses, grads): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            // in the order of the shards: a float sum depends on it
            let sum = grads.into_iter().reduce(|sum, part| sum + part);
            (losses, sum.expect("at least one shard"))
        }))
    }

    /// Returns weights as the blob rounds them; on a GPU they pass through the host.
    fn rounded(&self, weights: &Tensor<B, 1>) -> Tensor<B, 1> {
        let flat = host(weights.clone());
        optimizer::upload(self.rounding.apply(&self.shards, &flat), &self.device)
    }

    /// Returns loss and gradients of a shard; the gradients are those at `weights`, whatever these
    /// were rounded from.
    fn shard(
        &self,
        weights: Tensor<B, 1>,
        batch: &Batch,
        shard: usize,
    ) -> (Tensor<B, 1>, Tensor<B, 1>) {
        let settings = &self.settings;
        let (rows, len) = (settings.batch / settings.shards, settings.train_len);
        let first = shard * rows;
        let part = |part| {
            self.rows
                .get(batch, first..first + rows, part, &self.device)
        };
        let targets = Targets {
            tokens: part(Part::Targets),
            soft: self.soft.as_ref().map(|soft| {
                let values = self.mixed(soft, batch, first..first + rows);
                let shape = [rows, len, self.text.vocab.len()];
                Tensor::from_data(TensorData::new(values, shape), &self.device)
            }),
        };
        let dropout = (settings.dropout > 0.0).then_some(Dropout {
            rate: settings.dropout,
            seed: settings.seed,
            step: self.step,
            layer: 0,
            first_sequence: first as u32,
        });
        let weights = Tensor::from_inner(precision::to(weights, settings.precision.dtype()));
        let model = params::with_values(self.skeleton.clone(), weights);
        let factor = self.loss_scale.map_or(1.0, LossScale::value);
        let loss = model.loss(
            &settings.model,
            &self.tables,
            (part(Part::Inputs), targets),
            factor / (settings.batch * len) as f32,
            dropout,
        );
        let grads = loss.backward();
        let (loss, grads) = (loss.inner(), params::gradients(&model, &grads));
        if self.loss_scale.is_none() {
            return (loss, grads);
        }
        (loss / factor, grads / factor)
    }

    /// Mixes the teachers' distributions with the text's tokens, `[rows, len, vocab_size]`.
    fn mixed(&self, soft: &SoftTargets, batch: &Batch, rows: core::ops::Range<usize>) -> Vec<f32> {
        let (len, vocab_size) = (self.settings.train_len, self.text.vocab.len());
        let share = self.settings.teacher_share as f32;
        let mut values = vec![0.0; rows.len() * len * vocab_size];
        for (row, values) in rows.zip(values.chunks_exact_mut(len * vocab_size)) {
            let targets = &batch.targets[row * len..(row + 1) * len];
            for (i, out) in values.chunks_exact_mut(vocab_size).enumerate() {
                soft.write(batch.starts[row] + i, share, out);
                out[targets[i] as usize] += 1.0 - share;
            }
        }
        values
    }

    /// Computes what the teachers expect, or reads it from the folder of the run.
    ///
    /// # Errors
    ///
    /// A teacher that does not fit, or a file that cannot be read or written.
    pub fn learn_from(&mut self, teachers: &[Checkpoint], file: &Path) -> Result<()> {
        if file.exists() {
            self.soft = Some(SoftTargets::load(file, &self.text.train)?);
        } else if !teachers.is_empty() {
            let soft = teacher::soft_targets::<B>(
                teachers,
                &self.text,
                &self.settings,
                &self.shards,
                &self.device,
            )?;
            soft.save(file)?;
            self.soft = Some(soft);
        }
        Ok(())
    }

    /// Takes one step.
    ///
    /// # Errors
    ///
    /// A worker that is gone, see [`Peers::sum`]; a loss or gradient that is not finite, under `f16` with a loss that is not scaled up any
    /// more; the weights are left as they were, and the message names the tensor.
    pub fn step(&mut self) -> Result<StepReport> {
        let (losses, grads) = self.shard_gradients()?;
        let loss = sum(losses);
        let norm = B::global_norm(&grads);
        let grad_norm = f64::from(host(norm.clone())[0]);
        if !loss.is_finite() || !grad_norm.is_finite() {
            if let Some(smaller) = self.loss_scale.and_then(LossScale::after_overflow)
                && loss.is_finite()
            {
                self.loss_scale = Some(smaller);
                let lr = optimizer::learning_rate(&self.settings, self.step);
                self.step += 1;
                return Ok(StepReport {
                    loss,
                    grad_norm: 0.0,
                    lr,
                    overflow: true,
                });
            }
            bail!(
                "the loss is not finite at step {} (loss {loss}, gradient norm {grad_norm}): {}; \
                 lower --lr, or continue from the last checkpoint with --resume",
                self.step,
                self.culprit(grads)
            );
        }
        let lr = self.update(grads, norm);
        self.loss_scale = self.loss_scale.map(LossScale::after_step);
        Ok(StepReport {
            loss,
            grad_norm,
            lr,
            overflow: false,
        })
    }

    /// Updates the weights and returns the learning rate.
    fn update(&mut self, grads: Tensor<B, 1>, norm: Tensor<B, 1>) -> f64 {
        let lr = optimizer::learning_rate(&self.settings, self.step);
        let (shards, state) = (&self.shards, &mut self.state);
        let (settings, step) = (&self.settings, self.step);
        shards.serial(|| B::update(state, grads, norm, settings, step));
        self.step += 1;
        lr
    }

    /// Takes one step; on a device that computes on its own, without waiting for it.
    ///
    /// Returns the reports of the steps that are known to be done, oldest first: none, or all that
    /// have been queued.
    ///
    /// # Errors
    ///
    /// As [`Trainer::step`] and [`Trainer::flush`].
    pub fn advance(&mut self) -> Result<Vec<StepReport>> {
        // whether gradients fit f16 is known only when they are there
        if B::QUEUE < 2 || self.loss_scale.is_some() {
            return Ok(vec![self.step()?]);
        }
        let (losses, grads) = self.shard_gradients()?;
        let norm = B::global_norm(&grads);
        let lr = self.update(grads, norm.clone());
        self.queued.push(Queued { losses, norm, lr });
        if self.queued.len() < B::QUEUE {
            return Ok(Vec::new());
        }
        self.flush()
    }

    /// Waits for the queued steps and returns their reports, oldest first.
    ///
    /// # Errors
    ///
    /// A loss or gradient that is not finite. The weights are no longer of use then: they have been
    /// updated with it.
    pub fn flush(&mut self) -> Result<Vec<StepReport>> {
        let first = self.step - self.queued.len() as u64;
        let queued = core::mem::take(&mut self.queued);
        let reports = queued.into_iter().enumerate().map(|(i, queued)| {
            let (loss, grad_norm) = (sum(queued.losses), f64::from(host(queued.norm)[0]));
            if !loss.is_finite() || !grad_norm.is_finite() {
                bail!(
                    "the loss is not finite at step {} (loss {loss}, gradient norm {grad_norm}); \
                     lower --lr, or continue from the last checkpoint with --resume",
                    first + i as u64
                );
            }
            Ok(StepReport {
                loss,
                grad_norm,
                lr: queued.lr,
                overflow: false,
            })
        });
        reports.collect()
    }

    /// Names the first tensor with a value that is not finite.
    fn culprit(&self, grads: Tensor<B, 1>) -> String {
        let sources = [
            ("weights", host(self.state.weights.clone())),
            ("gradient", host(grads)),
        ];
        for (what, values) in sources {
            for entry in &self.entries {
                if values[entry.range()].iter().any(|x| !x.is_finite()) {
                    return format!("{what} of {}", entry.name);
                }
            }
        }
        "every weight and gradient is finite, only the loss is not".to_owned()
    }

    /// Scores dev with the weights and their average, and keeps the losses; returns whether the
    /// average is the one to deploy: the best so far, or simply the last where dev is trained on and
    /// nothing is left to choose by.
    pub fn evaluate(&mut self) -> bool {
        let loss = |weights| mean(&self.evaluator.nll(&self.shards, weights, &self.text.dev));
        let (dev_f32, dev_ema) = (loss(&self.state.weights), loss(&self.state.ema));
        let dev_deployed = if self.settings.quantize_aware > 0.0 {
            loss(&self.rounded(&self.state.ema))
        } else {
            dev_ema
        };
        self.record.dev_deployed = dev_deployed;
        self.record.dev_f32 = dev_f32;
        self.record.dev_ema = dev_ema;
        let best = self.settings.train_on_dev || dev_deployed < self.record.best_dev;
        if best {
            self.record.best_dev = dev_deployed;
            self.record.best_step = self.step;
        }
        best
    }

    /// Scores the deployed weights of a checkpoint of this run, rounded where the run knows its
    /// rounding; nats per transition.
    ///
    /// # Errors
    ///
    /// A checkpoint of another model.
    pub fn score(&self, from: &Checkpoint, tokens: &[u16]) -> Result<Vec<f32>> {
        let flat = flatten(&self.entries, from.deployed())?;
        let mut weights = optimizer::upload(flat, &self.device);
        if self.settings.quantize_aware > 0.0 {
            weights = self.rounded(&weights);
        }
        Ok(self.evaluator.nll(&self.shards, &weights, tokens))
    }
}

/// Adds the losses of the shards in their order.
fn sum<B: TrainBackend>(losses: Vec<Tensor<B, 1>>) -> f64 {
    losses
        .into_iter()
        .map(|loss| f64::from(host(loss)[0]))
        .sum()
}
