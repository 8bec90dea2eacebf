//! The commands: lines that begin with a slash.

use core::fmt;

/// What `/help` prints.
pub const HELP: &str = "\
Type a prompt and press Enter; the model continues it. In a prompt, \\n is a newline and \\\\ a
backslash. An empty prompt starts from a newline. Ctrl-C stops. Each prompt starts afresh.
/temp [T]         temperature, 0 takes the likeliest character (0.8)
/topk [K]         sample among the K likeliest characters, or off (off)
/topp [P]         sample among the likeliest that sum up to P, or off (off)
/seed [N|random]  seed of the next texts (1)
/len [N]          characters in a text (256)
/stats            speed and logits hash of the last text, RAM, counts of dropped bytes
/model            what the model is and where it comes from
/help             this page
";

/// Where a text's seed comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seed {
    /// The same for each prompt.
    Fixed(u64),
    /// Drawn anew for each prompt, and said.
    Random,
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(seed) => write!(f, "{seed}"),
            Self::Random => f.write_str("random"),
        }
    }
}

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
    /// `/stats`
    Stats,
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
                "no command {name}: expected /temp, /topk, /topp, /seed, /len, /stats, /model or /help"
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
                .optional("a number such as 0.8", parse)
                .map(Self::Temperature),
            "/topk" => value
                .optional("a whole number or off", off_or(0))
                .map(Self::TopK),
            "/topp" => value
                .optional("a number such as 0.9, or off", off_or(1.0))
                .map(Self::TopP),
            "/seed" => value
                .optional("a whole number or random", |text| match text {
                    "random" => Some(Seed::Random),
                    _ => parse(text).map(Seed::Fixed),
                })
                .map(Self::Seed),
            "/len" => value
                .optional("a whole number from 1 to 4294967295", |text| {
                    parse(text).filter(|&len| len > 0)
                })
                .map(Self::Len),
            "/stats" => value.none().map(|()| Self::Stats),
            "/model" => value.none().map(|()| Self::Model),
            "/help" => value.none().map(|()| Self::Help),
            _ => Err(CommandError::Unknown(name)),
        }
    }
}

fn parse<T: core::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn off_or<T: core::str::FromStr + Copy>(off: T) -> impl Fn(&str) -> Option<T> {
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
    fn errors_say_what_was_expected_and_found() {
        let error = |line| std::format!("{}", Command::parse(line).unwrap_err());
        assert_eq!(
            error("/temp hot"),
            "/temp takes a number such as 0.8, found \"hot\""
        );
        assert_eq!(
            error("/len 0"),
            "/len takes a whole number from 1 to 4294967295, found \"0\""
        );
        assert_eq!(
            error("/topk -1"),
            "/topk takes a whole number or off, found \"-1\""
        );
        assert_eq!(error("/stats all"), "/stats takes no value, found \"all\"");
        assert!(error("/quit").starts_with("no command /quit: expected /temp"));
        assert!(error("/").starts_with("no command /: expected"));
    }
}
