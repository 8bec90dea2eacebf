//! The read-evaluate-print loop.

use core::fmt::Write as _;

use embedded_hal::digital::OutputPin;
use embedded_io::{Read, ReadReady, Write};
use runtime::{Model, Session, Settings};

use crate::command::{Command, HELP, Seed};
use crate::console::{Console, Lost, TYPE_AHEAD_BYTES};
use crate::generate::{DEFAULT_LEN, DEFAULT_SEED, Generation, Progress, Request};
use crate::line::{Edit, LINE_BYTES, LineEditor};
use crate::log::info;
use crate::prompt;
use crate::report::{About, Decimal, Fault, LastText};

/// What the REPL prints when it waits for a line.
pub const PROMPT: &str = "> ";

/// What the REPL works with.
pub(crate) struct Repl<'m, S, L, C> {
    pub(crate) console: Console<S>,
    pub(crate) led: L,
    pub(crate) clock: C,
    /// The model in flash, even where it cannot run here.
    pub(crate) model: Option<&'m Model<'m>>,
    pub(crate) session: Result<Session<'m>, Fault>,
    /// Bytes of RAM that a model may use.
    pub(crate) state_bytes: usize,
}

/// What the commands change.
struct Choices {
    settings: Settings,
    seed: Seed,
    len: u32,
}

/// What `/stats` shows beside the model.
#[derive(Default)]
struct Counters {
    last: LastText,
    lost: Lost,
}

impl<S, L, C> Repl<'_, S, L, C>
where
    S: Read + ReadReady + Write,
    L: OutputPin,
    C: FnMut() -> u64,
{
    /// Serves the terminal until its line ends.
    pub(crate) fn run(mut self) {
        let mut choices = Choices {
            settings: Settings::default(),
            seed: Seed::Fixed(DEFAULT_SEED),
            len: DEFAULT_LEN,
        };
        let mut counters = Counters::default();
        let mut editor = LineEditor::new();
        self.print(format_args!("{PROMPT}"));
        while let Some(byte) = self.console.next_byte() {
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
                        self.command(line, &mut choices, &counters);
                    } else {
                        self.generate(line, &choices, &mut counters);
                    }
                    self.say_lost(&mut counters);
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

    fn command(&mut self, line: &str, choices: &mut Choices, counters: &Counters) {
        let mut settings = choices.settings;
        match Command::parse(line) {
            Err(error) => return self.print(format_args!("({error})\n")),
            Ok(Command::Stats) => return self.stats(counters),
            Ok(Command::Help) => return self.print(format_args!("{HELP}")),
            Ok(Command::Model) => {
                if let Some(model) = self.model {
                    self.print(format_args!("{}", About(model)));
                }
                if let Err(fault) = self.session {
                    self.print(format_args!("({fault})\n"));
                }
                return;
            }
            Ok(Command::Temperature(value)) => {
                settings.temperature = value.unwrap_or(settings.temperature);
            }
            Ok(Command::TopK(value)) => settings.top_k = value.unwrap_or(settings.top_k),
            Ok(Command::TopP(value)) => settings.top_p = value.unwrap_or(settings.top_p),
            Ok(Command::Seed(value)) => choices.seed = value.unwrap_or(choices.seed),
            Ok(Command::Len(value)) => choices.len = value.unwrap_or(choices.len),
        }
        match settings.validate() {
            Ok(()) => choices.settings = settings,
            Err(error) => return self.print(format_args!("({error})\n")),
        }
        self.print(format_args!(
            "temperature {}, top-k ",
            Decimal(settings.temperature)
        ));
        match settings.top_k {
            0 => self.print(format_args!("off")),
            top_k => self.print(format_args!("{top_k}")),
        }
        if settings.top_p < 1.0 {
            self.print(format_args!(", top-p {}", Decimal(settings.top_p)));
        } else {
            self.print(format_args!(", top-p off"));
        }
        self.print(format_args!(
            ", seed {}, length {}\n",
            choices.seed, choices.len
        ));
    }

    fn stats(&mut self, counters: &Counters) {
        self.print(format_args!("{}", counters.last));
        let needed = self.model.map_or(0, |model| model.config().state_bytes());
        let Lost {
            surplus,
            receive_errors,
        } = counters.lost;
        let (state_bytes, queue) = (self.state_bytes, TYPE_AHEAD_BYTES);
        self.print(format_args!(
            "RAM {needed} of {state_bytes} bytes for the model\n\
             {surplus} bytes dropped past a queue of {queue}, {receive_errors} receive errors\n"
        ));
    }

    fn generate(&mut self, line: &str, choices: &Choices, counters: &mut Counters) {
        let Self {
            console,
            led,
            clock,
            session,
            ..
        } = self;
        let session = match session {
            Ok(session) => session,
            Err(fault) => {
                let _ = writeln!(console, "({fault})");
                return;
            }
        };
        let start = clock();
        let vocab = session.model().vocab();
        // One token per character, at most one character per byte: it cannot overflow.
        let mut tokens = heapless::Vec::<u16, LINE_BYTES>::new();
        let unknown = prompt::encode(line, vocab, &mut tokens);
        if unknown.count() > 0 {
            let _ = writeln!(console, "({unknown})");
        }
        let seed = match choices.seed {
            Seed::Fixed(seed) => seed,
            Seed::Random => {
                let seed = random_seed(start, counters.last.seed);
                let _ = writeln!(console, "(seed {seed})");
                seed
            }
        };
        let mut last = LastText {
            prompt: tokens.len() as u32,
            seed,
            ..LastText::default()
        };
        let request = Request {
            settings: choices.settings,
            seed,
            len: choices.len,
        };
        let mut generation = match Generation::new(session, &tokens, request) {
            Ok(generation) => generation,
            Err(error) => {
                let _ = writeln!(console, "({error})");
                return;
            }
        };
        let mut lit = true;
        let _ = led.set_high();
        let outcome = loop {
            if console.poll() {
                break Ok("\n(stopped)");
            }
            match generation.advance() {
                Ok(Progress::Working) => {}
                Ok(Progress::Token(token)) => {
                    vocab
                        .char(token)
                        .into_iter()
                        .for_each(|character| console.put(character));
                    last.count(clock().wrapping_sub(start));
                    lit = !lit;
                    let _ = if lit { led.set_high() } else { led.set_low() };
                }
                Ok(Progress::Done) => break Ok(""),
                Err(error) => break Err(error),
            }
        };
        let _ = led.set_low();
        let _ = match outcome {
            Ok(end) => writeln!(console, "{end}"),
            Err(error) => writeln!(console, "\n({error})"),
        };
        last.hash = generation.hash();
        counters.last = last;
        info!(
            "text of {=u32} characters in {=u64} us",
            last.characters, last.text_us
        );
    }

    fn say_lost(&mut self, counters: &mut Counters) {
        let lost = self.console.take_lost();
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
        counters.lost.surplus = counters.lost.surplus.saturating_add(lost.surplus);
        counters.lost.receive_errors = counters
            .lost
            .receive_errors
            .saturating_add(lost.receive_errors);
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
