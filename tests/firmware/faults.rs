//! What is wrong is said, and the board lives on or starts over; its settings outlive that.

use app::generate::Request;
use parity::emulators::{Chat, Machine};
use parity::shapes::random_blob;
use runtime::Config;

use crate::support::{RING, booted, on_host, ring};

/// More RAM than any board has, in a blob that fits every board.
const ROOMY: Config = Config {
    n_layer: 32,
    context_len: 8_192,
    ..RING
};

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
    for machine in [Machine::An385, Machine::Qemu, Machine::An505, Machine::Virt] {
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
#[ignore = "needs rp2040js and Unicorn"]
fn picos_and_black_pill_start_over_by_their_watchdogs() {
    for machine in [Machine::Pico, Machine::Pico2, Machine::Blackpill] {
        let mut chat = booted(machine);
        let said = go_wrong(&mut chat, "panic");
        assert!(
            said.contains("(panic at ") && said.contains("asked for; starting over)\r\n"),
            "{machine:?}: {said}"
        );
        assert!(said.contains("(started over by a panic, 1 times since power)"));
        // rp2040js has no bus faults.
        if machine != Machine::Pico {
            let said = go_wrong(&mut chat, "stack");
            assert!(
                said.contains("(the stack of 16384 bytes overflowed; starting over)"),
                "{machine:?}: {said}"
            );
            assert!(said.contains("(started over by a stack overflow, 2 times since power)"));
        }
    }
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
    save(Machine::Virt);
}

#[test]
#[ignore = "needs rp2040js and Unicorn"]
fn picos_keep_settings_in_flash() {
    save(Machine::Pico);
    save(Machine::Pico2);
}

#[test]
#[ignore = "needs Unicorn"]
fn black_pill_keeps_settings_behind_those_it_kept_before() {
    save(Machine::Blackpill);
    let mut chat = booted(Machine::Blackpill);
    for slot in 0..128 {
        chat.ask(&format!("/len {}", slot + 1)).unwrap();
        assert!(chat.ask("/save").unwrap().starts_with("saved: "), "{slot}");
    }
    let full = chat.ask("/save").unwrap();
    assert!(
        full.starts_with("(the place for settings is full; "),
        "{full}"
    );
    let said = go_wrong(&mut chat, "panic");
    assert!(said.contains("saved settings are in force\r\n"), "{said}");
    assert!(chat.ask("/len").unwrap().ends_with("length 128"));
}

#[test]
#[ignore = "needs Unicorn"]
fn noise_seeds_a_boot_and_the_seed_repeats_its_texts() {
    for machine in [Machine::Pico2, Machine::Blackpill] {
        let firmware = ring(machine);
        let mut seeds = Vec::new();
        for noise in [7, 8] {
            let mut chat = firmware.boot_noisy(noise).unwrap();
            let banner = chat.prompt().unwrap();
            let said = banner.split_once("\nseed ").expect(&banner).1;
            let (seed, rest) = said.split_once(", from noise: /seed ").expect(&banner);
            assert!(rest.starts_with(&format!("{seed} repeats")), "{banner}");
            let request = Request {
                len: 12,
                seed: seed.parse().unwrap(),
                ..Request::default()
            };
            chat.ask("/len 12").unwrap();
            let (text, _) = on_host(&random_blob(RING, 1), "ROMEO:", request);
            assert_eq!(chat.ask("ROMEO:").unwrap(), text, "{machine:?}");
            seeds.push(request.seed);
        }
        assert_ne!(seeds[0], seeds[1], "{machine:?}");
    }
}
