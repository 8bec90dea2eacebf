//! Raspberry Pi Pico and Pico 2, which differ in chip and memory only: serial lines on USB and on GPIO0
//! (out) and GPIO1 (in) at 115200 baud, LED on GPIO25, logs by RTT.

#![cfg(target_os = "none")]
#![no_std]

#[cfg(feature = "both-cores")]
mod core1;
mod device;
mod help;
mod serial;
mod usb;
mod xip;

use defmt_rtt as _;
use embassy_rp::gpio::{Level, Output};
use embassy_rp::peripherals::UART0;
use embassy_rp::uart::{BufferedInterruptHandler, BufferedUart, Config};
use static_cell::ConstStaticCell;

/// 178 ms of bytes at 115200 baud may arrive during one forward pass.
static RX: ConstStaticCell<[u8; 2048]> = ConstStaticCell::new([0; 2048]);
static TX: ConstStaticCell<[u8; 256]> = ConstStaticCell::new([0; 256]);

embassy_rp::bind_interrupts!(struct Interrupts {
    UART0_IRQ => BufferedInterruptHandler<UART0>;
});

chip::handlers!(serial::put, device::hasten);

/// Runs the REPL on a board of this name with `FLASH_LEN` bytes of flash and `state` for the model.
pub fn run<const FLASH_LEN: usize>(name: &'static str, state: &mut [u32]) -> ! {
    let p = embassy_rp::init(Default::default());
    usb::start(p.USB);
    let (tx, rx, config) = (TX.take(), RX.take(), Config::default());
    let uart = BufferedUart::new(p.UART0, p.PIN_0, p.PIN_1, Interrupts, tx, rx, config);
    let parts = help::Parts {
        channel: p.DMA_CH11,
        #[cfg(feature = "both-cores")]
        core: p.CORE1,
    };
    let board = app::Board {
        name,
        serial: serial::Serial(uart),
        led: Output::new(p.PIN_25, Level::Low),
        chip: device::Rp::<FLASH_LEN>::new(p.WATCHDOG, p.FLASH, parts),
    };
    chip::run(board, state)
}
