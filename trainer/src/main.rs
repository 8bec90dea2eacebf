//! The `trainer` command.

use std::process::ExitCode;

use anyhow::{Result, bail};
use burn_flex::{Flex, FlexDevice};
use cli::Action;
use gpt::bench::BenchArgs;
use gpt::request::TrainArgs;
use gpt::run::{self, Plan};

mod cli;
mod models;
mod reports;

/// burn allocates every intermediate tensor anew; the system's allocator gives pages back to the
/// kernel in between and has them zeroed again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let matches = cli::command().get_matches();
    let result = cli::action(&matches).and_then(|action| match action {
        Action::Train(args) => train(&args),
        Action::Eval(args) => gpt::eval::eval(&args),
        Action::Sample(args) => run::sample(&args),
        Action::Bench(args) => bench(&args),
        Action::Compare(args) => gpt::compare::compare(&args),
        Action::Attention(args) => gpt::attention::draw(&args),
        Action::Report(args) => gpt::report::report(&args),
        Action::Seq2Seq(args) => lesson::translator::train::<Flex>(&args, cpu()),
        Action::Rnn(args) => lesson::recurrent::train::<Flex>(&args, cpu()),
        Action::StudyRnn(args) => lesson::study::recurrent::<Flex>(&args, cpu()),
        Action::StudyAblation(args) => lesson::study::ablations::<Flex>(&args, cpu()),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the device of the models beside the GPT, and says so.
fn cpu() -> &'static FlexDevice {
    gpt::say!("device: CPU (burn-flex), the only one for this model");
    &FlexDevice
}

/// Returns the number of CUDA devices, or why the CPU is used.
fn device(asked: &str) -> Result<Result<usize, String>> {
    Ok(match asked {
        "cpu" => Err("as asked".to_owned()),
        "auto" => cuda::devices(),
        "cuda" => match cuda::devices() {
            Ok(count) => Ok(count),
            Err(reason) => bail!("{reason}; use --device cpu or --device auto"),
        },
        other => bail!("there is no device {other:?}; expected auto, cpu or cuda"),
    })
}

/// Trains on the device that is asked for, or on the best there is, and says which.
fn train(args: &TrainArgs) -> Result<()> {
    match device(&args.device)? {
        Ok(count) => {
            gpt::say!(
                "device: CUDA (burn-cuda), {} of {count}",
                args.workers.min(count)
            );
            match &args.join {
                Some(address) => cuda::join(args, address),
                None => cuda::train(Plan::new(args, "pico2")?, count),
            }
        }
        Err(reason) => {
            gpt::say!("device: CPU (burn-flex); {reason}");
            match &args.join {
                Some(address) => run::join::<Flex>(args, address, &FlexDevice),
                None => run::train::<Flex>(Plan::new(args, "pocket")?, &[FlexDevice]),
            }
        }
    }
}

/// Measures on the device that is asked for.
fn bench(args: &BenchArgs) -> Result<()> {
    match device(&args.device)? {
        Ok(_) => cuda::bench(args),
        Err(_) => gpt::bench::bench::<Flex>(args, &FlexDevice),
    }
}
