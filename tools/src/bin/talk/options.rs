//! The settings on the command line: parsed by the commands of the boards, so that both agree.

use app::command::{Command, Seed};
use app::frames;
use app::generate::{DEFAULT_LEN, DEFAULT_SEED, Request};
use clap::Args;
use runtime::Settings;

/// What a text is made by, besides prompt and model; what is left out is as it is on the board.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Temperature; 0 takes the likeliest character [default: 0.8]
    #[arg(long, value_name = "T", value_parser = temp, allow_negative_numbers = true)]
    temp: Option<f32>,
    /// Samples among the K likeliest characters; 0 or `off` is off [default: off]
    #[arg(long, value_name = "K", value_parser = topk, allow_negative_numbers = true)]
    topk: Option<u16>,
    /// Samples among the likeliest characters that sum up to P; 1 or `off` is off [default: off]
    #[arg(long, value_name = "P", value_parser = topp, allow_negative_numbers = true)]
    topp: Option<f32>,
    /// Seed, or `random`: anew for each text, or `boot`: the board's own [default: 1, of a board its own]
    #[arg(long, value_name = "N", value_parser = seed, allow_negative_numbers = true)]
    seed: Option<Seed>,
    /// Characters to make [default: 256]
    #[arg(long, value_name = "N", value_parser = len, allow_negative_numbers = true)]
    len: Option<u32>,
}

/// Has a board's command parse a value.
fn parse<T>(name: &str, text: &str, take: impl Fn(Command) -> Option<T>) -> Result<T, String> {
    let line = format!("{name} {text}");
    let command = Command::parse(&line).map_err(|error| error.to_string())?;
    take(command).ok_or_else(|| "expected a value".to_owned())
}

fn temp(text: &str) -> Result<f32, String> {
    let temperature = parse("/temp", text, |command| match command {
        Command::Temperature(value) => value,
        _ => None,
    })?;
    checked(Settings {
        temperature,
        ..Settings::default()
    })
    .map(|settings| settings.temperature)
}

fn topk(text: &str) -> Result<u16, String> {
    parse("/topk", text, |command| match command {
        Command::TopK(value) => value,
        _ => None,
    })
}

fn topp(text: &str) -> Result<f32, String> {
    let top_p = parse("/topp", text, |command| match command {
        Command::TopP(value) => value,
        _ => None,
    })?;
    checked(Settings {
        top_p,
        ..Settings::default()
    })
    .map(|settings| settings.top_p)
}

fn seed(text: &str) -> Result<Seed, String> {
    parse("/seed", text, |command| match command {
        Command::Seed(value) => value,
        _ => None,
    })
}

fn len(text: &str) -> Result<u32, String> {
    parse("/len", text, |command| match command {
        Command::Len(value) => value,
        _ => None,
    })
}

fn checked(settings: Settings) -> Result<Settings, String> {
    match settings.validate() {
        Ok(()) => Ok(settings),
        Err(error) => Err(error.to_string()),
    }
}

impl Options {
    /// Returns what the host makes a text by, and whether the seed was drawn.
    pub(crate) fn request(&self) -> (Request, bool) {
        let settings = Settings::default();
        let drawn = self.seed == Some(Seed::Random);
        let request = Request {
            settings: Settings {
                temperature: self.temp.unwrap_or(settings.temperature),
                top_k: self.topk.unwrap_or(settings.top_k),
                top_p: self.topp.unwrap_or(settings.top_p),
            },
            seed: match self.seed {
                Some(Seed::Fixed(seed)) => seed,
                Some(Seed::Random) => draw(),
                Some(Seed::Boot) | None => DEFAULT_SEED,
            },
            len: self.len.unwrap_or(DEFAULT_LEN),
        };
        (request, drawn)
    }

    /// Returns the commands that set on a board what was given.
    pub(crate) fn commands(&self) -> Vec<String> {
        let seed = self.seed.map(|seed| match seed {
            Seed::Boot => "boot".to_owned(),
            Seed::Fixed(seed) => seed.to_string(),
            Seed::Random => "random".to_owned(),
        });
        [
            self.temp.map(|value| format!("/temp {value}")),
            self.topk.map(|value| format!("/topk {value}")),
            self.topp.map(|value| format!("/topp {value}")),
            seed.map(|value| format!("/seed {value}")),
            self.len.map(|value| format!("/len {value}")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns a board's settings with what was given put in.
    pub(crate) fn over(&self, settings: frames::Settings) -> frames::Settings {
        frames::Settings {
            temperature: self.temp.unwrap_or(settings.temperature),
            top_k: self.topk.unwrap_or(settings.top_k),
            top_p: self.topp.unwrap_or(settings.top_p),
            seed: self.seed.unwrap_or(settings.seed),
            len: self.len.unwrap_or(settings.len),
        }
    }
}

/// Draws a seed that is short enough to be typed.
fn draw() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    // The keys of a hash table are random.
    RandomState::new().build_hasher().finish() >> 32
}
