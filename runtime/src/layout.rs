//! Orders of a matrix in memory: one to publish, one for each family of cores.

#[cfg(feature = "w4")]
use crate::kernel::w4;

/// Order of the weights of a matrix.
///
/// A blob is published in [`Layout::Plain`]. The others hold the same numbers in the order in which
/// the kernel of a core family reads them: `block` rows lie together, and of each in turn `word`
/// columns. Rows and columns are filled up with zeros to a multiple of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Layout {
    /// Row after row.
    Plain,
    /// Cores with a single-cycle multiplier and no DSP extension: Cortex-M0+, M3. Four rows, four
    /// columns; in tensors whose row bound allows it, even columns are biased by 128.
    M0,
    /// Cores with the DSP extension: Cortex-M4, M7, M33. As [`Layout::M0`].
    M4,
    /// RV32IM. Four rows, one column.
    Rv32,
}

impl Layout {
    /// Every layout, in the order of [`Layout::byte`].
    pub const ALL: [Self; 4] = [Self::Plain, Self::M0, Self::M4, Self::Rv32];

    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::M0 => "m0",
            Self::M4 => "m4",
            Self::Rv32 => "rv32",
        }
    }

    /// Returns the layout byte of the blob's prelude.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Returns the layout of a layout byte.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// Returns the layout that the kernels of a target read, given as Rust names it. `dsp` says
    /// whether a core that may have the DSP extension or not, thumbv8m.main, has it.
    ///
    /// # Examples
    ///
    /// ```
    /// use runtime::Layout;
    /// assert_eq!(Layout::of_target("thumbv6m-none-eabi", false), Layout::M0);
    /// assert_eq!(Layout::of_target("thumbv8m.main-none-eabihf", true), Layout::M4);
    /// ```
    #[must_use]
    pub fn of_target(target: &str, dsp: bool) -> Self {
        if target.starts_with("thumbv7em") || (dsp && target.starts_with("thumbv8m.main")) {
            Self::M4
        } else if target.starts_with("thumb") {
            Self::M0
        } else if target.starts_with("riscv32") {
            Self::Rv32
        } else {
            Self::Plain
        }
    }

    /// Returns the rows that lie together.
    #[must_use]
    pub const fn block(self) -> usize {
        match self {
            Self::Plain => 1,
            Self::M0 | Self::M4 | Self::Rv32 => 4,
        }
    }

    /// Returns the rows of an int4 matrix that lie together.
    #[must_use]
    pub const fn w4_block(self) -> usize {
        match self {
            Self::Plain => 1,
            Self::M0 => 2,
            Self::M4 | Self::Rv32 => 4,
        }
    }

    /// Returns the neighbouring columns of one row.
    #[must_use]
    pub const fn word(self) -> usize {
        match self {
            Self::Plain | Self::Rv32 => 1,
            Self::M0 | Self::M4 => 4,
        }
    }

    /// Returns the bytes of a row, zeros included.
    #[must_use]
    pub const fn row_len(self, cols: usize) -> usize {
        fill(cols, self.word())
    }

    /// Returns the bytes of a matrix, zeros included.
    #[must_use]
    pub const fn matrix_len(self, rows: usize, cols: usize) -> usize {
        fill(rows, self.block()) * self.row_len(cols)
    }

    /// Returns the bytes of an int4 matrix, zeros included, and in other layouts than the plain one the
    /// multipliers of its groups.
    #[cfg(feature = "w4")]
    #[must_use]
    pub const fn w4_len(self, rows: usize, cols: usize, group: usize) -> usize {
        match self {
            Self::Plain => rows * fill(cols, 8) / 2,
            _ => fill(rows, self.w4_block()) * w4::n_group(cols, group) * (group / 2 + 2),
        }
    }

    /// Returns the place of an element in a matrix whose rows have `row_len` bytes.
    #[inline]
    #[must_use]
    pub const fn place(self, row: usize, col: usize, row_len: usize) -> usize {
        let (block, word) = (self.block(), self.word());
        let (row_in, col_in) = (row & (block - 1), col & (word - 1));
        (row - row_in) * row_len + (col - col_in) * block + row_in * word + col_in
    }

    /// Returns how far column `col` lies behind the one before it.
    #[inline]
    pub(crate) const fn next_col(self, col: usize) -> usize {
        let (block, word) = (self.block(), self.word());
        if col & (word - 1) == 0 {
            block * word - (word - 1)
        } else {
            1
        }
    }

    /// Returns how far row `row` lies behind the one before it.
    #[cfg(not(kernel = "m4"))]
    #[inline]
    pub(crate) const fn next_row(self, row: usize, row_len: usize) -> usize {
        let (block, word) = (self.block(), self.word());
        if row & (block - 1) == 0 {
            block * row_len - (block - 1) * word
        } else {
            word
        }
    }
}

/// Rounds up to a multiple of a power of two, without the division that small cores lack.
pub(crate) const fn fill(n: usize, multiple: usize) -> usize {
    (n + multiple - 1) & !(multiple - 1)
}

/// What a biased element differs by from its value, as bits to flip.
pub(crate) const fn bias(biased: bool, col: usize) -> u8 {
    if biased && col.is_multiple_of(2) {
        0x80
    } else {
        0
    }
}

/// Returns whether a row may be biased: its dot product with any int8 vector stays within 24 bits.
pub(crate) fn may_be_biased(row: impl Iterator<Item = i8>) -> bool {
    let sum: u64 = row.map(|w| u64::from(w.unsigned_abs())).sum();
    127 * sum < 1 << 23
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_a_place_of_its_own() {
        for layout in Layout::ALL {
            assert_eq!(Layout::from_byte(layout.byte()), Some(layout));
            for (rows, cols) in [(1, 1), (4, 4), (5, 7), (12, 172), (65, 3)] {
                let len = layout.matrix_len(rows, cols);
                let mut taken = vec![false; len];
                for row in 0..rows {
                    for col in 0..cols {
                        let place = layout.place(row, col, layout.row_len(cols));
                        assert!(!std::mem::replace(&mut taken[place], true));
                        if row > 0 {
                            let above = layout.place(row - 1, col, layout.row_len(cols));
                            let step = layout.next_row(row, layout.row_len(cols));
                            assert_eq!(above + step, place);
                        }
                        if col > 0 {
                            let left = layout.place(row, col - 1, layout.row_len(cols));
                            assert_eq!(left + layout.next_col(col), place);
                        }
                    }
                }
            }
        }
        assert_eq!(Layout::from_byte(4), None);
    }

    #[test]
    fn bound_of_a_biased_row_is_exact() {
        // 127 * 127 * 520 is the last product below 2^23.
        assert!(may_be_biased([127; 520].into_iter()));
        assert!(!may_be_biased([-127; 521].into_iter()));
    }
}
