//! NUCLEO-H743ZI (STM32H743ZI, Cortex-M7): serial line on PD8 (out) and PD9 (in), which the debug
//! probe's USB serial port shows, at 115200 baud, LED on PB0, logs by RTT.

#![no_std]
#![no_main]

#[cfg(not(target_os = "none"))]
compile_error!(
    "build this package from its own folder: cd firmware/nucleo-h743zi && cargo build --release"
);

mod device;

use defmt_rtt as _;
use embassy_stm32::gpio::{Level, Output, Speed};
use embassy_stm32::peripherals::USART3;
use embassy_stm32::usart::{BufferedInterruptHandler, BufferedUart, Config};
use static_cell::ConstStaticCell;

/// RAM for the model's state: 512 KiB of AXI SRAM less 48 KiB for queues and the line editor.
const STATE_WORDS: usize = (512 - 48) * 1024 / 4;
static STATE: ConstStaticCell<[u32; STATE_WORDS]> = ConstStaticCell::new([0; STATE_WORDS]);
static RX: ConstStaticCell<[u8; 2048]> = ConstStaticCell::new([0; 2048]);
static TX: ConstStaticCell<[u8; 256]> = ConstStaticCell::new([0; 256]);
chip::embed_model!();

embassy_stm32::bind_interrupts!(struct Interrupts {
    USART3 => BufferedInterruptHandler<USART3>;
});

#[cortex_m_rt::entry]
fn main() -> ! {
    chip::stack::prepare();
    let p = embassy_stm32::init(device::clocks());
    let (tx, rx, config) = (TX.take(), RX.take(), Config::default());
    let uart = BufferedUart::new(p.USART3, p.PD9, p.PD8, tx, rx, Interrupts, config);
    let board = app::Board {
        name: "nucleo-h743zi",
        serial: uart.expect("115200 baud can be divided from the clock"),
        led: Output::new(p.PB0, Level::Low, Speed::Low),
        chip: device::Device::new(p.IWDG1, p.FLASH),
    };
    chip::run(board, STATE.take())
}

chip::handlers!(device::put, device::hasten);
