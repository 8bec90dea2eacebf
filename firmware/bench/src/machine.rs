//! The little that the emulated machines share: a start, two marks, a printer and an exit.

use core::arch::{asm, global_asm};
use core::panic::PanicInfo;

#[cfg(target_arch = "arm")]
global_asm!(
    ".syntax unified",
    ".section .start, \"a\"",
    ".word stack_top",
    ".word start",
    // Any fault ends in a halt that the caller's time limit sees.
    ".rept 14",
    ".word halt",
    ".endr",
    ".section .text.start, \"ax\"",
    ".global start",
    ".type start, %function",
    ".thumb_func",
    "start:",
    // Access to the floating-point unit, in whose registers the compiler may keep integers. CPACR
    // reads as zero where there is none.
    "ldr r0, =0xE000ED88",
    "ldr r1, =0x00F00000",
    "str r1, [r0]",
    "bl main",
    ".type halt, %function",
    ".thumb_func",
    "halt: b halt",
    ".ltorg",
    ".text",
);

#[cfg(target_arch = "riscv32")]
global_asm!(
    ".section .start, \"ax\"",
    ".global start",
    "start:",
    "la sp, stack_top",
    "call main",
    "halt: j halt",
    ".text",
);

/// Starts a region that the plugin counts.
#[inline(always)]
pub fn mark_start() {
    // SAFETY: a hint without an effect on registers or memory.
    #[cfg(target_arch = "arm")]
    unsafe {
        asm!("yield", options(nostack));
    }
    // SAFETY: writes the zero register only.
    #[cfg(target_arch = "riscv32")]
    unsafe {
        asm!("slti x0, x0, 1", options(nostack));
    }
}

/// Ends the region.
#[inline(always)]
pub fn mark_end() {
    // SAFETY: a hint without an effect on registers or memory.
    #[cfg(target_arch = "arm")]
    unsafe {
        asm!("sev", options(nostack));
    }
    // SAFETY: writes the zero register only.
    #[cfg(target_arch = "riscv32")]
    unsafe {
        asm!("slti x0, x0, 2", options(nostack));
    }
}

/// Prints one byte on the caller's terminal.
fn put(byte: u8) {
    // SAFETY: the semihosting call SYS_WRITEC reads the byte that r1 points at.
    #[cfg(target_arch = "arm")]
    unsafe {
        asm!("bkpt 0xab", inout("r0") 3 => _, in("r1") &raw const byte);
    }
    // SAFETY: the transmit register of the machine's UART.
    #[cfg(target_arch = "riscv32")]
    unsafe {
        (0x1000_0000 as *mut u8).write_volatile(byte);
    }
}

/// Prints a line: a word and a number in hexadecimal digits.
pub fn print(word: &str, number: u64) {
    word.bytes().for_each(put);
    put(b' ');
    for nibble in (0..16).rev() {
        let digit = (number >> (4 * nibble)) as u8 & 15;
        put(if digit < 10 {
            b'0' + digit
        } else {
            b'a' - 10 + digit
        });
    }
    put(b'\n');
}

/// Ends the emulator with success or failure.
pub fn exit(success: bool) -> ! {
    // SAFETY: the semihosting call SYS_EXIT takes its reason in r1.
    #[cfg(target_arch = "arm")]
    unsafe {
        let reason = if success { 0x20026 } else { 0x20024 };
        asm!("bkpt 0xab", in("r0") 0x18, in("r1") reason);
    }
    // SAFETY: the register of the machine's test device, which ends QEMU.
    #[cfg(target_arch = "riscv32")]
    unsafe {
        let reason = if success { 0x5555 } else { 0x1_3333 };
        (0x10_0000 as *mut u32).write_volatile(reason);
    }
    loop {
        core::hint::spin_loop();
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(false)
}
