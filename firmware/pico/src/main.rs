//! Raspberry Pi Pico: serial port on GPIO0 and GPIO1 at 115200 baud, LED on GPIO25, logs by RTT.

#![no_std]
#![no_main]

#[cfg(not(target_os = "none"))]
compile_error!("build this package from its own folder: cd firmware/pico && cargo build --release");

mod serial;

use core::panic::PanicInfo;

use defmt_rtt as _;
use embassy_rp::gpio::{Level, Output};
use embassy_rp::peripherals::UART0;
use embassy_rp::uart::{BufferedInterruptHandler, BufferedUart, Config};
use embassy_time::{Delay, Instant};
use static_cell::ConstStaticCell;

/// RAM for the model's state: 256 KiB less 32 KiB for stack, queues and the line editor.
const STATE_WORDS: usize = (256 - 32) * 1024 / 4;
static STATE: ConstStaticCell<[u32; STATE_WORDS]> = ConstStaticCell::new([0; STATE_WORDS]);

/// 178 ms of bytes at 115200 baud may arrive during one forward pass.
const RX_LEN: usize = 2048;
const TX_LEN: usize = 256;
static RX: ConstStaticCell<[u8; RX_LEN]> = ConstStaticCell::new([0; RX_LEN]);
static TX: ConstStaticCell<[u8; TX_LEN]> = ConstStaticCell::new([0; TX_LEN]);

/// Tensors are 16-aligned in the blob, so the blob is 16-aligned in flash.
#[repr(align(16))]
struct Aligned<T: ?Sized>(T);
static MODEL: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/model.bin")));

embassy_rp::bind_interrupts!(struct Interrupts {
    UART0_IRQ => BufferedInterruptHandler<UART0>;
});

#[cortex_m_rt::entry]
fn main() -> ! {
    let p = embassy_rp::init(Default::default());
    defmt::info!("boot");
    let (tx, rx, config) = (TX.take(), RX.take(), Config::default());
    let uart = BufferedUart::new(p.UART0, p.PIN_0, p.PIN_1, Interrupts, tx, rx, config);
    let board = app::Board {
        name: "pico",
        serial: serial::Serial(uart),
        led: Output::new(p.PIN_25, Level::Low),
        delay: Delay,
        clock: || Instant::now().as_micros(),
    };
    app::run(board, &MODEL.0, STATE.take());
    cortex_m::peripheral::SCB::sys_reset()
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    serial::report_panic(info)
}
