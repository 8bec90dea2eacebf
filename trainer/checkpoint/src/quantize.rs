//! Float tensors to the integers of a blob, and tables of angles.

use std::f64::consts::TAU;

use runtime::fixed::ONE;
use runtime::format::MAX_EXPONENT;
use runtime::{Config, Position};

/// An int8 matrix with a multiplier per row: an element is `w * multiplier[row] * 2^exponent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Weights, row-major.
    pub w: Vec<i8>,
    /// Multipliers of the rows.
    pub multiplier: Vec<u16>,
    /// Exponent of all rows.
    pub exponent: i32,
}

impl Rows {
    /// Returns the scale of a row.
    #[must_use]
    pub fn scale(&self, row: usize) -> f64 {
        f64::from(self.multiplier[row]) * f64::from(self.exponent).exp2()
    }
}

/// Quantises a matrix of rows of `cols` elements.
///
/// # Numerics
///
/// A row's scale is its largest magnitude / 127, rounded up to its multiplier, so `w` stays within
/// ±127 and each element is off by at most half a scale. The largest multiplier has 16 bits. An
/// exponent is at least that of the format, so a matrix below 2^-64 loses its small elements.
///
/// # Errors
///
/// The index of the first element that is not finite.
///
/// # Panics
///
/// If `cols` is 0.
pub fn quantize_rows(matrix: &[f32], cols: usize) -> Result<Rows, usize> {
    check_finite(matrix)?;
    let rows = matrix.chunks_exact(cols);
    let scales: Vec<f64> = rows.clone().map(|row| max_magnitude(row) / 127.0).collect();
    let largest = scales.iter().copied().fold(0.0, f64::max);
    let exponent = exponent_for(largest, u16::MAX.into());
    let unit = f64::from(exponent).exp2();
    let multiplier: Vec<u16> = scales
        .iter()
        .map(|scale| (scale / unit).ceil() as u16)
        .collect();
    let w = rows
        .zip(&multiplier)
        .flat_map(|(row, &multiplier)| {
            let scale = f64::from(multiplier) * unit;
            let steps = move |x: f32| (f64::from(x) / scale).round_ties_even() as i8;
            row.iter()
                .map(move |&x| if multiplier == 0 { 0 } else { steps(x) })
        })
        .collect();
    Ok(Rows {
        w,
        multiplier,
        exponent,
    })
}

/// Quantises a vector to `i16` with one exponent, which is returned too.
///
/// # Errors
///
/// The index of the first element that is not finite.
pub fn quantize_gains(gains: &[f32]) -> Result<(Vec<i16>, i32), usize> {
    check_finite(gains)?;
    let exponent = exponent_for(max_magnitude(gains), i16::MAX.into());
    let unit = f64::from(exponent).exp2();
    let step = |&gain: &f32| (f64::from(gain) / unit).round_ties_even() as i16;
    Ok((gains.iter().map(step).collect(), exponent))
}

/// Rounds a vector to activation units, 2^-16; saturates.
///
/// # Errors
///
/// The index of the first element that is not finite.
pub fn quantize_bias(bias: &[f32]) -> Result<Vec<i32>, usize> {
    check_finite(bias)?;
    let unit = |&x: &f32| (f64::from(x) * f64::from(ONE)).round_ties_even() as i32;
    Ok(bias.iter().map(unit).collect())
}

pub(crate) fn check_finite(values: &[f32]) -> Result<(), usize> {
    match values.iter().position(|x| !x.is_finite()) {
        Some(index) => Err(index),
        None => Ok(()),
    }
}

fn max_magnitude(values: &[f32]) -> f64 {
    let max = values.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    f64::from(max)
}

/// Returns the smallest exponent with `largest / 2^exponent <= limit`, at least that of the format.
pub(crate) fn exponent_for(largest: f64, limit: f64) -> i32 {
    let exact = (largest / limit).log2().ceil();
    // Also for log2(0), which is minus infinity.
    let exponent = exact.max(-f64::from(MAX_EXPONENT)) as i32;
    // log2 may be off by a bit at a power of two.
    if largest / f64::from(exponent).exp2() > limit {
        exponent + 1
    } else {
        exponent
    }
}

/// Base of the sinusoidal angles ("Attention Is All You Need", section 3.5).
const SINUSOIDAL_BASE: f64 = 10_000.0;

/// Computes how far each angle turns per position, in 2^-32 turns.
///
/// # Numerics
///
/// `step[i] = round(2^32 * base^(-2i/width) / 2π)`. Angles in whole turns wrap around in `u32`
/// arithmetic without an error that grows with the position.
#[must_use]
pub fn angle_steps(config: &Config) -> Vec<u32> {
    let base = match config.position {
        Position::Rope => f64::from(config.rope_base),
        Position::Sinusoidal | Position::Learned => SINUSOIDAL_BASE,
    };
    let n_angle = config.n_angle();
    (0..n_angle)
        .map(|i| {
            let radians = libm::pow(base, -(i as f64) / n_angle as f64);
            (radians / TAU * 4_294_967_296.0).round() as u32
        })
        .collect()
}
