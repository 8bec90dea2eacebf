//! The encoder-decoder on a task: settings, batches, evaluation.

use std::sync::Arc;

use anyhow::{Result, bail};
use block::Dropout;
use burn::tensor::Tensor;
use checkpoint::{LessonCheckpoint, Vocabulary};
use gpt::attention::{MAX_PROMPT, Maps};
use gpt::backend::TrainBackend;
use gpt::evaluation::host;
use gpt::rng::{self, Purpose};
use gpt::run::new_name;
use gpt::shards::Shards;
use serde::{Deserialize, Serialize};

use crate::decode;
use crate::edit::distance;
use crate::embedding::FIRST_CHAR;
use crate::layers::{NormOrder, Width};
use crate::learner::{Learner, Problem};
use crate::pairs::{PairBatch, decoded, encoded};
use crate::run;
use crate::seq2seq::{Seq2Seq, Shape, loss};
use crate::settings::{RECIPE_FIELDS, Recipe, check_heads};
use crate::task::{self, Pair, Task, TaskName};

/// Name of the model on the command line.
pub const MODEL: &str = "seq2seq";
/// Sign of the end of an answer in a drawing.
const END: &str = "∎";
/// Width of the beam in the last evaluation.
const BEAM: usize = 4;
/// Pairs that the beam is tried on.
const BEAM_PAIRS: usize = 200;
/// Pairs that are decoded at once.
const CHUNK: usize = 125;
/// Examples that an evaluation shows.
const SHOWN: usize = 3;

/// Settings of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What is learnt.
    pub task: TaskName,
    /// Layers of encoder and decoder, each.
    pub n_layer: usize,
    /// Heads.
    pub n_head: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Width of the feed-forward part.
    pub d_ff: usize,
    /// Where the norms stand: `post` or `pre`.
    pub norm: NormOrder,
    /// Length, optimiser and seed.
    #[serde(flatten)]
    pub recipe: Recipe,
}

/// Fields that the command line sets besides those of the recipe.
pub const FIELDS: &[(&str, &str)] = &[
    ("task", "reverse, add or restore"),
    ("n_layer", "Layers of encoder and decoder, each"),
    ("n_head", "Heads"),
    ("d_model", "Width of the residual stream"),
    ("d_ff", "Width of the feed-forward part"),
    ("norm", "post (the paper's) or pre"),
];

const SMALL: Settings = Settings {
    task: TaskName::Reverse,
    n_layer: 2,
    n_head: 4,
    d_model: 64,
    d_ff: 256,
    norm: NormOrder::Post,
    recipe: Recipe {
        batch: 64,
        shards: 2,
        steps: 2_000,
        lr: 2e-3,
        min_lr_ratio: 0.01,
        warmup: 200,
        weight_decay: 0.01,
        clip: 1.0,
        dropout: 0.0,
        ema_decay: 0.99,
        seed: 1,
        eval_every: 400,
    },
};

/// Named settings with a sentence.
pub const PRESETS: &[(&str, &str, Settings)] = &[
    (
        "small",
        "2 layers, 4 heads, 64, 256: minutes on two cores",
        SMALL,
    ),
    (
        "middle",
        "3 layers, 4 heads, 256, 1024",
        Settings {
            n_layer: 3,
            d_model: 256,
            d_ff: 1_024,
            recipe: Recipe {
                steps: 8_000,
                lr: 5e-4,
                warmup: 800,
                dropout: 0.1,
                ..SMALL.recipe
            },
            ..SMALL
        },
    ),
    (
        "full",
        "the paper's base: 6 layers, 8 heads, 512, 2048",
        Settings {
            n_layer: 6,
            n_head: 8,
            d_model: 512,
            d_ff: 2_048,
            recipe: Recipe {
                steps: 20_000,
                lr: 3e-4,
                warmup: 4_000,
                dropout: 0.1,
                ..SMALL.recipe
            },
            ..SMALL
        },
    ),
];

/// Trains, or goes on with a run.
///
/// # Errors
///
/// Settings, text or run that cannot be used, a loss that is not finite, a file that cannot be
/// written.
pub fn train<B: TrainBackend>(args: &run::Args, device: &B::Device) -> Result<()> {
    let from = args.from(MODEL)?;
    let settings = match &from {
        Some(from) => serde_json::from_str(&from.settings)?,
        None => settings(&args.preset, &args.overrides)?,
    };
    let (task, corpus) = task::create(settings.task, || args.corpus(from.as_ref()))?;
    if corpus.is_none() && args.data.is_some() {
        bail!("only --task restore reads a text; drop --data, or give it that task");
    }
    let blank = match &from {
        Some(from) => from.clone(),
        None => {
            let task = serde_json::to_string(&settings.task)?;
            let kind = format!("{MODEL}-{}", task.trim_matches('"'));
            let name = new_name(args.name.as_deref(), &kind)?;
            let blank = run::blank(MODEL, serde_json::to_string_pretty(&settings)?, name);
            match corpus {
                Some(corpus) => LessonCheckpoint {
                    corpus_name: corpus.name,
                    corpus_sha256: corpus.sha256,
                    ..blank
                },
                None => blank,
            }
        }
    };
    let recipe = settings.recipe.checked(task.max_len())?;
    let threads = args.threads_of(&recipe)?;
    let translator = Translator::new(settings, task)?;
    let mut learner = Learner::<B, _>::new(recipe, translator, threads, device)?;
    if let Some(from) = &from {
        learner.restore(from)?;
    }
    run::train(&mut learner, &blank, (args.workers, threads), device)
}

/// Returns a preset's settings with fields replaced.
///
/// # Errors
///
/// An unknown preset, an unknown field, a value that does not fit.
pub fn settings(preset: &str, overrides: &[(String, String)]) -> Result<Settings> {
    let Some((_, _, settings)) = PRESETS.iter().find(|(name, ..)| *name == preset) else {
        let names: Vec<_> = PRESETS.iter().map(|(name, ..)| *name).collect();
        bail!(
            "there is no preset {preset:?} of seq2seq; the presets are {}",
            names.join(", ")
        );
    };
    gpt::settings::replaced(settings, &[FIELDS, RECIPE_FIELDS], overrides)
}

/// The encoder-decoder on a task.
#[derive(Clone, Debug)]
pub struct Translator {
    shape: Shape,
    task: Arc<dyn Task>,
    vocab: Vocabulary,
    batch: usize,
    key: u64,
    dev: Vec<Pair>,
    val: Vec<Pair>,
}

impl Translator {
    /// Creates the problem.
    ///
    /// # Errors
    ///
    /// A shape that makes no model.
    pub fn new(settings: Settings, task: Box<dyn Task>) -> Result<Self> {
        check_heads(settings.d_model, settings.n_head)?;
        if settings.n_layer == 0 || settings.d_ff == 0 {
            bail!("n_layer and d_ff must be at least 1");
        }
        let vocab = Vocabulary::of_chars(&task.chars());
        Ok(Self {
            shape: Shape {
                n_layer: settings.n_layer,
                width: Width {
                    d_model: settings.d_model,
                    n_head: settings.n_head,
                    d_ff: settings.d_ff,
                },
                vocab_size: vocab.len() + FIRST_CHAR as usize,
                norm: settings.norm,
            },
            batch: settings.recipe.batch,
            key: rng::key(settings.recipe.seed, Purpose::Order, 0),
            dev: task.dev(),
            val: task.val(),
            task: task.into(),
            vocab,
        })
    }

    fn tokens(&self, pairs: &[Pair]) -> PairBatch {
        PairBatch::new(pairs, &self.vocab).expect("a task names all its characters")
    }

    fn source(&self, pair: &Pair) -> Vec<i32> {
        encoded(&pair.source, &self.vocab).expect("a task names all its characters")
    }

    /// Returns the mean loss of the pairs, nats per token.
    fn loss_of<B: TrainBackend>(
        &self,
        model: &Seq2Seq<B>,
        pairs: &[Pair],
        shards: &Shards,
        device: &B::Device,
    ) -> f64 {
        let chunks: Vec<&[Pair]> = pairs.chunks(CHUNK).collect();
        let parts = shards.map(chunks.len(), |chunk| {
            let batch = self.tokens(chunks[chunk]);
            let rows = 0..chunks[chunk].len();
            let sum = loss(
                logits(model, &batch, rows.clone(), None, device),
                batch.targets.tensor(rows, device),
            );
            (f64::from(host(sum)[0]), batch.n_target())
        });
        let (sums, counts): (Vec<f64>, Vec<usize>) = parts.into_iter().unzip();
        sums.into_iter().sum::<f64>() / counts.into_iter().sum::<usize>() as f64
    }

    fn greedy<B: TrainBackend>(
        &self,
        model: &Seq2Seq<B>,
        pairs: &[Pair],
        shards: &Shards,
        device: &B::Device,
    ) -> Vec<String> {
        let sources: Vec<Vec<i32>> = pairs.iter().map(|pair| self.source(pair)).collect();
        let chunks: Vec<&[Vec<i32>]> = sources.chunks(CHUNK).collect();
        let targets = shards.map(chunks.len(), |chunk| {
            decode::greedy(model, chunks[chunk], self.task.max_len() + 1, device)
        });
        let targets = targets.iter().flatten();
        targets.map(|target| decoded(target, &self.vocab)).collect()
    }
}

fn logits<B: burn::tensor::backend::Backend>(
    model: &Seq2Seq<B>,
    batch: &PairBatch,
    rows: core::ops::Range<usize>,
    dropout: Option<Dropout>,
    device: &B::Device,
) -> Tensor<B, 3> {
    let sources = batch.sources.tensor(rows.clone(), device);
    let memory = model.encode(sources, &batch.sources.lengths[rows.clone()], dropout);
    let inputs = batch.inputs.tensor(rows.clone(), device);
    model.decode(inputs, &batch.inputs.lengths[rows], &memory, dropout)
}

/// Share of exact matches, and character error rate: edits per character of the targets.
fn accuracy(pairs: &[Pair], answers: &[String]) -> (f64, f64) {
    let exact = pairs
        .iter()
        .zip(answers)
        .filter(|(pair, answer)| pair.target == **answer);
    let edits: usize = pairs
        .iter()
        .zip(answers)
        .map(|(pair, answer)| distance(&pair.target, answer))
        .sum();
    let chars: usize = pairs.iter().map(|pair| pair.target.chars().count()).sum();
    (
        exact.count() as f64 / pairs.len() as f64,
        edits as f64 / chars as f64,
    )
}

impl<B: TrainBackend> Problem<B> for Translator {
    type Model = Seq2Seq<B::Train>;
    type Plain = Seq2Seq<B>;
    type Batch = PairBatch;

    fn model(&self, device: &B::Device) -> Self::Model {
        Seq2Seq::new(&self.shape, device)
    }

    fn plain(&self, device: &B::Device) -> Self::Plain {
        Seq2Seq::new(&self.shape, device)
    }

    fn batch(&mut self, step: u64) -> PairBatch {
        let first = step * self.batch as u64;
        let pairs: Vec<Pair> = (first..first + self.batch as u64)
            .map(|i| self.task.train(self.key, i))
            .collect();
        self.tokens(&pairs)
    }

    fn loss(
        &self,
        model: &Self::Model,
        batch: &PairBatch,
        rows: core::ops::Range<usize>,
        dropout: Option<Dropout>,
        device: &B::Device,
    ) -> Tensor<B::Train, 1> {
        let logits = logits(model, batch, rows.clone(), dropout, device);
        loss(logits, batch.targets.tensor(rows, device)) / batch.n_target() as f32
    }

    fn evaluate(&self, model: &Self::Plain, shards: &Shards, device: &B::Device) -> (f64, String) {
        // decoding is slower than scoring: a part says enough while training
        let pairs = &self.dev[..self.dev.len().min(2 * CHUNK)];
        let answers = self.greedy(model, pairs, shards, device);
        let (exact, errors) = accuracy(pairs, &answers);
        let mut text = format!(
            "dev: {:.1} % exact, {:.2} % character errors",
            100.0 * exact,
            100.0 * errors
        );
        for (pair, answer) in pairs.iter().zip(&answers).take(SHOWN) {
            text += &format!("\n{} -> {answer}", pair.source);
        }
        (self.loss_of(model, &self.dev, shards, device), text)
    }

    fn conclude(&self, model: &Self::Plain, shards: &Shards, device: &B::Device) -> String {
        let answers = self.greedy(model, &self.val, shards, device);
        let (exact, errors) = accuracy(&self.val, &answers);
        let copies: Vec<String> = self.val.iter().map(|pair| pair.source.clone()).collect();
        let (_, copied) = accuracy(&self.val, &copies);
        let few = &self.val[..self.val.len().min(BEAM_PAIRS)];
        let beamed: Vec<String> = shards.map(few.len(), |i| {
            let source = self.source(&few[i]);
            let max_len = self.task.max_len() + 1;
            let target = decode::beam(model, &source, BEAM, max_len, device);
            decoded(&target, &self.vocab)
        });
        let (beam_exact, beam_errors) = accuracy(few, &beamed);
        let (few_exact, few_errors) = accuracy(few, &answers[..few.len()]);
        let mut text = String::new();
        for (pair, answer) in self.val.iter().zip(&answers).take(10) {
            text += &format!("{} -> {answer}\n", pair.source);
        }
        text += &format!(
            "val: {:.2} % of {} strings exact, {:.2} % character errors (copying the source: \
                 {:.2} %), {:.4} nats per token",
            100.0 * exact,
            self.val.len(),
            100.0 * errors,
            100.0 * copied,
            self.loss_of(model, &self.val, shards, device)
        );
        text += &format!(
            "\nfirst {} of them: greedy {:.1} % exact, {:.2} % errors; beam of {BEAM} {:.1} % \
                 exact, {:.2} % errors",
            few.len(),
            100.0 * few_exact,
            100.0 * few_errors,
            100.0 * beam_exact,
            100.0 * beam_errors
        );
        text
    }

    fn look(&self, model: &Self::Plain, device: &B::Device) -> Option<Maps> {
        let short = |text: &String| (1..MAX_PROMPT).contains(&text.chars().count());
        let mut val = self.val.iter();
        let pair = val.find(|pair| short(&pair.source) && short(&pair.target))?;
        let batch = self.tokens(std::slice::from_ref(pair));
        let sources = batch.sources.tensor(0..1, device);
        let memory = model.encode(sources, &batch.sources.lengths, None);
        let inputs = batch.inputs.tensor(0..1, device);
        let layers = model.look(inputs, &batch.inputs.lengths, &memory);
        let each = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        Some(Maps {
            queries: [each(&pair.target), vec![END.to_owned()]].concat(),
            keys: each(&pair.source),
            layers: layers
                .into_iter()
                .map(|shares| {
                    let [_, n_head, queries, keys] = shares.dims();
                    let flat = host(shares.reshape([n_head * queries * keys]));
                    let heads = flat.chunks(queries * keys);
                    heads.map(<[f32]>::to_vec).collect()
                })
                .collect(),
        })
    }
}
