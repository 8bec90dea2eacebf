//! The firmware in emulators: the text and the logits hash are the host's, and the serial line
//! takes whatever is typed.
//!
//! The tests need QEMU, node and rp2040js, which `tools/check` installs.

use std::fs;

use app::generate::{self, Request};
use app::{TYPE_AHEAD_BYTES, prompt};
use checkpoint::{AlignedBytes, BOARDS, synthetic};
use parity::emulators::machine::{Firmware, example};
use parity::emulators::{Chat, Machine};
use parity::shapes::{self, PLAIN, random_blob};
use runtime::{Activation, Config, Model, Norm, Position, Session, Settings, Vocab};

/// Rotary positions and a context that every text outgrows.
const RING: Config = Config {
    vocab_size: 65,
    n_kv_head: 2,
    ..PLAIN
};

/// Absolute positions, biases, an own head: what [`RING`] lacks.
const ABSOLUTE: Config = Config {
    position: Position::Sinusoidal,
    norm: Norm::LayerNorm,
    activation: Activation::Gelu,
    tied: false,
    embed_scale: true,
    attn_bias: true,
    ff_bias: true,
    norm_bias: true,
    head_bias: true,
    ..RING
};

/// More RAM than any board has, in a blob that fits every board.
const ROOMY: Config = Config {
    n_layer: 32,
    context_len: 8_192,
    ..RING
};

/// Returns the firmware with a blob of random weights in its flash.
fn ring(machine: Machine) -> Firmware {
    machine.build("ring", &random_blob(RING, 1)).unwrap()
}

/// Boots the board with the blob of [`ring`] and waits for the prompt string.
fn booted(machine: Machine) -> Chat {
    let mut chat = ring(machine).boot().unwrap();
    chat.prompt().unwrap();
    chat
}

/// Returns what the host makes of a line, in the board's words: the text, then the hash.
fn on_host(blob: &[u8], line: &str, request: Request) -> (String, String) {
    let model = Model::from_bytes(blob).unwrap();
    let mut state = vec![0; model.config().state_words()];
    let mut session = Session::new(&model, &mut state).unwrap();
    let mut buffer = vec![0; Vocab::encode_len(line.len())];
    let (tokens, _) = prompt::encode(line, model.vocab(), &mut buffer);
    let mut text = String::new();
    let hash = generate::text(&mut session, tokens, request, |c| text.push(c)).unwrap();
    (text, format!("logits hash {hash:016x}\n"))
}

/// A model of byte pairs, on a board with the feature for it; without it the board says what is missing.
fn byte_pairs(machine: Machine) {
    let config = Config {
        vocab_size: 380,
        ..RING
    };
    let mut checkpoint = synthetic::checkpoint(config, 3);
    checkpoint.vocab = synthetic::byte_pairs(config.vocab_size);
    let blob = shapes::blob_of(&checkpoint);
    let firmware = machine.build_with("byte-pair", "byte-pair", &blob).unwrap();
    same_as_host(&firmware, &blob, 24);
    let mut chat = machine
        .build("no-byte-pair", &blob)
        .unwrap()
        .boot()
        .unwrap();
    let banner = chat.prompt().unwrap();
    assert!(banner.contains("--features byte-pair"), "{banner}");
}

#[test]
#[ignore = "needs QEMU"]
fn qemu_speaks_in_byte_pairs() {
    byte_pairs(Machine::Qemu);
}

/// Has the board answer a prompt under several settings and compares text and hash with the host.
fn same_as_host(firmware: &Firmware, blob: &[u8], len: u32) {
    let mut chat = firmware.boot().unwrap();
    let banner = chat.prompt().unwrap();
    assert!(banner.contains(" ok, self-test "), "{banner}");
    chat.ask(&format!("/len {len}")).unwrap();
    let cases = [
        (r"ROMEO:\n", Settings::default(), 1),
        (
            "O, she doth teach the torches to burn bright",
            Settings::default(),
            1,
        ),
        (
            "",
            Settings {
                temperature: 0.0,
                ..Settings::default()
            },
            7,
        ),
        (
            "KING",
            Settings {
                temperature: 1.2,
                top_k: 20,
                top_p: 0.9,
            },
            12_345_678_901,
        ),
    ];
    for (line, settings, seed) in cases {
        let (top_k, top_p) = (settings.top_k, settings.top_p);
        chat.ask(&format!("/temp {}", settings.temperature))
            .unwrap();
        chat.ask(&format!("/topk {top_k}")).unwrap();
        chat.ask(&format!("/topp {top_p}")).unwrap();
        chat.ask(&format!("/seed {seed}")).unwrap();
        let (text, hash) = on_host(
            blob,
            line,
            Request {
                settings,
                seed,
                len,
            },
        );
        assert_eq!(chat.ask(line).unwrap(), text, "{line}");
        let stats = chat.ask("/stats").unwrap();
        assert!(
            stats.contains(&hash),
            "{line}: expected {hash}, found {stats}"
        );
    }
}

#[test]
#[ignore = "needs QEMU"]
fn qemu_computes_what_the_host_does() {
    same_as_host(&ring(Machine::Qemu), &random_blob(RING, 1), 120);
}

#[test]
#[ignore = "needs QEMU"]
fn qemu_computes_what_the_host_does_with_absolute_positions() {
    let blob = random_blob(ABSOLUTE, 2);
    let firmware = Machine::Qemu.build("absolute", &blob).unwrap();
    same_as_host(&firmware, &blob, 120);
}

#[test]
#[ignore = "needs rp2040js"]
fn pico_computes_what_the_host_does() {
    same_as_host(&ring(Machine::Pico), &random_blob(RING, 1), 24);
}

#[test]
#[ignore = "needs QEMU"]
fn qemu_runs_the_committed_model() {
    let blob = pocket();
    let firmware = Machine::Qemu.build_default().unwrap();
    same_as_host(&firmware, &blob, 256);
}

#[test]
#[ignore = "needs rp2040js"]
fn pico_runs_the_committed_model() {
    let blob = pocket();
    let firmware = Machine::Pico.build("pocket", &blob).unwrap();
    let mut chat = firmware.boot().unwrap();
    chat.prompt().unwrap();
    chat.ask("/len 16").unwrap();
    let request = Request {
        len: 16,
        ..Request::default()
    };
    let (text, hash) = on_host(&blob, "ROMEO:", request);
    assert_eq!(chat.ask("ROMEO:").unwrap(), text);
    assert!(chat.ask("/stats").unwrap().contains(&hash));
}

/// The blob that boards embed by default.
fn pocket() -> AlignedBytes {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../firmware/model/pocket.bin");
    AlignedBytes::read(path.as_ref()).expect("firmware/model/pocket.bin is committed")
}

#[test]
#[ignore = "needs QEMU and rp2040js"]
fn sizes_are_those_that_the_host_tools_know() {
    for machine in [Machine::Qemu, Machine::Pico] {
        let board = BOARDS
            .iter()
            .find(|board| board.name == machine.name())
            .unwrap();
        let firmware = ring(machine);
        let banner = firmware.boot().unwrap().prompt().unwrap();
        let ram = format!(" of {} bytes", board.ram_len - board.app_ram);
        assert!(banner.contains(&ram), "{}: {banner}", board.name);

        let code = flash_bytes(&fs::read(firmware.elf()).unwrap());
        assert!(
            code <= board.app_flash,
            "{} has {code} bytes of code",
            board.name
        );
    }
}

/// Returns the bytes that an ELF puts into flash.
fn flash_bytes(elf: &[u8]) -> usize {
    let word = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().unwrap()) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(elf[at..at + 2].try_into().unwrap()));
    let (table, entry_size, count) = (word(28), half(42), half(44));
    let headers = (0..count).map(|i| table + i * entry_size);
    headers
        .filter(|&at| word(at) == 1)
        .map(|at| word(at + 16))
        .sum()
}

#[test]
#[ignore = "needs QEMU"]
fn logs_keep_off_the_serial_line() {
    let firmware = Machine::Qemu.build("logs", &random_blob(RING, 3)).unwrap();
    let banner = firmware.boot().unwrap().prompt().unwrap();
    assert!(
        banner.starts_with("\r\nChapbook on mps2-an386\r\n"),
        "{banner:?}"
    );
    assert!(
        fs::metadata(firmware.frames()).unwrap().len() > 0,
        "no defmt frame came"
    );
}

/// Pastes lines while a text is made and sees them run afterwards.
fn paste_while_generating(machine: Machine, len: u32) {
    let mut chat = booted(machine);
    let request = Request {
        len,
        ..Request::default()
    };
    let blob = random_blob(RING, 1);
    let paste = "To be, or not to be, that is the question: Whether 'tis nobler in the mind to suffer slings";
    chat.ask(&format!("/len {len}")).unwrap();
    chat.send(b"ROMEO:\r").unwrap();
    chat.expect("ROMEO:\r\n").unwrap();
    chat.send(format!("{paste}\r\n/seed 9\n").as_bytes())
        .unwrap();
    let text = chat.prompt().unwrap().replace("\r\n", "\n");
    assert_eq!(text, on_host(&blob, "ROMEO:", request).0);
    chat.expect(&format!("{paste}\r\n")).unwrap();
    let text = chat.prompt().unwrap().replace("\r\n", "\n");
    assert_eq!(text, on_host(&blob, paste, request).0);
    chat.expect("/seed 9\r\n").unwrap();
    assert!(chat.prompt().unwrap().contains("seed 9"));
}

#[test]
#[ignore = "needs QEMU"]
fn qemu_keeps_what_is_pasted_while_it_generates() {
    paste_while_generating(Machine::Qemu, 400);
}

#[test]
#[ignore = "needs rp2040js"]
fn pico_keeps_what_is_pasted_while_it_generates() {
    paste_while_generating(Machine::Pico, 40);
}

/// Stops an endless text and asks on.
fn stop(machine: Machine) {
    let mut chat = booted(machine);
    chat.ask("/len 1000000").unwrap();
    chat.send(b"ROMEO:\r").unwrap();
    chat.expect("ROMEO:\r\n").unwrap();
    chat.send(b"never\r\x03").unwrap();
    let text = chat.prompt().unwrap();
    assert!(text.ends_with("\r\n(stopped)"), "{text}");
    assert!(chat.ask("/len 5").unwrap().ends_with("length 5"));
}

#[test]
#[ignore = "needs QEMU"]
fn qemu_stops_at_ctrl_c() {
    stop(Machine::Qemu);
}

#[test]
#[ignore = "needs rp2040js"]
fn pico_stops_at_ctrl_c() {
    stop(Machine::Pico);
}

#[test]
#[ignore = "needs QEMU"]
fn a_flood_is_counted_and_leaves_the_text_alone() {
    let mut chat = booted(Machine::Qemu);
    let request = Request {
        len: 20_000,
        ..Request::default()
    };
    chat.ask("/len 20000").unwrap();
    chat.send(b"ROMEO:\r").unwrap();
    chat.expect("ROMEO:\r\n").unwrap();
    chat.send(&b"x".repeat(TYPE_AHEAD_BYTES + 300)).unwrap();
    let text = chat.expect("\r\n(dropped: ").unwrap().replace("\r\n", "\n");
    assert_eq!(text, on_host(&random_blob(RING, 1), "ROMEO:", request).0);
    let said = chat.prompt().unwrap();
    assert_eq!(said, "300 bytes typed past the 12288 that wait their turn)");
    chat.send(b"\x03").unwrap();
    chat.expect("^C").unwrap();
    chat.prompt().unwrap();
    assert!(chat.ask("/stats").unwrap().contains("300 bytes dropped"));
}

#[test]
#[ignore = "needs QEMU"]
fn odd_typing_is_taken_as_the_readme_says() {
    let mut chat = booted(Machine::Qemu);
    chat.ask("/len 30").unwrap();
    let plain = chat.ask("ROMEO:").unwrap();

    chat.send(b"\x08\x7fROX\x08M\x1b[DE\x1bOAO:\r\n").unwrap();
    chat.expect("ROX\x08 \x08MEO:\r\n").unwrap();
    assert_eq!(chat.prompt().unwrap().replace("\r\n", "\n"), plain);

    chat.send(b"RO\0M\xff\xfeE\x01O:\n").unwrap();
    chat.expect("ROMEO:\r\n").unwrap();
    let note = "(dropped: 2 control characters, 2 bytes that are not UTF-8)\n";
    assert_eq!(
        chat.prompt().unwrap().replace("\r\n", "\n"),
        format!("{note}{plain}")
    );

    let note = "(dropped: 2 not in the vocabulary: '#' U+0023 'é' U+00E9)\n";
    assert_eq!(chat.ask("#ROMEOé:").unwrap(), format!("{note}{plain}"));

    let long = "y".repeat(300);
    chat.send(format!("{long}\r").as_bytes()).unwrap();
    chat.expect(&format!("{}\r\n", &long[..256])).unwrap();
    let answer = chat.prompt().unwrap();
    assert!(
        answer.starts_with("(dropped: 44 bytes past the 256 that a line holds)\r\n"),
        "{answer}"
    );
    assert!(
        chat.ask("/nothing")
            .unwrap()
            .starts_with("(no command /nothing: expected /temp")
    );
}

#[test]
#[ignore = "needs QEMU and rp2040js"]
fn bad_blobs_are_said_and_the_repl_lives() {
    let blob = random_blob(RING, 1);
    let mut damaged = blob.clone();
    damaged[blob.len() / 2] ^= 0x10;
    let roomy = random_blob(ROOMY, 1);
    let cases: [(Machine, &str, &[u8], &str); 4] = [
        (
            Machine::Qemu,
            "truncated",
            &blob[..blob.len() - 1],
            "the model is damaged: its CRC-32 should be ",
        ),
        (
            Machine::Qemu,
            "damaged",
            &damaged,
            "the model is damaged: its CRC-32 should be ",
        ),
        (Machine::Qemu, "roomy", &roomy, "bytes of RAM"),
        (
            Machine::Pico,
            "damaged",
            &damaged,
            "the model is damaged: its CRC-32 should be ",
        ),
    ];
    for (machine, label, bytes, said) in cases {
        let firmware = machine.build(label, bytes).unwrap();
        let mut chat = firmware.boot().unwrap();
        let banner = chat.prompt().unwrap();
        assert!(
            banner.contains("(no model: ") && banner.contains(said),
            "{banner}"
        );
        let answer = chat.ask("ROMEO:").unwrap();
        assert!(
            answer.starts_with("(no model: ") && answer.contains(said),
            "{answer}"
        );
        assert!(chat.ask("/temp").unwrap().starts_with("temperature 0.8"));
    }
}

/// Has the board go wrong and returns what it says from then to the next prompt string.
fn go_wrong(chat: &mut Chat, kind: &str) -> String {
    chat.send(format!("/fault {kind}\r").as_bytes()).unwrap();
    chat.expect(&format!("/fault {kind}\r\n")).unwrap();
    chat.prompt().unwrap()
}

#[test]
#[ignore = "needs QEMU"]
fn faults_are_said_counted_and_followed_by_a_reset() {
    for machine in [Machine::An385, Machine::Qemu, Machine::An505] {
        let mut chat = booted(machine);
        let said = go_wrong(&mut chat, "panic");
        assert!(
            said.contains("asked for; starting over)\r\n") && said.contains("(panic at "),
            "{machine:?}: {said}"
        );
        assert!(said.contains("(started over by a panic, 1 times since power)"));
        let said = go_wrong(&mut chat, "stack");
        assert!(
            said.contains("(the stack of 16384 bytes overflowed; starting over)"),
            "{machine:?}: {said}"
        );
        assert!(said.contains("(started over by a stack overflow, 2 times since power)"));
        let said = go_wrong(&mut chat, "hang");
        assert!(
            said.contains("nothing has fed the watchdog"),
            "{machine:?}: {said}"
        );
        let stats = chat.ask("/stats").unwrap();
        assert!(stats.contains("3 resets since power"), "{stats}");
    }
}

#[test]
#[ignore = "needs rp2040js"]
fn pico_starts_over_by_its_watchdog() {
    let mut chat = booted(Machine::Pico);
    let said = go_wrong(&mut chat, "panic");
    assert!(said.contains("(panic at ") && said.contains("asked for; starting over)\r\n"));
    assert!(said.contains("(started over by a panic, 1 times since power)"));
}

/// Keeps settings over a reset.
fn save(machine: Machine) {
    let mut chat = booted(machine);
    chat.ask("/temp 0.5").unwrap();
    chat.ask("/len 7").unwrap();
    let said = chat.ask("/save").unwrap();
    assert!(said.starts_with("saved: temperature 0.5"), "{said}");
    let said = go_wrong(&mut chat, "panic");
    assert!(said.contains("saved settings are in force\r\n"), "{said}");
    let said = chat.ask("/temp").unwrap();
    assert!(said.starts_with("temperature 0.5") && said.ends_with("length 7"));
}

#[test]
#[ignore = "needs QEMU"]
fn qemu_keeps_settings() {
    save(Machine::Qemu);
}

#[test]
#[ignore = "needs rp2040js"]
fn pico_keeps_settings_in_flash() {
    save(Machine::Pico);
}

/// Pastes 100 lines, 10 KB, while a text is made, and sees each of them run.
fn paste_a_hundred_lines(machine: Machine, len: u32) {
    let blob = random_blob(RING, 1);
    let mut chat = booted(machine);
    chat.ask(&format!("/len {len}")).unwrap();
    chat.send(b"ROMEO:\r").unwrap();
    chat.expect("ROMEO:\r\n").unwrap();
    let line = "To be or not to be that is the question ".repeat(3);
    let line = line.trim_end();
    chat.send(
        format!("{}\r\n", line[..100].trim_end())
            .repeat(100)
            .as_bytes(),
    )
    .unwrap();
    let line = line[..100].trim_end();
    let request = Request {
        len,
        ..Request::default()
    };
    let text = chat.prompt().unwrap().replace("\r\n", "\n");
    assert_eq!(text, on_host(&blob, "ROMEO:", request).0);
    let known = on_host(&blob, line, request).0;
    for _ in 0..100 {
        chat.expect(&format!("{line}\r\n")).unwrap();
        assert_eq!(chat.prompt().unwrap().replace("\r\n", "\n"), known);
    }
    assert!(chat.ask("/stats").unwrap().contains("\n0 bytes dropped"));
}

#[test]
#[ignore = "needs QEMU"]
fn qemu_drops_none_of_a_hundred_lines() {
    paste_a_hundred_lines(Machine::Qemu, 60);
}

#[test]
#[ignore = "needs QEMU and rp2040js"]
fn stack_and_longest_step_stay_below_their_limits() {
    for machine in Machine::ALL {
        let mut chat = booted(machine);
        chat.ask("/bench 12").unwrap();
        let stats = chat.ask("/stats").unwrap();
        let number = |before: &str| -> u32 {
            let rest = stats.split_once(before).expect(&stats).1;
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
            digits.unwrap().parse().unwrap()
        };
        // Half of what each board reserves; an interrupt may come on top.
        assert!(number(", stack ") <= 8_192, "{machine:?}: {stats}");
        let (step, waits) = (number("longest step "), number("the watchdog waits "));
        assert!(step < 1_000 * waits / 4, "{machine:?}: {stats}");
    }
}

#[test]
#[ignore = "needs QEMU and rp2040js"]
fn every_machine_holds_the_conversation() {
    let blob = random_blob(RING, 1);
    let request = Request {
        len: 12,
        seed: 3,
        ..Request::default()
    };
    for machine in Machine::ALL {
        let mut chat = booted(machine);
        for turn in include_str!("conversation.txt").split("\n\n") {
            let (line, expected) = turn.split_once('\n').unwrap_or((turn, ""));
            let answer = chat.ask(line).unwrap();
            let expected = expected.trim_end();
            assert!(answer.contains(expected), "{machine:?}: {line}: {answer}");
        }
        let (text, hash) = on_host(&blob, "ROMEO:", request);
        assert_eq!(chat.ask("ROMEO:").unwrap(), text, "{machine:?}");
        assert!(chat.ask("/stats").unwrap().contains(&hash), "{machine:?}");
    }
}

#[test]
#[ignore = "needs QEMU"]
fn examples_make_the_hosts_text_and_leave_time_for_others() {
    let request = Request {
        len: 64,
        ..Request::default()
    };
    let (text, _) = on_host(&pocket(), r"ROMEO:\n", request);
    assert_eq!(example("bare").unwrap(), text);
    for (name, what) in [("embassy", " turns\n"), ("rtic", " ticks\n")] {
        let printed = example(name).unwrap();
        let rest = printed.strip_prefix(&text).expect(&printed).trim_start();
        let count: u32 = rest.strip_suffix(what).expect(&printed).parse().unwrap();
        // A turn after each forward pass but the last; ticks of a millisecond in many of them.
        assert!(count >= if name == "embassy" { 70 } else { 5 }, "{printed}");
    }
}
