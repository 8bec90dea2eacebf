//! Frames: messages come back, and what is damaged is an error.

#![cfg(feature = "frames")]

use app::Reset;
use app::command::Seed;
use app::frames::{
    End, Error, FRAME_BYTES, FrameError, Message, ModelInfo, PAYLOAD_BYTES, Reader, Reply, Request,
    Settings, StackUse, Stats, VERSION, decode, encode,
};
use app::line::LINE_BYTES;
use serde::{Deserialize, Serialize};

const SETTINGS: Settings = Settings {
    temperature: 0.8,
    top_k: u16::MAX,
    top_p: 0.9,
    seed: Seed::Fixed(u64::MAX),
    len: u32::MAX,
};

fn frame<T: Serialize>(id: u32, body: T) -> Vec<u8> {
    let mut out = [0; FRAME_BYTES];
    encode(&Message { id, body }, &mut out).unwrap().to_vec()
}

/// Returns what a reader of the longest frames finds in `bytes`.
fn payloads(bytes: &[u8]) -> Vec<Result<Vec<u8>, FrameError>> {
    let mut buffer = [0; FRAME_BYTES - 1];
    let mut reader = Reader::new(&mut buffer);
    let mut found = Vec::new();
    for &byte in bytes {
        found.extend(reader.feed(byte).map(|payload| payload.map(<[u8]>::to_vec)));
    }
    found
}

fn requests(text: &str) -> Vec<Request<'_>> {
    vec![
        Request::Hello { version: VERSION },
        Request::Bye,
        Request::Prompt { text },
        Request::Settings,
        Request::Set(SETTINGS),
        Request::Stats,
        Request::Cancel,
    ]
}

fn replies(text: &str) -> Vec<Reply<'_>> {
    let stats = Stats {
        seed: u64::MAX,
        hash: u64::MAX,
        watchdog_ms: Some(u32::MAX),
        stack: Some(StackUse {
            used: u32::MAX,
            size: u32::MAX,
        }),
        last_reset: Reset::Unannounced,
        ..Stats::default()
    };
    let model = ModelInfo {
        run: text,
        n_params: u32::MAX,
        context_len: u16::MAX,
        vocab_size: u16::MAX,
        crc: u32::MAX,
    };
    let errors = [
        Error::Version {
            board: 1,
            program: 2,
        },
        Error::NoHello,
        Error::Damaged,
        Error::TooLong,
        Error::Unknown,
        Error::Prompt {
            limit: 256,
            found: u32::MAX,
        },
        Error::NoModel(text),
        Error::Temperature,
        Error::TopP,
        Error::Len,
        Error::Lost {
            dropped: u32::MAX,
            receive_errors: 0,
        },
    ];
    let mut replies: Vec<Reply<'_>> = errors.into_iter().map(Reply::Error).collect();
    replies.extend([
        Reply::Hello {
            version: VERSION,
            board: "nucleo-h743zi",
            model: Some(model),
            boot_seed: u64::MAX,
        },
        Reply::Bye,
        Reply::Begin {
            seed: u64::MAX,
            prompt: u32::MAX,
            unknown: u32::MAX,
        },
        Reply::Token {
            token: u16::MAX,
            probability: 1 << 24,
            text,
        },
        Reply::More { text },
        Reply::Done {
            end: End::Cancelled,
            tokens: u32::MAX,
            hash: u64::MAX,
            first_us: u64::MAX,
            text_us: u64::MAX,
        },
        Reply::Settings(SETTINGS),
        Reply::Stats(stats),
    ]);
    replies
}

/// Sends messages of one kind as a stream and reads them back.
fn comes_back<'m, T>(ids: &[u32], bodies: &[T])
where
    T: Serialize + for<'p> Comes<'p> + Copy + PartialEq + std::fmt::Debug + 'm,
{
    for &id in ids {
        let stream: Vec<u8> = bodies.iter().flat_map(|&body| frame(id, body)).collect();
        let found = payloads(&stream);
        assert_eq!(found.len(), bodies.len());
        for (payload, body) in found.iter().zip(bodies) {
            body.same(id, payload.as_ref().unwrap());
        }
    }
}

/// A body that can be compared with what was read.
trait Comes<'p> {
    fn same(&self, id: u32, payload: &'p [u8]);
}

impl<'p> Comes<'p> for Request<'_> {
    fn same(&self, id: u32, payload: &'p [u8]) {
        assert_eq!(
            decode::<Request<'_>>(payload),
            Ok(Message { id, body: *self })
        );
    }
}

impl<'p> Comes<'p> for Reply<'_> {
    fn same(&self, id: u32, payload: &'p [u8]) {
        assert_eq!(
            decode::<Reply<'_>>(payload),
            Ok(Message { id, body: *self })
        );
    }
}

#[test]
fn messages_come_back() {
    let ids = [0, 1, 255, u32::MAX];
    for text in ["", "a", "é\0\n\\", &"x".repeat(LINE_BYTES)] {
        comes_back(&ids, &requests(text));
        comes_back(&ids, &replies(text));
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_is_an_error() {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for text in ["ROMEO:\n", &"x".repeat(LINE_BYTES)] {
        frames.extend(requests(text).iter().map(|&body| frame(7, body)));
        frames.extend(replies(text).iter().map(|&body| frame(300, body)));
    }
    for frame in &frames {
        for len in 1..frame.len() - 1 {
            let cut = [&frame[..len], &[0]].concat();
            assert_eq!(
                payloads(&cut),
                [Err(FrameError::Damaged)],
                "{len} of {frame:?}"
            );
        }
        for bit in 0..8 * frame.len() {
            let mut flipped = frame.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            flipped.push(0);
            let found = payloads(&flipped);
            assert!(!found.is_empty(), "bit {bit} of {frame:?}");
            assert!(found.iter().all(Result::is_err), "bit {bit} of {frame:?}");
        }
    }
}

#[test]
fn a_reader_finds_the_frame_after_noise() {
    let good = frame(1, Request::Stats);
    let payload = payloads(&good).remove(0);
    let noise = [b"/frames\r\n".as_slice(), &[0, 0, 0]].concat();
    let found = payloads(&[noise.as_slice(), &good, &good].concat());
    assert_eq!(
        found,
        [Err(FrameError::Damaged), payload.clone(), payload.clone()]
    );
    let long = [vec![b'x'; FRAME_BYTES], vec![0]].concat();
    let found = payloads(&[long.as_slice(), &good].concat());
    assert_eq!(found, [Err(FrameError::TooLong), payload]);
}

#[test]
fn what_is_whole_and_no_message_is_unknown() {
    for payload in [
        &[][..],
        &[1],
        &[1, 99],
        &[1, 6, 0],
        &[1, 2, 200, b'x'],
        &[0xff; 11],
    ] {
        assert_eq!(
            decode::<Request<'_>>(payload),
            Err(FrameError::Unknown),
            "{payload:?}"
        );
    }
}

#[test]
fn a_message_that_is_too_long_is_refused() {
    let text = "x".repeat(PAYLOAD_BYTES);
    let message = Message {
        id: 1,
        body: Request::Prompt { text: &text },
    };
    let found = encode(&message, &mut [0; FRAME_BYTES]).map(<[u8]>::to_vec);
    assert_eq!(found, Err(FrameError::TooLong));
}

/// A hundred thousand random streams, and such with whole messages in them whose bytes are random.
#[test]
fn random_bytes_never_panic() {
    let mut rng = runtime::SplitMix64::new(11);
    let mut buffer = [0; FRAME_BYTES - 1];
    let mut reader = Reader::new(&mut buffer);
    let mut whole = 0;
    for _ in 0..100_000 {
        let bytes: Vec<u8> = (0..rng.next_below(24))
            .map(|_| rng.next_u64() as u8)
            .collect();
        let _ = decode::<Request<'_>>(&bytes);
        let _ = decode::<Reply<'_>>(&bytes);
        for byte in bytes {
            whole += usize::from(matches!(reader.feed(byte), Some(Ok(_))));
        }
    }
    assert_eq!(whole, 0, "random bytes have no right CRC-32 this often");
}

/// The frames that the page shows.
#[test]
fn the_bytes_of_the_page_are_right() {
    let shown = |bytes: &[u8]| {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        hex.join(" ")
    };
    let page = include_str!("../FRAMES.md");
    for bytes in [
        frame(1, Request::Hello { version: VERSION }),
        frame(2, Request::Prompt { text: "ROMEO:\n" }),
        frame(3, Request::Bye),
    ] {
        assert!(page.contains(&shown(&bytes)), "{}", shown(&bytes));
    }
}

/// Keeps `Deserialize` in sight of both ends.
#[test]
fn versions_keep_hello_bye_and_refusal() {
    fn first<'p, T: Deserialize<'p> + std::fmt::Debug>(payload: &'p [u8]) -> Message<T> {
        decode(payload).unwrap()
    }
    assert_eq!(
        first::<Request<'_>>(&[9, 0, 2]).body,
        Request::Hello { version: 2 }
    );
    assert_eq!(first::<Request<'_>>(&[9, 1]).body, Request::Bye);
    assert_eq!(first::<Reply<'_>>(&[9, 1]).body, Reply::Bye);
    let refusal = Error::Version {
        board: 2,
        program: 1,
    };
    assert_eq!(
        first::<Reply<'_>>(&[9, 2, 0, 2, 1]).body,
        Reply::Error(refusal)
    );
}
