//! What a board may add to the products of a model: quicker memory, a second core.

use core::fmt;

use crate::kernel::Element;
use crate::ops::Factor;
use crate::part::part_mut;

/// Rows that are never taken apart: [`Rows::unit`] words.
pub const UNIT_ROWS: usize = 4;

/// What a board adds to the products of a model's matrices with vectors.
///
/// Whatever it does, the same words give the same bits, and words that it fails to hand out are read
/// in place. All of it is optional: the default methods read in place and compute alone.
pub trait Assist: Sync {
    /// Hands the words of a matrix to `take`, in their order and in pieces of whole units; the last
    /// one ends where the matrix does.
    ///
    /// A piece is `rows.words` itself or a copy in quicker memory. `next` will be asked for after this,
    /// most likely: its first words may be copied meanwhile.
    fn each(&self, rows: Rows<'_>, next: Rows<'_>, take: &mut dyn FnMut(&[u32])) {
        let _ = next;
        take(rows.words);
    }

    /// Computes a product, alone by [`Job::run`] or with others after [`Job::split`].
    fn compute(&self, mut job: Job<'_>, lanes: &mut [u32]) {
        job.run(lanes);
    }
}

/// The weights of whole rows of a matrix.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The words in the order of the blob.
    pub words: &'a [u32],
    /// Words of [`UNIT_ROWS`] rows.
    pub unit: usize,
}

/// A product of some rows of a matrix with a vector, to be computed on any core.
#[derive(Debug)]
pub struct Job<'a> {
    w: Factor<'a>,
    x_q: &'a [Element],
    out: &'a mut [i32],
}

impl Job<'_> {
    /// Returns the number of rows.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.out.len()
    }

    /// Returns the number of columns, which says how much scratch memory [`Job::run`] takes.
    #[must_use]
    pub const fn cols(&self) -> usize {
        self.x_q.len()
    }

    /// Halves the rows, in whole units: the first part has at least as many as the second, which may
    /// have none.
    #[must_use]
    pub fn split(&mut self) -> (Job<'_>, Job<'_>) {
        let half = self.out.len().div_ceil(2).next_multiple_of(UNIT_ROWS);
        let (out, rest) = self.out.split_at_mut(half.min(self.out.len()));
        let second = Job {
            w: self.w.rows_from(out.len()),
            x_q: self.x_q,
            out: rest,
        };
        let first = Job {
            w: self.w,
            x_q: self.x_q,
            out,
        };
        (first, second)
    }

    /// Computes the rows; `lanes` is scratch, [`lanes_len`](crate::kernel::lanes_len) of
    /// [`Job::cols`]. With less the plain kernel does it, slowly.
    pub fn run(&mut self, lanes: &mut [u32]) {
        self.w.sums(self.x_q, lanes, self.out);
    }
}

/// An [`Assist`] that a model carries, if any.
#[derive(Clone, Copy, Default)]
pub(crate) struct Assistant<'a>(pub(crate) Option<&'a dyn Assist>);

impl fmt::Debug for Assistant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "some" } else { "none" })
    }
}

/// An [`Assist`] and what it will be asked for after a certain matrix.
#[derive(Clone, Copy)]
pub(crate) struct Aid<'a> {
    pub(crate) assist: &'a dyn Assist,
    pub(crate) next: Rows<'a>,
}

impl fmt::Debug for Aid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aid").finish_non_exhaustive()
    }
}

impl Aid<'_> {
    /// Computes the sums of a matrix times a vector.
    #[inline(never)]
    pub(crate) fn sums(self, w: &Factor<'_>, x_q: &[Element], lanes: &mut [u32], out: &mut [i32]) {
        let Self { assist, next } = self;
        let rows = w.rows();
        // Rows done, and the words that they had. After a piece that is none, those that follow are not
        // where they seem to be.
        let (mut done, mut used, mut sound) = (0, 0, true);
        assist.each(rows, next, &mut |words| {
            let left = rows.words.len() - used;
            let n_row = if words.len() == left {
                out.len() - done
            } else {
                UNIT_ROWS * words.len().checked_div(rows.unit).unwrap_or(0)
            };
            let whole = words.len() == left || words.len() == n_row / UNIT_ROWS * rows.unit;
            sound &= n_row > 0 && done + n_row <= out.len() && whole && words.len() <= left;
            if !sound {
                return;
            }
            let job = Job {
                w: w.rows_from(done).with_words(words),
                x_q,
                out: part_mut(out, done, n_row),
            };
            assist.compute(job, lanes);
            done += n_row;
            used += words.len();
        });
        if done < out.len() {
            let len = out.len() - done;
            w.rows_from(done).sums(x_q, lanes, part_mut(out, done, len));
        }
    }
}

impl<'a> Factor<'a> {
    /// Returns the words and the size of a unit.
    pub(crate) const fn rows(&self) -> Rows<'a> {
        match self {
            Self::W8(w) => Rows {
                words: w.words,
                // Four rows of bytes are as many words.
                unit: w.row_len,
            },
            #[cfg(feature = "w4")]
            Self::W4(w) => Rows {
                words: w.words,
                unit: w.words_of(UNIT_ROWS),
            },
        }
    }

    /// Returns the matrix without its first rows, a multiple of [`UNIT_ROWS`] or all of them.
    fn rows_from(&self, first: usize) -> Self {
        let rows = self.rows();
        let skipped = first.div_ceil(UNIT_ROWS) * rows.unit;
        let words = rows.words.get(skipped..).unwrap_or_default();
        match *self {
            Self::W8(mut w) => {
                w.rows = w.rows.saturating_sub(first);
                Self::W8(w).with_words(words)
            }
            #[cfg(feature = "w4")]
            Self::W4(mut w) => {
                w.rows = w.rows.saturating_sub(first);
                let multipliers = first * w.n_group();
                w.multiplier = w.multiplier.get(multipliers..).unwrap_or_default();
                Self::W4(w).with_words(words)
            }
        }
    }

    /// Returns the matrix with the same first words in other memory.
    fn with_words<'w>(self, words: &'w [u32]) -> Factor<'w>
    where
        'a: 'w,
    {
        match self {
            Self::W8(w) => Factor::W8(crate::kernel::Weights { words, ..w }),
            #[cfg(feature = "w4")]
            Self::W4(w) => Factor::W4(crate::kernel::w4::Nibbles { words, ..w }),
        }
    }
}
