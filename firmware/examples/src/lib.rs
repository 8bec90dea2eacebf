//! The part of a device crate that RTIC asks for, of MPS2-AN386: its first two interrupts.

#![no_std]
#![cfg(target_os = "none")]

use cortex_m::interrupt::InterruptNumber;
use cortex_m_rt as _;

/// Bits of a priority.
pub const NVIC_PRIO_BITS: u8 = 3;

/// The interrupts of UART0, which nothing here raises but software.
#[allow(
    non_camel_case_types,
    reason = "interrupts are named as in data sheets"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Interrupt {
    /// The receiver.
    UART0_RX = 0,
    /// The transmitter.
    UART0_TX = 1,
}

/// The name that RTIC knows it by, too.
pub use Interrupt as interrupt;

// SAFETY: these are the numbers in AN386's interrupt table.
unsafe impl InterruptNumber for Interrupt {
    fn number(self) -> u16 {
        self as u16
    }
}

unsafe extern "C" {
    fn UART0_RX();
    fn UART0_TX();
}

/// The handlers, for the vector table.
#[unsafe(link_section = ".vector_table.interrupts")]
#[unsafe(no_mangle)]
#[used]
pub static __INTERRUPTS: [unsafe extern "C" fn(); 2] = [UART0_RX, UART0_TX];
