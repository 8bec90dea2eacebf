//! Cortex-M: sleeping, stack limit, and the handler of a fault that no stack is left for.

use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;

/// Wakes the core 25 times a second, so that it feeds the watchdog while it waits for a byte.
///
/// `core_hz` is at most 419 MHz, for the counter has 24 bits.
pub fn start_ticks(mut syst: SYST, core_hz: u32) {
    syst.set_clock_source(SystClkSource::Core);
    syst.set_reload(core_hz / 25 - 1);
    syst.clear_current();
    syst.enable_counter();
    syst.enable_interrupt();
}

/// Sleeps until the next interrupt.
pub fn idle() {
    cortex_m::asm::wfi();
}

/// Has the core stop at the end of the stack by itself.
#[cfg(armv8m)]
pub fn limit_stack() {
    unsafe extern "C" {
        static _stack_end: u8;
    }
    // SAFETY: the stack pointer is above the limit.
    unsafe { cortex_m::register::msplim::write((&raw const _stack_end).addr() as u32) };
}

// The core has come here with a stack pointer that may be of no use, so the handler begins with the
// whole stack, and the old pointer as its argument.
core::arch::global_asm!(
    ".section .text.HardFault, \"ax\"",
    ".global HardFault",
    ".type HardFault, %function",
    ".thumb_func",
    ".syntax unified",
    "HardFault:",
    "mrs r0, msp",
    "ldr r1, =_stack_start",
    "msr msp, r1",
    "bl chapbook_fault",
    ".size HardFault, . - HardFault",
);
