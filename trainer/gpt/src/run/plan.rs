//! What a run starts from: a preset, another run, or itself at its last step.

use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail};
use checkpoint::{
    Board, Checkpoint, Corpus, FileError, FormatError, Origin, Vocabulary, blob, runs,
};
use runtime::Config;
use serde_json::Value;

use super::folder::{deployed, run_dir, trained};
use super::workers::{self, Workers};
use super::{corpus, noted, threads};
use crate::presets::{self, TUNING, TUNING_TOKENS};
use crate::request::TrainArgs;
use crate::settings::{self, Settings};
use crate::teacher;
use crate::training::Text;

/// Where the weights of a run come from.
#[derive(Debug)]
pub(super) enum Start {
    /// The rule of the settings.
    Rule,
    /// The deployed weights of another run.
    Run(Box<Checkpoint>),
    /// The run itself, at its last step.
    Itself(Box<Checkpoint>),
}

/// What a run starts from.
#[derive(Debug)]
pub struct Plan {
    pub(super) settings: Settings,
    pub(super) text: Text,
    pub(super) name: String,
    pub(super) start: Start,
    pub(super) teachers: Vec<Checkpoint>,
    /// Of a new run.
    pub(super) origin: Option<Origin>,
    pub(super) threads: usize,
    pub(super) workers: Workers,
}

impl Plan {
    /// Plans the run that is asked for; `default` is the preset of the device.
    ///
    /// # Errors
    ///
    /// Settings, text or run that cannot be used, in a sentence.
    pub fn new(args: &TrainArgs, default: &str) -> Result<Self> {
        match (&args.resume, &args.init) {
            (Some(run), _) => resumed(args, run),
            (None, Some(run)) => tuned(args, run),
            (None, None) => fresh(args, default),
        }
    }
}

fn fresh(args: &TrainArgs, default: &str) -> Result<Plan> {
    let preset = presets::find(args.preset.as_deref().unwrap_or(default))?;
    let mut settings = preset.settings.with(&args.overrides)?;
    let corpus = corpus(args.data.as_deref())?;
    let vocab = corpus.vocab();
    settings.model.vocab_size =
        u16::try_from(vocab.len()).context("the text has too many characters")?;
    begun(args, settings, &corpus, vocab, preset.name, Start::Rule)
}

/// Plans a run that starts from the weights of another.
fn tuned(args: &TrainArgs, run: &str) -> Result<Plan> {
    let mut from = deployed(Some(run))?;
    let preset = args.preset.as_deref().map(presets::find).transpose()?;
    let mut settings = preset.map_or(TUNING, |preset| preset.settings);
    if let Some(preset) = preset
        && let Some((name, asked, has)) = difference(&settings.model, &from.config)?
    {
        bail!(
            "preset {} has {name} {asked}, run {run} {has}: the weights keep their shape; leave the \
             preset out, or choose one of that shape",
            preset.name
        );
    }
    settings.model = from.config;
    let asked = settings.with(&args.overrides)?.model;
    if let Some((name, asked, has)) = difference(&asked, &from.config)? {
        bail!(
            "--{} {asked} does not fit run {run}, which has {has}: the weights keep their shape; \
             drop the option",
            settings::flag(&name)
        );
    }
    if asked.context_len != from.config.context_len {
        from.shorten(asked.context_len).with_context(|| {
            format!("--context-len {} does not fit run {run}", asked.context_len)
        })?;
    }
    settings.model = from.config;
    settings.train_len = asked.context_len.into();
    if preset.is_none() {
        let batch = (TUNING_TOKENS / settings.train_len).max(1);
        settings.batch = batch.next_multiple_of(settings.shards);
    }
    let settings = settings.with(&args.overrides)?;
    let corpus = match args.data.as_deref() {
        // however many distinct characters it has: the vocabulary is there already
        Some(path) => noted(Corpus::open(path)?),
        None => corpus(None)?,
    };
    let vocab = from.vocabulary()?;
    let start = Start::Run(Box::new(from));
    begun(args, settings, &corpus, vocab, "tuned", start)
}

/// Returns name and values of the first field of a shape that differs, but for those that weights of
/// another shape do not need: the text decides about `vocab_size`, and a context can be shortened.
fn difference(asked: &Config, has: &Config) -> Result<Option<(String, Value, Value)>> {
    let free = |name: &str| matches!(name, "vocab_size" | "context_len");
    let has = serde_json::to_value(has)?;
    let Value::Object(asked) = serde_json::to_value(asked)? else {
        return Ok(None);
    };
    let mut fields = asked.into_iter();
    let differs = |(name, value): &(String, Value)| !free(name) && has[name] != *value;
    Ok(fields.find(differs).map(|(name, asked)| {
        let has = has[&name].clone();
        (name, asked, has)
    }))
}

/// Plans a run at step 0.
fn begun(
    args: &TrainArgs,
    settings: Settings,
    corpus: &Corpus,
    vocab: Vocabulary,
    kind: &str,
    start: Start,
) -> Result<Plan> {
    settings.validate()?;
    if let Some(name) = &args.board {
        let (flash, ram) = (
            blob::max_len(&settings.model, &vocab),
            settings.model.state_bytes(),
        );
        Board::find(name)?.check(flash, ram)?;
        crate::say!("board: fits {name} with {flash} bytes of flash and {ram} bytes of RAM");
    }
    let context_len = usize::from(settings.model.context_len);
    let text = Text::with_vocab(corpus, vocab, context_len, settings.train_on_dev)?;
    let workers = workers::checked(args, &settings)?;
    let name = new_name(args.name.as_deref(), kind)?;
    let teachers = args
        .teachers
        .iter()
        .map(|run| {
            let teacher = deployed(Some(run))?;
            // before the run has a folder
            teacher::check(&teacher, &text, &settings)?;
            Ok(teacher)
        })
        .collect::<Result<_>>()?;
    Ok(Plan {
        settings,
        text,
        name,
        start,
        teachers,
        origin: Some(Origin::here(std::env::args().skip(1))),
        threads: threads(args.threads),
        workers,
    })
}

/// Returns the name of a new run: the one that is asked for, or `kind` with the first free number.
///
/// # Errors
///
/// A name that is no folder's, or whose folder holds a model, trained or imported.
pub fn new_name(asked: Option<&str>, kind: &str) -> Result<String> {
    let Some(name) = asked else {
        for number in 1..100_000 {
            let name = format!("{kind}-{number}");
            if !runs::dir(&name)?.exists() {
                return Ok(name);
            }
        }
        bail!("there are too many runs of {kind}; name this one with --name");
    };
    let dir = runs::dir(name)?;
    let models = [runs::LAST, runs::BEST, runs::LESSON_LAST, runs::LESSON_BEST];
    if models.iter().any(|file| dir.join(file).exists()) {
        bail!(
            "run {name} exists; choose another --name, continue it with --resume {name}, or remove it"
        );
    }
    Ok(name.to_owned())
}

/// Says why a run cannot go on, with the one way that is left.
fn spoilt(dir: &Path, error: FileError) -> Error {
    let FileError::Format { path, source } = error else {
        return error.into();
    };
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let way = match &source {
        FormatError::Version { .. } => source.remedy().to_owned(),
        _ if Checkpoint::load(&dir.join(runs::BEST)).is_ok() => format!(
            "its {} is whole: start a new run there with --init {name}",
            runs::BEST
        ),
        _ => "train it again".to_owned(),
    };
    anyhow!(
        "run {name} cannot be continued: {}: {source}; {way}",
        path.display()
    )
}

fn resumed(args: &TrainArgs, run: &str) -> Result<Plan> {
    if let Some((field, _)) = args.overrides.first() {
        bail!(
            "--resume continues with the settings of the run; drop --{}",
            crate::settings::flag(field)
        );
    }
    let fixed = [
        (args.preset.is_some(), "settings", "the preset"),
        (!args.teachers.is_empty(), "teachers", "--teacher"),
        (args.init.is_some(), "weights", "--init"),
        (args.name.is_some(), "name", "--name"),
        (args.board.is_some(), "model", "--board"),
    ];
    if let Some((_, what, dropped)) = fixed.into_iter().find(|(given, ..)| *given) {
        bail!("--resume continues with the {what} of the run; drop {dropped}");
    }
    let dir = match run {
        "" => runs::newest(&[runs::LAST])?,
        run => run_dir(Some(run))?,
    };
    let last = trained(&dir, runs::LAST)?;
    let from = Checkpoint::load(&last).map_err(|error| spoilt(&dir, error))?;
    let (name, sha256) = (&from.corpus_name, &from.corpus_sha256);
    let corpus = Corpus::of_run(args.data.as_deref(), name, sha256)?;
    let settings = Settings::from_json(&from.settings)?;
    let context_len = usize::from(settings.model.context_len);
    Ok(Plan {
        // the vocabulary may be that of the run that this one started from
        text: Text::with_vocab(
            &corpus,
            from.vocabulary()?,
            context_len,
            settings.train_on_dev,
        )?,
        workers: workers::checked(args, &settings)?,
        settings,
        name: from.run.clone(),
        threads: threads(args.threads),
        teachers: Vec::new(),
        origin: None,
        start: Start::Itself(Box::new(from)),
    })
}
