//! Distillation: what larger models expect at every place of the training text.
//!
//! A small model learns more from a whole distribution than from the one character that came
//! (Hinton, Vinyals, Dean, "Distilling the Knowledge in a Neural Network"). The mean of the
//! teachers' distributions is computed once, before the first step, and kept in the run's folder,
//! so that a continued run needs no teacher.

use anyhow::{Context, Result, bail};
use burn::tensor::Tensor;
use checkpoint::{Checkpoint, SoftTargets};

use crate::backend::TrainBackend;
use crate::evaluation::Evaluator;
use crate::optimizer;
use crate::params::{self, Entry};
use crate::settings::Settings;
use crate::shards::Shards;
use crate::training::{Text, flatten};

/// Places whose whole distributions are held at once.
const CHUNK: usize = 16_384;
/// Windows in one forward pass.
const WINDOWS: usize = 16;

/// A trained model that is asked for its distributions.
struct Teacher<B: TrainBackend> {
    evaluator: Evaluator<B>,
    weights: Tensor<B, 1>,
    context_len: usize,
}

impl<B: TrainBackend> Teacher<B> {
    fn new(from: &Checkpoint, device: &B::Device) -> Result<Self> {
        let skeleton = crate::model::Gpt::<B>::zeroed(&from.config, device);
        let entries: Vec<Entry> = params::entries(&skeleton);
        let flat = flatten(&entries, from.deployed())?;
        Ok(Self {
            evaluator: Evaluator::new(from.config, device),
            weights: optimizer::upload(flat, device),
            context_len: from.config.context_len.into(),
        })
    }

    /// Returns the distributions after each of `places`, `[places, vocab_size]`: windows of
    /// `context_len`, of which only the second half counts, except at the start of the text.
    fn probs(&self, shards: &Shards, text: &[u16], places: core::ops::Range<usize>) -> Vec<f32> {
        let half = (self.context_len / 2).max(1);
        let blocks: Vec<(usize, usize)> = places
            .clone()
            .step_by(half)
            .map(|start| (start, places.end.min(start + half)))
            .collect();
        // windows of one length go through together
        let (short, whole): (Vec<_>, Vec<_>) = blocks
            .into_iter()
            .partition(|&(_, end)| end < self.context_len);
        let mut groups: Vec<&[(usize, usize)]> = short.chunks(1).collect();
        groups.extend(whole.chunks(WINDOWS));
        let parts = shards.map(groups.len(), |group| {
            let group = groups[group];
            let len = self.context_len.min(group[0].1);
            let tokens: Vec<i32> = group
                .iter()
                .flat_map(|&(_, end)| &text[end - len..end])
                .map(|&token| i32::from(token))
                .collect();
            let probs = self
                .evaluator
                .probs(&self.weights, tokens, [group.len(), len]);
            let row = probs.len() / group.len();
            let vocab_size = row / len;
            let wanted = group.iter().enumerate().flat_map(|(i, &(start, end))| {
                &probs[(i + 1) * row - (end - start) * vocab_size..(i + 1) * row]
            });
            wanted.copied().collect::<Vec<f32>>()
        });
        parts.concat()
    }
}

/// Computes the mean of the teachers' distributions over the training text of a run.
///
/// # Errors
///
/// A teacher of another vocabulary, or one that has trained on text that the run holds out.
pub fn soft_targets<B: TrainBackend>(
    teachers: &[Checkpoint],
    text: &Text,
    settings: &Settings,
    shards: &Shards,
    device: &B::Device,
) -> Result<SoftTargets> {
    for teacher in teachers {
        check(teacher, text, settings)?;
    }
    let loaded = teachers
        .iter()
        .map(|teacher| Teacher::<B>::new(teacher, device))
        .collect::<Result<Vec<_>>>()?;
    let mut soft = SoftTargets::new(&text.train, text.vocab.len());
    let places = text.train.len() - 1;
    for start in (0..places).step_by(CHUNK) {
        let chunk = start..places.min(start + CHUNK);
        let mut mean = vec![0.0; chunk.len() * text.vocab.len()];
        for teacher in &loaded {
            let probs = teacher.probs(shards, &text.train, chunk.clone());
            mean.iter_mut()
                .zip(&probs)
                .for_each(|(mean, p)| *mean += p / loaded.len() as f32);
        }
        for row in mean.chunks_exact(text.vocab.len()) {
            soft.push(row);
        }
    }
    Ok(soft)
}

/// Checks that a run may learn from a teacher.
///
/// # Errors
///
/// A teacher of another vocabulary, or one that has trained on text that the run holds out.
pub fn check(teacher: &Checkpoint, text: &Text, settings: &Settings) -> Result<()> {
    let run = &teacher.run;
    if teacher.vocab != text.vocab.as_bytes() {
        bail!(
            "teacher {run} knows {} tokens, the text has {}; a teacher must have the same \
             vocabulary, so train it on the same text",
            teacher.config.vocab_size,
            text.vocab.len()
        );
    }
    let of_teacher = Settings::from_json(&teacher.settings)
        .with_context(|| format!("teacher {run} has settings that cannot be read"))?;
    if of_teacher.train_on_dev && !settings.train_on_dev {
        bail!(
            "teacher {run} has trained on dev, which this run holds out to choose by; take another \
             teacher, or --train-on-dev true"
        );
    }
    Ok(())
}
