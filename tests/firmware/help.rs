//! What hides the slowness of the flash of Pico and Pico 2: tried, used or done without, with the
//! same text.

use app::generate::Request;
use parity::emulators::{Chat, Machine};
use parity::shapes::{PLAIN, random_blob};
use runtime::Config;

use crate::support::on_host;

/// More weights than either has RAM for.
const LARGE: Config = Config {
    d_model: 128,
    d_ff: 512,
    vocab_size: 65,
    ..PLAIN
};

/// Has the board make a text and returns its line about the weights.
fn weights(mut chat: Chat) -> String {
    let blob = random_blob(LARGE, 4);
    chat.prompt().unwrap();
    chat.ask("/len 4").unwrap();
    let request = Request {
        len: 4,
        ..Request::default()
    };
    let (text, hash) = on_host(&blob, "ROMEO:", request);
    assert_eq!(chat.ask("ROMEO:").unwrap(), text);
    let stats = chat.ask("/stats").unwrap();
    assert!(stats.contains(&hash), "{stats}");
    let mut lines = stats.lines();
    let line = lines.find_map(|line| line.strip_prefix("weights: "));
    line.expect(&stats).to_string()
}

/// Without a stream, and with the stand-in for one.
fn keeps_and_streams(machine: Machine) {
    let firmware = machine.build("large", &random_blob(LARGE, 4)).unwrap();
    let line = weights(firmware.boot().unwrap());
    let (kept, rest) = line.split_once(" bytes in RAM, ").unwrap();
    let (left, rest) = rest.split_once(" in flash; ").unwrap();
    let (kept, left): (usize, usize) = (kept.parse().unwrap(), left.parse().unwrap());
    assert!(kept > 128 * 1024 && left > 96 * 1024, "{line}");
    assert_eq!(rest, "stream: none; cores: 1");

    let line = weights(firmware.boot_streaming().unwrap());
    assert!(line.ends_with("; stream: ahead of use; cores: 1"), "{line}");
}

#[test]
#[ignore = "needs rp2040js"]
fn pico_keeps_weights_in_ram_and_streams_the_rest() {
    keeps_and_streams(Machine::Pico);
}

#[test]
#[ignore = "needs Unicorn"]
fn pico2_keeps_weights_in_ram_and_streams_the_rest() {
    keeps_and_streams(Machine::Pico2);
}

/// With the feature for a second core, and none that answers.
fn does_with_one_core(machine: Machine) {
    let blob = random_blob(LARGE, 4);
    let firmware = machine.build_with("both-cores", "large", &blob);
    let line = weights(firmware.unwrap().boot().unwrap());
    assert!(line.ends_with("; stream: none; cores: 1"), "{line}");
}

#[test]
#[ignore = "needs rp2040js"]
fn pico_does_without_a_second_core_that_does_not_answer() {
    does_with_one_core(Machine::Pico);
}

#[test]
#[ignore = "needs Unicorn"]
fn pico2_does_without_a_second_core_that_does_not_answer() {
    does_with_one_core(Machine::Pico2);
}
