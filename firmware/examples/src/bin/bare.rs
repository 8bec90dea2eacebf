//! A bare loop: one text, nothing else to do.

#![no_std]
#![no_main]

use cortex_m_semihosting::{debug, hprint};
use examples as _;
use panic_semihosting as _;
use runtime::{Model, Sampler, Session, Settings};
use static_cell::ConstStaticCell;

/// A blob lies at an address divisible by 4.
#[repr(align(16))]
struct Aligned<T: ?Sized>(T);
static MODEL: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/model.bin")));
static STATE: ConstStaticCell<[u32; 16 * 1024]> = ConstStaticCell::new([0; 16 * 1024]);

#[cortex_m_rt::entry]
fn main() -> ! {
    let model = Model::from_bytes(&MODEL.0).expect("build.rs embeds a model");
    let mut session = Session::new(&model, STATE.take()).expect("it needs at most 64 KiB");
    let mut sampler = Sampler::new(Settings::default(), 1).expect("the defaults are in range");
    let vocab = model.vocab();
    for token in "ROMEO:\n".chars().filter_map(|char| vocab.token(char)) {
        session.feed(token).expect("the token is in the vocabulary");
    }
    for _ in 0..64 {
        let token = session.sample(&mut sampler);
        if let Some(char) = vocab.char(token) {
            hprint!("{}", char);
        }
        session.feed(token).expect("the token is in the vocabulary");
    }
    loop {
        debug::exit(debug::EXIT_SUCCESS);
    }
}
