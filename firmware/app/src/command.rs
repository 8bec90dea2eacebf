//! The commands: lines that begin with a slash.

use core::fmt;

pub use crate::settings::Seed;

/// What `/help` prints.
pub const HELP: &str = "\
Type a prompt and press Enter; the model continues it. In a prompt, \\n is a newline and \\\\ a
backslash. An empty prompt starts from a newline. Ctrl-C stops. Each prompt starts afresh.
/temp [T]         temperature, 0 takes the likeliest character (0.8)
/topk [K]         sample among the K likeliest characters, or off (off)
/topp [P]         sample among the likeliest that sum up to P, or off (off)
/seed [N]         seed of the next texts, or random: anew for each, or boot: as at boot (boot)
/len [N]          characters in a text (256)
/save             keep these settings over a loss of power
/stats            speed and logits hash of the last text, longest step, RAM, stack, resets, drops
/bench [N]        this board's row of the table of boards, from a text of N characters (257)
/model            what the model is and where it comes from
/help             this page
";

/// What `/help` prints after [`HELP`].
#[cfg(feature = "frames")]
pub const FRAMES_HELP: &str = "\
/frames           for programs: frames instead of lines, see FRAMES.md; /bye or a Bye frame leaves it
";

/// A parsed command. `None` asks for the value in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Command {
    /// `/temp`
    Temperature(Option<f32>),
    /// `/topk`, 0 is off.
    TopK(Option<u16>),
    /// `/topp`, 1 is off.
    TopP(Option<f32>),
    /// `/seed`
    Seed(Option<Seed>),
    /// `/len`
    Len(Option<u32>),
    /// `/save`
    Save,
    /// `/stats`
    Stats,
    /// `/bench`, with the characters of its text.
    Bench(Option<u32>),
    /// `/fault`, in builds for tests.
    #[cfg(feature = "faults")]
    Fault(crate::fault::Kind),
    /// `/frames`
    #[cfg(feature = "frames")]
    Frames,
    /// `/model`
    Model,
    /// `/help`
    Help,
}

/// A line that begins with a slash and is no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandError<'l> {
    /// No command has this name.
    Unknown(&'l str),
    /// The command takes another value.
    Value {
        /// The command, with its slash.
        command: &'l str,
        /// What it takes.
        expected: &'static str,
        /// What was typed.
        found: &'l str,
    },
}

impl fmt::Display for CommandError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(
                f,
                "no command {name}: expected /temp, /topk, /topp, /seed, /len, /save, /stats, /bench, \
                 /model{} or /help",
                if cfg!(feature = "frames") {
                    ", /frames"
                } else {
                    ""
                }
            ),
            Self::Value {
                command,
                expected,
                found,
            } => {
                write!(f, "{command} takes {expected}, found {found:?}")
            }
        }
    }
}

impl core::error::Error for CommandError<'_> {}

impl Command {
    /// Parses a line that begins with a slash.
    ///
    /// # Errors
    ///
    /// If the name is not known or the value is not of the command's kind. Ranges are checked where
    /// the value is used.
    pub fn parse(line: &str) -> Result<Self, CommandError<'_>> {
        let line = line.trim();
        let (name, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let value = Value {
            command: name,
            text: value.trim(),
        };
        match name {
            "/temp" => value
                .optional("0 to 9999999 in up to 7 digits", number)
                .map(Self::Temperature),
            "/topk" => value
                .optional("a whole number up to 65535, or off", off_or(0, parse))
                .map(Self::TopK),
            "/topp" => value
                .optional(
                    "a number above 0 and at most 1, or off",
                    off_or(1.0, number),
                )
                .map(Self::TopP),
            "/seed" => value
                .optional("a whole number, random or boot", |text| match text {
                    "random" => Some(Seed::Random),
                    "boot" => Some(Seed::Boot),
                    _ => parse(text).map(Seed::Fixed),
                })
                .map(Self::Seed),
            "/len" => value.optional(LEN, len).map(Self::Len),
            "/save" => value.none().map(|()| Self::Save),
            "/bench" => value.optional(LEN, len).map(Self::Bench),
            #[cfg(feature = "faults")]
            "/fault" => (value.optional(crate::fault::KINDS, crate::fault::Kind::parse))
                .and_then(|kind| kind.ok_or_else(|| value.error(crate::fault::KINDS)))
                .map(Self::Fault),
            #[cfg(feature = "frames")]
            "/frames" => value.none().map(|()| Self::Frames),
            "/stats" => value.none().map(|()| Self::Stats),
            "/model" => value.none().map(|()| Self::Model),
            "/help" => value.none().map(|()| Self::Help),
            _ => Err(CommandError::Unknown(name)),
        }
    }
}

const LEN: &str = "a whole number from 1 to 4294967295";

fn len(text: &str) -> Option<u32> {
    parse(text).filter(|&len| len > 0)
}

fn parse<T: core::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Parses digits with at most one point.
///
/// Gives what `f32::from_str` gives, whose tables take 14 KiB of flash: both numbers of the division are
/// exact, so its result is the nearest `f32`. Longer or more precise numbers are none.
fn number(text: &str) -> Option<f32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 10 {
        return None;
    }
    let mut digits = whole.bytes().chain(fraction.bytes());
    let digits = digits.try_fold(0_u32, |number, byte| {
        let digit = char::from(byte).to_digit(10)?;
        let number = 10 * number + digit;
        (number <= 1 << f32::MANTISSA_DIGITS).then_some(number)
    })?;
    let scale = fraction.bytes().fold(1.0, |scale, _| 10.0 * scale);
    Some(digits as f32 / scale)
}

fn off_or<T: Copy>(off: T, parse: impl Fn(&str) -> Option<T>) -> impl Fn(&str) -> Option<T> {
    move |text| {
        if text == "off" {
            Some(off)
        } else {
            parse(text)
        }
    }
}

struct Value<'l> {
    command: &'l str,
    text: &'l str,
}

impl<'l> Value<'l> {
    fn optional<T>(
        &self,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, CommandError<'l>> {
        if self.text.is_empty() {
            return Ok(None);
        }
        parse(self.text)
            .map(Some)
            .ok_or_else(|| self.error(expected))
    }

    fn none(&self) -> Result<(), CommandError<'l>> {
        if self.text.is_empty() {
            Ok(())
        } else {
            Err(self.error("no value"))
        }
    }

    fn error(&self, expected: &'static str) -> CommandError<'l> {
        CommandError::Value {
            command: self.command,
            expected,
            found: self.text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_parse() {
        assert_eq!(Command::parse("/temp"), Ok(Command::Temperature(None)));
        assert_eq!(
            Command::parse("/temp  0.5 "),
            Ok(Command::Temperature(Some(0.5)))
        );
        assert_eq!(Command::parse("/topk off"), Ok(Command::TopK(Some(0))));
        assert_eq!(Command::parse("/topp off"), Ok(Command::TopP(Some(1.0))));
        assert_eq!(
            Command::parse("/seed random"),
            Ok(Command::Seed(Some(Seed::Random)))
        );
        assert_eq!(
            Command::parse("/seed 7"),
            Ok(Command::Seed(Some(Seed::Fixed(7))))
        );
        assert_eq!(Command::parse("/len\t12"), Ok(Command::Len(Some(12))));
        assert_eq!(Command::parse("/help"), Ok(Command::Help));
    }

    #[test]
    fn numbers_are_the_nearest() {
        for text in [
            "0.8",
            "1",
            "1.",
            ".5",
            "16777216",
            "0.1234567",
            "1.7345",
            "0.0000000001",
            "007.10",
        ] {
            assert_eq!(number(text), text.parse().ok(), "{text}");
        }
        for n in 0..200_000_u32 {
            let text = std::format!("{}.{:05}", n / 10_000, n % 10_000 * 7 % 100_000);
            assert_eq!(number(&text), text.parse().ok(), "{text}");
        }
        for text in [
            "",
            ".",
            "-1",
            "+1",
            "1e3",
            "inf",
            "nan",
            "0.8 ",
            "1.2.3",
            "16777217",
            "0.00000000001",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn errors_say_what_was_expected_and_found() {
        let error = |line| std::format!("{}", Command::parse(line).unwrap_err());
        assert_eq!(
            error("/temp hot"),
            "/temp takes 0 to 9999999 in up to 7 digits, found \"hot\""
        );
        assert_eq!(
            error("/len 0"),
            "/len takes a whole number from 1 to 4294967295, found \"0\""
        );
        assert_eq!(
            error("/topk -1"),
            "/topk takes a whole number up to 65535, or off, found \"-1\""
        );
        assert_eq!(error("/stats all"), "/stats takes no value, found \"all\"");
        assert!(error("/quit").starts_with("no command /quit: expected /temp"));
        assert!(error("/").starts_with("no command /: expected"));
    }
}
