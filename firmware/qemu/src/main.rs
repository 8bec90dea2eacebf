//! MPS2-AN386 (Cortex-M4F) as QEMU emulates it: UART0 is the terminal, logs go by semihosting.

#![no_std]
#![no_main]

#[cfg(not(target_os = "none"))]
compile_error!("build this package from its own folder: cd firmware/qemu && cargo build --release");

mod fpgaio;
mod register;
mod uart;

use core::panic::PanicInfo;

use cortex_m::peripheral::{NVIC, SCB};
use defmt_semihosting as _;
use embedded_hal::delay::DelayNs as _;
use embedded_io::Write as _;
use static_cell::ConstStaticCell;

/// RAM for the model's state: 4 MiB less 32 KiB for stack, queues and the line editor.
const STATE_WORDS: usize = (4096 - 32) * 1024 / 4;
static STATE: ConstStaticCell<[u32; STATE_WORDS]> = ConstStaticCell::new([0; STATE_WORDS]);

/// Tensors are 16-aligned in the blob, so the blob is 16-aligned in flash.
#[repr(align(16))]
struct Aligned<T: ?Sized>(T);
static MODEL: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/model.bin")));

/// The interrupt of the UART's receiver.
#[derive(Clone, Copy)]
struct UartRx;

// SAFETY: this is the number in AN386's interrupt table.
unsafe impl cortex_m::interrupt::InterruptNumber for UartRx {
    fn number(self) -> u16 {
        uart::RX_IRQ as u16
    }
}

#[cortex_m_rt::entry]
fn main() -> ! {
    defmt::info!("boot");
    let serial = uart::Uart::new();
    // SAFETY: no critical section depends on this interrupt being masked.
    unsafe { NVIC::unmask(UartRx) };
    let mut clock = fpgaio::Clock::new();
    let board = app::Board {
        name: "mps2-an386",
        serial,
        led: fpgaio::Led,
        delay: fpgaio::Delay,
        clock: move || clock.micros(),
    };
    app::run(board, &MODEL.0, STATE.take());
    SCB::sys_reset()
}

/// Without a device crate every interrupt comes here; only the UART's is unmasked.
#[cortex_m_rt::exception]
unsafe fn DefaultHandler(number: i16) {
    if number == uart::RX_IRQ {
        uart::receive();
    }
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    cortex_m::interrupt::disable();
    let _ = write!(uart::Uart::new(), "{}", app::PanicLine(info));
    fpgaio::Delay.delay_ms(1_000);
    SCB::sys_reset()
}
