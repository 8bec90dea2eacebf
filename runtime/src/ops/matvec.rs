//! Matrix times int8 vector, and what makes its sums activations.

use super::{Matrix, max_magnitude};
use crate::fixed::{self, Scale, magnitude, shift};
use crate::kernel::Element;

/// Multiplies a matrix by an int8 vector: the sums before any scale.
///
/// # Shapes
///
/// - `w`: `[rows, cols]`
/// - `x_q`: `[cols]`
/// - `lanes`: scratch, [`lanes_len`](crate::kernel::lanes_len) of `cols`
/// - `out`: `[rows]`
pub fn sums(w: &Matrix<'_>, x_q: &[Element], lanes: &mut [u32], out: &mut [i32]) {
    debug_assert_eq!(x_q.len(), w.w.cols());
    debug_assert_eq!(out.len(), w.multiplier.len());
    #[cfg(feature = "assist")]
    if let Some(aid) = w.aid {
        return aid.sums(&w.w, x_q, lanes, out);
    }
    w.w.sums(x_q, lanes, out);
}

/// Multiplies sums by the multipliers of their rows, `first_row` on, in units of [`Matrix::unit`];
/// returns the [`max_magnitude`].
///
/// # Numerics
///
/// `out[r] = out[r] / 2^cut * multiplier[r]`, the first to the nearest; the product has 31 bits.
#[inline(never)]
pub fn products(w: &Matrix<'_>, first_row: usize, out: &mut [i32]) -> u32 {
    let cut = w.w.cut();
    let half = (1 << cut) >> 1;
    let multipliers = w.multiplier.get(first_row..).unwrap_or_default();
    let mut max = 0;
    for (out, &multiplier) in out.iter_mut().zip(multipliers) {
        *out = (out.wrapping_add(half) >> cut) * i32::from(multiplier);
        max = max.max(magnitude(*out));
    }
    max
}

/// How sums become activations: cut, times a multiplier that carries the vector's scale, shifted.
#[derive(Clone, Copy)]
struct Rescale {
    cut: u32,
    /// Half of what is cut.
    half: i32,
    factor: u32,
    right: i32,
}

impl Rescale {
    const fn new(w: &Matrix<'_>, x_scale: Scale) -> Self {
        let unit = w.unit(x_scale);
        Self {
            cut: w.w.cut(),
            half: (1 << w.w.cut()) >> 1,
            factor: unit.mantissa(),
            right: -(unit.exponent() + 16),
        }
    }

    /// Returns the shift when it is one to the right.
    const fn right(self) -> Option<u32> {
        match self.right {
            ..0 => None,
            0..=31 => Some(self.right as u32),
            _ => Some(31),
        }
    }

    /// Returns the result before the last shift; it has 31 bits.
    #[inline]
    const fn product(self, sum: i32, multiplier: u16) -> i32 {
        (sum.wrapping_add(self.half) >> self.cut) * ((multiplier as u32 * self.factor) >> 16) as i32
    }

    /// Replaces each sum by `finish` of its activation; returns the [`max_magnitude`] of that.
    #[inline]
    fn all(self, w: &Matrix<'_>, right: u32, sums: &mut [i32], finish: impl Fn(i32) -> i32) -> u32 {
        let mut max = 0;
        for (sum, &multiplier) in sums.iter_mut().zip(w.multiplier) {
            *sum = finish(self.product(*sum, multiplier) >> right);
            max = max.max(magnitude(*sum));
        }
        max
    }

    /// Replaces each sum by its activation with the bias, for any shift.
    #[inline(never)]
    fn any(self, w: &Matrix<'_>, bias: Option<&[i32]>, sums: &mut [i32]) {
        for (sum, &multiplier) in sums.iter_mut().zip(w.multiplier) {
            *sum = shift(self.product(*sum, multiplier), self.right.min(31));
        }
        if let Some(bias) = bias {
            add(sums, bias);
        }
    }
}

/// What [`matvec`] does with each element at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Nothing.
    Linear,
    /// `max(x, 0)`.
    Relu,
    /// [`gelu`](fixed::gelu).
    Gelu,
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
    sums(w, x_q, lanes, out);
    let rescale = Rescale::new(w, x_scale);
    match (rescale.right(), bias) {
        (Some(right), None) => match finish {
            Finish::Linear => rescale.all(w, right, out, |x| x),
            Finish::Relu => rescale.all(w, right, out, fixed::relu),
            Finish::Gelu => rescale.all(w, right, out, fixed::gelu),
        },
        _ => {
            rescale.any(w, bias, out);
            match finish {
                Finish::Linear => {}
                Finish::Relu => out.iter_mut().for_each(|x| *x = fixed::relu(*x)),
                Finish::Gelu => out.iter_mut().for_each(|x| *x = fixed::gelu(*x)),
            }
            max_magnitude(out)
        }
    }
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
    sums(w, x_q, lanes, out);
    let rescale = Rescale::new(w, x_scale);
    if let (Some(right), None) = (rescale.right(), bias) {
        for ((x, &mut sum), &multiplier) in x.iter_mut().zip(out).zip(w.multiplier) {
            *x = x.saturating_add(rescale.product(sum, multiplier) >> right);
        }
    } else {
        rescale.any(w, bias, out);
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
