//! The board's side: requests in, replies out, beside what the terminal does.

use core::fmt::Write as _;

use embedded_hal::digital::OutputPin;
use embedded_io::{Read, ReadReady, Write};
use heapless::String;

use super::codec::{FRAME_BYTES, Reader, decode, encode};
use super::message::{
    End, Error, Message, ModelInfo, Reply, Request, Settings, StackUse, Stats, VERSION,
};
use crate::board::Chip;
use crate::console::{Console, Lost, Taken};
use crate::line::LINE_BYTES;
use crate::prompt;
use crate::repl::{NoText, Repl};
use crate::settings::Choices;
use crate::text::{self, Listener};

/// Bytes of a frame that may be `Cancel`: id, variant and CRC-32, and COBS.
const CANCEL_BYTES: usize = 12;
/// Bytes of a token's text in one message.
const TEXT_BYTES: usize = 128;
/// Bytes of the sentence that says why there is no model.
const FAULT_BYTES: usize = 256;
/// What a person types to leave.
const LEAVE: &[u8] = b"/bye";

/// Sends a message.
fn send<S: Read + ReadReady + Write>(console: &mut Console<'_, S>, id: u32, body: Reply<'_>) {
    let mut frame = [0; FRAME_BYTES];
    let refusal = Message {
        id,
        body: Reply::Error(Error::TooLong),
    };
    let sealed = match encode(&Message { id, body }, &mut frame) {
        Ok(sealed) => sealed,
        Err(_) => encode(&refusal, &mut frame).unwrap_or_default(),
    };
    console.send(sealed);
}

/// A program that wants tokens, and may cancel.
struct Program<'r> {
    id: u32,
    /// Finds `Cancel` among the bytes that arrive.
    reader: Reader<&'r mut [u8]>,
    cancelled: bool,
    /// A token whose text is not sent yet.
    token: Option<(u16, u32)>,
    text: String<TEXT_BYTES>,
}

impl Program<'_> {
    fn look(&mut self, byte: u8) {
        let found = self.reader.feed(byte);
        if let Some(Ok(payload)) = found
            && let Ok(Message {
                id,
                body: Request::Cancel,
            }) = decode(payload)
        {
            self.cancelled |= id == self.id || id == 0;
        }
    }

    /// Sends the characters that wait, with their token or after it.
    fn flush<S: Read + ReadReady + Write>(&mut self, console: &mut Console<'_, S>) {
        let text = self.text.as_str();
        match self.token.take() {
            Some((token, probability)) => {
                let body = Reply::Token {
                    token,
                    probability,
                    text,
                };
                send(console, self.id, body);
            }
            None if text.is_empty() => {}
            None => send(console, self.id, Reply::More { text }),
        }
        self.text.clear();
    }
}

impl<S: Read + ReadReady + Write> Listener<S> for Program<'_> {
    fn poll(&mut self, console: &mut Console<'_, S>) -> bool {
        self.flush(console);
        console.receive(|byte| {
            self.look(byte);
            Taken::Later
        });
        self.cancelled
    }

    fn token(&mut self, token: u16, probability: u32) {
        self.token = Some((token, probability));
    }

    fn character(&mut self, console: &mut Console<'_, S>, character: char) {
        if self.text.push(character).is_err() {
            self.flush(console);
            // An empty buffer holds any character.
            let _ = self.text.push(character);
        }
    }
}

impl<S, L, C> Repl<'_, S, L, C>
where
    S: Read + ReadReady + Write,
    L: OutputPin,
    C: Chip,
{
    /// Serves a program until it says `Bye`, a person says `/bye`, or the line ends.
    pub(crate) fn frames(&mut self) {
        // What the terminal has shown so far is no part of the first frame.
        self.console.send(&[0]);
        let mut buffer = [0; FRAME_BYTES - 1];
        let mut reader = Reader::new(&mut buffer[..]);
        let mut greeted = false;
        while let Some(byte) = self.console.next_byte(&mut self.chip) {
            if matches!(byte, b'\r' | b'\n') && asks_to_leave(reader.waiting()) {
                return;
            }
            let Some(frame) = reader.feed(byte) else {
                continue;
            };
            match frame.and_then(decode) {
                Err(error) => self.reply(0, Reply::Error(error.into())),
                Ok(Message {
                    id,
                    body: Request::Bye,
                }) => return self.reply(id, Reply::Bye),
                Ok(Message {
                    id,
                    body: Request::Hello { version },
                }) => {
                    greeted = version == VERSION;
                    self.greet(id, version);
                }
                Ok(Message { id, .. }) if !greeted => self.reply(id, Reply::Error(Error::NoHello)),
                Ok(Message { id, body }) => self.answer(id, body),
            }
            let Lost {
                surplus,
                receive_errors,
            } = self.take_lost();
            if surplus > 0 || receive_errors > 0 {
                let lost = Error::Lost {
                    dropped: surplus,
                    receive_errors,
                };
                self.reply(0, Reply::Error(lost));
            }
        }
    }

    fn reply(&mut self, id: u32, body: Reply<'_>) {
        send(&mut self.console, id, body);
    }

    fn greet(&mut self, id: u32, program: u16) {
        if program != VERSION {
            let board = VERSION;
            return self.reply(id, Reply::Error(Error::Version { board, program }));
        }
        let model = self.model.map(|model| {
            let config = model.config();
            ModelInfo {
                run: model.header().provenance.run,
                n_params: config.n_params() as u32,
                context_len: config.context_len,
                vocab_size: config.vocab_size,
                crc: model.crc(),
            }
        });
        let hello = Reply::Hello {
            version: VERSION,
            board: self.name,
            model,
            boot_seed: self.choices.boot_seed,
        };
        self.reply(id, hello);
    }

    fn answer(&mut self, id: u32, request: Request<'_>) {
        match request {
            // Whatever it was to cancel has ended.
            Request::Cancel | Request::Hello { .. } | Request::Bye => {}
            Request::Prompt { text } => self.tell(id, text),
            Request::Settings => self.reply(id, Reply::Settings(settings(&self.choices))),
            Request::Set(wanted) => self.set(id, wanted),
            Request::Stats => {
                let stats = self.numbers();
                self.reply(id, Reply::Stats(stats));
            }
        }
    }

    fn set(&mut self, id: u32, wanted: Settings) {
        let settings = runtime::Settings {
            temperature: wanted.temperature,
            top_k: wanted.top_k,
            top_p: wanted.top_p,
        };
        let body = match settings.validate() {
            Err(runtime::SettingsError::Temperature) => Reply::Error(Error::Temperature),
            Err(_) => Reply::Error(Error::TopP),
            Ok(()) if wanted.len == 0 => Reply::Error(Error::Len),
            Ok(()) => {
                self.choices = Choices {
                    settings,
                    seed: wanted.seed,
                    len: wanted.len,
                    boot_seed: self.choices.boot_seed,
                };
                Reply::Settings(wanted)
            }
        };
        self.reply(id, body);
    }

    /// Makes a text.
    fn tell(&mut self, id: u32, text: &str) {
        if text.len() > LINE_BYTES {
            let too_long = Error::Prompt {
                limit: LINE_BYTES as u32,
                found: text.len() as u32,
            };
            return self.reply(id, Reply::Error(too_long));
        }
        let session = match &self.session {
            Ok(session) => session,
            Err(fault) => return self.refuse(id, NoText::Fault(*fault)),
        };
        let (tokens, unknown) =
            prompt::encode_chars(text.chars(), session.model().vocab(), self.tokens);
        let n_token = tokens.len();
        let seed = self.draw_seed();
        let begin = Reply::Begin {
            seed,
            prompt: n_token as u32,
            unknown: unknown.count(),
        };
        self.reply(id, begin);
        let mut buffer = [0; CANCEL_BYTES];
        let mut program = Program {
            id,
            reader: Reader::new(&mut buffer[..]),
            cancelled: false,
            token: None,
            text: String::new(),
        };
        // It may have been cancelled while it waited.
        self.console.waiting().for_each(|byte| program.look(byte));
        let request = self.request(seed);
        let (last, end) = match self.make(n_token, request, &mut program) {
            Ok(made) => made,
            Err(why) => return self.refuse(id, why),
        };
        program.flush(&mut self.console);
        let done = Reply::Done {
            end: match end {
                text::End::Complete => End::Complete,
                text::End::Stopped => End::Cancelled,
            },
            tokens: last.tokens,
            hash: last.hash,
            first_us: last.first_us,
            text_us: last.text_us,
        };
        self.reply(id, done);
    }

    /// Says why there is no text.
    #[inline(never)]
    fn refuse(&mut self, id: u32, why: NoText) {
        let mut said = String::<FAULT_BYTES>::new();
        // Longer sentences would end early.
        let _ = write!(said, "{why}");
        self.reply(id, Reply::Error(Error::NoModel(&said)));
    }

    fn numbers(&mut self) -> Stats {
        let (last, lost) = (self.counters.last, self.counters.lost);
        let resets = self.chip.resets();
        let needed = self.model.map_or(0, |model| model.state_bytes());
        Stats {
            seed: last.seed,
            prompt: last.prompt,
            tokens: last.tokens,
            characters: last.characters,
            hash: last.hash,
            first_us: last.first_us,
            text_us: last.text_us,
            core_hz: self.chip.core_hz(),
            longest_step_us: self.counters.longest_us,
            watchdog_ms: self.chip.watchdog_ms(),
            model_ram: (needed as u32, self.state_bytes as u32),
            stack: self.chip.stack().map(|stack| StackUse {
                used: stack.used as u32,
                size: stack.size as u32,
            }),
            resets: resets.count,
            last_reset: resets.last,
            dropped: lost.surplus,
            receive_errors: lost.receive_errors,
        }
    }
}

fn settings(choices: &Choices) -> Settings {
    Settings {
        temperature: choices.settings.temperature,
        top_k: choices.settings.top_k,
        top_p: choices.settings.top_p,
        seed: choices.seed,
        len: choices.len,
    }
}

/// Returns whether a person has typed `/bye`: nothing but text has come since the last zero, and
/// this is its last line.
///
/// No frame begins so: its variant is no printable character.
fn asks_to_leave(waiting: &[u8]) -> bool {
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\r' | b'\n');
    let last = waiting.rsplit(|byte| matches!(byte, b'\r' | b'\n')).next();
    last == Some(LEAVE) && waiting.iter().all(is_text)
}
