//! Fixed-point numbers and the functions on them: integers only, so that every target agrees.
//!
//! An activation is an `i32` in units of 2^-16 ([`ONE`]). Scales are a 16-bit mantissa and a power
//! of two. Tables are computed by the compiler in `f64`.

use crate::series::{exp, normal_cdf, sin};

/// The number 1 as an activation.
pub const ONE: i32 = 1 << 16;

/// The core multiplies two words to a long one in a cycle.
pub(crate) const LONG_MULTIPLY: bool = cfg!(any(kernel = "m4", target_pointer_width = "64"));

/// Returns `floor(a * b / 2^16)`; exact for every `a`, and `b` of at most 16 bits.
///
/// Two multiplications of 32 bits where a core without a long multiply would call a function.
#[inline]
#[must_use]
pub const fn mul16(a: i32, b: u16) -> i32 {
    if LONG_MULTIPLY {
        return ((a as i64 * b as i64) >> 16) as i32;
    }
    let low = (a as u32 & 0xFFFF) * b as u32;
    (a >> 16) * b as i32 + (low >> 16) as i32
}

/// Returns `x / 2^right`, rounded to the nearest, halves up; a negative `right` multiplies and
/// saturates.
#[inline]
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

/// Returns `sqrt(x * 2^16)`, rounded down: digit by digit, because small cores divide slowly.
#[must_use]
pub const fn root16(x: u32) -> u32 {
    let (mut rest, mut root) = (0, 0);
    let mut digit = 0;
    while digit < 24 {
        let pair = if digit < 16 {
            (x >> (30 - 2 * digit)) & 3
        } else {
            0
        };
        rest = rest << 2 | pair;
        root <<= 1;
        if rest > 2 * root {
            rest -= 2 * root + 1;
            root += 1;
        }
        digit += 1;
    }
    root
}

/// A number that is not negative: `mantissa * 2^exponent`, the mantissa 0 or of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    mantissa: u16,
    exponent: i32,
}

impl Scale {
    /// The number 0.
    pub const ZERO: Self = Self {
        mantissa: 0,
        exponent: 0,
    };

    /// Returns `value * 2^exponent`, cut to 16 bits.
    #[must_use]
    pub const fn new(value: u32, exponent: i32) -> Self {
        if value == 0 {
            return Self::ZERO;
        }
        let left = value.leading_zeros();
        Self {
            mantissa: ((value << left) >> 16) as u16,
            exponent: exponent + 16 - left as i32,
        }
    }

    /// Returns the product, cut to 16 bits.
    #[must_use]
    pub const fn mul(self, other: Self) -> Self {
        let product = self.mantissa as u32 * other.mantissa as u32;
        Self::new(product, self.exponent + other.exponent)
    }

    /// Returns `self * 2^exponent`.
    #[must_use]
    pub const fn shl(self, exponent: i32) -> Self {
        Self {
            mantissa: self.mantissa,
            exponent: self.exponent + exponent,
        }
    }

    /// Returns `self / divisor`, good to 15 bits; a divisor of 0 counts as 1.
    #[must_use]
    pub const fn div(self, divisor: u32) -> Self {
        let divisor = Self::new(if divisor == 0 { 1 } else { divisor }, 0);
        let quotient = match ((self.mantissa as u32) << 16).checked_div(divisor.mantissa as u32) {
            Some(quotient) => quotient,
            None => 0,
        };
        Self::new(quotient, self.exponent - 16 - divisor.exponent)
    }

    /// Returns `x * self`, to the nearest; saturates.
    #[inline]
    #[must_use]
    pub const fn apply(self, x: i32) -> i32 {
        shift(self.mul_mantissa(x), -(self.exponent + 16))
    }

    /// Returns the same as `self.shl(exponent).apply(x)`, sooner when the result is well below `x`.
    #[inline]
    pub(crate) const fn apply_shl(self, x: i32, exponent: i32) -> i32 {
        let product = self.mul_mantissa(x);
        let right = -(self.exponent + 16 + exponent);
        if right >= 2 && right < 32 {
            // The sum cannot overflow, because at least one bit has been shifted out.
            ((product >> (right - 1)) + 1) >> 1
        } else {
            shift(product, right)
        }
    }

    /// Replaces each `x` by [`Scale::apply`] of `value(x)`, which may depend on its place too.
    #[inline]
    pub(crate) fn apply_all<'x, X: 'x>(
        self,
        x: impl Iterator<Item = (&'x mut i32, X)>,
        value: impl Fn(i32, X) -> i32,
    ) {
        match self.quick() {
            Some(quick) => x.for_each(|(x, place)| *x = quick.apply(value(*x, place))),
            None => x.for_each(|(x, place)| *x = self.apply(value(*x, place))),
        }
    }

    /// Returns a form that costs less per number, for scales well below 1.
    #[inline]
    pub(crate) const fn quick(self) -> Option<QuickScale> {
        let right = -(self.exponent + 16);
        if self.mantissa != 0 && right >= 2 && right < 32 {
            let right = right as u32 - 1;
            Some(QuickScale { scale: self, right })
        } else {
            None
        }
    }

    /// Returns `x * mantissa / 2^16`, rounded down.
    #[inline]
    const fn mul_mantissa(self, x: i32) -> i32 {
        if cfg!(kernel = "m4") {
            // The mantissa's top bit is set, unless it is 0. One `smlawb` does this.
            let low = self.mantissa as i16 as i64;
            let product = ((x as i64 * low) >> 16) as i32;
            return if self.mantissa == 0 {
                0
            } else {
                x.wrapping_add(product)
            };
        }
        mul16(x, self.mantissa)
    }
}

/// A [`Scale`] that is not 0 and shifts to the right by 2 to 31.
#[derive(Clone, Copy)]
pub(crate) struct QuickScale {
    scale: Scale,
    right: u32,
}

impl QuickScale {
    /// Returns the same as [`Scale::apply`].
    #[inline]
    pub(crate) const fn apply(self, x: i32) -> i32 {
        // The sum cannot overflow, because at least one bit has been shifted out.
        ((self.scale.mul_mantissa(x) >> self.right) + 1) >> 1
    }
}

/// Steps of [`exp2_neg`] per octave.
const EXP2_STEPS: usize = 256;

/// `2^15 * 2^(-i / 256)`.
static EXP2: [u16; EXP2_STEPS] = {
    let mut table = [0; EXP2_STEPS];
    let mut i = 0;
    while i < EXP2_STEPS {
        let exact = exp(-core::f64::consts::LN_2 * i as f64 / EXP2_STEPS as f64);
        table[i] = (32_768.0 * exact + 0.5) as u16;
        i += 1;
    }
    table
};

/// Returns `2^15 * 2^-d` for `d` in units of 2^-16; relative error below 1.5e-3 before the result
/// is cut to its 15 bits.
#[inline]
#[must_use]
pub fn exp2_neg(d: u32) -> u16 {
    let (fraction, octave) = exp2_parts(d);
    (u32::from(fraction) >> octave.min(31)) as u16
}

/// Returns `2^23 * 2^-d` for `d` in units of 2^-16: [`exp2_neg`] with 8 bits more.
#[must_use]
pub fn exp2_neg_wide(d: u32) -> u32 {
    let (fraction, octave) = exp2_parts(d);
    (u32::from(fraction) << 8) >> octave.min(31)
}

#[inline]
fn exp2_parts(d: u32) -> (u16, u32) {
    // From 32 octaves on every power is 0, so that rounding may not overflow.
    let steps = (d.min(1 << 21) + (1 << 7)) >> 8;
    (EXP2[steps as usize % EXP2_STEPS], steps / EXP2_STEPS as u32)
}

/// A function on `0..LEN - 1` steps of `2^STEP_BITS` units, interpolated.
struct Table<const LEN: usize, const STEP_BITS: u32>([u16; LEN]);

impl<const LEN: usize, const STEP_BITS: u32> Table<LEN, STEP_BITS> {
    /// Returns the value at `x`; the last entry beyond the end.
    #[inline]
    fn at(&self, x: u32) -> u16 {
        let step = (x >> STEP_BITS) as usize;
        if step >= LEN - 1 {
            return self.0[LEN - 1];
        }
        let (a, b) = (i32::from(self.0[step]), i32::from(self.0[step + 1]));
        // 15 bits of the fraction keep the product within 31 bits.
        let fraction = ((x << (32 - STEP_BITS)) >> 17) as i32;
        (a + (((b - a) * fraction + (1 << 14)) >> 15)) as u16
    }
}

/// `2^16 * Phi(x)` for x in 0..=4.5, 32 steps per unit.
static PHI: Table<145, 11> = Table({
    let mut table = [0; 145];
    let mut i = 0;
    while i < 145 {
        table[i] = unit(normal_cdf(i as f64 / 32.0));
        i += 1;
    }
    table
});

/// `2^16 * sigmoid(x)` for x in 0..=12, 16 steps per unit.
static SIGMOID: Table<193, 12> = Table({
    let mut table = [0; 193];
    let mut i = 0;
    while i < 193 {
        table[i] = unit(1.0 / (1.0 + exp(-(i as f64) / 16.0)));
        i += 1;
    }
    table
});

/// `2^15 * sin` over the first quarter turn, 128 steps of 2^23 turns of 2^-32.
static SINE: Table<129, 23> = Table({
    let mut table = [0; 129];
    let mut i = 0;
    while i < 129 {
        let exact = sin(core::f64::consts::FRAC_PI_2 * i as f64 / 128.0);
        table[i] = (32_768.0 * exact + 0.5) as u16;
        i += 1;
    }
    table
});

/// Replaces each number by [`gelu`] of it; returns the largest magnitude.
#[inline(never)]
pub(crate) fn gelu_all(x: &mut [i32]) -> u32 {
    x.iter_mut().fold(0, |max, x| {
        *x = gelu(*x);
        max.max(x.unsigned_abs())
    })
}

/// Returns `x * Phi(x)`, the exact GELU to 1e-4 of `x`.
#[must_use]
pub fn gelu(x: i32) -> i32 {
    gate(x, &PHI)
}

/// Returns `x * sigmoid(x)` to 1e-4 of `x`.
#[must_use]
pub fn silu(x: i32) -> i32 {
    gate(x, &SIGMOID)
}

/// Returns `x * f(x)` for a function with `f(-x) = 1 - f(x)`, tabulated for positive x.
#[inline]
fn gate<const LEN: usize, const STEP_BITS: u32>(x: i32, table: &Table<LEN, STEP_BITS>) -> i32 {
    let f = table.at(x.unsigned_abs());
    // 65,535 stands for 1, so that the factor has 16 bits.
    mul16(x, if x < 0 { 65_535 - f } else { f })
}

/// Returns `(2^15 * sin, 2^15 * cos)` of an angle in 2^-32 turns; absolute error below 6e-5.
#[must_use]
pub fn sin_cos(turns: u32) -> (i32, i32) {
    (sine(turns), sine(turns.wrapping_add(1 << 30)))
}

fn sine(turns: u32) -> i32 {
    let quarter = turns >> 30;
    let rest = turns & ((1 << 30) - 1);
    let mirrored = if quarter & 1 == 1 {
        (1 << 30) - rest
    } else {
        rest
    };
    let sine = i32::from(SINE.at(mirrored));
    if quarter >= 2 { -sine } else { sine }
}

/// Rounds a number in 0..=1 to `2^16` units that fit 16 bits.
const fn unit(x: f64) -> u16 {
    let units = 65_536.0 * x + 0.5;
    if units >= 65_535.0 {
        65_535
    } else {
        units as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A spread of `i32`s: every power of two, its neighbours, and a random walk.
    fn numbers() -> impl Iterator<Item = i32> {
        let edges = (0..31).flat_map(|bit| [1 << bit, (1 << bit) - 1, -(1 << bit), 1 - (1 << bit)]);
        let mut rng = crate::SplitMix64::new(7);
        let random = (0..2_000).map(move |_| {
            let bits = rng.next_u64();
            (bits as i32) >> (bits >> 59)
        });
        edges.chain([i32::MIN, i32::MAX, 0]).chain(random)
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
    fn root_is_the_integer_square_root() {
        for x in numbers().map(i32::cast_unsigned).chain(0..70_000) {
            let exact = (u64::from(x) << 16).isqrt();
            assert_eq!(u64::from(root16(x)), exact, "{x}");
        }
    }

    fn value(scale: Scale) -> f64 {
        f64::from(scale.mantissa) * f64::from(scale.exponent).exp2()
    }

    #[test]
    fn scales_multiply_and_divide() {
        for a in [1, 2, 3, 999, 65_535, 65_536, 1 << 20, u32::MAX] {
            let x = Scale::new(a, -9);
            let exact = f64::from(a) * (-9.0_f64).exp2();
            assert!((value(x) / exact - 1.0).abs() < 4e-5);
            for b in [1, 5, 127, 40_000, 70_000, 1 << 31] {
                let quotient = value(x.div(b)) / (value(x) / f64::from(b));
                assert!((quotient - 1.0).abs() < 1e-4, "{a} / {b}: {quotient}");
                let product = value(x.mul(Scale::new(b, 3))) / (value(x) * f64::from(b) * 8.0);
                assert!((product - 1.0).abs() < 8e-5, "{a} * {b}: {product}");
            }
        }
        assert_eq!(Scale::new(0, 5), Scale::ZERO);
        assert_eq!(Scale::ZERO.apply(12345), 0);
        assert_eq!(Scale::new(3, 0).apply(1000), 3000);
        assert_eq!(Scale::new(1, 31).apply(-5), i32::MIN);
    }

    #[test]
    fn exp2_is_close() {
        for d in (0..15 * 65_536).step_by(37) {
            let exact = 32_768.0 * (-f64::from(d) / 65_536.0).exp2();
            let narrow = f64::from(exp2_neg(d));
            let wide = f64::from(exp2_neg_wide(d)) / 256.0;
            assert!((narrow - exact).abs() < 1.0 + 1.5e-3 * exact, "2^-{d}");
            assert!((wide - exact).abs() < 4e-3 + 1.5e-3 * exact, "2^-{d}");
        }
        assert_eq!(exp2_neg(0), 32_768);
        assert_eq!(exp2_neg(u32::MAX), 0);
        assert_eq!(exp2_neg_wide(u32::MAX), 0);
    }

    #[test]
    fn sine_and_cosine_are_close_on_the_whole_circle() {
        for i in 0..50_000_u32 {
            let turns = i.wrapping_mul(0x9E37_79B9);
            let angle = f64::from(turns) / 4_294_967_296.0 * core::f64::consts::TAU;
            let (sin, cos) = sin_cos(turns);
            assert!(
                (f64::from(sin) / 32_768.0 - angle.sin()).abs() < 6e-5,
                "{turns:#x}"
            );
            assert!(
                (f64::from(cos) / 32_768.0 - angle.cos()).abs() < 6e-5,
                "{turns:#x}"
            );
        }
        assert_eq!(sin_cos(0), (0, 32_768));
        assert_eq!(sin_cos(1 << 30), (32_768, 0));
    }

    #[test]
    fn gates_are_close() {
        for i in -200_000..200_000 {
            let x = i * 9;
            let real = f64::from(x) / 65_536.0;
            let phi = 0.5 * (1.0 + f64::from(libm::erff((real / 2.0_f64.sqrt()) as f32)));
            let gelu = f64::from(gelu(x)) / 65_536.0;
            assert!(
                (gelu - real * phi).abs() < 2e-5 + 1e-4 * real.abs(),
                "gelu({real})"
            );
            let silu = f64::from(silu(x)) / 65_536.0;
            let exact = real / (1.0 + (-real).exp());
            assert!(
                (silu - exact).abs() < 2e-5 + 1e-4 * real.abs(),
                "silu({real})"
            );
        }
    }
}
