//! RV32 in machine mode: sleeping, and the trap of an exception that no stack is left for.

/// The board has a timer of its own that wakes the core.
pub(crate) const fn start_ticks(_core_hz: u32) {}

/// Sleeps until the next interrupt.
pub fn idle() {
    riscv::asm::wfi();
}

/// Returns the stack pointer.
pub(crate) fn stack_pointer() -> usize {
    let sp: usize;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("mv {}, sp", out(reg) sp, options(nomem, nostack)) };
    sp
}

/// Lets nothing but the timer, the watchdog's stand-in, interrupt what follows.
#[cfg(feature = "whole")]
pub(crate) fn alone() {
    use riscv::interrupt::Interrupt;
    use riscv::register::{mie, mstatus};
    mie::disable(Interrupt::MachineExternal);
    // SAFETY: the timer's handler runs on any stack and shares nothing that is locked.
    unsafe { mstatus::set_mie() };
}

/// Waits for the watchdog to start the chip over.
#[cfg(feature = "whole")]
pub(crate) fn reset() -> ! {
    loop {
        idle();
    }
}

// An interrupt goes to riscv-rt. An exception may have come for want of stack, so its handler begins
// with the whole stack, and the old pointer as its argument.
#[cfg(feature = "whole")]
core::arch::global_asm!(
    ".section .trap.start, \"ax\"",
    ".global _start_trap",
    ".balign 4",
    "_start_trap:",
    "csrw mscratch, t0",
    "csrr t0, mcause",
    "bltz t0, 1f",
    "mv a0, sp",
    "la sp, _stack_start",
    "j chapbook_fault",
    "1:",
    "csrr t0, mscratch",
    "j _default_start_trap",
    ".text",
);
