//! The row of a board in the table of boards.

use core::fmt;

use runtime::Model;

use crate::board::Stack;
use crate::report::Speed;

/// The prompt of a measurement.
pub(crate) const PROMPT: &str = r"ROMEO:\n";
/// Characters of a measurement: the first has nothing before it to take the time from.
pub(crate) const LEN: u32 = 257;

/// What `/bench` found out.
pub(crate) struct Row<'r> {
    pub(crate) board: &'static str,
    pub(crate) model: &'r Model<'r>,
    pub(crate) speed: Speed,
    pub(crate) longest_us: u64,
    pub(crate) stack: Option<Stack>,
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "| board | model | MHz | characters | characters/s | cycles/character | longest step | \
             RAM for the model | stack |\n|---|---|---:|---:|---:|---:|---:|---:|---:|\n",
        )?;
        write!(
            f,
            "| {} | {} | {} | {} | ",
            self.board,
            self.model.header().provenance.run,
            self.speed.core_hz / 1_000_000,
            self.speed.last.tokens
        )?;
        match self.speed.tenths() {
            Some(tenths) => write!(f, "{}.{}", tenths / 10, tenths % 10)?,
            None => f.write_str("?")?,
        }
        match self.speed.cycles() {
            Some(cycles) => write!(f, " | {cycles} | ")?,
            None => f.write_str(" | ? | ")?,
        }
        write!(
            f,
            "{} us | {} B | ",
            self.longest_us,
            self.model.state_bytes()
        )?;
        match self.stack {
            Some(stack) => writeln!(f, "{} B |", stack.used),
            None => f.write_str("? |\n"),
        }
    }
}
