//! Functions by their series in `f64`, from which the compiler makes the tables of `fixed`.

/// Computes `e^x` for x in -16..=0 by the Taylor series of `e^(x / 64)`, squared six times.
pub(crate) const fn exp(x: f64) -> f64 {
    let r = x / 64.0;
    let mut term = 1.0;
    let mut sum = 1.0;
    let mut n = 1;
    while n < 16 {
        term *= r / n as f64;
        sum += term;
        n += 1;
    }
    let mut squarings = 0;
    while squarings < 6 {
        sum *= sum;
        squarings += 1;
    }
    sum
}

/// Computes the sine by its Taylor series.
pub(crate) const fn sin(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    let mut n = 1;
    while n < 12 {
        term *= -x * x / ((2 * n) * (2 * n + 1)) as f64;
        sum += term;
        n += 1;
    }
    sum
}

/// Computes the normal distribution function for x in 0..=4.5 by its series
/// (Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.2.11).
pub(crate) const fn normal_cdf(x: f64) -> f64 {
    const SQRT_TAU: f64 = 2.506_628_274_631_000_5;
    let mut term = x;
    let mut sum = x;
    let mut n = 1;
    while n < 80 {
        term *= x * x / (2 * n + 1) as f64;
        sum += term;
        n += 1;
    }
    0.5 + exp(-x * x / 2.0) * sum / SQRT_TAU
}
