//! Float rows to int8 rows with one scale each, and tables of angles.

use std::f64::consts::TAU;

use runtime::{Config, Position};

/// Quantises one row: `row[i]` is about `out[i] * scale`, and `scale` is returned.
///
/// # Numerics
///
/// `scale = max |row| / 127`, so `out` stays within ±127 and each element is off by at most half a
/// scale. A row whose scale is below the smallest normal `f32` (about 1e-38) becomes zeros with
/// scale 0: a core that flushes subnormals would read it so anyway.
///
/// # Errors
///
/// The index of the first element that is not finite.
///
/// # Panics
///
/// If the lengths differ.
pub fn quantize_row(row: &[f32], out: &mut [i8]) -> Result<f32, usize> {
    assert_eq!(row.len(), out.len());
    if let Some(index) = row.iter().position(|x| !x.is_finite()) {
        return Err(index);
    }
    let absmax = row.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    let scale = (f64::from(absmax) / 127.0) as f32;
    if scale < f32::MIN_POSITIVE {
        out.fill(0);
        return Ok(0.0);
    }
    for (x, x_q) in row.iter().zip(out) {
        // In f64, where the quotient of two f32 is never rounded across a half.
        let steps = (f64::from(*x) / f64::from(scale)).round_ties_even();
        *x_q = steps.clamp(-127.0, 127.0) as i8;
    }
    Ok(scale)
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
