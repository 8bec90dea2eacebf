//! A run as a checkpoint, and back.

use anyhow::{Context, Result, bail};
use burn::tensor::Tensor;
use checkpoint::{Checkpoint, NamedTensor};

use super::{Record, Trainer};
use crate::backend::TrainBackend;
use crate::evaluation::host;
use crate::optimizer;
use crate::params::Entry;
use crate::precision::LossScale;

impl<B: TrainBackend> Trainer<B> {
    /// Returns everything that the run needs to go on; without `moments` only what export needs.
    #[must_use]
    pub fn to_checkpoint(&self, run: &str, moments: bool) -> Checkpoint {
        let named = |flat: &Tensor<B, 1>| self.named(&host(flat.clone()));
        let kept = |flat| if moments { named(flat) } else { Vec::new() };
        Checkpoint {
            config: self.settings.model,
            settings: self.settings.to_json(),
            corpus_name: self.text.name.clone(),
            corpus_sha256: self.text.sha256,
            vocab: self.text.vocab.as_bytes().to_vec(),
            run: run.to_owned(),
            step: self.step,
            seed: self.settings.seed,
            seconds: self.record.seconds,
            dev_f32: self.record.dev_f32,
            dev_ema: self.record.dev_ema,
            best_dev: self.record.best_dev,
            best_step: self.record.best_step,
            weights: named(&self.state.weights),
            ema: named(&self.state.ema),
            moment_1: kept(&self.state.moment_1),
            moment_2: kept(&self.state.moment_2),
            // every draw is a function of the first two
            rng: [self.settings.seed, self.step]
                .into_iter()
                .chain(self.loss_scale.map(LossScale::to_bits))
                .collect(),
        }
    }

    /// Continues where a checkpoint left off.
    ///
    /// # Errors
    ///
    /// A checkpoint of another model or without optimiser state.
    pub fn restore(&mut self, from: &Checkpoint) -> Result<()> {
        if from.moment_1.is_empty() {
            bail!("this checkpoint has no optimiser state; resume from the run's last.ckpt");
        }
        let load = |tensors: &[NamedTensor]| -> Result<Tensor<B, 1>> {
            let flat = flatten(&self.entries, tensors)?;
            Ok(optimizer::upload(flat, &self.device))
        };
        let (weights, ema) = (load(&from.weights)?, load(&from.ema)?);
        let (moment_1, moment_2) = (load(&from.moment_1)?, load(&from.moment_2)?);
        self.state.weights = weights;
        self.state.ema = ema;
        self.state.moment_1 = moment_1;
        self.state.moment_2 = moment_2;
        self.step = from.step;
        if self.loss_scale.is_some() {
            let kept = from.rng.get(2).and_then(|&bits| LossScale::from_bits(bits));
            self.loss_scale = Some(kept.unwrap_or_default());
        }
        self.record = Record {
            dev_f32: from.dev_f32,
            dev_ema: from.dev_ema,
            dev_deployed: f64::NAN,
            best_dev: from.best_dev,
            best_step: from.best_step,
            seconds: from.seconds,
        };
        Ok(())
    }

    /// Starts from the deployed weights of another run.
    ///
    /// # Errors
    ///
    /// A checkpoint of another model.
    pub fn start_from(&mut self, from: &Checkpoint) -> Result<()> {
        let flat = flatten(&self.entries, from.deployed())?;
        self.state.weights = optimizer::upload(flat, &self.device);
        self.state.ema = self.state.weights.clone();
        Ok(())
    }

    fn named(&self, flat: &[f32]) -> Vec<NamedTensor> {
        self.entries
            .iter()
            .map(|entry| NamedTensor {
                name: entry.name.clone(),
                shape: entry.shape.iter().map(|&len| len as u32).collect(),
                data: flat[entry.range()].to_vec(),
            })
            .collect()
    }
}

/// Lays a checkpoint's tensors out in the order of `entries`.
///
/// # Errors
///
/// A missing tensor or one of another shape.
pub fn flatten(entries: &[Entry], tensors: &[NamedTensor]) -> Result<Vec<f32>> {
    let mut flat = Vec::new();
    for entry in entries {
        let tensor = tensors
            .iter()
            .find(|tensor| tensor.name == entry.name)
            .with_context(|| format!("the checkpoint has no tensor {}", entry.name))?;
        if tensor.data.len() != entry.len() {
            bail!(
                "tensor {} has {} elements in the checkpoint; expected {} for shape {:?}",
                entry.name,
                tensor.data.len(),
                entry.len(),
                entry.shape
            );
        }
        flat.extend_from_slice(&tensor.data);
    }
    Ok(flat)
}
