//! The layout of activations: panels of 32 tokens, one row per feature.
//!
//! A panel holds 32 consecutive tokens of one sequence with the tokens side by side in each row, so
//! that every pass over features (norm, softmax, product with a matrix) works on whole vectors of
//! tokens and needs no horizontal sum. A sequence that does not fill its last panel is padded with
//! zero tokens; causal masking keeps them out of every real token, and their gradients are zero.

use crate::transpose::transpose;
use pulp::Simd;

/// Tokens in a panel.
pub(crate) const PANEL: usize = 32;

/// One feature of the 32 tokens of a panel.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub(crate) struct Row(pub(crate) [f32; PANEL]);

impl Row {
    pub(crate) const ZERO: Self = Self([0.0; PANEL]);

    /// The sum of the 32 tokens, in a fixed order.
    pub(crate) fn sum(&self) -> f32 {
        self.0.iter().sum()
    }
}

/// Returns the rows as one slice of floats.
#[inline(always)]
pub(crate) fn floats(rows: &[Row]) -> &[f32] {
    // SAFETY: a Row is exactly 32 floats without padding (repr(C), 128 bytes, aligned to 128).
    unsafe { core::slice::from_raw_parts(rows.as_ptr().cast(), rows.len() * PANEL) }
}

/// Returns the rows as one mutable slice of floats.
#[inline(always)]
pub(crate) fn floats_mut(rows: &mut [Row]) -> &mut [f32] {
    // SAFETY: as in `floats`; the borrow of `rows` is exclusive for as long as the result lives.
    unsafe { core::slice::from_raw_parts_mut(rows.as_mut_ptr().cast(), rows.len() * PANEL) }
}

/// Returns the rows as vectors, `PANEL / S::F32_LANES` of them per row.
#[inline(always)]
pub(crate) fn vectors<S: Simd>(rows: &[Row]) -> &[S::f32s] {
    S::as_simd_f32s(floats(rows)).0
}

/// Returns the rows as mutable vectors, `PANEL / S::F32_LANES` of them per row.
#[inline(always)]
pub(crate) fn vectors_mut<S: Simd>(rows: &mut [Row]) -> &mut [S::f32s] {
    S::as_mut_simd_f32s(floats_mut(rows)).0
}

/// Sets the length of a buffer; what it holds afterwards is unspecified.
///
/// A buffer that keeps its length is left alone, so a training loop allocates in its first step only.
pub(crate) fn resize<T: Clone>(buffer: &mut Vec<T>, len: usize, value: T) {
    if buffer.len() != len {
        buffer.clear();
        buffer.resize(len, value);
    }
}

/// Rounds up to a multiple of 16, the widest vector.
pub(crate) const fn padded(n: usize) -> usize {
    n.next_multiple_of(16)
}

/// Reads up to 32 tokens of `d` features each into a panel; missing tokens become zero.
///
/// # Shapes
///
/// - `tokens`: `[n, d]`, `n <= 32`
/// - `panel`: `[d]` rows
pub(crate) fn read_tokens(tokens: &[f32], panel: &mut [Row]) {
    let d = panel.len();
    let n = tokens.len() / d;
    if n < PANEL {
        panel.fill(Row::ZERO);
    }
    transpose(tokens, d, n, d, floats_mut(panel), PANEL);
}

/// Writes the first tokens of a panel as rows of `d` features.
///
/// # Shapes
///
/// - `panel`: `[d]` rows
/// - `tokens`: `[n, d]`, `n <= 32`
pub(crate) fn write_tokens(panel: &[Row], tokens: &mut [f32]) {
    let d = panel.len();
    let n = tokens.len() / d;
    transpose(floats(panel), PANEL, d, n, tokens, d);
}

/// Writes a panel token by token, each padded to a multiple of 16 features.
///
/// # Shapes
///
/// - `panel`: `[d]` rows
/// - `tokens`: `[32, padded(d)]`; the padding is left as it is
pub(crate) fn turn(panel: &[Row], tokens: &mut [f32]) {
    let d = panel.len();
    transpose(floats(panel), PANEL, d, PANEL, tokens, padded(d));
}
