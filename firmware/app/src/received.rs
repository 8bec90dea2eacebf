//! What a board's receive interrupt leaves for the REPL.

use core::fmt;

use embedded_io::ErrorKind;
use heapless::Deque;

/// Bytes on their way from an interrupt to the REPL; the board puts a lock around it.
#[derive(Debug, Default)]
pub struct Received<const N: usize> {
    bytes: Deque<u8, N>,
    lost: bool,
}

impl<const N: usize> Received<N> {
    /// Creates an empty queue.
    pub const fn new() -> Self {
        Self {
            bytes: Deque::new(),
            lost: false,
        }
    }

    /// Takes a byte from the device; one past `N` is lost.
    pub fn push(&mut self, byte: u8) {
        self.lost |= self.bytes.push_back(byte).is_err();
    }

    /// Notes that the device has lost bytes.
    pub fn lose(&mut self) {
        self.lost = true;
    }

    /// Returns whether [`Received::take`] has something to say.
    pub fn is_ready(&self) -> bool {
        self.lost || !self.bytes.is_empty()
    }

    /// Moves bytes to `out` and returns how many.
    ///
    /// # Errors
    ///
    /// Once after a loss, when the bytes from before it are taken.
    pub fn take(&mut self, out: &mut [u8]) -> Result<usize, Overrun> {
        let mut count = 0;
        for (place, byte) in out
            .iter_mut()
            .zip(core::iter::from_fn(|| self.bytes.pop_front()))
        {
            *place = byte;
            count += 1;
        }
        if count == 0 && !out.is_empty() && core::mem::take(&mut self.lost) {
            return Err(Overrun);
        }
        Ok(count)
    }
}

/// Bytes were lost, because the device or the queue was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes were lost in the receiver")
    }
}

impl core::error::Error for Overrun {}

impl embedded_io::Error for Overrun {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_once_after_what_came_before_it() {
        let mut received = Received::<3>::new();
        assert!(!received.is_ready());
        (0..5).for_each(|byte| received.push(byte));
        let mut out = [0; 2];
        assert_eq!(received.take(&mut out), Ok(2));
        assert_eq!(out, [0, 1]);
        assert_eq!(received.take(&mut out), Ok(1));
        assert_eq!(out[0], 2);
        assert!(received.is_ready());
        assert_eq!(received.take(&mut out), Err(Overrun));
        assert!(!received.is_ready());
        received.lose();
        assert_eq!(received.take(&mut out), Err(Overrun));
        assert_eq!(received.take(&mut out), Ok(0));
    }
}
