//! Elementary functions from `+ - * /` in a fixed order, so that every target gives the same bits.
//!
//! The platform's own `exp`, `sin` and `erf` differ in the last bit between libraries; these use
//! IEEE 754 single-precision operations only, which round the same way everywhere.

/// Computes `e^x`; 0 below -87.3 and for NaN, `e^88.3` above 88.3.
///
/// Cody-Waite reduction by multiples of `ln 2`, then a polynomial of degree 6; relative error
/// below 2e-7.
#[must_use]
pub fn exp(x: f32) -> f32 {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    if x.is_nan() || x <= -87.3 {
        return 0.0;
    }
    let x = if x > 88.3 { 88.3 } else { x };
    let k = round(x * core::f32::consts::LOG2_E);
    let r = x - k as f32 * LN_2_HIGH - k as f32 * LN_2_LOW;
    let poly = 1.987_569_1e-4;
    let poly = poly * r + 1.398_199_9e-3;
    let poly = poly * r + 8.333_452e-3;
    let poly = poly * r + 4.166_579_6e-2;
    let poly = poly * r + 1.666_666_5e-1;
    let poly = poly * r + 0.5;
    let e = poly * r * r + r + 1.0;
    // k is in -126..=127, so the exponent field stays normal.
    e * f32::from_bits(((k + 127) as u32) << 23)
}

/// Rounds to the nearest integer, halves away from zero; saturates, and NaN gives 0.
#[must_use]
pub fn round(x: f32) -> i32 {
    let half = if x < 0.0 { -0.5 } else { 0.5 };
    (x + half) as i32
}

/// Computes `(sin, cos)` of an angle in 2^-32 turns; absolute error below 1e-6.
#[must_use]
pub fn sin_cos(turns: u32) -> (f32, f32) {
    const RADIANS: f32 = core::f32::consts::TAU / 4_294_967_296.0;
    // The nearest quarter turn is taken off, which leaves at most an eighth of a turn.
    let quarter = turns.wrapping_add(1 << 29) >> 30;
    let rest = turns.wrapping_sub(quarter << 30).cast_signed();
    let a = rest as f32 * RADIANS;
    let s = a * a;
    let sin = -1.951_529_6e-4;
    let sin = sin * s + 8.332_161e-3;
    let sin = sin * s - 1.666_665_5e-1;
    let sin = sin * s * a + a;
    let cos = 2.443_315_7e-5;
    let cos = cos * s - 1.388_731_6e-3;
    let cos = cos * s + 4.166_664_6e-2;
    let cos = cos * s * s - 0.5 * s + 1.0;
    match quarter {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

/// Computes the error function; absolute error below 5e-7.
///
/// Abramowitz and Stegun, "Handbook of Mathematical Functions", formula 7.1.26.
#[must_use]
pub fn erf(x: f32) -> f32 {
    let a = if x < 0.0 { -x } else { x };
    let t = 1.0 / (1.0 + 0.327_591_1 * a);
    let poly = 1.061_405_4;
    let poly = poly * t - 1.453_152;
    let poly = poly * t + 1.421_413_8;
    let poly = poly * t - 0.284_496_74;
    let poly = poly * t + 0.254_829_6;
    let y = 1.0 - poly * t * exp(-a * a);
    if x < 0.0 { -y } else { y }
}

/// Computes `x * Phi(x)`, the exact GELU.
#[must_use]
pub fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * core::f32::consts::FRAC_1_SQRT_2))
}

/// Computes `x / (1 + e^-x)`.
#[must_use]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_everywhere() {
        for i in -8700..=8800 {
            let x = i as f32 * 0.01;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) / exact - 1.0).abs();
            assert!(error < 2e-7, "exp({x}): relative error {error:e}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-1000.0), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::NAN), 0.0);
        assert!(exp(f32::INFINITY).is_finite());
    }

    #[test]
    fn sin_cos_is_close_on_the_whole_circle() {
        for i in 0..20_000_u32 {
            let turns = i.wrapping_mul(0x9E37_79B9);
            let angle = f64::from(turns) / 4_294_967_296.0 * core::f64::consts::TAU;
            let (sin, cos) = sin_cos(turns);
            assert!(
                (f64::from(sin) - angle.sin()).abs() < 1e-6,
                "sin at {turns:#x}"
            );
            assert!(
                (f64::from(cos) - angle.cos()).abs() < 1e-6,
                "cos at {turns:#x}"
            );
        }
    }

    #[test]
    fn erf_has_known_values() {
        // Reference values to 7 digits from Abramowitz and Stegun, table 7.1.
        for (x, y) in [
            (0.0, 0.0),
            (0.5, 0.520_499_9),
            (1.0, 0.842_700_8),
            (2.0, 0.995_322_3),
        ] {
            assert!((erf(x) - y).abs() < 5e-7, "erf({x}) = {}", erf(x));
            assert!((erf(-x) + y).abs() < 5e-7);
        }
    }

    #[test]
    fn round_is_to_nearest_and_saturates() {
        assert_eq!(round(2.5), 3);
        assert_eq!(round(-2.5), -3);
        assert_eq!(round(0.49), 0);
        assert_eq!(round(1e20), i32::MAX);
        assert_eq!(round(f32::NAN), 0);
    }
}
