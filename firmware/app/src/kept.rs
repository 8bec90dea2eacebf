//! Weights kept in RAM, as far as there is any, in the order of use.

use core::sync::atomic::{AtomicBool, Ordering};

use runtime::{Assist, Job, Model, Rows};

/// Words before the copy of a matrix: where it lies in flash, and how many words follow.
const HEAD: usize = 2;

/// Copies of a model's weights in RAM that is left, and what the board adds for the others.
///
/// Every matrix is used once per token, so it does not matter which are kept; those that are used
/// first are, so that the others follow each other and can be streamed. The last one may be kept in
/// part.
pub struct Kept<'s> {
    /// One after the other: [`HEAD`], then the words.
    copies: &'s [u32],
    /// The first weights that are not kept.
    rest: Rows<'s>,
    /// Bytes kept, and bytes of all matrices.
    bytes: (usize, usize),
    board: Option<&'s dyn Assist>,
    distrusted: AtomicBool,
}

impl core::fmt::Debug for Kept<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Kept")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl<'s> Kept<'s> {
    /// Copies as many rows as fit into `spare`.
    pub fn new(model: &Model<'s>, spare: &'s mut [u32], board: Option<&'s dyn Assist>) -> Self {
        let (mut at, mut kept, mut all) = (0, 0, 0);
        let mut rest = None;
        for rows in model.in_order() {
            let words = rows.words;
            all += words.len();
            if rest.is_some() {
                continue;
            }
            let room = spare.len().saturating_sub(at + HEAD);
            let len = if words.len() <= room {
                words.len()
            } else {
                room.checked_div(rows.unit).unwrap_or(0) * rows.unit
            };
            let (copied, left) = words.split_at(len);
            let place = spare.get_mut(at..).unwrap_or_default();
            if let ([head, count, place @ ..], true) = (place, len > 0) {
                *head = key(words);
                *count = len as u32;
                for (to, &from) in place.iter_mut().zip(copied) {
                    *to = from;
                }
                (at, kept) = (at + HEAD + len, kept + len);
            }
            if !left.is_empty() {
                rest = Some(Rows {
                    words: left,
                    ..rows
                });
            }
        }
        Self {
            copies: spare.get(..at).unwrap_or_default(),
            rest: rest.unwrap_or(Rows {
                words: &[],
                unit: 0,
            }),
            bytes: (4 * kept, 4 * all),
            board,
            distrusted: AtomicBool::new(false),
        }
    }

    /// Returns the bytes of weights kept, and those of all matrices.
    pub fn bytes(&self) -> (usize, usize) {
        if self.is_distrusted() {
            return (0, self.bytes.1);
        }
        self.bytes
    }

    /// Returns whether [`Kept::distrust`] was called.
    pub fn is_distrusted(&self) -> bool {
        self.distrusted.load(Ordering::Relaxed)
    }

    /// Reads all weights in place from here on and computes alone.
    pub fn distrust(&self) {
        self.distrusted.store(true, Ordering::Relaxed);
    }

    /// Returns the words that are kept of a matrix; none when it is not.
    fn find(&self, words: &[u32]) -> &[u32] {
        let mut copies = self.copies;
        while let [head, count, rest @ ..] = copies {
            let (copy, others) = rest
                .split_at_checked(*count as usize)
                .unwrap_or((rest, &[]));
            if *head == key(words) {
                return copy;
            }
            copies = others;
        }
        &[]
    }
}

/// Tells the matrices of a blob apart: it is shorter than 4 GiB.
fn key(words: &[u32]) -> u32 {
    words.as_ptr().addr() as u32
}

impl Assist for Kept<'_> {
    fn each(&self, rows: Rows<'_>, next: Rows<'_>, take: &mut dyn FnMut(&[u32])) {
        if self.is_distrusted() {
            return take(rows.words);
        }
        let kept = self.find(rows.words);
        if !kept.is_empty() {
            take(kept);
        }
        let words = rows.words.get(kept.len()..).unwrap_or_default();
        if words.is_empty() {
            return;
        }
        let left = Rows { words, ..rows };
        // What is kept needs no copy ahead; the first that is not will be asked for after it.
        let next = if self.find(next.words).is_empty() {
            next
        } else {
            self.rest
        };
        match self.board {
            Some(board) => board.each(left, next, take),
            None => take(words),
        }
    }

    fn compute(&self, mut job: Job<'_>, lanes: &mut [u32]) {
        match self.board {
            Some(board) if !self.is_distrusted() => board.compute(job, lanes),
            _ => job.run(lanes),
        }
    }
}
