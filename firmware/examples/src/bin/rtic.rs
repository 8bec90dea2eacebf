//! RTIC: the text is a task of low priority that a tick of high priority interrupts at any time.

#![no_std]
#![no_main]

use panic_semihosting as _;

#[rtic::app(device = examples, peripherals = false, dispatchers = [UART0_TX])]
mod app {
    use cortex_m::peripheral::syst::SystClkSource;
    use cortex_m_semihosting::{debug, hprint, hprintln};
    use runtime::{Model, Sampler, Session, Settings};

    /// A blob lies at an address divisible by 4.
    #[repr(align(16))]
    struct Aligned<T: ?Sized>(T);
    static MODEL: &Aligned<[u8]> =
        &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/model.bin")));

    #[shared]
    struct Shared {
        ticks: u32,
    }
    #[local]
    struct Local {}

    #[init]
    fn init(context: init::Context) -> (Shared, Local) {
        let mut tick = context.core.SYST;
        tick.set_clock_source(SystClkSource::Core);
        tick.set_reload(25_000);
        tick.enable_counter();
        tick.enable_interrupt();
        text::spawn().expect("it has not been spawned before");
        (Shared { ticks: 0 }, Local {})
    }

    #[task(binds = SysTick, priority = 2, shared = [ticks])]
    fn tick(mut context: tick::Context) {
        context.shared.ticks.lock(|ticks| *ticks += 1);
    }

    #[task(priority = 1, shared = [ticks], local = [state: [u32; 16 * 1024] = [0; 16 * 1024]])]
    async fn text(mut context: text::Context) {
        let model = Model::from_bytes(&MODEL.0).expect("build.rs embeds a model");
        let mut session = Session::new(&model, context.local.state).expect("at most 64 KiB");
        let mut sampler = Sampler::new(Settings::default(), 1).expect("in range");
        let vocab = model.vocab();
        let mut prompt = "ROMEO:\n".chars().filter_map(|char| vocab.token(char));
        for _ in 0..64 {
            (&mut prompt).for_each(|token| _ = session.feed(token));
            let token = session.sample(&mut sampler);
            hprint!("{}", vocab.char(token).unwrap_or('?'));
            session.feed(token).expect("the token is in the vocabulary");
        }
        hprintln!("\n{} ticks", context.shared.ticks.lock(|ticks| *ticks));
        debug::exit(debug::EXIT_SUCCESS);
    }
}
