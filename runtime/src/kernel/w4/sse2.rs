//! x86-64: four rows side by side, the eight weights of a word to an instruction.
//!
//! A byte that lies twice in 16 bits has its lower weight in the upper four after a shift, and its upper
//! one after a mask: 4,096 times the weight, sign and all. Even columns come first, then odd ones, and
//! the vector lies in the same order.

#![expect(
    unsafe_code,
    reason = "the compiler finds pmaddwd in none of these loops"
)]

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_and_si128, _mm_cvtsi32_si128, _mm_madd_epi16, _mm_set1_epi16,
    _mm_setzero_si128, _mm_slli_epi16, _mm_srai_epi32, _mm_unpacklo_epi8, _mm_unpacklo_epi64,
};

use super::{Element, Nibbles, STEP};
use crate::kernel::native::lanes as sum_lanes;

/// Rows side by side.
const ROWS: usize = 4;

/// Computes the sums; `None` when weights, multipliers or scratch memory are missing.
pub(super) fn sums(
    w: &Nibbles<'_>,
    x: &[Element],
    lanes: &mut [u32],
    out: &mut [i32],
) -> Option<()> {
    let row_words = x.len().div_ceil(STEP);
    let lanes: &mut [i16] = bytemuck::cast_slice_mut(lanes);
    let (lanes, _) = lanes.as_chunks_mut::<STEP>();
    let lanes = lanes.get_mut(..row_words)?;
    for (lanes, x) in lanes.iter_mut().zip(x.chunks(STEP)) {
        let x = |col: usize| x.get(col).copied().unwrap_or_default().into();
        *lanes = [0, 2, 4, 6, 1, 3, 5, 7].map(x);
    }
    let n_group = w.n_group();
    if x.len() != w.cols || w.group < STEP {
        return None;
    }
    for (index, out) in out.chunks_mut(ROWS).enumerate() {
        // Rows that there are not are the last one once more.
        let row = |row: usize| ROWS * index + row.min(out.len() - 1);
        let words = |n: usize| w.words.get(row(n) * row_words..)?.get(..row_words);
        let multipliers = |n: usize| w.multiplier.get(row(n) * n_group..)?.get(..n_group);
        let words = [words(0)?, words(1)?, words(2)?, words(3)?];
        let multipliers = [
            multipliers(0)?,
            multipliers(1)?,
            multipliers(2)?,
            multipliers(3)?,
        ];
        // SAFETY: this kernel is chosen for targets with SSE2, see build.rs.
        let sums = unsafe { rows(words, multipliers, w.group / STEP, lanes) };
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = sum;
        }
    }
    Some(())
}

/// Returns the sums of four rows, whose groups have so many words.
#[target_feature(enable = "sse2")]
#[inline]
fn rows(
    words: [&[u32]; ROWS],
    multipliers: [&[i16]; ROWS],
    group: usize,
    lanes: &[[i16; STEP]],
) -> [i32; ROWS] {
    let mut totals = [0_i32; ROWS];
    let [a, b, c, d] = words.map(|words| words.chunks(group));
    let groups = a.zip(b).zip(c).zip(d).zip(lanes.chunks(group));
    for (index, ((((a, b), c), d), lanes)) in groups.enumerate() {
        let mut sums = [_mm_setzero_si128(); ROWS];
        for ((((a, b), c), d), x) in a.iter().zip(b).zip(c).zip(d).zip(lanes) {
            let x = bytemuck::cast(*x);
            for (sum, &word) in sums.iter_mut().zip([a, b, c, d]) {
                *sum = _mm_add_epi32(*sum, _mm_madd_epi16(weights(word), x));
            }
        }
        let sums: [i32; ROWS] = bytemuck::cast(_mm_srai_epi32::<12>(sum_lanes(sums)));
        for ((total, sum), multipliers) in totals.iter_mut().zip(sums).zip(multipliers) {
            let multiplier = multipliers.get(index).copied().unwrap_or_default();
            *total = total.wrapping_add(sum.wrapping_mul(multiplier.into()));
        }
    }
    totals
}

/// Returns 4,096 times the weights of a word.
#[target_feature(enable = "sse2")]
#[inline]
fn weights(word: u32) -> __m128i {
    let bytes = _mm_cvtsi32_si128(word.cast_signed());
    let twice = _mm_unpacklo_epi8(bytes, bytes);
    let even = _mm_slli_epi16::<12>(twice);
    let odd = _mm_and_si128(twice, _mm_set1_epi16(0xF000_u16.cast_signed()));
    _mm_unpacklo_epi64(even, odd)
}
