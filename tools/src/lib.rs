//! What the host tools share: finding their input, and the tables that they print.

pub mod elf;
pub mod input;
pub mod markdown;
pub mod paths;
pub mod report;
pub mod stand_in;
pub mod uf2;

use std::fmt;
use std::num::{IntErrorKind, ParseIntError};
use std::process::ExitCode;
use std::str::FromStr;

/// Ctrl-C has ended a tool in good order, which has said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped by Ctrl-C")
    }
}

impl std::error::Error for Interrupted {}

/// Exit code of a program that Ctrl-C has ended, by the convention of shells.
const INTERRUPTED: u8 = 130;

/// Turns the outcome of a tool into its exit code; an error goes to standard error in one line.
///
/// A reader that closes the pipe (`tools/inspect | head`) is no error.
#[must_use]
pub fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    if error.is::<Interrupted>() {
        return ExitCode::from(INTERRUPTED);
    }
    let closed_pipe = error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe);
    if closed_pipe {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

/// Reads a whole number of the command line.
///
/// # Errors
///
/// What was expected, in words.
pub fn whole<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: ParseIntError| {
        let expected = match error.kind() {
            IntErrorKind::PosOverflow => "expected a smaller whole number",
            _ => "expected a whole number",
        };
        expected.to_owned()
    })
}
