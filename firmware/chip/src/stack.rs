//! The stack, painted at the start to see later how far it was used.

use core::ptr;

use app::Stack;

use crate::arch;

/// What unused stack holds.
const PAINT: u32 = 0x5354_4b21;
/// A fault with so few bytes left is an overflow: the frame of the fault itself takes up to 208.
const SPENT: usize = 256;

unsafe extern "C" {
    // The lowest and the highest address of the stack, from the linker script.
    #[cfg(feature = "whole")]
    static _stack_end: u8;
    static _stack_start: u8;
    // The word that esp-hal watches, a little above the lowest address.
    #[cfg(not(feature = "whole"))]
    static __stack_chk_guard: [u8; 4];
}

/// Returns the bytes of the stack.
pub(crate) fn size() -> usize {
    top() - bottom()
}

/// Paints the stack below the caller's frame and, where the core can, has it stop at the stack's end
/// by itself; to be called once, first of all.
pub fn prepare() {
    let end = arch::stack_pointer() - SPENT;
    for address in (bottom()..end).step_by(4) {
        // SAFETY: this is stack below every frame in use, with room for this function's own and for
        // an interrupt's.
        unsafe { ptr::with_exposed_provenance_mut::<u32>(address).write_volatile(PAINT) };
    }
    #[cfg(armv8m)]
    // SAFETY: the stack pointer is above the limit.
    unsafe {
        cortex_m::register::msplim::write(bottom() as u32);
    }
}

/// Returns how much of the stack has been used since [`prepare`].
pub(crate) fn used() -> Stack {
    let painted = |&address: &usize| {
        // SAFETY: the stack is memory; a value that changes meanwhile is read as one of the two.
        unsafe { ptr::with_exposed_provenance::<u32>(address).read_volatile() == PAINT }
    };
    let words = (bottom()..top()).step_by(4).take_while(painted).count();
    Stack {
        used: size() - 4 * words,
        size: size(),
    }
}

/// Returns whether a fault at this stack pointer is an overflow.
#[cfg(feature = "whole")]
pub(crate) fn is_spent(sp: usize) -> bool {
    sp < bottom() + SPENT
}

#[cfg(feature = "whole")]
fn bottom() -> usize {
    (&raw const _stack_end).addr()
}

#[cfg(not(feature = "whole"))]
fn bottom() -> usize {
    (&raw const __stack_chk_guard).addr() + 4
}

fn top() -> usize {
    (&raw const _stack_start).addr()
}
