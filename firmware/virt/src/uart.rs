//! UART0, a 16550, received by interrupt: it holds a byte, and a forward pass takes longer. Sending
//! polls. Its queue of 16 bytes stays off: to switch it on loses what came before, and without it
//! QEMU waits with each byte until the last is fetched.

use chip::Register;
use chip::line::{self, Line};
use riscv::interrupt::Interrupt;
use riscv::register::mie;

const UART: usize = 0x1000_0000;
// SAFETY: the machine has a 16550 there (QEMU, hw/riscv/virt.c); it is no memory.
const DATA: Register<u8> = unsafe { Register::new(UART) };
// SAFETY: as above.
const INTERRUPTS: Register<u8> = unsafe { Register::new(UART + 1) };
// SAFETY: as above.
const STATUS: Register<u8> = unsafe { Register::new(UART + 5) };

const RECEIVED_INTERRUPT: u8 = 1 << 0;
const STATUS_RX_READY: u8 = 1 << 0;
const STATUS_RX_OVERRUN: u8 = 1 << 1;
const STATUS_TX_READY: u8 = 1 << 5;

const PLIC: usize = 0x0c00_0000;
/// The UART's number at the interrupt controller (PLIC).
const SOURCE: u32 = 10;
// SAFETY: the machine has the PLIC there; it is no memory.
const PRIORITY: Register = unsafe { Register::new(PLIC + 4 * SOURCE as usize) };
// SAFETY: as above.
const ENABLE: Register = unsafe { Register::new(PLIC + 0x2000) };
// SAFETY: as above.
const THRESHOLD: Register = unsafe { Register::new(PLIC + 0x20_0000) };
// SAFETY: as above.
const CLAIM: Register = unsafe { Register::new(PLIC + 0x20_0004) };

/// Sets it up, with its interrupt.
pub fn open() -> Line {
    INTERRUPTS.write(RECEIVED_INTERRUPT);
    PRIORITY.write(1);
    THRESHOLD.write(0);
    ENABLE.write(1 << SOURCE);
    // SAFETY: the handler is there.
    unsafe { mie::enable(Interrupt::MachineExternal) };
    Line { put, flush }
}

/// The receive interrupt.
#[riscv_rt::core_interrupt(Interrupt::MachineExternal)]
fn receive() {
    let source = CLAIM.read();
    line::receive(|received| {
        loop {
            let status = STATUS.read();
            if status & STATUS_RX_OVERRUN != 0 {
                received.lose();
            }
            if status & STATUS_RX_READY == 0 {
                break;
            }
            received.push(DATA.read());
        }
    });
    CLAIM.write(source);
}

/// Waits until the transmitter has room.
fn flush() {
    while STATUS.read() & STATUS_TX_READY == 0 {}
}

/// Sends a byte.
pub fn put(byte: u8) {
    flush();
    DATA.write(byte);
}
