//! embassy: the text is a task that yields after each forward pass, so that others run on.

#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m_semihosting::{debug, hprint, hprintln};
use embassy_executor::Spawner;
use embassy_futures::yield_now;
use examples as _;
use panic_semihosting as _;
use runtime::{Model, Sampler, Session, Settings};
use static_cell::ConstStaticCell;

/// A blob lies at an address divisible by 4.
#[repr(align(16))]
struct Aligned<T: ?Sized>(T);
static MODEL: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/model.bin")));
static STATE: ConstStaticCell<[u32; 16 * 1024]> = ConstStaticCell::new([0; 16 * 1024]);
/// How often the other task has had its turn.
static TURNS: AtomicU32 = AtomicU32::new(0);

#[embassy_executor::task]
async fn other() {
    loop {
        TURNS.fetch_add(1, Ordering::Relaxed);
        yield_now().await;
    }
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    spawner.spawn(other().expect("there is room for one"));
    let model = Model::from_bytes(&MODEL.0).expect("build.rs embeds a model");
    let mut session = Session::new(&model, STATE.take()).expect("it needs at most 64 KiB");
    let mut sampler = Sampler::new(Settings::default(), 1).expect("the defaults are in range");
    let mut prompt = "ROMEO:\n"
        .chars()
        .filter_map(|char| model.vocab().token(char));
    let mut left = 64;
    while left > 0 {
        let token = prompt.next().unwrap_or_else(|| {
            left -= 1;
            let token = session.sample(&mut sampler);
            hprint!("{}", model.vocab().char(token).unwrap_or('?'));
            token
        });
        session.push(token).expect("the token is in the vocabulary");
        while session.step() {
            yield_now().await;
        }
        yield_now().await;
    }
    hprintln!("\n{} turns", TURNS.load(Ordering::Relaxed));
    debug::exit(debug::EXIT_SUCCESS);
}
