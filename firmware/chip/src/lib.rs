//! What the boards share below the REPL: the stack, the resets, the faults and the model's region.
//!
//! A board's linker script puts the stack at the bottom of RAM, so that an overflow leaves RAM and
//! faults at once instead of writing over variables.

#![no_std]

#[cfg(target_arch = "arm")]
pub mod cortex;
pub mod led;
pub mod model;
pub mod resets;
pub mod stack;

use core::fmt::Write;
use core::panic::PanicInfo;

use app::{PanicLine, Reset};

/// Says a panic in one line and waits for the watchdog to start the chip over.
pub fn panic(out: &mut impl Write, info: &PanicInfo<'_>) -> ! {
    resets::announce(Reset::Panic);
    let _ = write!(out, "{}", PanicLine(info));
    starve()
}

/// Says a fault of the core in one line and waits for the watchdog to start the chip over.
///
/// `sp` is the stack pointer at the fault.
pub fn fault(out: &mut impl Write, sp: usize) -> ! {
    if stack::is_spent(sp) {
        resets::announce(Reset::Stack);
        let size = stack::size();
        let _ = write!(
            out,
            "\r\n(the stack of {size} bytes overflowed; starting over)\r\n"
        );
    } else {
        resets::announce(Reset::Fault);
        let _ = write!(out, "\r\n(a fault of the core; starting over)\r\n");
    }
    starve()
}

/// Waits for the watchdog; the line that was written leaves the transmitter meanwhile.
fn starve() -> ! {
    loop {
        core::hint::spin_loop();
    }
}
