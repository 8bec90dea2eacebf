//! One memory-mapped register, for boards without a device crate.

/// A register of 32 bits, or of another width, at a fixed address.
#[derive(Clone, Copy)]
pub struct Register<T = u32>(*mut T);

impl<T: Copy> Register<T> {
    /// Names the register at `address`.
    ///
    /// # Safety
    ///
    /// A device register of this width must lie there, and reading or writing it must not touch memory.
    pub const unsafe fn new(address: usize) -> Self {
        Self(address as *mut T)
    }

    /// Reads it.
    pub fn read(self) -> T {
        // SAFETY: `new` demands a device register at this address.
        unsafe { self.0.read_volatile() }
    }

    /// Writes it.
    pub fn write(self, value: T) {
        // SAFETY: `new` demands a device register at this address.
        unsafe { self.0.write_volatile(value) }
    }
}
