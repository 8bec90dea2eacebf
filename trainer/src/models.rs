//! Command lines of the models beside the GPT.

use clap::{Arg, ArgMatches, Command};
use gpt::settings::Fields;
use lesson::settings::RECIPE_FIELDS;
use lesson::{recurrent, run, study, translator};

use crate::cli::{count, fields, overrides, run_args, text, text_args};

/// Returns the description of `trainer seq2seq`.
#[must_use]
pub(crate) fn seq2seq() -> Command {
    let presets: Vec<String> = translator::PRESETS
        .iter()
        .map(|(name, about, _)| format!("  {name:8} {about}"))
        .collect();
    let command = Command::new(translator::MODEL)
        .about("Trains the encoder-decoder Transformer of the paper on strings")
        .after_help(format!("Presets:\n{}", presets.join("\n")))
        .arg(
            Arg::new("preset")
                .long("preset")
                .value_name("P")
                .default_value("small")
                .help("Named settings, listed below"),
        );
    let command = worker_arg(run_args(command));
    fields(fields(command, translator::FIELDS), RECIPE_FIELDS)
}

/// Returns the description of `trainer rnn`.
#[must_use]
pub(crate) fn rnn() -> Command {
    let command = Command::new(recurrent::MODEL)
        .about("Trains a recurrent network with the protocol of the preset lesson");
    let command = worker_arg(run_args(command));
    fields(fields(command, recurrent::FIELDS), RECIPE_FIELDS)
}

/// Adds the workers, which are threads here.
fn worker_arg(command: Command) -> Command {
    command.arg(
        count("workers")
            .value_name("N")
            .default_value("1")
            .help("Threads that share every batch as workers do, for learning how that works"),
    )
}

/// Returns the description of `trainer study`.
#[must_use]
pub(crate) fn study() -> Command {
    text_args(Command::new("study"))
        .about("Trains models side by side; writes a table and a plot")
        .arg(
            Arg::new("study")
                .required(true)
                .value_parser(["rnn", "ablation"])
                .help("rnn: recurrent networks beside lesson; ablation: a small GPT with parts left out"),
        )
        .arg(
            count("steps")
                .help("Steps of every model [default: 8000 for rnn, 500 for ablation]"),
        )
}

/// Reads the arguments of `trainer study`.
#[must_use]
pub(crate) fn study_args(matches: &ArgMatches) -> study::Args {
    study::Args {
        steps: matches.get_one("steps").map(|&steps: &usize| steps as u64),
        data: matches.get_one("data").cloned(),
        name: text(matches, "name"),
        threads: matches.get_one("threads").copied(),
    }
}

/// Reads the arguments of a model with the given fields.
#[must_use]
pub(crate) fn args(matches: &ArgMatches, fields: &Fields) -> run::Args {
    run::Args {
        preset: matches
            .try_get_one::<String>("preset")
            .ok()
            .flatten()
            .cloned()
            .unwrap_or_default(),
        overrides: overrides(matches, &[fields, RECIPE_FIELDS]),
        data: matches.get_one("data").cloned(),
        resume: text(matches, "resume"),
        name: text(matches, "name"),
        threads: matches.get_one("threads").copied(),
        workers: *matches.get_one("workers").unwrap_or(&1),
    }
}
