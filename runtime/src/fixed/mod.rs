//! Fixed-point numbers and the functions on them: integers only, so that every target agrees.
//!
//! An activation is an `i32` in units of 2^-16 ([`ONE`]). Scales are a 16-bit mantissa and a power
//! of two. Tables are computed by the compiler in `f64`.

mod divide;
mod scale;
mod table;

#[cfg(kernel = "m4")]
pub(crate) use divide::reciprocals;
pub(crate) use divide::{divide, reciprocal};
pub use scale::Scale;
#[cfg(any(kernel = "m0", kernel = "m4", kernel = "rv32"))]
pub(crate) use table::{exp2_all, gelu_table};
pub use table::{exp2_neg_wide, exp2_table, gelu, relu, silu, sin_cos};

/// The number 1 as an activation.
pub const ONE: i32 = 1 << 16;

/// The core multiplies two words to a long one in a cycle.
const LONG_MULTIPLY: bool = cfg!(any(kernel = "m4", target_pointer_width = "64"));

/// Returns `floor(a * b / 2^16)`; exact for every `a`, and `b` of at most 16 bits.
///
/// Two multiplications of 32 bits where a core without a long multiply would call a function.
#[inline]
#[must_use]
pub const fn mul16(a: i32, b: u16) -> i32 {
    if LONG_MULTIPLY {
        return ((a as i64 * b as i64) >> 16) as i32;
    }
    if cfg!(kernel = "rv32") {
        // The upper half of a product is one instruction.
        let b = (b as u32) << 16;
        return ((a as i64 * b as i64) >> 32) as i32;
    }
    let low = (a as u32 & 0xFFFF) * b as u32;
    (a >> 16) * b as i32 + (low >> 16) as i32
}

/// Returns the magnitude of a number, or one less when it is negative: the bits without the sign.
#[inline]
#[must_use]
pub const fn magnitude(x: i32) -> u32 {
    (x ^ (x >> 31)).cast_unsigned()
}

/// Returns the zeros above the highest one.
#[inline]
#[must_use]
pub fn leading_zeros(x: u32) -> u32 {
    // What compilers put here for cores without an instruction takes a hundred cycles.
    #[cfg(any(kernel = "m0", kernel = "rv32"))]
    return crate::kernel::leading_zeros(x);
    #[cfg(not(any(kernel = "m0", kernel = "rv32")))]
    x.leading_zeros()
}

/// Returns `x / 2^right`, rounded to the nearest, halves up; a negative `right` multiplies and
/// saturates.
#[inline(never)]
#[must_use]
pub const fn shift(x: i32, right: i32) -> i32 {
    match right {
        0 => x,
        // The bit below the result is the rounding; adding it afterwards cannot overflow.
        1..=31 => (x >> right) + ((x >> (right - 1)) & 1),
        32.. => 0,
        -30..0 => x.saturating_mul(1 << -right),
        _ if x == 0 => 0,
        _ if x > 0 => i32::MAX,
        _ => i32::MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A spread of `i32`s: every power of two, its neighbours, and a random walk.
    pub(super) fn numbers() -> impl Iterator<Item = i32> {
        let edges = (0..31).flat_map(|bit| [1 << bit, (1 << bit) - 1, -(1 << bit), 1 - (1 << bit)]);
        let mut rng = crate::SplitMix64::new(7);
        let random = (0..2_000).map(move |_| {
            let bits = rng.next_u64();
            (bits as i32) >> (bits >> 59)
        });
        edges.chain([i32::MIN, i32::MAX, 0]).chain(random)
    }

    #[test]
    fn zeros_are_counted() {
        for x in numbers().map(i32::cast_unsigned) {
            assert_eq!(leading_zeros(x), x.leading_zeros(), "{x}");
        }
    }

    #[test]
    fn mul16_is_the_long_product() {
        for a in numbers() {
            for b in [0, 1, 3, 255, 32_767, 32_768, 65_535] {
                let long = (i64::from(a) * i64::from(b)) >> 16;
                assert_eq!(i64::from(mul16(a, b)), long, "{a} * {b}");
            }
        }
    }

    #[test]
    fn shift_rounds_halves_up_and_saturates() {
        for x in numbers() {
            for right in 1..=31 {
                let exact = (i64::from(x) + (1 << (right - 1))) >> right;
                assert_eq!(i64::from(shift(x, right)), exact, "{x} >> {right}");
            }
            for left in 0..=40 {
                let exact = (i128::from(x) << left).clamp(i32::MIN.into(), i32::MAX.into());
                assert_eq!(i128::from(shift(x, -left)), exact, "{x} << {left}");
            }
            assert_eq!(shift(x, 32), 0);
            assert_eq!(shift(x, i32::MAX), 0);
        }
    }

    #[test]
    fn magnitude_is_below_the_absolute_value_by_one_at_most() {
        for x in numbers() {
            let found = i64::from(magnitude(x));
            assert_eq!(found, i64::from(x.unsigned_abs()) - i64::from(x < 0));
        }
    }
}
