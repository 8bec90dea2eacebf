//! Prints the logits hash of the text in `text.rs`, of as many characters as `CHAPBOOK_POSITIONS`
//! said when it was built.

#![no_std]
#![no_main]

#[expect(dead_code, reason = "nothing is counted here")]
mod machine;
mod text;

use core::hint::black_box;

use runtime::{Model, Session};

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
        .and_then(|model| {
            let mut session = Session::new(&model, state).ok()?;
            session.self_test().ok()?;
            text::hash(&mut session, POSITIONS)
        });
    match hash {
        Some(hash) => {
            machine::print("hash", hash);
            machine::exit(true)
        }
        None => machine::exit(false),
    }
}
