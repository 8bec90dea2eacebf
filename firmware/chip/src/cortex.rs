//! Cortex-M: sleeping, and the handler of a fault that no stack is left for.

use cortex_m::peripheral::SCB;
use cortex_m::peripheral::syst::SystClkSource;

/// Wakes the core 25 times a second, so that it feeds the watchdog while it waits for a byte.
///
/// `core_hz` is at most 419 MHz, for the counter has 24 bits.
pub(crate) fn start_ticks(core_hz: u32) {
    let mut syst = cortex_m::Peripherals::take().expect("taken once").SYST;
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

/// Returns the stack pointer of all code here.
pub(crate) fn stack_pointer() -> usize {
    cortex_m::register::msp::read() as usize
}

/// Lets nothing but the watchdog interrupt what follows.
pub(crate) fn alone() {
    cortex_m::interrupt::disable();
}

/// Starts the chip over.
pub(crate) fn reset() -> ! {
    SCB::sys_reset()
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
