//! The `trainer` command.

use std::process::ExitCode;

use trainer::cli::{self, Action};

/// burn allocates every intermediate tensor anew; the system's allocator gives pages back to the
/// kernel in between and has them zeroed again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let matches = cli::command().get_matches();
    let result = cli::action(&matches).and_then(|action| match action {
        Action::Train(args) => trainer::run::train(&args),
        Action::Eval(args) => trainer::eval::eval(&args),
        Action::Sample(args) => trainer::run::sample(&args),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
