//! stories260K, a model of llama2.c, on the boards; without its files these tests say so and pass.

use app::generate::Request;
use checkpoint::{Board, Checkpoint};
use parity::emulators::Machine;
use parity::guests::stories;
use parity::shapes;

use crate::support::on_host;

const PROMPT: &str = "Once upon a time, a cat";

/// Types a prompt and compares text and hash with the host's.
fn answers(machine: Machine, label: &str, blob: &[u8], len: u32) {
    let firmware = machine.build_with("byte-pair", label, blob).unwrap();
    let mut chat = firmware.boot().unwrap();
    let banner = chat.prompt().unwrap();
    assert!(banner.contains(" ok, self-test "), "{banner}");
    chat.ask(&format!("/len {len}")).unwrap();
    let request = Request {
        len,
        ..Request::default()
    };
    let (text, hash) = on_host(blob, PROMPT, request);
    assert_eq!(chat.ask(PROMPT).unwrap(), text, "{machine:?}");
    let stats = chat.ask("/stats").unwrap();
    assert!(stats.contains(&hash), "expected {hash}, found {stats}");
}

#[test]
#[ignore = "needs QEMU"]
fn qemu_tells_a_story_on_both_cores() {
    let Some(stories) = stories() else { return };
    let blob = shapes::blob_of(&stories);
    for machine in [Machine::Qemu, Machine::An505] {
        answers(machine, "stories", &blob, 64);
    }
}

#[test]
#[ignore = "needs rp2040js"]
fn pico_tells_a_story_in_int4_with_the_longest_context_that_fits() {
    let Some(stories) = stories() else { return };
    let pico = Board::find("pico").unwrap();
    let with_context = |context_len: u16| -> Checkpoint {
        let mut shorter = stories.clone();
        shorter.shorten(context_len).unwrap();
        shorter
    };
    let fits = |model: &Checkpoint| pico.check(0, model.config.state_bytes()).is_ok();
    let longest = (1..=stories.config.context_len).rev().step_by(16);
    let stories = longest.map(with_context).find(fits).unwrap();
    println!("context_len {}", stories.config.context_len);
    assert!(stories.config.context_len >= 256);
    answers(
        Machine::Pico,
        "stories",
        &shapes::int4_blob_of(&stories, None),
        8,
    );
}
