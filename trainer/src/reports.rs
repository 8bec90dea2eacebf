//! The commands that show what a run has become.

use clap::{Arg, Command, value_parser};

use crate::cli::{path_arg, whole};

/// Returns `trainer compare`.
pub(crate) fn compare() -> Command {
    Command::new("compare")
        .about("Sets runs beside each other: a table, and their curves as SVG")
        .arg(
            Arg::new("run")
                .value_name("RUN")
                .num_args(1..)
                .required(true)
                .help("Run folders or their names"),
        )
        .arg(path_arg(
            "svg",
            "FILE",
            "Where the curves go [default: compare.svg beside the runs]",
        ))
        .arg(
            Arg::new("within")
                .long("within")
                .value_name("NATS")
                .value_parser(value_parser!(f64))
                .allow_negative_numbers(true)
                .help("Fails if a training loss is further from the first run's at the same step"),
        )
}

/// Returns `trainer attention`.
pub(crate) fn attention() -> Command {
    let number = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .value_parser(|text: &str| whole::<usize>(text, 0))
            .allow_negative_numbers(true)
            .help(help)
    };
    Command::new("attention")
        .about("Draws what the heads of a run look at, as SVG")
        .arg(
            Arg::new("run")
                .value_name("RUN")
                .help("Run folder or its name [default: the newest]"),
        )
        .arg(
            Arg::new("prompt")
                .long("prompt")
                .help("Text that they look at; \\n is a newline [default: that of samples]"),
        )
        .arg(number("layer", "Only this layer, counted from 0"))
        .arg(number("head", "Only this head, counted from 0"))
        .arg(path_arg(
            "svg",
            "FILE",
            "Where it goes [default: attention.svg in the folder of the run]",
        ))
}

/// Returns `trainer report`.
pub(crate) fn report() -> Command {
    Command::new("report")
        .about("Writes report.html of a run: curves, samples, attention, quantisation")
        .arg(
            Arg::new("run")
                .value_name("RUN")
                .help("Run folder or its name [default: the newest]"),
        )
        .arg(path_arg(
            "data",
            "FILE",
            "Text that the run was trained on [default: where it was then]",
        ))
        .arg(
            Arg::new("prompt")
                .long("prompt")
                .help("Text of the attention maps; \\n is a newline [default: the start of val]"),
        )
}
