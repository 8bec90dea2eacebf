//! A training run from the command line to its last sentence.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use checkpoint::{Checkpoint, Corpus, runs, score};

use crate::backend::TrainBackend;
use crate::evaluation::mean;
use crate::metrics::{Line, Metrics};
use crate::precision::Precision;
use crate::progress::Progress;
use crate::request::SampleArgs;
use crate::settings::Settings;
use crate::training::Trainer;
use crate::{memory, metrics, needs, paper, report, sample};

mod folder;
mod plan;
mod workers;

pub(crate) use folder::trained;
pub use folder::{deployed, run_dir};
use plan::Start;
pub use plan::{Plan, new_name};
pub use workers::{Workers, join};

/// Longest time between two saves of the last checkpoint.
pub const SAVE_EVERY: Duration = Duration::from_secs(30);
/// Lines of metrics in a run.
pub const LINES: u64 = 200;
/// Fewer characters per parameter than this overfit; a text of that size is learnt by heart.
const CHARS_PER_PARAM: u64 = 20;

/// Bytes per character that the distributions of teachers take.
const SOFT_BYTES: u64 = 3 * checkpoint::soft::TOP as u64;

/// Returns the number of threads that is asked for, or all cores.
#[must_use]
pub fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into))
}

/// Reads the text that is asked for, and says what was normalised.
///
/// # Errors
///
/// A text that cannot be read.
pub fn corpus(data: Option<&Path>) -> Result<Corpus> {
    Ok(noted(match data {
        Some(path) => Corpus::from_file(path)?,
        None => Corpus::tiny_shakespeare()?,
    }))
}

/// Says what was normalised in a text.
fn noted(corpus: Corpus) -> Corpus {
    for note in &corpus.notes {
        crate::say!("text: {note}");
    }
    corpus
}

/// Checks that the device computes in the number format that is asked for.
fn supported<B: TrainBackend>(settings: &Settings) -> Result<()> {
    if settings.precision != Precision::F32 && !B::GPU {
        bail!("half precision is for a GPU (--device cuda); use --precision f32");
    }
    Ok(())
}

/// Trains on the first of the devices, and with several threads on the others too, from the plan to
/// the last sentence.
///
/// # Errors
///
/// A loss that is not finite, a worker that is gone, or a file that cannot be written.
///
/// # Panics
///
/// If there is no device.
pub fn train<B: TrainBackend>(plan: Plan, devices: &[B::Device]) -> Result<()> {
    supported::<B>(&plan.settings)?;
    let threads = plan.workers.threads(plan.threads);
    let dir = runs::dir(&plan.name)?;
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut trainer = Trainer::<B>::new(plan.settings, plan.text, threads, &devices[0])?;
    match &plan.start {
        Start::Rule => {}
        Start::Run(from) => trainer.start_from(from)?,
        Start::Itself(from) => trainer.restore(from)?,
    }
    let settings = trainer.settings;
    std::fs::write(dir.join(runs::CONFIG), settings.to_json() + "\n")
        .with_context(|| format!("cannot write to {}", dir.display()))?;
    if let Some(origin) = &plan.origin {
        origin
            .save(&dir)
            .with_context(|| format!("cannot write to {}", dir.display()))?;
    }
    introduce(&trainer, &plan.name, plan.threads, plan.teachers.len());
    for teacher in &plan.teachers {
        crate::say!("teacher: {}, {:.4} on dev", teacher.run, teacher.best_dev);
    }
    trainer.learn_from(&plan.teachers, &dir.join(runs::TEACHER))?;
    if let Start::Run(from) = &plan.start {
        // what is kept is never worse than what the run started from
        trainer.evaluate();
        let dev = trainer.record.dev_deployed;
        crate::say!("start: the weights of run {}, {dev:.4} on dev", from.run);
        for (file, moments) in [(runs::BEST, false), (runs::LAST, true)] {
            trainer
                .to_checkpoint(&plan.name, moments)
                .save(&dir.join(file))?;
        }
    }
    if trainer.step < settings.steps {
        needs::say(&mut trainer);
    } else {
        crate::say!(
            "finished: nothing is left to train; report and samples are written again. To train its \
             weights on, start a new run with --init {}",
            plan.name
        );
    }

    let _team = plan
        .workers
        .gather(&mut trainer, &plan.name, threads, devices)?;
    let stop = interruption();
    let whole = steps(&mut trainer, &plan.name, &dir, &stop)?;
    if let Some(mut peers) = trainer.peers.take() {
        peers.end(trainer.step, settings.steps);
    }
    if !whole {
        crate::say!(
            "stopped at step {} of {}; continue with\n  cargo run --release -p trainer -- --resume {}",
            trainer.step,
            settings.steps,
            plan.name
        );
        return Ok(());
    }
    conclude(&trainer, &plan.name, &dir)
}

/// Returns a flag that Ctrl-C and a request to terminate raise.
#[must_use]
pub fn interruption() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    // a second handler cannot be set; a run inside a test keeps the first
    let _ = ctrlc::set_handler(move || {
        // the first asks for an end at a step, a second one does not wait
        if flag.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        eprintln!(
            "\nfinishing the step or evaluation under way, then saving; Ctrl-C again stops without \
             saving"
        );
    });
    stop
}

fn introduce<B: TrainBackend>(trainer: &Trainer<B>, name: &str, threads: usize, n_teacher: usize) {
    let settings = &trainer.settings;
    let unit = if trainer.text.vocab.vocab().is_byte_pair() {
        "tokens"
    } else {
        "characters"
    };
    let (n_params, n_chars) = (settings.model.n_params(), trainer.text.train.len() as u64);
    crate::say!(
        "text: {}, {n_chars} {unit} to train on, {} {}",
        trainer.text.name,
        trainer.text.vocab.len(),
        if unit == "tokens" {
            "known"
        } else {
            "distinct"
        }
    );
    crate::say!(
        "model: {n_params} parameters, context {}, {} bytes of RAM on a board",
        settings.model.context_len,
        settings.model.state_bytes()
    );
    if n_chars < CHARS_PER_PARAM * n_params {
        crate::say!(
            "note: {:.1} {unit} per parameter; below {CHARS_PER_PARAM} a model learns the text \
             by heart sooner or later, so watch the loss on dev",
            n_chars as f64 / n_params as f64
        );
    }
    let taught = n_teacher.min(1) as u64 * SOFT_BYTES * n_chars;
    let (ceiling, whose) = if B::GPU {
        (memory::device_ceiling(settings), " of the GPU's")
    } else {
        let vocab = trainer.text.vocab.vocab();
        let text = memory::text(trainer.text.n_bytes, vocab.is_byte_pair());
        (memory::ceiling(settings, threads) + text + taught, "")
    };
    crate::say!(
        "memory: at most {}{whose} while training",
        memory::megabytes(ceiling)
    );
    if trainer.step == 0 {
        crate::say!(
            "\"Attention Is All You Need\": section, part, where it is\n{}",
            paper::map(&settings.model)
        );
    }
    crate::say!(
        "run: {name}, step {} of {}, {} {unit} a step",
        trainer.step,
        settings.steps,
        settings.batch * settings.train_len
    );
}

/// Takes the remaining steps; returns whether the end was reached.
fn steps<B: TrainBackend>(
    trainer: &mut Trainer<B>,
    name: &str,
    dir: &Path,
    stop: &AtomicBool,
) -> Result<bool> {
    let settings = trainer.settings;
    let line_every = (settings.steps / LINES).max(1);
    let mut metrics = Metrics::open(dir, trainer.step)?;
    let per_step = settings.batch * settings.train_len;
    let tokens = per_step as f64;
    let mut progress = Progress::new(trainer.step, settings.steps, per_step);
    let mut saved = Instant::now();
    let (mut since, mut loss_sum, mut count) = (Instant::now(), 0.0, 0_u32);
    while trainer.step < settings.steps {
        let started = Instant::now();
        let mut reports = match trainer.advance() {
            Ok(reports) => reports,
            Err(error) => return Err(workers::kept(trainer, name, error)),
        };
        let last = trainer.step == settings.steps;
        let eval = last || trainer.step.is_multiple_of(settings.eval_every);
        let due = eval || trainer.step.is_multiple_of(line_every);
        let stopping = stop.load(Ordering::SeqCst);
        let save = last || stopping || saved.elapsed() >= SAVE_EVERY;
        if due || save {
            reports.extend(trainer.flush()?);
        }
        trainer.record.seconds += started.elapsed().as_secs_f64();
        let Some(&report) = reports.last() else {
            continue;
        };
        if let (true, Some(scale)) = (report.overflow, trainer.loss_scale) {
            progress.say(&format!(
                "step {}: a gradient did not fit f16; the step is left out, the loss scale is {}",
                trainer.step,
                scale.value()
            ));
        }
        loss_sum += reports.iter().map(|report| report.loss).sum::<f64>();
        count += reports.len() as u32;
        if due {
            let speed = tokens * f64::from(count) / since.elapsed().as_secs_f64();
            let mut line = Line {
                step: trainer.step,
                train: loss_sum / f64::from(count),
                lr: report.lr,
                grad_norm: report.grad_norm,
                tokens_per_s: speed,
                seconds: trainer.record.seconds,
                dev_f32: None,
                dev_ema: None,
            };
            if eval {
                let best = trainer.evaluate();
                line.dev_f32 = Some(trainer.record.dev_f32);
                line.dev_ema = Some(trainer.record.dev_ema);
                if best {
                    trainer
                        .to_checkpoint(name, false)
                        .save(&dir.join(runs::BEST))?;
                }
                progress.say(&report_eval(trainer, &line, best)?);
            }
            metrics.push(line)?;
            if eval {
                metrics.draw()?;
            }
            (since, loss_sum, count) = (Instant::now(), 0.0, 0);
        }
        progress.update(trainer.step, report.loss);
        if save {
            trainer
                .to_checkpoint(name, true)
                .save(&dir.join(runs::LAST))?;
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

fn report_eval<B: TrainBackend>(trainer: &Trainer<B>, line: &Line, best: bool) -> Result<String> {
    let from = trainer.to_checkpoint("", false);
    let prompt = sample::known(sample::PROMPT, &trainer.text.vocab);
    let (seed, len) = (trainer.settings.seed, trainer.settings.sample_len);
    let mut report = format!(
        "step {}  train {:.4}  dev {:.4}  dev of the average {:.4}{}{}  {:.0} tokens/s\n",
        line.step,
        line.train,
        trainer.record.dev_f32,
        trainer.record.dev_ema,
        if trainer.settings.quantize_aware > 0.0 {
            format!(", rounded {:.4}", trainer.record.dev_deployed)
        } else {
            String::new()
        },
        if best { " (kept)" } else { "" },
        line.tokens_per_s,
    );
    for temperature in report::TEMPERATURES {
        let text = sample::from_checkpoint(&from, &prompt, temperature, seed, len)?;
        report += &format!("  temperature {temperature}:\n{}\n", indented(&text));
    }
    Ok(report + &rising(trainer))
}

/// Warns when dev has turned up: two evaluations or more since its best.
fn rising<B: TrainBackend>(trainer: &Trainer<B>) -> String {
    let (settings, record) = (&trainer.settings, &trainer.record);
    if settings.train_on_dev || trainer.step < record.best_step + 2 * settings.eval_every {
        return String::new();
    }
    format!(
        "\nwarning: dev was best at step {} ({:.4}) and has not come back ({:.4}): the text is being \
         learnt by heart. best.ckpt keeps the best; try more --dropout, a smaller model or fewer \
         --steps",
        record.best_step, record.best_dev, record.dev_deployed
    )
}

/// Moves a text four places to the right.
#[must_use]
pub fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Prints and keeps samples, the loss on val and the next command.
fn conclude<B: TrainBackend>(trainer: &Trainer<B>, name: &str, dir: &Path) -> Result<()> {
    let best = Checkpoint::load(&runs::best_checkpoint(dir)?)?;
    let mut file = std::fs::File::create(dir.join(runs::SAMPLES))?;
    for (temperature, text) in report::samples(&best)? {
        crate::say!("temperature {temperature}:\n{}\n", indented(&text));
        writeln!(file, "temperature {temperature}:\n{text}\n")?;
    }
    let losses = trainer.score(&best, &trainer.text.val)?;
    let path = report::write(
        dir,
        &report::Input {
            best: &best,
            lines: &metrics::read(dir)?,
            val: &trainer.text.val,
            losses: &losses,
            prompt: None,
        },
    )?;
    let val = mean(&losses);
    crate::say!(
        "val {val:.4} {}: {} transitions once, fresh windows of {}, averaged weights \
         {}of step {} ({}, {:.4})",
        score::unit(trainer.text.vocab.vocab()),
        trainer.text.val.len() - 1,
        trainer.settings.model.context_len,
        if trainer.settings.quantize_aware > 0.0 {
            "rounded to int4 "
        } else {
            ""
        },
        best.step,
        if trainer.settings.train_on_dev {
            "the last; dev was trained on"
        } else {
            "best on dev"
        },
        best.best_dev
    );
    crate::say!(
        "trained {:.0} s{}; report: {}",
        trainer.record.seconds,
        memory::peak().map_or(String::new(), |peak| format!(
            ", held {} at most",
            memory::megabytes(peak)
        )),
        path.display()
    );
    let bits = if trainer.settings.quantize_aware > 0.0 {
        " --bits 4"
    } else {
        ""
    };
    crate::say!("next:\n  tools/export {name}{bits}");
    Ok(())
}

/// Makes text with the best weights of a run.
///
/// # Errors
///
/// A missing run, or a prompt that the model cannot read.
pub fn sample(args: &SampleArgs) -> Result<()> {
    let best = deployed(args.run.as_deref())?;
    let prompt = match &args.prompt {
        Some(prompt) => prompt.clone(),
        None => sample::known(sample::PROMPT, &best.vocabulary()?),
    };
    let text = sample::from_checkpoint(&best, &prompt, args.temperature, args.seed, args.len)?;
    crate::say!("{text}");
    Ok(())
}
