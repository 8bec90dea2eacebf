//! Weights copied from flash to RAM while the core computes with those before them.

use runtime::Rows;

use crate::board::Helper;

/// A device that copies words to one of two buffers by itself.
pub trait Copier {
    /// Returns the words that a buffer holds.
    fn capacity(&self) -> usize;

    /// Begins to copy `words`, at most [`Copier::capacity`], to buffer 0 or 1; nothing is under way.
    fn start(&mut self, buffer: usize, words: &[u32]);

    /// Waits for what was begun, and returns whether it is complete; false after a time-out.
    fn finish(&mut self) -> bool;

    /// Gives up what was begun, complete or not.
    fn stop(&mut self);

    /// Returns a buffer that is complete.
    fn buffer(&self, buffer: usize) -> &[u32];
}

/// The double buffer over a [`Copier`]: one half is read while the other fills.
///
/// A copy that takes too long ends the streaming for good: what follows is read in place.
#[derive(Debug)]
pub struct Stream<C> {
    copier: C,
    state: Helper,
    /// The buffer that is next.
    buffer: usize,
    /// What has been begun: first word and length.
    ahead: Option<(usize, usize)>,
}

impl<C: Copier> Stream<C> {
    /// Tries the device on these words; without success it is never asked again.
    pub fn probe(copier: C, words: &[u32]) -> Self {
        let mut stream = Self {
            copier,
            state: Helper::Absent,
            buffer: 0,
            ahead: None,
        };
        let words = words.get(..stream.copier.capacity()).unwrap_or(words);
        stream.copier.start(0, words);
        if stream.copier.finish() && stream.copier.buffer(0).starts_with(words) {
            stream.state = Helper::Works;
        } else {
            stream.copier.stop();
        }
        stream
    }

    /// Returns the device.
    pub const fn copier(&self) -> &C {
        &self.copier
    }

    /// Returns whether the device works.
    pub const fn state(&self) -> Helper {
        self.state
    }

    /// Does what [`Assist::each`](runtime::Assist::each) says.
    pub fn each(&mut self, rows: Rows<'_>, next: Rows<'_>, take: &mut dyn FnMut(&[u32])) {
        let mut words = rows.words;
        while !words.is_empty() {
            let len = self.piece(words, rows.unit);
            if len == 0 || self.state != Helper::Works {
                return take(words);
            }
            let (piece, rest) = words.split_at(len);
            if self.ahead != Some(place(piece)) {
                if self.ahead.is_some() {
                    self.copier.stop();
                }
                self.copier.start(self.buffer, piece);
            }
            self.ahead = None;
            if !self.copier.finish() {
                self.copier.stop();
                self.state = Helper::Failed;
                return take(words);
            }
            let full = self.buffer;
            self.buffer = 1 - full;
            let (next, unit) = if rest.is_empty() {
                (next.words, next.unit)
            } else {
                (rest, rows.unit)
            };
            let ahead = &next[..self.piece(next, unit)];
            if !ahead.is_empty() {
                self.copier.start(self.buffer, ahead);
                self.ahead = Some(place(ahead));
            }
            take(&self.copier.buffer(full)[..len]);
            words = rest;
        }
    }

    /// Returns how many words of these are copied at once, in whole units or to their end.
    fn piece(&self, words: &[u32], unit: usize) -> usize {
        let capacity = self.copier.capacity();
        if words.len() <= capacity {
            return words.len();
        }
        capacity.checked_div(unit).unwrap_or(0) * unit
    }
}

fn place(words: &[u32]) -> (usize, usize) {
    (words.as_ptr().addr(), words.len())
}
