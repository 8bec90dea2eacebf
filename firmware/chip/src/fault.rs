//! The last words of a board, and what calls for them.

use core::fmt::{self, Write};
use core::panic::PanicInfo;

use app::{PanicLine, Reset};

use crate::{arch, resets, stack};

/// The bare transmitter, for when nothing else can be trusted: a function that sends a byte.
struct Raw(fn(u8));

impl Write for Raw {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(self.0);
        Ok(())
    }
}

/// Says a panic in one line by `put` and waits for the watchdog to start the chip over.
pub fn panic(put: fn(u8), info: &PanicInfo<'_>) -> ! {
    arch::alone();
    resets::announce(Reset::Panic);
    let _ = write!(Raw(put), "{}", PanicLine(info));
    // Last, because a logger that was interrupted would panic again.
    defmt::error!("panic");
    starve()
}

/// Says a fault of the core in one line by `put` and waits for the watchdog to start the chip over.
///
/// `sp` is the stack pointer at the fault.
pub fn fault(put: fn(u8), sp: usize) -> ! {
    arch::alone();
    let mut out = Raw(put);
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

/// Defines the handlers of tick, fault and panic.
///
/// They take the function that sends a byte without anything else of the firmware, and, where the
/// watchdog waits long, one that hastens it.
#[macro_export]
macro_rules! handlers {
    ($put:path $(, $hasten:path)?) => {
        /// The tick wakes the core, no more.
        #[cfg(target_arch = "arm")]
        #[cortex_m_rt::exception]
        fn SysTick() {}

        /// What a fault of the core comes to: `chip` has the handler that calls it.
        #[unsafe(no_mangle)]
        extern "C" fn chapbook_fault(sp: usize) -> ! {
            $($hasten();)?
            $crate::fault($put, sp)
        }

        #[panic_handler]
        fn panic(info: &core::panic::PanicInfo) -> ! {
            $($hasten();)?
            $crate::panic($put, info)
        }
    };
}
