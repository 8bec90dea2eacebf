//! Sessions of a program over `/frames`.

use crate::support::{
    Led, STATE_WORDS, Terminal, TestChip, When, blob, blob_of_byte_pairs, run_on,
};
use app::command::Seed;
use app::frames::{
    End, FRAME_BYTES, Message, Reader, Reply, Request, Settings, VERSION, decode, encode,
};
use app::generate::{Generation, Progress, Request as Wanted};
use app::{TYPE_AHEAD_BYTES, prompt};
use checkpoint::AlignedBytes;
use runtime::{Decoder, Model, Session, SplitMix64, Vocab};

const SETTINGS: Settings = Settings {
    temperature: 1.0,
    top_k: 20,
    top_p: 0.9,
    seed: Seed::Fixed(12_345_678_901),
    len: 40,
};

fn frame(id: u32, body: Request<'_>) -> Vec<u8> {
    let mut out = [0; FRAME_BYTES];
    encode(&Message { id, body }, &mut out).unwrap().to_vec()
}

fn hello() -> Vec<u8> {
    frame(1, Request::Hello { version: VERSION })
}

/// Runs a board to the end of the script, after `/frames`, and returns every byte it sent since.
fn serve_on(chip: TestChip, blob: &[u8], script: &[(When, Vec<u8>)]) -> Vec<u8> {
    let mut whole: Vec<(When, &[u8])> = vec![(When::Prompt, b"/frames\r")];
    whole.extend(script.iter().map(|(when, bytes)| (*when, bytes.as_slice())));
    let seen = std::rc::Rc::default();
    let terminal = Terminal::new(&seen, &whole);
    run_on(chip, terminal, Led::default(), blob, STATE_WORDS);
    let seen = seen.take();
    let start = seen.windows(10).position(|bytes| bytes == b"/frames\r\n\0");
    seen[start.unwrap() + 10..].to_vec()
}

fn serve(script: &[(When, Vec<u8>)]) -> Vec<u8> {
    serve_on(TestChip::default(), &blob(), script)
}

/// Hands each message in `bytes` to `take` and returns what follows the last zero.
fn read(bytes: &[u8], mut take: impl FnMut(u32, Reply<'_>)) -> String {
    let mut buffer = [0; FRAME_BYTES];
    let mut reader = Reader::new(&mut buffer);
    for &byte in bytes {
        if let Some(payload) = reader.feed(byte) {
            let message: Message<Reply<'_>> = decode(payload.unwrap()).unwrap();
            take(message.id, message.body);
        }
    }
    String::from_utf8(reader.waiting().to_vec()).unwrap()
}

/// Returns the messages in `bytes` in the words of `Debug`, each after its id.
fn shown(bytes: &[u8]) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    read(bytes, |id, reply| found.push((id, format!("{reply:?}"))));
    found
}

/// A text as a program sees it.
#[derive(Debug, Default, PartialEq)]
struct Text {
    tokens: Vec<(u16, u32)>,
    text: String,
    hash: u64,
    end: Option<End>,
}

/// Collects the text that was asked for with `id`.
fn text(bytes: &[u8], wanted: u32) -> Text {
    let mut found = Text::default();
    read(bytes, |id, reply| match reply {
        _ if id != wanted => {}
        Reply::Token {
            token,
            probability,
            text,
        } => {
            found.tokens.push((token, probability));
            found.text += text;
        }
        Reply::More { text } => found.text += text,
        Reply::Done {
            end, hash, tokens, ..
        } => {
            assert_eq!(tokens as usize, found.tokens.len());
            found.end = Some(end);
            found.hash = hash;
        }
        _ => {}
    });
    found
}

/// What the host's engine makes of a prompt.
fn host(blob: &[u8], line: &str, settings: Settings) -> Text {
    let Seed::Fixed(seed) = settings.seed else {
        panic!("a seed is wanted");
    };
    let model = Model::from_bytes(blob).unwrap();
    let mut state = vec![0; model.state_words()];
    let mut session = Session::new(&model, &mut state).unwrap();
    let vocab = model.vocab();
    let mut buffer = vec![0; Vocab::encode_len(line.len())];
    let (tokens, _) = prompt::encode_chars(line.chars(), vocab, &mut buffer);
    let wanted = Wanted {
        settings: runtime::Settings {
            temperature: settings.temperature,
            top_k: settings.top_k,
            top_p: settings.top_p,
        },
        seed,
        len: settings.len,
    };
    let mut decoder = Decoder::after(vocab, tokens);
    let mut generation = Generation::new(&mut session, tokens, wanted).unwrap();
    let mut made = Text::default();
    loop {
        match generation.advance().unwrap() {
            Progress::Working => {}
            Progress::Token(token) => {
                made.tokens.push((token, generation.probability()));
                decoder.decode(vocab, token, |char| made.text.push(char));
            }
            Progress::Done => break,
        }
    }
    made.hash = generation.hash();
    made.end = Some(End::Complete);
    made
}

#[test]
fn a_whole_session() {
    let line = "ROMEO:\nO \\n";
    let sent = [
        hello(),
        frame(2, Request::Settings),
        frame(3, Request::Set(SETTINGS)),
        frame(4, Request::Prompt { text: line }),
        frame(5, Request::Stats),
        frame(6, Request::Bye),
        b"/temp\r".to_vec(),
    ];
    let seen = serve(&[(When::Idle, sent.concat())]);
    let known = host(&blob(), line, SETTINGS);
    assert_eq!(text(&seen, 4), known);
    assert!(
        known
            .tokens
            .iter()
            .all(|&(_, odds)| odds > 0 && odds <= 1 << 24)
    );
    assert!(known.tokens.iter().any(|&(_, odds)| odds < 1 << 23));
    let split = seen.iter().rposition(|&byte| byte == 0).unwrap() + 1;
    let mut kinds = Vec::new();
    let rest = read(&seen, |id, reply| match reply {
        Reply::Hello {
            version,
            board,
            model,
            boot_seed,
        } => {
            assert_eq!((version, board, boot_seed), (VERSION, "test", 1));
            let model = model.unwrap();
            assert_eq!((model.run, model.vocab_size), ("tiny", 65));
            assert_eq!(model.crc, Model::from_bytes(&blob()).unwrap().crc());
            kinds.push((id, "hello"));
        }
        Reply::Settings(found) if id == 2 => {
            assert_eq!(
                (found.temperature, found.len, found.seed),
                (0.8, 256, Seed::Boot)
            );
            kinds.push((id, "settings"));
        }
        Reply::Settings(found) => {
            assert_eq!(found, SETTINGS);
            kinds.push((id, "settings"));
        }
        Reply::Begin {
            seed,
            prompt,
            unknown,
        } => {
            assert_eq!((seed, prompt, unknown), (12_345_678_901, 10, 1));
            kinds.push((id, "begin"));
        }
        Reply::Stats(stats) => {
            assert_eq!((stats.tokens, stats.hash), (40, known.hash));
            assert_eq!(
                (stats.stack.unwrap().used, stats.watchdog_ms),
                (1_234, Some(5_000))
            );
            kinds.push((id, "stats"));
        }
        Reply::Bye => kinds.push((id, "bye")),
        Reply::Token { .. } | Reply::More { .. } | Reply::Done { .. } => {}
        Reply::Error(error) => panic!("{error}"),
    });
    let expected = [
        (1, "hello"),
        (2, "settings"),
        (3, "settings"),
        (4, "begin"),
        (5, "stats"),
        (6, "bye"),
    ];
    assert_eq!(kinds, expected);
    let terminal = String::from_utf8(seen[split..].to_vec()).unwrap();
    assert_eq!(rest, terminal);
    let known =
        "\r\n> /temp\r\ntemperature 1.0, top-k 20, top-p 0.9, seed 12345678901, length 40\r\n> ";
    assert_eq!(
        terminal, known,
        "the terminal goes on with the settings of the frames"
    );
}

#[test]
fn a_prompt_is_cancelled_in_the_middle_and_the_next_one_runs() {
    let long = Settings {
        len: 1_000_000,
        ..SETTINGS
    };
    let sent = [
        hello(),
        frame(2, Request::Set(long)),
        frame(3, Request::Prompt { text: "ROMEO:" }),
    ];
    let while_it_runs = [
        frame(4, Request::Set(SETTINGS)),
        frame(5, Request::Prompt { text: "JULIET:" }),
        frame(6, Request::Prompt { text: "KING:" }),
        // Of another text, which waits: this one goes on.
        frame(5, Request::Cancel),
        frame(3, Request::Cancel),
    ];
    let seen = serve(&[
        (When::Idle, sent.concat()),
        (When::Output(1_500), while_it_runs.concat()),
    ]);
    let cut = text(&seen, 3);
    assert_eq!(cut.end, Some(End::Cancelled));
    assert!(cut.tokens.len() > 20, "{cut:?}");
    let known = host(
        &blob(),
        "ROMEO:",
        Settings {
            len: cut.tokens.len() as u32,
            ..long
        },
    );
    assert_eq!((cut.tokens, cut.text), (known.tokens, known.text));
    let waited = text(&seen, 5);
    assert_eq!((waited.end, waited.text.len()), (Some(End::Cancelled), 0));
    assert_eq!(text(&seen, 6), host(&blob(), "KING:", SETTINGS));
}

#[test]
fn broken_frames_are_answered_and_leave_the_text_alone() {
    let mut damaged = frame(9, Request::Stats);
    damaged[2] ^= 4;
    let mut out = [0; FRAME_BYTES];
    let unknown = encode(
        &Message {
            id: 9,
            body: 99_u32,
        },
        &mut out,
    )
    .unwrap();
    let noise = [
        damaged.as_slice(),
        b"hello?\r\n\0",
        &[b'x'; 400],
        &[0, 0, 0],
        unknown,
        &frame(7, Request::Stats),
    ]
    .concat();
    let sent = [
        hello(),
        frame(2, Request::Set(SETTINGS)),
        frame(3, Request::Prompt { text: "ROMEO:" }),
    ];
    let seen = serve(&[(When::Idle, sent.concat()), (When::Output(200), noise)]);
    assert_eq!(text(&seen, 3), host(&blob(), "ROMEO:", SETTINGS));
    let shown = shown(&seen);
    let errors: Vec<&str> = shown
        .iter()
        .filter(|(id, _)| *id == 0)
        .map(|(_, said)| said.as_str())
        .collect();
    let expected = [
        "Error(Damaged)",
        "Error(Damaged)",
        "Error(TooLong)",
        "Error(Unknown)",
    ];
    assert_eq!(errors, expected);
    assert_eq!(
        shown.last().unwrap().0,
        7,
        "the request behind them is answered"
    );
}

#[test]
fn what_is_wrong_with_a_request_is_said() {
    let long = "x".repeat(257);
    let settings = |settings| frame(5, Request::Set(settings));
    let sent = [
        frame(1, Request::Prompt { text: "early" }),
        frame(2, Request::Hello { version: 2 }),
        frame(3, Request::Stats),
        hello(),
        frame(4, Request::Prompt { text: &long }),
        settings(Settings {
            temperature: f32::NAN,
            ..SETTINGS
        }),
        settings(Settings {
            top_p: 0.0,
            ..SETTINGS
        }),
        settings(Settings { len: 0, ..SETTINGS }),
        frame(6, Request::Cancel),
        frame(7, Request::Bye),
    ];
    let seen = shown(&serve(&[(When::Idle, sent.concat())]));
    let said: Vec<(u32, &str)> = seen.iter().map(|(id, said)| (*id, said.as_str())).collect();
    assert!(said[3].1.starts_with("Hello { version: 1,"), "{said:?}");
    let expected = [
        (1, "Error(NoHello)"),
        (2, "Error(Version { board: 1, program: 2 })"),
        (3, "Error(NoHello)"),
        (1, said[3].1),
        (4, "Error(Prompt { limit: 256, found: 257 })"),
        (5, "Error(Temperature)"),
        (5, "Error(TopP)"),
        (5, "Error(Len)"),
        (7, "Bye"),
    ];
    assert_eq!(said, expected);
}

#[test]
fn without_a_model_the_reason_is_the_terminals() {
    let sent = [
        hello(),
        frame(2, Request::Prompt { text: "a" }),
        frame(3, Request::Stats),
    ];
    let erased = AlignedBytes::from([0xff; 4_000].as_slice());
    let seen = serve_on(TestChip::default(), &erased, &[(When::Idle, sent.concat())]);
    let shown = shown(&seen);
    assert!(shown[0].1.contains("model: None"), "{shown:?}");
    assert!(
        shown[1]
            .1
            .starts_with("Error(NoModel(\"no model: nothing but erased memory is here")
            && shown[1].1.ends_with("rebuild this board)\"))"),
        "{shown:?}"
    );
    assert_eq!(shown[2].0, 3);
}

#[test]
fn a_person_leaves_by_a_line() {
    for typed in [&b"/bye\r"[..], b"what?\r\n/bye\n"] {
        let seen = serve(&[(When::Idle, [typed, b"/len 7\r"].concat())]);
        let seen = String::from_utf8(seen).unwrap();
        assert!(seen.starts_with("\r\n> /len 7\r\n"), "{seen}");
    }
}

#[test]
fn a_flood_is_counted_and_leaves_the_text_alone() {
    let sent = [
        hello(),
        frame(2, Request::Set(SETTINGS)),
        frame(3, Request::Prompt { text: "ROMEO:" }),
    ];
    let flood = [vec![b'x'; TYPE_AHEAD_BYTES + 123]].concat();
    let seen = serve(&[
        (When::Idle, sent.concat()),
        (When::Output(100), flood),
        (When::Idle, [vec![0], frame(4, Request::Stats)].concat()),
    ]);
    assert_eq!(text(&seen, 3), host(&blob(), "ROMEO:", SETTINGS));
    let said: Vec<String> = shown(&seen).into_iter().map(|(_, said)| said).collect();
    let lost = "Error(Lost { dropped: 123, receive_errors: 0 })";
    assert!(said.iter().any(|said| said == lost), "{said:?}");
    assert!(said.iter().any(|said| said == "Error(TooLong)"), "{said:?}");
    assert!(said.last().unwrap().contains("dropped: 123"), "{said:?}");
}

#[test]
fn byte_pairs_come_as_tokens() {
    let blob = blob_of_byte_pairs();
    let sent = [
        hello(),
        frame(2, Request::Set(SETTINGS)),
        frame(
            3,
            Request::Prompt {
                text: "the rain é"
            },
        ),
    ];
    let seen = serve_on(TestChip::default(), &blob, &[(When::Idle, sent.concat())]);
    assert_eq!(text(&seen, 3), host(&blob, "the rain é", SETTINGS));
}

/// Noise, frames whose bytes are changed, and whole frames, in any order; then a session goes on.
#[test]
fn random_bytes_never_disturb_the_board() {
    let mut rng = SplitMix64::new(5);
    let mut script = vec![(When::Idle, hello())];
    let short = Settings { len: 3, ..SETTINGS };
    script.push((When::Idle, frame(2, Request::Set(short))));
    for _ in 0..400 {
        let mut bytes = match rng.next_below(4) {
            0 => (0..rng.next_below(500))
                .map(|_| rng.next_u64() as u8)
                .collect(),
            1 => frame(rng.next_u64() as u32, Request::Cancel),
            2 => frame(rng.next_u64() as u32, Request::Stats),
            _ => frame(9, Request::Prompt { text: "KING" }),
        };
        if rng.next_below(2) == 0 && !bytes.is_empty() {
            let place = rng.next_below(bytes.len() as u32) as usize;
            bytes[place] = rng.next_u64() as u8;
        }
        script.push((When::Idle, bytes));
    }
    let last = [
        vec![0],
        frame(77, Request::Set(SETTINGS)),
        frame(78, Request::Prompt { text: "ROMEO:" }),
        frame(79, Request::Bye),
    ];
    script.push((When::Idle, last.concat()));
    let seen = serve(&script);
    assert_eq!(text(&seen, 78), host(&blob(), "ROMEO:", SETTINGS));
    assert!(seen.ends_with(b"\r\n> "));
}
