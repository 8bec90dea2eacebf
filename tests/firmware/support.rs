//! The boards with a model of random weights, and what the host makes of it.

use app::generate::Request;
use checkpoint::AlignedBytes;
use parity::emulators::Firmware;
use parity::emulators::{Chat, Machine, host};
use parity::shapes::{PLAIN, random_blob};
use runtime::Config;

/// Rotary positions and a context that every text outgrows.
pub(crate) const RING: Config = Config {
    vocab_size: 65,
    n_kv_head: 2,
    ..PLAIN
};

/// Returns the firmware with a blob of random weights in its flash.
pub(crate) fn ring(machine: Machine) -> Firmware {
    machine.build("ring", &random_blob(RING, 1)).unwrap()
}

/// Boots the board with the blob of [`ring`] and waits for the prompt string.
pub(crate) fn booted(machine: Machine) -> Chat {
    let mut chat = ring(machine).boot().unwrap();
    chat.prompt().unwrap();
    chat
}

/// Returns what the host makes of a line, in the board's words: the text, then the hash.
pub(crate) fn on_host(blob: &[u8], line: &str, request: Request) -> (String, String) {
    let (text, hash) = host::text(blob, line, request).unwrap();
    (text, format!("logits hash {hash:016x}\n"))
}

/// The blob that boards embed by default.
pub(crate) fn pocket() -> AlignedBytes {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../firmware/model/pocket.bin");
    AlignedBytes::read(path.as_ref()).expect("firmware/model/pocket.bin is committed")
}
