//! Every board makes the host's text.

use app::generate::Request;
use checkpoint::synthetic;
use parity::emulators::machine::example;
use parity::emulators::{Chat, Firmware, Machine, script};
use parity::shapes::{self, random_blob};
use runtime::{Activation, Config, Norm, Position, Settings};

use crate::support::{RING, booted, on_host, pocket, ring};

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

/// Has the board answer a prompt under several settings and compares text and hash with the host.
fn same_as_host(firmware: &Firmware, blob: &[u8], len: u32) {
    let mut chat = firmware.boot().unwrap();
    let banner = chat.prompt().unwrap();
    assert!(banner.contains(" ok, self-test "), "{banner}");
    answers_as_host(&mut chat, blob, len);
}

/// Does what [`same_as_host`] does, at the first prompt string.
fn answers_as_host(chat: &mut Chat, blob: &[u8], len: u32) {
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
#[ignore = "needs rp2040js"]
fn pico_computes_what_the_host_does_over_usb() {
    let mut chat = ring(Machine::Pico).boot_usb().unwrap();
    chat.prompt().unwrap();
    answers_as_host(&mut chat, &random_blob(RING, 1), 24);
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
        if let Err(error) = script::hold(&mut chat, include_str!("../conversation.txt")) {
            panic!("{machine:?}: {error:#}");
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
    let sources = [
        include_str!("../../firmware/examples/src/bin/bare.rs"),
        include_str!("../../firmware/examples/src/bin/embassy.rs"),
        include_str!("../../firmware/examples/src/bin/rtic.rs"),
    ];
    assert!(sources.iter().all(|source| source.lines().count() < 60));
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
