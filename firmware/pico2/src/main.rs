//! Raspberry Pi Pico 2: serial lines on USB and on GPIO0 and GPIO1 at 115200 baud, LED on GPIO25, logs
//! by RTT.

#![no_std]
#![no_main]

#[cfg(not(target_os = "none"))]
compile_error!(
    "build this package from its own folder: cd firmware/pico2 && cargo build --release"
);

use core::panic::PanicInfo;

use defmt_rtt as _;
use embassy_rp::gpio::{Level, Output};
use embassy_rp::peripherals::UART0;
use embassy_rp::uart::{BufferedInterruptHandler, BufferedUart, Config};
use rp::{Raw, Rp, Serial};
use static_cell::ConstStaticCell;

const FLASH_LEN: usize = 4096 * 1024;
/// RAM for the model's state: 512 KiB less 48 KiB for stack, queues and the line editor.
const STATE_WORDS: usize = (512 - 48) * 1024 / 4;
static STATE: ConstStaticCell<[u32; STATE_WORDS]> = ConstStaticCell::new([0; STATE_WORDS]);
static MEMORY: ConstStaticCell<app::Memory> = ConstStaticCell::new(app::Memory::new());
/// 178 ms of bytes at 115200 baud may arrive during one forward pass.
static RX: ConstStaticCell<[u8; 2048]> = ConstStaticCell::new([0; 2048]);
static TX: ConstStaticCell<[u8; 256]> = ConstStaticCell::new([0; 256]);
chip::embed_model!();

embassy_rp::bind_interrupts!(struct Interrupts {
    UART0_IRQ => BufferedInterruptHandler<UART0>;
});

#[cortex_m_rt::entry]
fn main() -> ! {
    chip::stack::paint();
    chip::cortex::limit_stack();
    let p = embassy_rp::init(Default::default());
    defmt::info!("boot");
    let core = cortex_m::Peripherals::take().expect("taken once");
    chip::cortex::start_ticks(core.SYST, embassy_rp::clocks::clk_sys_freq());
    rp::start_usb(p.USB);
    let (tx, rx, config) = (TX.take(), RX.take(), Config::default());
    let uart = BufferedUart::new(p.UART0, p.PIN_0, p.PIN_1, Interrupts, tx, rx, config);
    let board = app::Board {
        name: "pico2",
        serial: Serial(uart),
        led: Output::new(p.PIN_25, Level::Low),
        chip: Rp::<FLASH_LEN>::new(p.WATCHDOG, p.FLASH),
    };
    app::run(board, chip::model::region(), MEMORY.take(), STATE.take());
    cortex_m::peripheral::SCB::sys_reset()
}

/// The tick wakes the core, no more.
#[cortex_m_rt::exception]
fn SysTick() {}

/// What a fault of the core comes to, see `chip::cortex`.
#[unsafe(no_mangle)]
extern "C" fn chapbook_fault(sp: usize) -> ! {
    rp::hasten();
    chip::fault(&mut Raw, sp)
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    cortex_m::interrupt::disable();
    defmt::error!("panic");
    rp::hasten();
    chip::panic(&mut Raw, info)
}
