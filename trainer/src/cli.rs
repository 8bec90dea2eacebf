//! The command line.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use checkpoint::BOARDS;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use gpt::bench::BenchArgs;
use gpt::presets::{PRESETS, TUNING, TUNING_TOKENS};
use gpt::request::{
    AttentionArgs, CompareArgs, EvalArgs, Protocol, ReportArgs, SampleArgs, TrainArgs,
};
use gpt::settings::{FIELDS, Fields, flag};
use lesson::{recurrent, translator};

use crate::{models, reports};

/// Presets that `bench` measures unless others are named.
const BENCH_PRESETS: [&str; 3] = ["lesson", "small", "nanogpt-cpu"];

/// A parsed command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Trains.
    Train(TrainArgs),
    /// Scores.
    Eval(EvalArgs),
    /// Makes text.
    Sample(SampleArgs),
    /// Measures.
    Bench(BenchArgs),
    /// Sets runs beside each other.
    Compare(CompareArgs),
    /// Draws what heads look at.
    Attention(AttentionArgs),
    /// Writes the report of a run.
    Report(ReportArgs),
    /// Trains the encoder-decoder.
    Seq2Seq(lesson::run::Args),
    /// Trains a recurrent network.
    Rnn(lesson::run::Args),
    /// Trains recurrent networks beside the Transformer.
    StudyRnn(lesson::study::Args),
    /// Trains a small GPT with parts left out.
    StudyAblation(lesson::study::Args),
}

/// Returns the description of the command line.
#[must_use]
pub(crate) fn command() -> Command {
    let run = Arg::new("run")
        .value_name("RUN")
        .help("Run folder or its name [default: the newest]");
    let eval = Command::new("eval")
        .about("Scores a run, or a blob through the runtime")
        .arg(run.clone())
        .arg(path_arg(
            "blob",
            "FILE",
            "Blob to score through the runtime",
        ))
        .arg(path_arg(
            "data",
            "FILE",
            "Text to score on [default: the run's]",
        ))
        .arg(
            Arg::new("protocol")
                .long("protocol")
                .value_parser(["all", "nanogpt"])
                .default_value("all")
                .help("all: every transition of val once; nanogpt: 200 random batches, as nanoGPT"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Prints one JSON object"),
        );
    let sample = Command::new("sample")
        .about("Makes text with the best weights of a run, as a board would")
        .arg(run)
        .arg(Arg::new("prompt").long("prompt").help(
            "Text to continue; \\n is a newline [default: ROMEO:\\n, as far as the model knows \
                     its characters]",
        ))
        .arg(
            Arg::new("temperature")
                .long("temperature")
                .value_parser(temperature)
                .allow_negative_numbers(true)
                .default_value("0.8")
                .help("0 always takes the likeliest character"),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_parser(|text: &str| whole::<u64>(text, 0))
                .allow_negative_numbers(true)
                .default_value("1")
                .help("Seed of the sampler"),
        )
        .arg(count("len").default_value("256").help("Characters to make"));
    train_args(Command::new("trainer"))
        .about("Trains a character-level GPT; `trainer` alone trains the default")
        .args_conflicts_with_subcommands(true)
        .subcommand(train_args(Command::new("train")).about("Trains a model [the default]"))
        .subcommand(models::seq2seq())
        .subcommand(models::rnn())
        .subcommand(models::study())
        .subcommand(eval)
        .subcommand(sample)
        .subcommand(reports::compare())
        .subcommand(reports::attention())
        .subcommand(reports::report())
        .subcommand(bench_args())
}

fn bench_args() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        count(name)
            .value_name("N")
            .default_value(default)
            .help(help)
    };
    let command = Command::new("bench")
        .about("Measures the speed of training, beside torch where there is one")
        .arg(
            Arg::new("preset")
                .value_name("PRESET")
                .num_args(0..)
                .help("Presets to measure [default: those that are compared with torch]"),
        )
        .arg(path_arg(
            "data",
            "FILE",
            "UTF-8 text [default: tiny Shakespeare]",
        ))
        .arg(device_arg("cpu"))
        .arg(
            count("threads")
                .value_name("N,N")
                .value_delimiter(',')
                .default_value("1,2")
                .help("CPU threads of either side"),
        )
        .arg(number("turn", "30", "Steps in a turn"))
        .arg(number("rounds", "5", "Turns of each side"))
        .arg(path_arg(
            "torch",
            "PYTHON",
            "Interpreter that has torch [default: that of the variable PYTHON, or python3]",
        ))
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Prints one JSON array"),
        );
    fields(command, FIELDS)
}

/// An option that takes a whole number of at least 1.
pub(crate) fn count(name: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_parser(|text: &str| whole::<usize>(text, 1))
        .allow_negative_numbers(true)
}

/// Reads a whole number of at least `low`.
pub(crate) fn whole<T: FromStr + PartialOrd + Display>(text: &str, low: T) -> Result<T, String> {
    match text.parse() {
        Ok(number) if number >= low => Ok(number),
        _ => Err(format!("expected a whole number of at least {low}")),
    }
}

fn temperature(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(value) if value >= 0.0 && f32::is_finite(value) => Ok(value),
        _ => Err("expected 0 or a positive number".to_owned()),
    }
}

fn device_arg(default: &'static str) -> Arg {
    Arg::new("device")
        .long("device")
        .default_value(default)
        .help("auto, cpu or cuda")
}

pub(crate) fn path_arg(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .value_parser(value_parser!(PathBuf))
        .help(help)
}

/// Adds the arguments of a run that can be continued.
pub(crate) fn run_args(command: Command) -> Command {
    text_args(command).arg(
        Arg::new("resume")
            .long("resume")
            .value_name("RUN")
            .num_args(0..=1)
            .default_missing_value("")
            .help("Continues a run [default: the newest that can be]"),
    )
}

/// Adds the arguments of whatever trains on a text.
pub(crate) fn text_args(command: Command) -> Command {
    command
        .arg(path_arg(
            "data",
            "FILE",
            "UTF-8 text [default: tiny Shakespeare]",
        ))
        .arg(Arg::new("name").long("name").help("Name of the run"))
        .arg(
            count("threads")
                .help("CPU threads, at most one per shard; the result does not depend on it"),
        )
}

fn train_args(command: Command) -> Command {
    let presets: Vec<String> = PRESETS
        .iter()
        .map(|preset| format!("  {:8} {}", preset.name, preset.about))
        .collect();
    let command = run_args(command)
        .after_help(format!(
            "Presets:\n{}\n\nWithout a preset, --init trains for {} steps of about {} tokens at a \
             peak rate of {:e}.",
            presets.join("\n"),
            TUNING.steps,
            TUNING_TOKENS,
            TUNING.lr
        ))
        .arg(
            Arg::new("model")
                .value_name("MODEL")
                .help("gpt, or a preset's name, short for gpt with that preset"),
        )
        .arg(
            Arg::new("preset")
                .long("preset")
                .value_name("P")
                .help("Named settings, listed below"),
        )
        .arg(
            Arg::new("teacher")
                .long("teacher")
                .value_name("RUN,...")
                .value_delimiter(',')
                .help("Learns from the distributions of these runs too"),
        )
        .arg(Arg::new("init").long("init").value_name("RUN").help(
            "Starts from the weights of this run, own or imported, in its shape and \
                     vocabulary",
        ))
        .arg(device_arg("auto"))
        .arg(
            Arg::new("board")
                .long("board")
                .value_name("BOARD")
                .help(format!(
                    "Checks first that the model fits this board: {}",
                    BOARDS.map(|board| board.name).join(", ")
                )),
        );
    fields(worker_args(command), FIELDS)
}

fn worker_args(command: Command) -> Command {
    command
        .arg(
            count("workers")
                .value_name("N")
                .default_value("1")
                .help("Threads that share every batch, one per GPU where there are some"),
        )
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("ADDRESS")
                .help("Has the other workers be processes that join at this address and port"),
        )
        .arg(
            count("patience")
                .value_name("SECONDS")
                .default_value("600")
                .help(
                    "Silence after which another process counts as gone; more than the first spends \
                     on an evaluation",
                ),
        )
        .arg(
            Arg::new("join")
                .long("join")
                .value_name("ADDRESS")
                .help("Works for the run that listens there"),
        )
}

/// Adds an argument per field.
pub(crate) fn fields(command: Command, fields: &Fields) -> Command {
    fields.iter().fold(command, |command, &(field, help)| {
        let mut arg = Arg::new(field)
            .long(flag(field))
            .value_name("VALUE")
            .allow_negative_numbers(true)
            .help_heading("Settings")
            .help(help);
        if flag(field) != field {
            arg = arg.alias(field);
        }
        command.arg(arg)
    })
}

/// Turns parsed arguments into an action.
///
/// # Errors
///
/// A model that does not exist.
pub(crate) fn action(matches: &ArgMatches) -> anyhow::Result<Action> {
    Ok(match matches.subcommand() {
        Some(("eval", matches)) => Action::Eval(EvalArgs {
            run: text(matches, "run"),
            blob: matches.get_one("blob").cloned(),
            data: matches.get_one("data").cloned(),
            protocol: match text(matches, "protocol").as_deref() {
                Some("nanogpt") => Protocol::NanoGpt,
                _ => Protocol::EveryTransition,
            },
            json: matches.get_flag("json"),
        }),
        Some(("sample", matches)) => Action::Sample(SampleArgs {
            run: text(matches, "run"),
            prompt: text(matches, "prompt").map(|prompt| prompt.replace("\\n", "\n")),
            temperature: *matches.get_one("temperature").unwrap_or(&0.8),
            seed: *matches.get_one("seed").unwrap_or(&1),
            len: *matches.get_one("len").unwrap_or(&256),
        }),
        Some(("compare", matches)) => Action::Compare(CompareArgs {
            runs: matches
                .get_many::<String>("run")
                .unwrap_or_default()
                .cloned()
                .collect(),
            svg: matches.get_one("svg").cloned(),
            within: matches.get_one("within").copied(),
        }),
        Some(("attention", matches)) => Action::Attention(AttentionArgs {
            run: text(matches, "run"),
            prompt: text(matches, "prompt").map(|prompt| prompt.replace("\\n", "\n")),
            layer: matches.get_one("layer").copied(),
            head: matches.get_one("head").copied(),
            svg: matches.get_one("svg").cloned(),
        }),
        Some(("report", matches)) => Action::Report(ReportArgs {
            run: text(matches, "run"),
            data: matches.get_one("data").cloned(),
            prompt: text(matches, "prompt").map(|prompt| prompt.replace("\\n", "\n")),
        }),
        Some(("bench", matches)) => Action::Bench(bench(matches)),
        Some((translator::MODEL, matches)) => {
            Action::Seq2Seq(models::args(matches, translator::FIELDS))
        }
        Some((recurrent::MODEL, matches)) => Action::Rnn(models::args(matches, recurrent::FIELDS)),
        Some(("study", matches)) => {
            let args = models::study_args(matches);
            match text(matches, "study").as_deref() {
                Some("rnn") => Action::StudyRnn(args),
                _ => Action::StudyAblation(args),
            }
        }
        Some((_, matches)) => Action::Train(train(matches)?),
        None => Action::Train(train(matches)?),
    })
}

pub(crate) fn text(matches: &ArgMatches, name: &str) -> Option<String> {
    matches.get_one::<String>(name).cloned()
}

/// Reads the fields that were set.
pub(crate) fn overrides(matches: &ArgMatches, lists: &[&Fields]) -> Vec<(String, String)> {
    lists
        .iter()
        .flat_map(|fields| fields.iter())
        .filter_map(|&(field, _)| Some((field.to_owned(), text(matches, field)?)))
        .collect()
}

fn bench(matches: &ArgMatches) -> BenchArgs {
    let many = |name: &str| matches.get_many::<String>(name).into_iter().flatten();
    let number = |name: &str| matches.get_one::<usize>(name).copied().unwrap_or(1);
    let mut presets: Vec<String> = many("preset").cloned().collect();
    if presets.is_empty() {
        presets = BENCH_PRESETS.map(str::to_owned).to_vec();
    }
    BenchArgs {
        presets,
        overrides: overrides(matches, &[FIELDS]),
        data: matches.get_one("data").cloned(),
        device: text(matches, "device").unwrap_or_else(|| "cpu".to_owned()),
        threads: matches
            .get_many("threads")
            .map_or(vec![1], |threads| threads.copied().collect()),
        steps: number("turn") as u64,
        rounds: number("rounds"),
        torch: matches.get_one("torch").cloned(),
        json: matches.get_flag("json"),
    }
}

fn train(matches: &ArgMatches) -> anyhow::Result<TrainArgs> {
    let model = text(matches, "model").unwrap_or_else(|| "gpt".to_owned());
    let implied = (model != "gpt").then_some(model);
    if let Some(name) = &implied
        && PRESETS.iter().all(|preset| preset.name != name)
    {
        let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
        anyhow::bail!(
            "there is no model {name:?}; expected gpt, seq2seq, rnn or study, or a preset: {}",
            names.join(", ")
        );
    }
    let preset = text(matches, "preset");
    if let (Some(implied), Some(preset)) = (&implied, &preset) {
        anyhow::bail!(
            "two presets: {implied} and --preset {preset}; give one of them, or `gpt --preset \
             {preset}`"
        );
    }
    Ok(TrainArgs {
        preset: preset.or(implied),
        overrides: overrides(matches, &[FIELDS]),
        data: matches.get_one("data").cloned(),
        init: text(matches, "init"),
        teachers: matches
            .get_many::<String>("teacher")
            .unwrap_or_default()
            .cloned()
            .collect(),
        device: text(matches, "device").unwrap_or_else(|| "auto".to_owned()),
        resume: text(matches, "resume"),
        name: text(matches, "name"),
        threads: matches.get_one("threads").copied(),
        board: text(matches, "board"),
        workers: *matches.get_one("workers").unwrap_or(&1),
        listen: text(matches, "listen"),
        join: text(matches, "join"),
        patience: Duration::from_secs(matches.get_one("patience").map_or(0, |&n: &usize| n as u64)),
    })
}
