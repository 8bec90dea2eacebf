//! Matrix times int8 vector, and what makes its sums activations.

use super::{Matrix, max_magnitude};
use crate::fixed::{self, Scale, shift};
use crate::kernel::Element;
use crate::kernel::passes::{self, Finish, Rescale};

/// Multiplies a matrix by an int8 vector: the sums before any scale; returns the bits that are left
/// to cut, see [`products`].
///
/// # Shapes
///
/// - `w`: `[rows, cols]`
/// - `x_q`: `[cols]`
/// - `lanes`: scratch, [`lanes_len`](crate::kernel::lanes_len) of `cols`
/// - `out`: `[rows]`
pub fn sums(w: &Matrix<'_>, x_q: &[Element], lanes: &mut [u32], out: &mut [i32]) -> u32 {
    debug_assert_eq!(x_q.len(), w.w.cols());
    debug_assert_eq!(out.len(), w.multiplier.len());
    #[cfg(feature = "assist")]
    if let Some(aid) = w.aid {
        aid.sums(&w.w, x_q, lanes, out);
        return w.w.cut();
    }
    w.w.sums_cut(x_q, lanes, out)
}

/// Multiplies sums by the multipliers of their rows, in units of [`Matrix::unit`]; returns the
/// [`max_magnitude`].
///
/// # Numerics
///
/// `out[r] = out[r] / 2^cut * multiplier[r]`, the first to the nearest; the product has 31 bits.
pub use crate::kernel::passes::products;

/// Returns how sums become activations, and the last shift, which may be one to the left.
fn rescale(w: &Matrix<'_>, x_scale: Scale, cut: u32) -> (Rescale, i32) {
    let unit = w.unit(x_scale);
    let right = -(unit.exponent() + 16);
    let by = Rescale {
        cut,
        half: (1 << cut) >> 1,
        factor: unit.mantissa(),
        right: if right > 31 { 31 } else { right.unsigned_abs() },
    };
    (by, right)
}

/// Replaces each sum by its activation with the bias, for any shift.
#[inline(never)]
fn any(w: &Matrix<'_>, by: Rescale, right: i32, bias: Option<&[i32]>, sums: &mut [i32]) {
    for (sum, &multiplier) in sums.iter_mut().zip(w.multiplier) {
        *sum = shift(by.product(*sum, multiplier), right.min(31));
    }
    if let Some(bias) = bias {
        add(sums, bias);
    }
}

/// Multiplies a matrix by an int8 vector, adds a bias and applies a function; returns the
/// [`max_magnitude`].
///
/// # Shapes
///
/// - `w`: `[rows, cols]`; `bias`: `[rows]`, activation units
/// - `x_q`: `[cols]`
/// - `lanes`: scratch, [`lanes_len`](crate::kernel::lanes_len) of `cols`
/// - `out`: `[rows]`, activation units
///
/// # Numerics
///
/// `out[r] = (Σ w[r, c] * x_q[c]) * multiplier[r] * 2^exponent * x_scale + bias[r]`; the sum is
/// exact, its product with the multiplier is cut to 31 bits, the result saturates.
#[inline(never)]
pub fn matvec(
    w: &Matrix<'_>,
    x_q: &[Element],
    x_scale: Scale,
    bias: Option<&[i32]>,
    finish: Finish,
    lanes: &mut [u32],
    out: &mut [i32],
) -> u32 {
    let cut = sums(w, x_q, lanes, out);
    let (by, right) = rescale(w, x_scale, cut);
    if right >= 0 && bias.is_none() {
        return passes::rescale(out, w.multiplier, by, finish);
    }
    any(w, by, right, bias, out);
    match finish {
        Finish::Linear => {}
        Finish::Relu => out.iter_mut().for_each(|x| *x = fixed::relu(*x)),
        Finish::Gelu => out.iter_mut().for_each(|x| *x = fixed::gelu(*x)),
    }
    max_magnitude(out)
}

/// Adds a matrix times an int8 vector, and a bias, to activations; see [`matvec`].
///
/// # Shapes
///
/// - `out`: scratch, `[rows]`
/// - `x`: `[rows]`, activation units
#[inline(never)]
pub fn matvec_add(
    w: &Matrix<'_>,
    x_q: &[Element],
    x_scale: Scale,
    bias: Option<&[i32]>,
    lanes: &mut [u32],
    out: &mut [i32],
    x: &mut [i32],
) {
    let cut = sums(w, x_q, lanes, out);
    let (by, right) = rescale(w, x_scale, cut);
    if right >= 0 && bias.is_none() {
        passes::rescale_add(out, w.multiplier, by, x);
    } else {
        any(w, by, right, bias, out);
        add(x, out);
    }
}

/// Adds `y` to `x`; saturates.
#[inline(never)]
pub fn add(x: &mut [i32], y: &[i32]) {
    debug_assert_eq!(x.len(), y.len());
    for (x, &y) in x.iter_mut().zip(y) {
        *x = x.saturating_add(y);
    }
}
