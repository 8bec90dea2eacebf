//! Two studies: recurrent networks beside the Transformer, and what each warning of the texts costs.
//!
//! A study takes long, so each model that is done is kept: the same command with the same name goes
//! on with the next one.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use checkpoint::runs;
use gpt::backend::TrainBackend;
use gpt::settings::Settings;
use gpt::training::{Text, Trainer};
use gpt::{presets, say};
use serde::{Deserialize, Serialize};

use crate::ablation::{Ablation, SmallGpt};
use crate::char_lm::CharLm;
use crate::curve::{Curve, draw};
use crate::layers::Width;
use crate::learner::Learner;
use crate::rnn::{Cell, RnnShape};

/// What a study was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// Steps of every model; `None` is the study's own number.
    pub steps: Option<u64>,
    /// Text; `None` is tiny Shakespeare.
    pub data: Option<PathBuf>,
    /// Name of the folder under the runs.
    pub name: Option<String>,
    /// Threads; `None` is all cores.
    pub threads: Option<usize>,
}

/// Table of a study.
pub const TABLE: &str = "table.md";
/// Plot of a study.
pub const CURVES: &str = "curves.svg";
/// Characters of a sample in a table.
const SHOWN: usize = 60;

/// Models that are done, a line each, behind a line that says of which study.
pub const FINISHED: &str = "finished.jsonl";

/// What the models of a study have in common; those of another cannot stand beside them.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Terms {
    study: String,
    steps: u64,
    corpus: String,
}

/// What a study keeps of a model.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Finished {
    curve: Curve,
    /// Loss when writing and a sample, where the study asks for them.
    wrote: Option<(f64, String)>,
}

struct Bench {
    settings: Settings,
    text: Text,
    threads: usize,
    dir: PathBuf,
    finished: Vec<Finished>,
}

impl Bench {
    fn new(args: &Args, study: &str, steps: u64) -> Result<Self> {
        let mut settings = presets::find("lesson")?.settings;
        settings.steps = args.steps.unwrap_or(steps);
        settings.warmup = settings.warmup.min(settings.steps / 10);
        let corpus = gpt::run::corpus(args.data.as_deref())?;
        let dir = runs::dir(&gpt::run::new_name(args.name.as_deref(), study)?)?;
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let terms = Terms {
            study: study.to_owned(),
            steps: settings.steps,
            corpus: corpus.sha256.map(|byte| format!("{byte:02x}")).concat(),
        };
        let bench = Self {
            text: Text::new(&corpus, settings.train_len, false)?,
            threads: gpt::run::threads(args.threads),
            settings,
            finished: Vec::new(),
            dir,
        };
        bench.opened(&terms)
    }

    /// Takes over the models that are done, or starts the file of them.
    fn opened(mut self, terms: &Terms) -> Result<Self> {
        let path = self.dir.join(FINISHED);
        if !path.exists() {
            self.keep(terms)?;
            return Ok(self);
        }
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let spoilt = || format!("{} is no list of models; remove it", path.display());
        let mut lines = text.lines();
        let of: Terms =
            serde_json::from_str(lines.next().unwrap_or_default()).with_context(spoilt)?;
        if of != *terms {
            bail!(
                "{} holds {} of {} steps on another text or with other settings than asked for; \
                 choose another --name, or the same settings",
                self.dir.display(),
                of.study,
                of.steps
            );
        }
        self.finished = lines
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .with_context(spoilt)?;
        Ok(self)
    }

    fn keep(&self, line: &impl Serialize) -> Result<()> {
        let path = self.dir.join(FINISHED);
        let mut line = serde_json::to_string(line)?;
        line.push('\n');
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns what is kept of a model, or trains it and keeps that.
    fn once(&self, name: &str, train: impl FnOnce() -> Result<Finished>) -> Result<Finished> {
        let known = self.finished.iter().find(|known| known.curve.name == name);
        if let Some(known) = known {
            say!("{name:14} is done, dev {:.4}", known.curve.end().dev);
            return Ok(known.clone());
        }
        let finished = train()?;
        self.keep(&finished)?;
        Ok(finished)
    }

    fn write(&self, curves: &[Curve], table: &str) -> Result<()> {
        draw(&self.dir.join(CURVES), curves)?;
        let path = self.dir.join(TABLE);
        std::fs::write(&path, table).with_context(|| format!("cannot write {}", path.display()))?;
        say!("\n{table}\ntable and plot lie in {}", self.dir.display());
        Ok(())
    }
}

/// Trains `lesson` and a recurrent network of each kind with as many parameters, on the same
/// batches in the same order.
///
/// # Errors
///
/// A text that cannot be used, or a file that cannot be written.
pub fn recurrent<B: TrainBackend>(args: &Args, device: &B::Device) -> Result<()> {
    let bench = Bench::new(args, "study-rnn", 8_000)?;
    let settings = bench.settings;
    let steps = settings.steps;
    let of_lesson = bench.once("lesson", || {
        let mut lesson = Trainer::<B>::new(settings, bench.text.clone(), bench.threads, device)?;
        Ok(Finished {
            curve: Curve::record("lesson", &mut lesson, steps)?,
            wrote: None,
        })
    })?;
    let mut curves = vec![of_lesson.curve];
    for cell in [Cell::Rnn, Cell::Gru, Cell::Lstm] {
        let shape = RnnShape::of_size(cell, bench.text.vocab.len(), curves[0].n_params);
        let name = format!("{cell:?} {}", shape.d_hidden).to_lowercase();
        let finished = bench.once(&name, || {
            let problem = CharLm::new(shape, bench.text.clone(), &settings)?;
            let mut learner = Learner::<B, _>::new(settings, problem, bench.threads, device)?;
            Ok(Finished {
                curve: Curve::record(&name, &mut learner, steps)?,
                wrote: None,
            })
        })?;
        curves.push(finished.curve);
    }
    let shortest = curves
        .iter()
        .map(|curve| curve.end().seconds)
        .fold(f64::INFINITY, f64::min);
    let mut table = format!(
        "{steps} steps of {} characters, learning rate {}; nats per character, averaged weights\n\n\
         | model | parameters | dev | val | training, CPU-s | dev after {shortest:.0} CPU-s |\n\
         |---|---|---|---|---|---|\n",
        settings.batch * settings.train_len,
        settings.lr
    );
    for curve in &curves {
        table += &format!(
            "| {} | {} | {:.4} | {} | {:.0} | {} |\n",
            curve.name,
            curve.n_params,
            curve.end().dev,
            curve.val.map_or("-".to_owned(), |val| format!("{val:.4}")),
            curve.end().seconds,
            match curve.dev_after(shortest) {
                dev if dev.is_nan() => "not yet scored".to_owned(),
                dev => format!("{dev:.4}"),
            }
        );
    }
    bench.write(&curves, &table)
}

/// Trains a small GPT with each ablation in turn.
///
/// # Errors
///
/// A text that cannot be used, or a file that cannot be written.
pub fn ablations<B: TrainBackend>(args: &Args, device: &B::Device) -> Result<()> {
    let bench = Bench::new(args, "study-ablation", 500)?;
    let mut table = format!(
        "{} steps of {} characters; nats per character, averaged weights\n\n\
         | ablation | train | dev | when writing | it writes |\n|---|---|---|---|---|\n",
        bench.settings.steps,
        bench.settings.batch * bench.settings.train_len
    );
    let mut curves = Vec::new();
    for ablation in Ablation::ALL {
        let settings = ablation.settings(bench.settings);
        let family = SmallGpt {
            n_layer: 4,
            width: Width {
                d_model: 64,
                n_head: 4,
                d_ff: 256,
            },
            vocab_size: bench.text.vocab.len(),
            ablation,
        };
        let finished = bench.once(ablation.name(), || {
            let problem = CharLm::new(family, bench.text.clone(), &settings)?;
            let mut learner = Learner::<B, _>::new(settings, problem, bench.threads, device)?;
            let curve = Curve::record(ablation.name(), &mut learner, settings.steps)?;
            let wrote = learner.scored(|problem, net, shards, device| {
                let sample = shards.serial(|| problem.sample::<B>(net, 0.8, SHOWN, device));
                (problem.written::<B>(net, shards, device), sample)
            });
            Ok(Finished {
                curve,
                wrote: Some(wrote),
            })
        })?;
        let curve = finished.curve;
        let (written, sample) = finished.wrote.unwrap_or((f64::NAN, String::new()));
        table += &format!(
            "| {} | {:.4} | {:.4} | {written:.4} | `{}` |\n",
            curve.name,
            curve.end().train,
            curve.end().dev,
            sample.replace(['\n', '|', '`'], " ")
        );
        curves.push(curve);
    }
    bench.write(&curves, &table)
}
