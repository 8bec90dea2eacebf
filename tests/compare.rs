//! Distances between activations.

use runtime::fixed::ONE;

/// Converts activation units to real numbers.
#[must_use]
pub fn real(units: &[i32]) -> Vec<f64> {
    let one = f64::from(ONE);
    units.iter().map(|&x| f64::from(x) / one).collect()
}

/// Returns the root of the mean square of the difference, relative to that of `exact`.
#[must_use]
pub fn relative_error(found: &[Vec<f64>], exact: &[Vec<f64>]) -> f64 {
    let square = |x: f64| x * x;
    let pairs = found.iter().flatten().zip(exact.iter().flatten());
    let difference: f64 = pairs.map(|(a, b)| square(a - b)).sum();
    let whole: f64 = exact.iter().flatten().map(|&x| square(x)).sum();
    (difference / whole).sqrt()
}
