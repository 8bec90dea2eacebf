//! The RV32 machine of QEMU (`virt`): UART0 is the terminal, logs go by semihosting.

#![no_std]
#![no_main]

#[cfg(not(target_os = "none"))]
compile_error!("build this package from its own folder: cd firmware/virt && cargo build --release");

mod device;
mod uart;

use defmt_semihosting as _;
use static_cell::ConstStaticCell;

/// RAM for the model's state: 4 MiB less 48 KiB for stack, queues and the line editor.
const STATE_WORDS: usize = (4096 - 48) * 1024 / 4;
static STATE: ConstStaticCell<[u32; STATE_WORDS]> = ConstStaticCell::new([0; STATE_WORDS]);
chip::embed_model!();

/// Sets the machine up and runs the REPL.
#[riscv_rt::entry]
fn main() -> ! {
    chip::stack::prepare();
    device::guard_stack();
    let board = app::Board {
        name: "virt",
        serial: uart::open(),
        led: app::NoLed,
        chip: device::Device::new(),
    };
    // SAFETY: UART and timer are set up; no critical section is open.
    unsafe { riscv::interrupt::enable() };
    chip::run(board, STATE.take())
}

chip::handlers!(uart::put, device::give_up);
