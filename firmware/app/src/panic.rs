//! What a board says when it panics.

use core::fmt;
use core::panic::PanicInfo;

/// A panic in one line, for the serial port.
#[derive(Debug)]
pub struct PanicLine<'p>(pub &'p PanicInfo<'p>);

impl fmt::Display for PanicLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\r\n(panic")?;
        if let Some(place) = self.0.location() {
            write!(f, " at {}:{}", place.file(), place.line())?;
        }
        write!(f, ": {}; starting over)\r\n", self.0.message())
    }
}
