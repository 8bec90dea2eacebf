//! The MPS2 boards as QEMU emulates them: UART0 is the terminal, logs go by semihosting.

#![no_std]
#![no_main]

#[cfg(not(target_os = "none"))]
compile_error!("build this package from its own folder: cd firmware/qemu && cargo build --release");

mod fpgaio;
mod map;
mod mps2;
mod uart;

use cortex_m::peripheral::NVIC;
use defmt_semihosting as _;
use static_cell::ConstStaticCell;

/// RAM for the model's state: 4 MiB less 48 KiB for stack, queues and the line editor.
const STATE_WORDS: usize = (4096 - 48) * 1024 / 4;
static STATE: ConstStaticCell<[u32; STATE_WORDS]> = ConstStaticCell::new([0; STATE_WORDS]);
chip::embed_model!();

/// The interrupt of the UART's receiver.
#[derive(Clone, Copy)]
struct UartRx;

// SAFETY: this is the number in the boards' interrupt tables.
unsafe impl cortex_m::interrupt::InterruptNumber for UartRx {
    fn number(self) -> u16 {
        map::UART0_RX.cast_unsigned()
    }
}

#[cortex_m_rt::entry]
fn main() -> ! {
    chip::stack::prepare();
    let serial = uart::open();
    // SAFETY: no critical section depends on this interrupt being masked.
    unsafe { NVIC::unmask(UartRx) };
    let board = app::Board {
        name: map::NAME,
        serial,
        led: fpgaio::Led,
        chip: mps2::Mps2::new(),
    };
    chip::run(board, STATE.take())
}

/// Without a device crate every interrupt comes here.
#[cortex_m_rt::exception]
unsafe fn DefaultHandler(number: i16) {
    if number == map::UART0_RX {
        uart::receive();
    }
}

/// The watchdog has not been fed.
#[cortex_m_rt::exception]
unsafe fn NonMaskableInt() -> ! {
    if mps2::gave_up() {
        loop {
            core::hint::spin_loop();
        }
    }
    panic!("nothing has fed the watchdog")
}

chip::handlers!(uart::put, mps2::give_up);
