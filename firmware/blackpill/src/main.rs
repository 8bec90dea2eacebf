//! WeAct Black Pill (STM32F411CE, Cortex-M4F): serial line on PA9 (out) and PA10 (in) at 115200 baud,
//! LED on PC13, logs by RTT.

#![no_std]
#![no_main]

#[cfg(not(target_os = "none"))]
compile_error!(
    "build this package from its own folder: cd firmware/blackpill && cargo build --release"
);

mod device;
mod noise;

use defmt_rtt as _;
use embassy_stm32::gpio::{Level, Output, Speed};
use embassy_stm32::peripherals::USART1;
use embassy_stm32::usart::{BufferedInterruptHandler, BufferedUart, Config};
use static_cell::ConstStaticCell;

/// RAM for the model's state: 128 KiB less 48 KiB for stack, queues and the line editor.
const STATE_WORDS: usize = (128 - 48) * 1024 / 4;
static STATE: ConstStaticCell<[u32; STATE_WORDS]> = ConstStaticCell::new([0; STATE_WORDS]);
static RX: ConstStaticCell<[u8; 2048]> = ConstStaticCell::new([0; 2048]);
static TX: ConstStaticCell<[u8; 256]> = ConstStaticCell::new([0; 256]);
chip::embed_model!();

embassy_stm32::bind_interrupts!(struct Interrupts {
    USART1 => BufferedInterruptHandler<USART1>;
});

#[cortex_m_rt::entry]
fn main() -> ! {
    chip::stack::prepare();
    let p = embassy_stm32::init(device::clocks());
    let (tx, rx, config) = (TX.take(), RX.take(), Config::default());
    let uart = BufferedUart::new(p.USART1, p.PA10, p.PA9, tx, rx, Interrupts, config);
    let board = app::Board {
        name: "blackpill",
        serial: uart.expect("115200 baud can be divided from the clock"),
        led: chip::led::ActiveLow(Output::new(p.PC13, Level::High, Speed::Low)),
        chip: device::Device::new(p.IWDG, p.FLASH),
    };
    chip::run(board, STATE.take())
}

chip::handlers!(device::put, device::hasten);
