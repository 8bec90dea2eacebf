//! Feeds the model a text that fills its window and counts one character in each of three places.
//!
//! The regions, in order: at position 0, in the middle of the window, at its last position. Then
//! the logits hash of all characters is printed.

#![no_std]
#![no_main]

mod machine;

use core::hint::black_box;

use runtime::{LogitsHash, Model, Session};

include!(concat!(env!("OUT_DIR"), "/state.rs"));

/// Tensors are 16-aligned in the blob, so the blob is 16-aligned in flash.
#[repr(align(16))]
struct Aligned<T: ?Sized>(T);
#[unsafe(link_section = ".model")]
static MODEL: Aligned<[u8; include_bytes!(concat!(env!("OUT_DIR"), "/model.bin")).len()]> =
    Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/model.bin")));

static mut STATE: [u32; STATE_WORDS] = [0; STATE_WORDS];

#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let state = &raw mut STATE;
    // SAFETY: this function runs once and nothing else names the static.
    let state = unsafe { &mut *state };
    let hash = Model::from_bytes(black_box(&MODEL.0))
        .ok()
        .and_then(|model| run(&model, state));
    match hash {
        Some(hash) => {
            machine::print("hash", hash);
            machine::exit(true)
        }
        None => machine::exit(false),
    }
}

fn run(model: &Model<'_>, state: &mut [u32]) -> Option<u64> {
    let mut session = Session::new(model, state).ok()?;
    session.self_test().ok()?;
    let window = model.config().context_len;
    let vocab_size = model.config().vocab_size;
    let mut hash = LogitsHash::new();
    let mut token = 0;
    for pos in 0..window {
        let counted = pos == 0 || pos == window / 2 || pos == window - 1;
        session.push(black_box(token)).ok()?;
        if counted {
            machine::mark_start();
        }
        while session.step() {}
        if counted {
            machine::mark_end();
        }
        hash.update(session.logits());
        token += 7;
        if token >= vocab_size {
            token -= vocab_size;
        }
    }
    Some(hash.finish())
}
