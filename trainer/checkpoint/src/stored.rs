//! What a blob keeps of a tensor's values.

use runtime::Kind;
use runtime::fixed::ONE;

use crate::int4::fake_quantize;
use crate::quantize::{check_finite, quantize_bias, quantize_gains, quantize_rows};

/// Returns a tensor as a blob of this kind stores it, in the precision of the trainer: what the
/// forward pass of a training that knows its rounding sees, while the gradient goes straight through.
///
/// # Shapes
///
/// - `values`: row-major, rows of `cols` elements; a vector is one row
///
/// # Numerics
///
/// The rounding is that of [`blob::write_as`](crate::blob::write_as), which also turns the rotary pairs
/// of an int8 `w_qkv` before it rounds them; that is not done here. A value of int8, of a gain or of
/// a bias below 2^8 is exact in `f32`; one of int4 has the factors of three multipliers and is rounded
/// once more.
///
/// # Errors
///
/// The index of the first element that is not finite.
///
/// # Panics
///
/// If `cols` is 0, or a group of int4 not one of [`runtime::is_group`].
pub fn stored(kind: Kind, values: &[f32], cols: usize) -> Result<Vec<f32>, usize> {
    match kind {
        Kind::W8 => {
            let rows = quantize_rows(values, cols)?;
            let value =
                |(index, &w): (usize, &i8)| (f64::from(w) * rows.scale(index / cols)) as f32;
            Ok(rows.w.iter().enumerate().map(value).collect())
        }
        Kind::W4 { group } => fake_quantize(values, cols, group as usize),
        Kind::G16 => {
            let (gains, exponent) = quantize_gains(values)?;
            let unit = f64::from(exponent).exp2();
            let value = |gain: i16| (f64::from(gain) * unit) as f32;
            Ok(gains.into_iter().map(value).collect())
        }
        Kind::I32 => {
            let unit = |units: i32| (f64::from(units) / f64::from(ONE)) as f32;
            Ok(quantize_bias(values)?.into_iter().map(unit).collect())
        }
        _ => {
            check_finite(values)?;
            Ok(values.to_vec())
        }
    }
}
