//! A run of any model of the lesson, from its first line to its last sentence.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Error, Result, anyhow, bail};
use checkpoint::{Corpus, LessonCheckpoint, runs};
use gpt::attention;
use gpt::backend::TrainBackend;
use gpt::metrics::{self, Line, Metrics};
use gpt::peers::threads::Team;
use gpt::peers::{self, Lost};
use gpt::progress::Progress;
use gpt::run::{LINES, SAVE_EVERY, indented, interruption, run_dir, threads};
use gpt::say;
use gpt::settings::Settings;

use crate::learner::{Learner, Problem};
use crate::report;

/// Returns the last checkpoint of the run that is asked for; empty is the newest of the model.
fn resumed(model: &str, run: &str) -> Result<LessonCheckpoint> {
    let dir = if run.is_empty() {
        let newest = runs::holding(&[runs::LESSON_LAST]).into_iter();
        let mut of_model = newest.filter(|dir| {
            LessonCheckpoint::load(&dir.join(runs::LESSON_LAST))
                .is_ok_and(|from| from.model == model)
        });
        of_model.next().with_context(|| {
            format!(
                "there is no run of {model} under {}; train one with `cargo run --release -p \
                 trainer -- {model}`",
                runs::root().display()
            )
        })?
    } else {
        run_dir(Some(run))?
    };
    let last = dir.join(runs::LESSON_LAST);
    if !last.is_file() {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        if runs::best_checkpoint(&dir).is_ok() {
            bail!(
                "{} is a run of a GPT, not of {model}; continue it with `trainer --resume {name}`",
                dir.display()
            );
        }
        bail!(
            "{} has no {}; expected the whole folder of a run of {model}",
            dir.display(),
            runs::LESSON_LAST
        );
    }
    let from = LessonCheckpoint::load(&last)?;
    if from.model != model {
        bail!(
            "{} is a run of {}; continue it with `trainer {} --resume {}`",
            dir.display(),
            from.model,
            from.model,
            from.run
        );
    }
    Ok(from)
}

/// What training a model of the lesson was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// Preset, where the model has some.
    pub preset: String,
    /// Fields set on the command line, in order.
    pub overrides: Vec<(String, String)>,
    /// Text; `None` is tiny Shakespeare.
    pub data: Option<PathBuf>,
    /// Run to continue; empty is the newest.
    pub resume: Option<String>,
    /// Name of the run.
    pub name: Option<String>,
    /// Threads; `None` is all cores.
    pub threads: Option<usize>,
    /// Workers, each with its share of the threads.
    pub workers: usize,
}

impl Args {
    /// Returns the checkpoint to go on from, if one is asked for.
    ///
    /// # Errors
    ///
    /// No such run, or settings beside `--resume`.
    pub fn from(&self, model: &str) -> Result<Option<LessonCheckpoint>> {
        let Some(run) = &self.resume else {
            return Ok(None);
        };
        if let Some((field, _)) = self.overrides.first() {
            bail!(
                "--resume continues with the settings of the run; drop --{}",
                gpt::settings::flag(field)
            );
        }
        resumed(model, run).map(Some)
    }

    /// Returns the text: the one asked for, and with a run that goes on the run's own.
    ///
    /// # Errors
    ///
    /// A text that cannot be read or that has changed.
    pub fn corpus(&self, from: Option<&LessonCheckpoint>) -> Result<Corpus> {
        let data = self.data.as_deref();
        match from {
            Some(from) => Ok(Corpus::of_run(
                data,
                &from.corpus_name,
                &from.corpus_sha256,
            )?),
            None => gpt::run::corpus(data),
        }
    }
}

impl Args {
    /// Returns the threads of each worker, before the run has a folder.
    ///
    /// # Errors
    ///
    /// Shards that cannot be divided among the workers.
    pub fn threads_of(&self, settings: &Settings) -> Result<usize> {
        peers::check(settings.shards, self.workers)?;
        Ok((threads(self.threads) / self.workers).max(1))
    }
}

/// Returns a checkpoint of step 0 without tensors and without a text.
#[must_use]
pub fn blank(model: &str, settings: String, run: String) -> LessonCheckpoint {
    LessonCheckpoint {
        model: model.to_owned(),
        settings,
        corpus_name: String::new(),
        corpus_sha256: [0; 32],
        run,
        step: 0,
        seconds: 0.0,
        best_dev: f64::INFINITY,
        best_step: 0,
        weights: Vec::new(),
        ema: Vec::new(),
        moment_1: Vec::new(),
        moment_2: Vec::new(),
    }
}

/// Trains to the end, or to an interruption; `blank` is the checkpoint without tensors. The steps are taken by
/// so many workers, each on so many threads.
///
/// # Errors
///
/// A loss that is not finite, a worker that is gone, or a file that cannot be written.
pub fn train<B: TrainBackend, P: Problem<B>>(
    learner: &mut Learner<B, P>,
    blank: &LessonCheckpoint,
    (workers, threads): (usize, usize),
    device: &B::Device,
) -> Result<()> {
    let dir = runs::dir(&blank.run)?;
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    std::fs::write(dir.join(runs::CONFIG), format!("{}\n", blank.settings))
        .with_context(|| format!("cannot write to {}", dir.display()))?;
    say!(
        "model: {}, {} parameters\nrun: {}, step {} of {}",
        blank.model,
        learner.n_params(),
        blank.run,
        learner.step,
        learner.settings.steps
    );
    if learner.step >= learner.settings.steps {
        say!("finished: nothing is left to train; report and samples are written again");
    }
    let mut team = None;
    if workers > 1 && learner.step < learner.settings.steps {
        let own = learner.settings.shards / workers;
        say!("workers: {workers} threads, {own} shards each");
        team = Some(Team::start(
            learner,
            workers,
            threads,
            std::slice::from_ref(device),
        )?);
    }
    let whole = steps(learner, blank, &dir, &interruption())?;
    if let Some(member) = learner.member.take() {
        member.end();
    }
    drop(team);
    if !whole {
        say!(
            "stopped at step {} of {}; continue with\n  cargo run --release -p trainer -- {} --resume {}",
            learner.step,
            learner.settings.steps,
            blank.model,
            blank.run
        );
        return Ok(());
    }
    let best = LessonCheckpoint::load(&dir.join(runs::LESSON_BEST))?;
    let text = learner.conclude(&best)?;
    say!("{text}");
    let maps = learner.look(&best)?;
    report::write(&dir, &best, &metrics::read(&dir)?, &text, maps.as_ref())?;
    if let Some(maps) = &maps {
        std::fs::write(dir.join(attention::FILE), maps.to_svg())
            .with_context(|| format!("cannot write to {}", dir.display()))?;
    }
    std::fs::write(dir.join(runs::SAMPLES), text + "\n")
        .with_context(|| format!("cannot write to {}", dir.display()))?;
    say!(
        "trained {:.0} s; averaged weights of step {}, best on dev; report: {}",
        learner.seconds,
        best.step,
        dir.join(gpt::report::FILE).display()
    );
    Ok(())
}

/// Takes the remaining steps; returns whether the end was reached.
fn steps<B: TrainBackend, P: Problem<B>>(
    learner: &mut Learner<B, P>,
    blank: &LessonCheckpoint,
    dir: &Path,
    stop: &AtomicBool,
) -> Result<bool> {
    let settings = learner.settings;
    let line_every = (settings.steps / LINES).max(1);
    let mut metrics = Metrics::open(dir, learner.step)?;
    let per_step = settings.batch * settings.train_len;
    let mut progress = Progress::new(learner.step, settings.steps, per_step);
    let mut saved = Instant::now();
    let (mut since, mut loss_sum, mut count) = (Instant::now(), 0.0, 0_u32);
    while learner.step < settings.steps {
        let started = Instant::now();
        let report = match learner.step() {
            Ok(report) => report,
            Err(error) => return Err(kept(learner, blank, dir, error)),
        };
        learner.seconds += started.elapsed().as_secs_f64();
        loss_sum += report.loss;
        count += 1;
        let last = learner.step == settings.steps;
        let eval = last || learner.step.is_multiple_of(settings.eval_every);
        if eval || learner.step.is_multiple_of(line_every) {
            let speed = per_step as f64 * f64::from(count) / since.elapsed().as_secs_f64();
            let mut line = Line {
                step: learner.step,
                train: loss_sum / f64::from(count),
                lr: report.lr,
                grad_norm: report.grad_norm,
                tokens_per_s: speed,
                seconds: learner.seconds,
                dev_f32: None,
                dev_ema: None,
            };
            if eval {
                let (loss, text, best) = learner.evaluate();
                line.dev_ema = Some(loss);
                if best {
                    let path = dir.join(runs::LESSON_BEST);
                    learner.to_checkpoint(blank, false).save(&path)?;
                }
                progress.say(&format!(
                    "step {}  train {:.4}  dev {loss:.4}{}\n{}",
                    line.step,
                    line.train,
                    if best { " (kept)" } else { "" },
                    indented(&text)
                ));
            }
            metrics.push(line)?;
            if eval {
                metrics.draw()?;
            }
            (since, loss_sum, count) = (Instant::now(), 0.0, 0);
        }
        progress.update(learner.step, report.loss);
        let stopping = stop.load(Ordering::SeqCst);
        if last || stopping || saved.elapsed() >= SAVE_EVERY {
            let path = dir.join(runs::LESSON_LAST);
            learner.to_checkpoint(blank, true).save(&path)?;
            saved = Instant::now();
        }
        if stopping && !last {
            progress.finish();
            return Ok(false);
        }
    }
    progress.finish();
    Ok(true)
}

/// Saves the run if the error is a lost worker: the weights are those of the last whole step.
fn kept<B: TrainBackend, P: Problem<B>>(
    learner: &Learner<B, P>,
    blank: &LessonCheckpoint,
    dir: &Path,
    error: Error,
) -> Error {
    if !error.is::<Lost>() {
        return error;
    }
    let last = learner.to_checkpoint(blank, true);
    match last.save(&dir.join(runs::LESSON_LAST)) {
        Ok(()) => anyhow!(
            "{error}\nthe run is saved at step {} of {}; continue with\n  cargo run --release -p \
             trainer -- {} --resume {}",
            learner.step,
            learner.settings.steps,
            blank.model,
            blank.run
        ),
        Err(other) => anyhow!("{error}\nand the run cannot be saved: {other}"),
    }
}
