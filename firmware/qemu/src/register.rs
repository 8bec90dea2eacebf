//! One memory-mapped register.

/// A 32-bit register at a fixed address.
#[derive(Clone, Copy)]
pub struct Register(*mut u32);

impl Register {
    /// Names the register at `address`.
    ///
    /// # Safety
    ///
    /// A device register must lie there, and reading or writing it must not touch memory.
    pub const unsafe fn new(address: usize) -> Self {
        Self(address as *mut u32)
    }

    /// Reads it.
    pub fn read(self) -> u32 {
        // SAFETY: `new` demands a device register at this address.
        unsafe { self.0.read_volatile() }
    }

    /// Writes it.
    pub fn write(self, value: u32) {
        // SAFETY: `new` demands a device register at this address.
        unsafe { self.0.write_volatile(value) }
    }
}
