//! What happens on the wire beside texts: pastes, noise, settings, seeds, resets, the watchdog.

use std::cell::Cell;
use std::rc::Rc;

use crate::support::{
    Led, STATE_WORDS, Terminal, TestChip, When, blob, converse_on, panicked, run_on,
};
use app::generate::{self, Request};
use app::{RECORD_LEN, TYPE_AHEAD_BYTES, prompt};
use runtime::{Assist, Job, Model, Session, Vocab};

/// What the host makes of a line in 40 characters, with CR LF.
fn host(line: &str, seed: u64) -> String {
    let blob = blob();
    let model = Model::from_bytes(&blob).unwrap();
    let mut state = vec![0; model.config().state_words()];
    let mut session = Session::new(&model, &mut state).unwrap();
    let mut buffer = vec![0; Vocab::encode_len(line.len())];
    let (tokens, _) = prompt::encode(line, model.vocab(), &mut buffer);
    let request = Request {
        seed,
        len: 40,
        ..Request::default()
    };
    let mut text = String::new();
    generate::text(&mut session, tokens, request, |c| text.push(c)).unwrap();
    text.replace('\n', "\r\n")
}

fn converse(script: &[(When, &[u8])]) -> String {
    converse_on(TestChip::default(), script)
}

#[test]
fn ten_kilobytes_in_one_line_are_counted() {
    let paste = [b"x".repeat(10_240), b"\r".to_vec()].concat();
    let seen = converse(&[(When::Prompt, b"/len 40\r"), (When::Prompt, &paste)]);
    let said = "\r\n(dropped: 9984 bytes past the 256 that a line holds)\r\n";
    assert!(seen.contains(said), "{seen}");
    assert!(
        seen.ends_with(&format!("{}\r\n> ", host(&"x".repeat(256), 1))),
        "{seen}"
    );
}

#[test]
fn ten_kilobytes_of_lines_all_run_also_while_a_text_is_made() {
    let lines: Vec<String> = (0..100)
        .map(|n| {
            let letter = |n: usize| char::from(b"abcdefghij"[n % 10]);
            format!("line {}{} {}", letter(n / 10), letter(n), "pad".repeat(31))
        })
        .collect();
    let paste = lines.join("\r\n") + "\r\n";
    assert!((10_000..TYPE_AHEAD_BYTES).contains(&paste.len()));
    let script: &[(When, &[u8])] = &[
        (When::Prompt, b"/len 40\r"),
        (When::Prompt, b"ROMEO:\r"),
        (When::Output(12), paste.as_bytes()),
    ];
    let seen = converse(script);
    assert!(!seen.contains("(dropped"), "{seen}");
    assert!(seen.contains(&format!("> ROMEO:\r\n{}\r\n> ", host("ROMEO:", 1))));
    for line in &lines {
        let (turn, known) = (format!("> {line}\r\n"), host(line, 1));
        let answer = seen.split_once(&turn).expect("each line is echoed").1;
        assert!(answer.starts_with(&format!("{known}\r\n> ")), "{answer}");
    }
}

#[test]
fn line_ends_backspace_at_the_margin_and_sequences() {
    let seen = converse(&[
        (When::Prompt, b"/len 1\r"),
        (When::Prompt, b"\x08\x7fa\rb\nc\r\nd\r\0\x1b[31me\x1b[0m\n"),
    ]);
    let turns: Vec<&str> = seen
        .split("\r\n> ")
        .filter_map(|turn| turn.split_once("\r\n"))
        .map(|turn| turn.0)
        .collect();
    assert_eq!(turns[1..], ["/len 1", "a", "b", "c", "d", "e"]);
    assert!(!seen.contains("dropped"), "{seen}");
}

#[test]
fn settings_survive_a_reset() {
    let flash = Rc::new(Cell::new([0xff; RECORD_LEN]));
    let chip = TestChip {
        flash: Some(Rc::clone(&flash)),
        ..TestChip::default()
    };
    let seen = converse_on(
        chip.clone(),
        &[
            (When::Prompt, b"/temp 0.5\r"),
            (When::Prompt, b"/topk 7\r"),
            (When::Prompt, b"/len 40\r"),
            (When::Prompt, b"/seed 9\r"),
            (When::Prompt, b"/save\r"),
        ],
    );
    let kept = "temperature 0.5, top-k 7, top-p off, seed 9, length 40\r\n";
    assert!(seen.ends_with(&format!("saved: {kept}> ")), "{seen}");
    let seen = converse_on(chip.clone(), &[(When::Prompt, b"/temp\r")]);
    assert!(
        seen.contains("\r\nsaved settings are in force\r\n"),
        "{seen}"
    );
    assert!(seen.ends_with(&format!("{kept}> ")), "{seen}");

    let mut record = flash.get();
    record[5] ^= 1;
    flash.set(record);
    let seen = converse_on(chip, &[(When::Prompt, b"/temp\r")]);
    assert!(seen.contains("(the saved settings are damaged"), "{seen}");
    assert!(seen.contains("temperature 0.8, top-k off"), "{seen}");
}

#[test]
fn settings_that_cannot_be_kept_are_said() {
    let seen = converse(&[(When::Prompt, b"/save\r")]);
    assert!(
        seen.ends_with("(this board has no place to keep settings)\r\n> "),
        "{seen}"
    );
    let chip = TestChip {
        worn_out: true,
        ..TestChip::default()
    };
    let seen = converse_on(chip, &[(When::Prompt, b"/save\r")]);
    assert!(seen.contains("(the flash did not take"), "{seen}");
}

#[test]
fn each_boot_has_a_seed_of_its_own_and_says_it() {
    let script: &[(When, &[u8])] = &[
        (When::Prompt, b"/len 40\r"),
        (When::Prompt, b"ROMEO:\r"),
        (When::Prompt, b"/seed 5\r"),
        (When::Prompt, b"ROMEO:\r"),
        (When::Prompt, b"/seed boot\r"),
    ];
    let noise = |noise| TestChip {
        noise: Some(noise),
        ..TestChip::default()
    };
    for seed in [77_u64, 3_000_000_000] {
        let seen = converse_on(noise(seed << 32 | 0xdead_beef), script);
        assert!(seen.contains(&format!("\r\nseed {seed}, from noise: /seed {seed} ")));
        assert!(seen.contains(&format!("{}\r\n> /seed 5", host("ROMEO:", seed))));
        assert!(seen.contains(&format!("{}\r\n> /seed boot", host("ROMEO:", 5))));
        assert!(
            seen.contains(&format!("seed {seed} of this boot")),
            "{seen}"
        );
    }
}

#[test]
fn resets_are_counted_and_said() {
    let seen = converse_on(panicked(), &[(When::Prompt, b"/stats\r")]);
    let said = "(started over by a panic, 3 times since power)";
    assert!(seen.starts_with(&format!("\r\nChapbook on test\r\n{said}\r\n")));
    assert!(
        seen.contains("3 resets since power, the last start by a panic\r\n"),
        "{seen}"
    );
}

#[test]
fn stats_say_what_the_board_uses() {
    let seen = converse(&[
        (When::Prompt, b"/len 40\r"),
        (When::Prompt, b"ROMEO:\r"),
        (When::Prompt, b"/stats\r"),
    ]);
    let needed = Model::from_bytes(&blob()).unwrap().config().state_bytes();
    let said =
        format!("\r\nRAM {needed} of 32768 bytes for the model, stack 1234 of 8192 bytes\r\n");
    assert!(seen.contains(&said), "{seen}");
    assert!(
        seen.contains(" us, the watchdog waits 5000 ms\r\n"),
        "{seen}"
    );
}

#[test]
fn stats_say_where_the_weights_are_and_what_helps() {
    let script: [(When, &[u8]); 1] = [(When::Prompt, b"/stats\r")];
    let blob = blob();
    let model = Model::from_bytes(&blob).unwrap();
    let all: usize = model.in_order().map(|rows| 4 * rows.words.len()).sum();
    let helpers = "stream: ahead of use; cores: 1, the other does not answer";
    // Of 32 KiB the state leaves enough for all.
    let seen = converse(&script);
    let said = format!("\r\nweights: {all} bytes in RAM, 0 in flash; {helpers}\r\n");
    assert!(seen.contains(&said), "{seen}");
    // The state and no more.
    let words = model.state_words();
    let seen = crate::support::converse(&blob, words, &script);
    let said = format!("\r\nweights: 0 bytes in RAM, {all} in flash; {helpers}\r\n");
    assert!(seen.contains(&said), "{seen}");
}

/// Computes something else.
struct Liar;

impl Assist for Liar {
    fn compute(&self, mut job: Job<'_>, lanes: &mut [u32]) {
        job.split().1.run(lanes);
    }
}

#[test]
fn help_that_computes_other_bits_is_dismissed() {
    let chip = TestChip {
        assist: Some(&Liar),
        ..TestChip::default()
    };
    let script: [(When, &[u8]); 3] = [
        (When::Prompt, b"/len 40\r"),
        (When::Prompt, b"ROMEO:\r"),
        (When::Prompt, b"/stats\r"),
    ];
    let seen = converse_on(chip, &script);
    let said = " is wrong: once more, with weights in place and one core: ";
    assert!(seen.contains(said), "{seen}");
    assert!(seen.contains(&host("ROMEO:", 1)), "{seen}");
    assert!(
        seen.contains(" in place; without help, which failed\r\n"),
        "{seen}"
    );
}

#[test]
fn bench_prints_the_row_of_this_board() {
    let seen = converse(&[(When::Prompt, b"/bench 9\r"), (When::Prompt, b"/bench 0\r")]);
    let needed = Model::from_bytes(&blob()).unwrap().config().state_bytes();
    let row = format!(
        "|\r\n| test | tiny | 100 | 9 | 1333.3 | 75000 | 500 us | {needed} B | 1234 B |\r\n> "
    );
    assert!(seen.contains(&row), "{seen}");
    assert!(
        seen.contains("(/bench takes a whole number from 1"),
        "{seen}"
    );
}

#[test]
fn the_watchdog_is_fed_in_every_step_and_while_nothing_comes() {
    let hungry = Rc::new(Cell::new(0));
    let chip = TestChip {
        hungry: Rc::clone(&hungry),
        ..TestChip::default()
    };
    let mut terminal = Terminal::new(&Rc::default(), &[(When::Idle, b"/stats\rROMEO:\r")]);
    let long = "a".repeat(256);
    terminal.type_ahead(format!("/len 2000\r{long}\r/bench\r").as_bytes());
    terminal.quiet = 1_000;
    run_on(chip, terminal, Led::default(), &blob(), STATE_WORDS);
    // Each look at the clock, and each moment without anything to do, takes 250 us here; between two feeds it is looked at a few times only,
    // whatever the length of prompt and text.
    assert!(hungry.get() <= 1_500, "{} us", hungry.get());
}
