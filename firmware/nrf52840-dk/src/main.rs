//! nRF52840-DK: serial line on P0.06 (out) and P0.08 (in), which the debug probe's USB serial port shows,
//! at 115200 baud, LED1, logs by RTT.

#![no_std]
#![no_main]

#[cfg(not(target_os = "none"))]
compile_error!(
    "build this package from its own folder: cd firmware/nrf52840-dk && cargo build --release"
);

mod device;
mod serial;

use defmt_rtt as _;
use embassy_nrf::buffered_uarte::{BufferedUarte, InterruptHandler};
use embassy_nrf::gpio::{Level, Output, OutputDrive};
use embassy_nrf::peripherals::UARTE0;
use embassy_nrf::uarte::Config;
use static_cell::ConstStaticCell;

/// RAM for the model's state: 256 KiB less 48 KiB for stack, queues and the line editor.
const STATE_WORDS: usize = (256 - 48) * 1024 / 4;
static STATE: ConstStaticCell<[u32; STATE_WORDS]> = ConstStaticCell::new([0; STATE_WORDS]);
static RX: ConstStaticCell<[u8; 2048]> = ConstStaticCell::new([0; 2048]);
static TX: ConstStaticCell<[u8; 256]> = ConstStaticCell::new([0; 256]);
chip::embed_model!();

embassy_nrf::bind_interrupts!(struct Interrupts {
    UARTE0 => InterruptHandler<UARTE0>;
});

#[cortex_m_rt::entry]
fn main() -> ! {
    chip::stack::prepare();
    let p = embassy_nrf::init(Default::default());
    let (tx, rx, config) = (TX.take(), RX.take(), Config::default());
    let uart = BufferedUarte::new(
        p.UARTE0,
        p.TIMER0,
        p.PPI_CH0,
        p.PPI_CH1,
        p.PPI_GROUP0,
        p.P0_08,
        p.P0_06,
        Interrupts,
        config,
        rx,
        tx,
    );
    let led = Output::new(p.P0_13, Level::High, OutputDrive::Standard);
    let board = app::Board {
        name: "nrf52840-dk",
        serial: serial::Serial::new(uart),
        led: chip::led::ActiveLow(led),
        chip: device::Device::new(p.WDT, p.NVMC),
    };
    chip::run(board, STATE.take())
}

chip::handlers!(serial::put);
