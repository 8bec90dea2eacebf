//! Programs talk to the boards in frames.

use std::time::Duration;

use app::command::Seed;
use app::frames::{
    End, Error, FRAME_BYTES, Message, Reader, Reply, Request, Settings, VERSION, decode, encode,
};
use app::generate::{Generation, Progress, Request as Wanted};
use parity::emulators::{Chat, Machine};
use parity::shapes::random_blob;
use runtime::{Model, Session};

use crate::support::{RING, booted, on_host};

const SETTINGS: Settings = Settings {
    temperature: 1.0,
    top_k: 30,
    top_p: 0.9,
    seed: Seed::Fixed(5),
    len: 24,
};

/// A program at the other end of a board's line.
struct Program {
    chat: Chat,
    reader: Reader<[u8; FRAME_BYTES]>,
    bytes: Vec<u8>,
}

impl Program {
    /// Has a board that waits at its prompt string speak in frames.
    fn enter(mut chat: Chat) -> Self {
        chat.send(b"/frames\r").unwrap();
        chat.expect("/frames\r\n\0").unwrap();
        Self {
            chat,
            reader: Reader::new([0; FRAME_BYTES]),
            bytes: Vec::new(),
        }
    }

    fn send(&mut self, id: u32, body: Request<'_>) {
        let mut out = [0; FRAME_BYTES];
        let frame = encode(&Message { id, body }, &mut out).unwrap();
        self.chat.send(frame).unwrap();
    }

    /// Waits for a reply and hands it to `take`.
    fn reply<T>(&mut self, take: impl Fn(u32, Reply<'_>) -> T) -> T {
        loop {
            while !self.bytes.is_empty() {
                if let Some(payload) = self.reader.feed(self.bytes.remove(0)) {
                    let message = decode::<Reply<'_>>(payload.unwrap()).unwrap();
                    return take(message.id, message.body);
                }
            }
            self.bytes = self.chat.take(Duration::from_secs(120)).unwrap();
            assert!(!self.bytes.is_empty(), "the board has gone quiet");
        }
    }

    /// Returns the tokens of the text `id`, their probabilities, the text, its hash and its end.
    fn text(&mut self, id: u32) -> (Vec<(u16, u32)>, String, u64, End) {
        let (mut tokens, mut text) = (Vec::new(), String::new());
        loop {
            let done = self.reply(|of, reply| {
                assert_eq!(of, id);
                match reply {
                    Reply::Token {
                        token,
                        probability,
                        text,
                    } => Ok((token, probability, text.to_owned())),
                    Reply::Done { hash, end, .. } => Err((hash, end)),
                    other => panic!("{other:?}"),
                }
            });
            match done {
                Ok((token, probability, characters)) => {
                    tokens.push((token, probability));
                    text += &characters;
                }
                Err((hash, end)) => return (tokens, text, hash, end),
            }
        }
    }

    fn begins(&mut self) -> u64 {
        self.reply(|_, reply| match reply {
            Reply::Begin { seed, .. } => seed,
            other => panic!("{other:?}"),
        })
    }
}

/// Returns what the host's engine draws, with the probabilities.
fn drawn(line: &str) -> Vec<(u16, u32)> {
    let blob = random_blob(RING, 1);
    let model = Model::from_bytes(&blob).unwrap();
    let mut state = vec![0; model.state_words()];
    let mut session = Session::new(&model, &mut state).unwrap();
    let prompt: Vec<u16> = line
        .chars()
        .map(|char| model.vocab().token(char).unwrap())
        .collect();
    let mut generation = Generation::new(&mut session, &prompt, wanted()).unwrap();
    let mut tokens = Vec::new();
    loop {
        match generation.advance().unwrap() {
            Progress::Working => {}
            Progress::Token(token) => tokens.push((token, generation.probability())),
            Progress::Done => return tokens,
        }
    }
}

fn wanted() -> Wanted {
    Wanted {
        settings: runtime::Settings {
            temperature: SETTINGS.temperature,
            top_k: SETTINGS.top_k,
            top_p: SETTINGS.top_p,
        },
        seed: 5,
        len: SETTINGS.len,
    }
}

/// Hello, a prompt, a prompt that is cancelled, a broken frame, statistics, and back to the terminal.
fn session(machine: Machine) {
    let mut program = Program::enter(booted(machine));
    program.send(1, Request::Hello { version: VERSION });
    program.reply(|id, reply| {
        assert!(matches!(reply, Reply::Hello { version: VERSION, model: Some(_), .. } if id == 1));
    });
    program.send(2, Request::Set(SETTINGS));
    program.reply(|_, reply| assert_eq!(reply, Reply::Settings(SETTINGS)));

    program.send(3, Request::Prompt { text: "ROMEO:" });
    assert_eq!(program.begins(), 5);
    let (tokens, text, hash, end) = program.text(3);
    let (known, said) = on_host(&random_blob(RING, 1), "ROMEO:", wanted());
    assert_eq!((tokens, text), (drawn("ROMEO:"), known), "{machine:?}");
    assert_eq!(
        (format!("logits hash {hash:016x}\n"), end),
        (said, End::Complete)
    );

    let endless = Settings {
        len: u32::MAX,
        ..SETTINGS
    };
    program.send(4, Request::Set(endless));
    program.reply(|_, reply| assert_eq!(reply, Reply::Settings(endless)));
    program.send(5, Request::Prompt { text: "ROMEO:" });
    program.begins();
    program.reply(|_, reply| assert!(matches!(reply, Reply::Token { .. })));
    program.chat.send(b"no frame\0").unwrap();
    program.send(6, Request::Stats);
    program.send(5, Request::Cancel);
    let (tokens, _, _, end) = program.text(5);
    assert_eq!(end, End::Cancelled);
    program.reply(|id, reply| assert_eq!((id, reply), (0, Reply::Error(Error::Damaged))));
    program.reply(|id, reply| match reply {
        Reply::Stats(stats) => {
            assert_eq!((id, stats.tokens as usize), (6, tokens.len() + 1));
            assert_eq!(
                (stats.resets, stats.dropped, stats.receive_errors),
                (0, 0, 0)
            );
            assert!(stats.stack.unwrap().used <= 8_192, "{stats:?}");
        }
        other => panic!("{other:?}"),
    });

    program.send(7, Request::Set(SETTINGS));
    program.reply(|_, reply| assert_eq!(reply, Reply::Settings(SETTINGS)));
    program.send(8, Request::Bye);
    program.reply(|id, reply| assert_eq!((id, reply), (8, Reply::Bye)));
    let mut chat = program.chat;
    chat.put_back(&program.bytes);
    assert_eq!(chat.prompt().unwrap(), "");
    let known = on_host(&random_blob(RING, 1), "JULIET:", wanted()).0;
    assert_eq!(chat.ask("JULIET:").unwrap(), known);
}

#[test]
#[ignore = "needs QEMU"]
fn qemu_serves_programs() {
    session(Machine::Qemu);
}

#[test]
#[ignore = "needs rp2040js"]
fn pico_serves_programs() {
    session(Machine::Pico);
}
