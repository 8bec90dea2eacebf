//! Texts, settings and editing.

use std::rc::Rc;

use crate::support::{
    Led, STATE_WORDS, Terminal, When, answers, answers_of, blob, blob_of_byte_pairs,
    blob_without_newline, converse, run,
};
use app::generate::{self, Request};
use app::line::LINE_BYTES;
use app::{TYPE_AHEAD_BYTES, prompt};
use runtime::{Model, Session, Settings, Vocab};

/// The text that the host makes of a prompt, and its logits hash.
fn host(line: &str, request: Request) -> (String, u64) {
    host_of(&blob(), line, request)
}

fn host_of(blob: &[u8], line: &str, request: Request) -> (String, u64) {
    let model = Model::from_bytes(blob).unwrap();
    let mut state = vec![0; model.config().state_words()];
    let mut session = Session::new(&model, &mut state).unwrap();
    let mut buffer = vec![0; Vocab::encode_len(line.len())];
    let (tokens, _) = prompt::encode(line, model.vocab(), &mut buffer);
    let mut text = String::new();
    let hash = generate::text(&mut session, tokens, request, |c| text.push(c)).unwrap();
    (text, hash)
}

fn short() -> Request {
    Request {
        len: 40,
        ..Request::default()
    }
}

#[test]
fn boot_says_what_was_found() {
    let seen = converse(&blob(), STATE_WORDS, &[]);
    assert!(
        seen.starts_with("\r\nChapbook on test\r\nmodel tiny: "),
        "{seen}"
    );
    assert!(seen.contains(" parameters, blob "), "{seen}");
    assert!(seen.contains(" ok, self-test "), "{seen}");
    assert!(
        seen.ends_with(
            " ok\r\nseed 1: no source of noise here, so each boot makes the same texts\r\n\
             Type a prompt, or /help\r\n> "
        ),
        "{seen}"
    );
}

#[test]
fn text_is_the_hosts() {
    let answers = answers(&["ROMEO:", "/stats"]);
    let (text, hash) = host("ROMEO:", Request::default());
    assert_eq!(text.chars().count(), 256);
    assert!(text.contains('\n'), "the text should test line ends");
    assert_eq!(answers[0], text);
    assert!(
        answers[1].contains(&format!("logits hash {hash:016x}")),
        "{}",
        answers[1]
    );
    assert!(answers[1].contains("prompt 6 characters, text 256 characters, seed 1\n"));
    assert!(
        answers[1].contains("characters/s, 75000 cycles/character\n"),
        "{}",
        answers[1]
    );
}

#[test]
fn newlines_are_sent_as_cr_lf() {
    let seen = converse(&blob(), STATE_WORDS, &[(When::Prompt, b"ROMEO:\r")]);
    assert_eq!(seen.matches('\n').count(), seen.matches("\r\n").count());
    assert!(seen.ends_with("\r\n> "));
}

#[test]
fn each_prompt_starts_afresh_with_the_same_seed() {
    let answers = answers(&["/len 40", "ROMEO:", "Any other", "ROMEO:"]);
    assert_eq!(answers[1], host("ROMEO:", short()).0);
    assert_eq!(answers[1], answers[3]);
    assert_ne!(answers[1], answers[2]);
}

#[test]
fn settings_change_the_text_as_on_the_host() {
    let typed = [
        "/temp 1.5",
        "/topk 5",
        "/topp 0.9",
        "/seed 99",
        "/len 40",
        "ROMEO:",
    ];
    let answers = answers(&typed);
    assert_eq!(
        answers[4],
        "temperature 1.5, top-k 5, top-p 0.9, seed 99, length 40"
    );
    let settings = Settings {
        temperature: 1.5,
        top_k: 5,
        top_p: 0.9,
    };
    assert_eq!(
        answers[5],
        host(
            "ROMEO:",
            Request {
                settings,
                seed: 99,
                len: 40
            }
        )
        .0
    );
}

#[test]
fn bad_settings_are_refused_and_change_nothing() {
    let typed = [
        "/temp -1",
        "/temp nan",
        "/temp inf",
        "/topp 0",
        "/topp 1.5",
        "/len 0",
        "/seed x",
    ];
    for answer in answers(&typed) {
        assert!(answer.starts_with('(') && answer.ends_with(')'), "{answer}");
    }
    let asked = answers(&["/temp 2 2", "/nothing", "/temp"]);
    assert!(
        asked[1].starts_with("(no command /nothing: expected /temp,"),
        "{}",
        asked[1]
    );
    assert_eq!(
        asked[2],
        "temperature 0.8, top-k off, top-p off, seed 1 of this boot, length 256"
    );
}

#[test]
fn random_seeds_are_said_and_replay() {
    let drawn = answers(&["/len 40", "/seed random", "ROMEO:", "ROMEO:"]);
    assert_ne!(drawn[2], drawn[3]);
    let (said, text) = drawn[2].split_once('\n').unwrap();
    let seed = said.trim_start_matches("(seed ").trim_end_matches(')');
    let replayed = answers(&["/len 40", &format!("/seed {seed}"), "ROMEO:"]);
    assert_eq!(replayed[2], text);
}

#[test]
fn escapes_and_empty_prompts() {
    let answers = answers(&["/len 40", r"ROMEO:\nO", "", r"\n"]);
    assert_eq!(answers[1], host("ROMEO:\\nO", short()).0);
    assert_eq!(answers[2], host("", short()).0);
    assert_eq!(answers[2], answers[3]);
}

#[test]
fn unknown_characters_are_named_and_left_out() {
    let answers = answers(&["/len 40", "RO#ME€O:#", "ROMEO:", "###"]);
    let note = "(dropped: 3 not in the vocabulary: '#' U+0023 '€' U+20AC)\n";
    assert_eq!(answers[1], format!("{note}{}", answers[2]));
    assert!(answers[3].ends_with(&host("", short()).0), "{}", answers[3]);
}

#[test]
fn surplus_of_a_long_line_is_counted() {
    let line = "a".repeat(LINE_BYTES + 44);
    let answers = answers(&["/len 40", &line, &line[..LINE_BYTES]]);
    let note = "(dropped: 44 bytes past the 256 that a line holds)\n";
    assert_eq!(answers[1], format!("{note}{}", answers[2]));
}

#[test]
fn control_characters_and_broken_utf8_are_said() {
    let script: &[(When, &[u8])] = &[
        (When::Prompt, b"/len 9\r"),
        (When::Prompt, b"RO\x00\x01M\xffEO\x1b[A:\r\n"),
    ];
    let seen = converse(&blob(), STATE_WORDS, script);
    let said = "\r\n(dropped: 2 control characters, 1 bytes that are not UTF-8)\r\n";
    assert!(seen.contains(said), "{seen}");
    assert!(!seen.contains("vocabulary"), "{seen}");
}

#[test]
fn editing_is_echoed() {
    let seen = converse(
        &blob(),
        STATE_WORDS,
        &[(When::Prompt, b"\x08/hex\x7f\x08elp\r")],
    );
    assert!(
        seen.contains("> /hex\x08 \x08\x08 \x08elp\r\nType a prompt"),
        "{seen}"
    );
}

#[test]
fn ctrl_c_clears_the_line() {
    let seen = converse(
        &blob(),
        STATE_WORDS,
        &[(When::Prompt, b"abc\x03"), (When::Prompt, b"/temp\r")],
    );
    assert!(
        seen.contains("> abc^C\r\n> /temp\r\ntemperature 0.8"),
        "{seen}"
    );
}

#[test]
fn ctrl_c_stops_the_text_and_empties_the_queue() {
    let script: &[(When, &[u8])] = &[
        (When::Prompt, b"/len 100000\r"),
        (When::Prompt, b"ROMEO:\r"),
        (When::Output(50), b"/never\r/run\r\x03/stats\r"),
    ];
    let seen = converse(&blob(), STATE_WORDS, script);
    assert!(
        seen.contains("\r\n(stopped)\r\n> /stats\r\nmodel tiny"),
        "{seen}"
    );
    assert!(!seen.contains("/never"), "{seen}");
}

#[test]
fn lines_typed_too_early_run_later() {
    let script: &[(When, &[u8])] = &[
        (When::Prompt, b"/len 60\r"),
        (When::Prompt, b"ROMEO:\r"),
        (When::Output(20), b"/temp 0.5\r\n/seed 4\n"),
        (When::Output(5), b"JULIET:\r"),
    ];
    let seen = converse(&blob(), STATE_WORDS, script);
    let text = |line, request| host(line, request).0.replace('\n', "\r\n");
    let request = Request {
        len: 60,
        ..Request::default()
    };
    let first = text("ROMEO:", request);
    let settings = Settings {
        temperature: 0.5,
        ..Settings::default()
    };
    let second = text(
        "JULIET:",
        Request {
            settings,
            seed: 4,
            len: 60,
        },
    );
    assert!(
        seen.contains(&format!("> ROMEO:\r\n{first}\r\n> /temp 0.5\r\n")),
        "{seen}"
    );
    assert!(
        seen.ends_with(&format!("> JULIET:\r\n{second}\r\n> ")),
        "{seen}"
    );
}

#[test]
fn a_flood_is_counted_and_leaves_the_text_alone() {
    let flood = b"x".repeat(TYPE_AHEAD_BYTES + 123);
    let script: &[(When, &[u8])] = &[
        (When::Prompt, b"/len 60\r"),
        (When::Prompt, b"ROMEO:\r"),
        (When::Output(20), &flood),
        (When::Prompt, b""),
    ];
    let seen = converse(&blob(), STATE_WORDS, script);
    let text = host(
        "ROMEO:",
        Request {
            len: 60,
            ..Request::default()
        },
    )
    .0
    .replace('\n', "\r\n");
    let said = "(dropped: 123 bytes typed past the 12288 that wait their turn)";
    assert!(
        seen.contains(&format!("{text}\r\n{said}\r\n> {}", "x".repeat(LINE_BYTES))),
        "{seen}"
    );
}

#[test]
fn bad_blobs_are_said_and_the_repl_lives() {
    let good = blob();
    let mut damaged = good.clone();
    damaged[good.len() / 2] ^= 1;
    let mut stale = good.clone();
    stale[8] = 99;
    let mut short = good.clone();
    short.truncate(good.len() - 5);
    let erased = good.iter().map(|_| 0xff).collect::<Vec<u8>>();
    let erased = checkpoint::AlignedBytes::from(erased.as_slice());
    let empty = checkpoint::AlignedBytes::zeroed(0);
    let cases: [(&[u8], &str); 5] = [
        (
            &damaged,
            "(no model: the model is damaged: its CRC-32 should be ",
        ),
        (&stale, "(no model: the model has format version 99"),
        (&short, "(no model: the model needs "),
        (
            &erased,
            "(no model: nothing but erased memory is here; export one (",
        ),
        (&empty, "(no model: the model needs "),
    ];
    for (bytes, said) in cases {
        let seen = converse(bytes, STATE_WORDS, &[]);
        assert!(seen.contains(said), "{seen}");
        let answers = answers_of(bytes, STATE_WORDS, &["ROMEO:", "/temp", "/model", "/stats"]);
        assert!(answers[0].starts_with(said), "{}", answers[0]);
        assert!(answers[1].starts_with("temperature 0.8"), "{}", answers[1]);
        assert!(answers[2].starts_with(said), "{}", answers[2]);
        assert!(
            answers[3].starts_with("no text yet\nlongest step 0 us"),
            "{}",
            answers[3]
        );
    }
}

#[test]
fn too_little_ram_is_said_and_the_model_still_described() {
    let answers = answers_of(&blob(), 10, &["ROMEO:", "/model"]);
    assert!(answers[0].starts_with("(no model: "), "{}", answers[0]);
    assert!(
        answers[0].contains("40"),
        "the bytes given are said: {}",
        answers[0]
    );
    assert!(answers[1].starts_with("tiny: "), "{}", answers[1]);
    assert!(answers[1].contains("loss on dev 1.25 nats/character in float, 1.2575 as this blob"));
}

#[test]
fn a_wrong_self_test_refuses_the_model() {
    let mut blob = blob();
    let hash = Model::from_bytes(&blob)
        .unwrap()
        .header()
        .golden
        .logits_hash;
    // The hash is a varint at the end of the header, so its first byte is the low seven bits.
    let first = hash as u8 | 0x80;
    let tensors = u32::from_le_bytes([blob[16], blob[17], blob[18], blob[19]]) as usize;
    let place = blob[..tensors]
        .iter()
        .rposition(|&byte| byte == first)
        .unwrap();
    blob[place] ^= 1;
    runtime::format::seal(&mut blob);
    let answers = answers_of(&blob, STATE_WORDS, &["ROMEO:"]);
    assert!(
        answers[0].starts_with("(no model: self-test failed: "),
        "{}",
        answers[0]
    );
}

#[test]
fn the_led_shows_activity_and_faults() {
    let changes = |blob: &[u8], script: &[u8]| {
        let led = Led::default();
        let mut terminal = Terminal::default();
        terminal.type_ahead(script);
        run(terminal, led.clone(), blob, STATE_WORDS);
        *led.0.borrow()
    };
    assert_eq!(changes(&blob(), b"/len 10\rROMEO:\r"), 1 + 10 + 1);
    assert_eq!(changes(&[], b""), 2 * 3);
}

#[test]
fn nobody_listening_stops_nothing() {
    let mut terminal = Terminal::default();
    terminal.deaf = true;
    terminal.type_ahead(b"/len 20\rROMEO:\r/stats\r");
    run(terminal, Led::default(), &blob(), STATE_WORDS);
}

#[test]
fn lost_bytes_are_said_and_a_broken_receiver_stops_nothing() {
    for (overruns, said) in [(2, "2 times"), (1_000_000, " times")] {
        let seen = Rc::default();
        let mut terminal = Terminal::new(&seen, &[]);
        terminal.type_ahead(b"/len 20\rROMEO:\r");
        terminal.overruns = overruns;
        run(terminal, Led::default(), &blob(), STATE_WORDS);
        let seen = String::from_utf8(seen.borrow().clone()).unwrap();
        assert!(
            seen.contains("(bytes were lost on the line ") && seen.contains(said),
            "{seen}"
        );
        assert!(seen.ends_with("\r\n> "), "{seen}");
    }
}

#[test]
fn a_vocabulary_without_newline_starts_from_its_first_character() {
    let answers = answers_of(
        &blob_without_newline(),
        STATE_WORDS,
        &["/len 40", "", r"\n", "\t"],
    );
    assert_eq!(answers[1].chars().count(), 40);
    assert!(answers[2].starts_with("(dropped: 1 not in the vocabulary: U+000A)\n"));
    assert!(answers[2].ends_with(&answers[1]), "{}", answers[2]);
    assert_eq!(answers[3], answers[1]);
}

#[test]
fn byte_pairs_make_the_hosts_text_and_are_counted_as_tokens() {
    let blob = blob_of_byte_pairs();
    let lines = ["/len 40", "the rain in Spain é", "/stats", ""];
    let answers = answers_of(&blob, STATE_WORDS, &lines);
    let (text, hash) = host_of(&blob, lines[1], short());
    assert_eq!(answers[1], text);
    let model = Model::from_bytes(&blob).unwrap();
    let mut buffer = vec![0; Vocab::encode_len(lines[1].len())];
    let (tokens, unknown) = prompt::encode(lines[1], model.vocab(), &mut buffer);
    assert_eq!(unknown.count(), 0);
    assert!(tokens.len() < lines[1].chars().count(), "{tokens:?}");
    let counted = format!("prompt {} tokens, text 40 tokens (", tokens.len());
    assert!(answers[2].starts_with("model tiny"), "{}", answers[2]);
    assert!(answers[2].contains(&counted), "{}", answers[2]);
    assert!(answers[2].contains(&format!("logits hash {hash:016x}")));
    assert_eq!(answers[3], host_of(&blob, "", short()).0);
}

#[test]
fn garbage_never_panics_and_the_repl_answers_after_it() {
    let mut rng = runtime::SplitMix64::new(3);
    let mut script: Vec<(When, Vec<u8>)> = vec![(When::Idle, b"/len 3\r".to_vec())];
    for _ in 0..200 {
        let bytes = (0..rng.next_u64() % 700)
            .map(|_| rng.next_u64() as u8)
            .collect();
        script.push((When::Idle, bytes));
    }
    script.push((When::Idle, b"\x03/seed 5\r".to_vec()));
    let script: Vec<(When, &[u8])> = script
        .iter()
        .map(|(when, bytes)| (*when, bytes.as_slice()))
        .collect();
    let seen = converse(&blob(), STATE_WORDS, &script);
    assert!(
        seen.ends_with("top-p off, seed 5, length 3\r\n> "),
        "{seen}"
    );
}
