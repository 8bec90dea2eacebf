//! The REPL: lines in, texts and answers out.

use core::fmt::{self, Write as _};

use embedded_hal::digital::OutputPin;
use embedded_io::{Read, ReadReady, Write};
use runtime::{Model, Session};

use crate::bench;
use crate::board::{Chip, TYPE_AHEAD_BYTES};
use crate::command::{Command, HELP, Seed};
use crate::console::{Console, Lost};
use crate::generate::{GenerateError, Request};
use crate::help::Help;
use crate::line::{Edit, LineEditor};
use crate::log::info;
use crate::prompt;
use crate::report::{About, Fault, LastText, Speed};
use crate::settings::Choices;
use crate::text::{self, End, Listener};

/// What the REPL prints when it waits for a line.
pub const PROMPT: &str = "> ";

/// What the REPL works with.
pub(crate) struct Repl<'m, S, L, C> {
    pub(crate) name: &'static str,
    pub(crate) console: Console<'m, S>,
    pub(crate) led: L,
    pub(crate) chip: C,
    /// The model in flash, even where it cannot run here.
    pub(crate) model: Option<&'m Model<'m>>,
    pub(crate) session: Result<Session<'m>, Fault>,
    /// Bytes of RAM that a model may use.
    pub(crate) state_bytes: usize,
    #[cfg_attr(not(feature = "assist"), expect(dead_code, reason = "there is none"))]
    pub(crate) help: Help<'m>,
    /// Room for a prompt.
    pub(crate) tokens: &'m mut [u16],
    pub(crate) choices: Choices,
    pub(crate) counters: Counters,
}

/// What `/stats` shows beside the model.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) last: LastText,
    pub(crate) lost: Lost,
    /// The longest time between two feeds of the watchdog while texts were made.
    pub(crate) longest_us: u64,
}

/// Why no text was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoText {
    /// There is no model.
    Fault(Fault),
    /// The model does not take the request.
    Error(GenerateError),
}

impl fmt::Display for NoText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::Error(error) => error.fmt(f),
        }
    }
}

/// A person at a terminal.
struct Person;

impl<S: Read + ReadReady + Write> Listener<S> for Person {
    fn poll(&mut self, console: &mut Console<'_, S>) -> bool {
        console.poll()
    }

    fn character(&mut self, console: &mut Console<'_, S>, character: char) {
        console.put(character);
    }
}

/// A person who wants the measurement, not the text.
struct Clerk;

impl<S: Read + ReadReady + Write> Listener<S> for Clerk {
    fn poll(&mut self, console: &mut Console<'_, S>) -> bool {
        console.poll()
    }

    fn character(&mut self, _console: &mut Console<'_, S>, _character: char) {}
}

impl<S, L, C> Repl<'_, S, L, C>
where
    S: Read + ReadReady + Write,
    L: OutputPin,
    C: Chip,
{
    /// Serves the terminal until its line ends.
    pub(crate) fn run(mut self, editor: &mut LineEditor) {
        self.print(format_args!("{PROMPT}"));
        while let Some(byte) = self.console.next_byte(&mut self.chip) {
            match editor.feed(byte) {
                Edit::None => {}
                Edit::Echo(character) => self.console.put(character),
                Edit::Erase => self.print(format_args!("\x08 \x08")),
                Edit::Interrupt => self.print(format_args!("^C\n{PROMPT}")),
                Edit::Submit => {
                    self.print(format_args!("\n"));
                    if !editor.dropped().is_empty() {
                        self.print(format_args!("({})\n", editor.dropped()));
                    }
                    let line = editor.line();
                    if line.starts_with('/') {
                        self.command(line);
                    } else {
                        self.generate(line);
                    }
                    self.say_lost();
                    editor.clear();
                    self.print(format_args!("{PROMPT}"));
                }
            }
        }
    }

    fn print(&mut self, text: core::fmt::Arguments<'_>) {
        // The console swallows write errors, so formatting cannot fail.
        let _ = self.console.write_fmt(text);
    }

    fn command(&mut self, line: &str) {
        let mut choices = self.choices;
        match Command::parse(line) {
            Err(error) => return self.print(format_args!("({error})\n")),
            Ok(Command::Stats) => return self.stats(),
            Ok(Command::Bench(len)) => return self.bench(len.unwrap_or(bench::LEN)),
            Ok(Command::Help) => {
                self.print(format_args!("{HELP}"));
                #[cfg(feature = "frames")]
                self.print(format_args!("{}", crate::command::FRAMES_HELP));
                return;
            }
            #[cfg(feature = "frames")]
            Ok(Command::Frames) => {
                self.frames();
                return self.print(format_args!("\n"));
            }
            Ok(Command::Model) => {
                if let Some(model) = self.model {
                    self.print(format_args!("{}", About(model)));
                }
                if let Err(fault) = self.session {
                    self.print(format_args!("({fault})\n"));
                }
                return;
            }
            Ok(Command::Save) => {
                return match self.chip.save(&choices.record()) {
                    Ok(()) => self.print(format_args!("saved: {choices}\n")),
                    Err(error) => self.print(format_args!("({error})\n")),
                };
            }
            #[cfg(feature = "faults")]
            Ok(Command::Fault(kind)) => return kind.happen(),
            Ok(Command::Temperature(value)) => {
                choices.settings.temperature = value.unwrap_or(choices.settings.temperature);
            }
            Ok(Command::TopK(value)) => {
                choices.settings.top_k = value.unwrap_or(choices.settings.top_k);
            }
            Ok(Command::TopP(value)) => {
                choices.settings.top_p = value.unwrap_or(choices.settings.top_p);
            }
            Ok(Command::Seed(value)) => choices.seed = value.unwrap_or(choices.seed),
            Ok(Command::Len(value)) => choices.len = value.unwrap_or(choices.len),
        }
        match choices.settings.validate() {
            Ok(()) => self.choices = choices,
            Err(error) => return self.print(format_args!("({error})\n")),
        }
        self.print(format_args!("{choices}\n"));
    }

    fn stats(&mut self) {
        if let Some(model) = self.model {
            let run = model.header().provenance.run;
            self.print(format_args!("model {run}, CRC-32 {:08x}\n", model.crc()));
        }
        let speed = Speed {
            last: self.counters.last,
            core_hz: self.chip.core_hz(),
        };
        self.print(format_args!("{speed}"));
        let longest_us = self.counters.longest_us;
        self.print(format_args!("longest step {longest_us} us"));
        match self.chip.watchdog_ms() {
            Some(ms) => self.print(format_args!(", the watchdog waits {ms} ms\n")),
            None => self.print(format_args!(", no watchdog\n")),
        }
        let needed = self.model.map_or(0, |model| model.state_bytes());
        let state_bytes = self.state_bytes;
        self.print(format_args!(
            "RAM {needed} of {state_bytes} bytes for the model"
        ));
        if let Some(stack) = self.chip.stack() {
            self.print(format_args!(
                ", stack {} of {} bytes",
                stack.used, stack.size
            ));
        }
        self.print(format_args!("\n"));
        #[cfg(feature = "assist")]
        if let Some(kept) = self.help.kept {
            let report = crate::help::Report(kept, &self.chip);
            let _ = write!(self.console, "{report}");
        }
        let resets = self.chip.resets();
        self.print(format_args!(
            "{} resets since power, the last start by {}\n",
            resets.count, resets.last
        ));
        let Lost {
            surplus,
            receive_errors,
        } = self.counters.lost;
        self.print(format_args!(
            "{surplus} bytes dropped past a queue of {TYPE_AHEAD_BYTES}, {receive_errors} receive errors\n"
        ));
    }

    fn generate(&mut self, line: &str) {
        let n_token = self.encode(line);
        let seed = self.draw_seed();
        if self.choices.seed == Seed::Random {
            self.print(format_args!("(seed {seed})\n"));
        }
        let request = self.request(seed);
        if let Some((last, end)) = self.make_or_say(n_token, request, &mut Person) {
            self.print(format_args!("\n"));
            if end == End::Stopped {
                self.print(format_args!("(stopped)\n"));
            }
            info!(
                "text of {=u32} tokens in {=u64} us",
                last.tokens, last.text_us
            );
        }
    }

    /// Returns the seed of the next text.
    pub(crate) fn draw_seed(&mut self) -> u64 {
        match self.choices.seed {
            Seed::Boot => self.choices.boot_seed,
            Seed::Fixed(seed) => seed,
            Seed::Random => {
                let micros = self.chip.micros() ^ self.choices.boot_seed << 32;
                random_seed(micros, self.counters.last.seed)
            }
        }
    }

    /// Returns the settings in force, with this seed.
    pub(crate) fn request(&self, seed: u64) -> Request {
        Request {
            settings: self.choices.settings,
            seed,
            len: self.choices.len,
        }
    }

    fn bench(&mut self, len: u32) {
        let n_token = self.encode(bench::PROMPT);
        let request = Request {
            len,
            ..Request::default()
        };
        let Some((last, end)) = self.make_or_say(n_token, request, &mut Clerk) else {
            return;
        };
        let Some(model) = self.model else { return };
        if end == End::Stopped {
            return self.print(format_args!("(stopped)\n"));
        }
        let row = bench::Row {
            board: self.name,
            model,
            speed: Speed {
                last,
                core_hz: self.chip.core_hz(),
            },
            longest_us: self.counters.longest_us,
            stack: self.chip.stack(),
        };
        self.print(format_args!("{row}"));
    }

    /// Turns a line into tokens, says which characters are unknown and returns how many tokens.
    fn encode(&mut self, line: &str) -> usize {
        let Some(model) = self.model else { return 0 };
        let (tokens, unknown) = prompt::encode(line, model.vocab(), self.tokens);
        let n_token = tokens.len();
        if unknown.count() > 0 {
            self.print(format_args!("({unknown})\n"));
        }
        n_token
    }

    /// Makes a text of the first `n_token` of `tokens`.
    pub(crate) fn make(
        &mut self,
        n_token: usize,
        request: Request,
        listener: &mut dyn Listener<S>,
    ) -> Result<(LastText, End), NoText> {
        let session = match &mut self.session {
            Ok(session) => session,
            Err(fault) => return Err(NoText::Fault(*fault)),
        };
        let (last, end) = text::make(
            &mut self.console,
            &mut self.led,
            &mut self.chip,
            session,
            (self.tokens.get(..n_token).unwrap_or_default(), request),
            listener,
            &mut self.counters.longest_us,
        )
        .map_err(NoText::Error)?;
        self.counters.last = last;
        Ok((last, end))
    }

    /// Does what [`Repl::make`] does, or says why not.
    fn make_or_say(
        &mut self,
        n_token: usize,
        request: Request,
        listener: &mut dyn Listener<S>,
    ) -> Option<(LastText, End)> {
        let made = self.make(n_token, request, listener);
        if let Err(why) = made {
            self.print(format_args!("({why})\n"));
        }
        made.ok()
    }

    fn say_lost(&mut self) {
        let lost = self.take_lost();
        if lost.surplus > 0 {
            let surplus = lost.surplus;
            self.print(format_args!(
                "(dropped: {surplus} bytes typed past the {TYPE_AHEAD_BYTES} that wait their turn)\n"
            ));
        }
        if lost.receive_errors > 0 {
            self.print(format_args!(
                "(bytes were lost on the line {} times)\n",
                lost.receive_errors
            ));
        }
    }

    /// Returns what was lost since the last call, and counts it.
    pub(crate) fn take_lost(&mut self) -> Lost {
        let lost = self.console.take_lost();
        let sum = &mut self.counters.lost;
        sum.surplus = sum.surplus.saturating_add(lost.surplus);
        sum.receive_errors = sum.receive_errors.saturating_add(lost.receive_errors);
        lost
    }
}

/// Mixes the moment of the Enter key with the previous seed (the finaliser of `SplitMix64`).
///
/// The result is short enough to be typed after `/seed`.
fn random_seed(micros: u64, previous: u64) -> u64 {
    let mut x = micros.wrapping_add(previous.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) >> 32
}
