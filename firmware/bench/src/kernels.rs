//! Every kernel against the reference on awkward sizes and extreme values, then the cycles of each.
//!
//! The regions, in order: 64 x 256 weights as a blob has them, which is also how a query meets keys;
//! values with the weights of attention; int4 weights in groups of 32.

#![no_std]
#![no_main]

mod machine;
mod passes;

use core::hint::black_box;

use runtime::kernel::w4::{self, Nibbles};
use runtime::kernel::{self, Element, NATIVE, Vector, Weights, Wide, wide_place};
use runtime::{Layout, SplitMix64};

const MAX_ROWS: usize = 64;
const MAX_COLS: usize = 600;
const SIZES: [(usize, usize); 14] = [
    (1, 1),
    (4, 1),
    (1, 4),
    (3, 2),
    (5, 3),
    (4, 8),
    (7, 12),
    (12, 7),
    (64, 48),
    (9, 172),
    (13, 173),
    (6, 519),
    (4, 520),
    (2, 600),
];

/// The kernel takes biased matrices.
const BIASED: bool = matches!(NATIVE, Layout::M0 | Layout::M4);

/// Columns that share a multiplier of int4 weights.
const GROUPS: [usize; 4] = [8, 16, 24, 32];

/// Memory for the largest size.
struct Buffers {
    words: [u32; MAX_ROWS * MAX_COLS / 4],
    lanes: [u32; MAX_COLS],
    int8: [Element; MAX_COLS],
    int16: [Wide; MAX_COLS],
    out: [i32; MAX_ROWS],
    expected: [i32; MAX_ROWS],
}

static mut BUFFERS: Buffers = Buffers {
    words: [0; MAX_ROWS * MAX_COLS / 4],
    lanes: [0; MAX_COLS],
    int8: [0; MAX_COLS],
    int16: [0; MAX_COLS],
    out: [0; MAX_ROWS],
    expected: [0; MAX_ROWS],
};

/// What the numbers of a round look like.
#[derive(Clone, Copy)]
enum Values {
    Random,
    Zero,
    AllLargest,
    AllSmallest,
    Alternating,
}

impl Values {
    const ALL: [Self; 5] = [
        Self::Random,
        Self::Zero,
        Self::AllLargest,
        Self::AllSmallest,
        Self::Alternating,
    ];

    fn at(self, index: usize, rng: &mut SplitMix64) -> i8 {
        match self {
            Self::Random => (rng.next_below(255) as i32 - 127) as i8,
            Self::Zero => 0,
            Self::AllLargest => 127,
            Self::AllSmallest => -127,
            Self::Alternating => {
                if index.is_multiple_of(2) {
                    127
                } else {
                    -127
                }
            }
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let buffers = &raw mut BUFFERS;
    // SAFETY: this function runs once and nothing else names the static.
    let Buffers {
        words,
        lanes,
        int8,
        int16,
        out,
        expected,
    } = unsafe { &mut *buffers };
    let mut rng = SplitMix64::new(1);
    for (rows, cols) in SIZES {
        for weights in Values::ALL {
            for vector in Values::ALL {
                for biased in [false, BIASED && 127 * 127 * cols < 1 << 23] {
                    let w = fill(words, rows, cols, biased, weights, &mut rng);
                    int16.fill(0);
                    for index in 0..cols {
                        let value = vector.at(index, &mut rng);
                        int8[index] = widen(value);
                        int16[wide_place(index)] = widen::<Wide>(value) * 257;
                    }
                    let x = Vector::Int8(&int8[..cols]);
                    kernel::reference(&w, x, &mut expected[..rows]);
                    // Nothing may depend on what the scratch memory holds.
                    lanes.fill(0xDEAD_BEEF);
                    kernel::sums(&w, x, lanes, &mut out[..rows]);
                    check(&out[..rows], &expected[..rows]);
                    if biased {
                        continue;
                    }
                    let x = Vector::Int16(&int16[..NATIVE.row_len(cols)]);
                    kernel::reference(&w, x, &mut expected[..rows]);
                    lanes.fill(0xDEAD_BEEF);
                    kernel::sums(&w, x, lanes, &mut out[..rows]);
                    check(&out[..rows], &expected[..rows]);
                }
            }
        }
    }
    for size in SIZES {
        for group in GROUPS {
            for pattern in [None, Some(0), Some(0x7777_7777), Some(0x8888_8888)] {
                for vector in Values::ALL {
                    let w = fill_w4(words, size, group, pattern, &mut rng);
                    for (index, x) in int8.iter_mut().enumerate() {
                        *x = widen(vector.at(index, &mut rng));
                    }
                    let (rows, cols) = size;
                    w4::reference(&w, &int8[..cols], &mut expected[..rows]);
                    lanes.fill(0xDEAD_BEEF);
                    w4::sums(&w, &int8[..cols], lanes, &mut out[..rows]);
                    check(&out[..rows], &expected[..rows]);
                }
            }
        }
    }
    if !passes::agree(&mut rng) {
        machine::print("pass differs", 0);
        machine::exit(false);
    }
    machine::print("equal", rng.next_u64());
    measure(words, lanes, int8, int16, out);
    machine::exit(true)
}

/// The types of vectors differ between the cores.
fn widen<T: From<i8>>(value: i8) -> T {
    T::from(value)
}

fn check(found: &[i32], expected: &[i32]) {
    if found != expected {
        machine::print("differs", found.len() as u64);
        machine::exit(false);
    }
}

/// Lays a matrix out for the kernel, with rubbish where no element is.
fn fill<'a>(
    words: &'a mut [u32],
    rows: usize,
    cols: usize,
    biased: bool,
    values: Values,
    rng: &mut SplitMix64,
) -> Weights<'a> {
    words.fill(0xA5C3_5A3C);
    // A row may be longer than its columns, as values in the cache are.
    let row_len = NATIVE.row_len(cols) + 4 * NATIVE.word() * usize::from(!biased && rows < 8);
    for row in 0..rows {
        for col in 0..cols {
            let place = NATIVE.place(row, col, row_len);
            let bias = if biased && col.is_multiple_of(2) {
                0x80
            } else {
                0
            };
            let byte = values.at(row + col, rng).cast_unsigned() ^ bias;
            let right = 8 * (place % 4);
            let word = &mut words[place / 4];
            *word = *word & !(0xFF << right) | u32::from(byte) << right;
        }
    }
    let len = (NATIVE.block().max(4) * rows.next_multiple_of(NATIVE.block()) * row_len).div_ceil(4);
    let len = len.min(words.len());
    Weights {
        words: &words[..len],
        rows,
        cols,
        row_len,
        layout: NATIVE,
        biased,
    }
}

/// Fills a matrix, its multipliers and what lies between them, at random or with one word.
fn fill_w4<'a>(
    words: &'a mut [u32],
    (rows, cols): (usize, usize),
    group: usize,
    pattern: Option<u32>,
    rng: &mut SplitMix64,
) -> Nibbles<'a> {
    // The loader gives a kernel the words that its layout needs, and no more.
    let words = &mut words[..NATIVE.w4_len(rows, cols, group) / 4];
    words.fill_with(|| pattern.unwrap_or(rng.next_u64() as u32));
    Nibbles {
        words,
        multiplier: &[],
        rows,
        cols,
        group,
        layout: NATIVE,
    }
}

fn measure(
    words: &mut [u32],
    lanes: &mut [u32],
    int8: &[Element],
    int16: &[Wide],
    out: &mut [i32],
) {
    let mut rng = SplitMix64::new(2);
    let (rows, cols) = (64, 256);
    let x8 = Vector::Int8(&int8[..cols]);
    let x16 = Vector::Int16(&int16[..cols]);
    for (biased, x) in [(BIASED, x8), (false, x16)] {
        let w = fill(words, rows, cols, biased, Values::Random, &mut rng);
        machine::mark_start();
        kernel::sums(
            black_box(&w),
            black_box(x),
            lanes,
            black_box(&mut out[..rows]),
        );
        machine::mark_end();
    }
    let w = fill_w4(words, (rows, cols), 32, None, &mut rng);
    machine::mark_start();
    w4::sums(
        black_box(&w),
        black_box(&int8[..cols]),
        lanes,
        black_box(&mut out[..rows]),
    );
    machine::mark_end();
}
