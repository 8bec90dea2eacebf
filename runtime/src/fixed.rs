//! Fixed-point numbers and the functions on them: integers only, so that every target agrees.
//!
//! An activation is an `i32` in units of 2^-16 ([`ONE`]). Scales are a 16-bit mantissa and a power
//! of two. Tables are computed by the compiler in `f64`.

use core::hint::black_box;

use crate::series::{exp, normal_cdf, sin};

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
    let low = (a as u32 & 0xFFFF) * b as u32;
    (a >> 16) * b as i32 + (low >> 16) as i32
}

/// Returns the magnitude of a number, or one less when it is negative: the bits without the sign.
#[inline]
#[must_use]
pub const fn magnitude(x: i32) -> u32 {
    (x ^ (x >> 31)).cast_unsigned()
}

/// Returns the zeros above the highest one; a call where the core has no instruction for it.
#[cfg_attr(not(kernel = "m4"), inline(never))]
#[cfg_attr(kernel = "m4", inline)]
#[must_use]
pub const fn leading_zeros(x: u32) -> u32 {
    if cfg!(kernel = "m4") {
        return x.leading_zeros();
    }
    // What compilers put here for such cores takes a hundred cycles.
    let (mut rest, mut zeros) = (x, 32);
    if rest >> 16 != 0 {
        (rest, zeros) = (rest >> 16, 16);
    }
    if rest >> 8 != 0 {
        (rest, zeros) = (rest >> 8, zeros - 8);
    }
    if rest >> 4 != 0 {
        (rest, zeros) = (rest >> 4, zeros - 4);
    }
    // The bits of 0 to 15, two bits less one for each; 0 has none.
    if rest == 0 {
        return zeros;
    }
    zeros - 1 - ((0xFFFF_AA50_u32 >> (2 * rest)) & 3)
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

    /// The number 1.
    pub const ONE: Self = Self {
        mantissa: 1 << 15,
        exponent: -15,
    };

    /// Returns `value * 2^exponent`, cut to 16 bits.
    #[inline(never)]
    #[must_use]
    pub const fn new(value: u32, exponent: i32) -> Self {
        if value == 0 {
            return Self::ZERO;
        }
        let left = leading_zeros(value);
        Self {
            mantissa: ((value << left) >> 16) as u16,
            exponent: exponent + 16 - left as i32,
        }
    }

    /// Returns the mantissa.
    #[inline]
    #[must_use]
    pub const fn mantissa(self) -> u32 {
        self.mantissa as u32
    }

    /// Returns the exponent.
    #[inline]
    #[must_use]
    pub const fn exponent(self) -> i32 {
        self.exponent
    }

    /// Returns the product, cut to 16 bits.
    #[must_use]
    pub const fn mul(self, other: Self) -> Self {
        let product = self.mantissa as u32 * other.mantissa as u32;
        Self::new(product, self.exponent + other.exponent)
    }

    /// Returns the square root of an integer, cut to 16 bits: digit by digit, because small cores
    /// divide slowly.
    #[inline(never)]
    #[must_use]
    pub fn root(x: u32) -> Self {
        if x == 0 {
            return Self::ZERO;
        }
        let left = leading_zeros(x) & !1;
        // A loop of known length would be unrolled, and code is flash.
        let (mut rest, mut root, mut digit) = (x << left, 0, black_box(1 << 30));
        while digit != 0 {
            let next = root + digit;
            root >>= 1;
            if rest >= next {
                rest -= next;
                root += digit;
            }
            digit >>= 2;
        }
        Self {
            mantissa: root as u16,
            exponent: -(left as i32) / 2,
        }
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
    #[inline(never)]
    #[must_use]
    pub const fn div(self, divisor: Self) -> Self {
        let divisor = if divisor.mantissa == 0 {
            Self::ONE
        } else {
            divisor
        };
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

    /// Replaces each number by [`Scale::apply`] of it; returns the largest [`magnitude`].
    #[inline(never)]
    pub fn apply_all(self, x: &mut [i32]) -> u32 {
        let right = -(self.exponent + 16);
        let mut max = 0;
        if let 2..32 = right {
            for x in x {
                // The sum cannot overflow, because at least one bit has been shifted out.
                *x = ((self.mul_mantissa(*x) >> (right - 1)) + 1) >> 1;
                max = max.max(magnitude(*x));
            }
        } else {
            for x in x {
                *x = self.apply(*x);
                max = max.max(magnitude(*x));
            }
        }
        max
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

/// Steps of [`exp2_table`] per octave.
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

/// Returns `2^15 * 2^(-step / 256)` for the lower 8 bits of `step`.
#[inline]
#[must_use]
pub fn exp2_table(step: u32) -> u32 {
    EXP2[step as usize % EXP2_STEPS].into()
}

/// Returns `2^23 * 2^-d` for `d` in units of 2^-16; relative error below 1.5e-3 before the result is
/// cut to its bits.
#[must_use]
pub fn exp2_neg_wide(d: u32) -> u32 {
    // From 32 octaves on every power is 0, so that rounding may not overflow.
    let steps = (d.min(1 << 21) + (1 << 7)) >> 8;
    (exp2_table(steps) << 8) >> (steps / EXP2_STEPS as u32).min(31)
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

/// What is missing to `max(x, 0)`: an even function that falls to 0, in steps of `2^STEP_BITS` units.
///
/// The upper half of an entry is the value at the start of its step, the lower half the rise per
/// unit, both times 2^16.
struct Bump<const LEN: usize, const STEP_BITS: u32>([i32; LEN]);

impl<const LEN: usize, const STEP_BITS: u32> Bump<LEN, STEP_BITS> {
    /// Makes the table of a function given at the start of each step.
    const fn new(at: &[f64; LEN]) -> Self {
        let mut table = [0; LEN];
        let mut i = 0;
        while i + 1 < LEN {
            let start = at[i] * (1_u64 << 32) as f64 + 32_768.0;
            let slope = (at[i + 1] - at[i]) * (1_u64 << (32 - STEP_BITS)) as f64;
            table[i] = (start as i32 & -65_536) + round(slope);
            i += 1;
        }
        Self(table)
    }

    /// Returns `max(x, 0)` less the function.
    #[inline]
    fn below_relu(&self, x: i32) -> i32 {
        let magnitude = magnitude(x);
        let Some(&entry) = self.0.get((magnitude >> STEP_BITS) as usize) else {
            return relu(x);
        };
        let rest = (magnitude & ((1 << STEP_BITS) - 1)) as i32;
        relu(x) - ((entry + i32::from(entry as i16) * rest) >> 16)
    }
}

const fn round(x: f64) -> i32 {
    if x < 0.0 {
        (x - 0.5) as i32
    } else {
        (x + 0.5) as i32
    }
}

/// `x * Phi(-x)` for x in 0..4.5, 32 steps per unit.
static GELU: Bump<145, 11> = Bump::new(&{
    let mut at = [0.0; 145];
    let mut i = 0;
    while i < 145 {
        let x = i as f64 / 32.0;
        at[i] = x * (1.0 - normal_cdf(x));
        i += 1;
    }
    at
});

/// `x * sigmoid(-x)` for x in 0..12, 16 steps per unit.
static SILU: Bump<193, 12> = Bump::new(&{
    let mut at = [0.0; 193];
    let mut i = 0;
    while i < 193 {
        let x = i as f64 / 16.0;
        at[i] = x * (1.0 - 1.0 / (1.0 + exp(-x)));
        i += 1;
    }
    at
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

/// Returns `max(x, 0)`.
#[inline]
#[must_use]
pub const fn relu(x: i32) -> i32 {
    x & !(x >> 31)
}

/// Returns `x * Phi(x)`, the exact GELU to 1.3e-4.
#[inline]
#[must_use]
pub fn gelu(x: i32) -> i32 {
    GELU.below_relu(x)
}

/// Returns `x * sigmoid(x)` to 2.7e-4.
#[inline]
#[must_use]
pub fn silu(x: i32) -> i32 {
    SILU.below_relu(x)
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
    fn root_is_the_square_root_of_16_bits() {
        assert_eq!(Scale::root(0), Scale::ZERO);
        for x in numbers().map(i32::cast_unsigned).chain(1..70_000) {
            let root = Scale::root(x);
            let error = if x == 0 {
                0.0
            } else {
                value(root) / f64::from(x).sqrt() - 1.0
            };
            assert!((-1.0 / 32_768.0..=1e-12).contains(&error), "{x}: {error}");
            assert!(x == 0 || root.mantissa >= 1 << 15, "{x}");
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
                let quotient = value(x.div(Scale::new(b, 0))) / (value(x) / f64::from(b));
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
            let wide = f64::from(exp2_neg_wide(d)) / 256.0;
            assert!((wide - exact).abs() < 4e-3 + 1.5e-3 * exact, "2^-{d}");
        }
        assert_eq!(exp2_neg_wide(0), 1 << 23);
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
    fn activations_are_close() {
        let (mut gelu_error, mut silu_error) = (0.0_f64, 0.0_f64);
        for i in -200_000..200_000 {
            let x = i * 9;
            let real = f64::from(x) / 65_536.0;
            let phi = 0.5 * (1.0 + f64::from(libm::erff((real / 2.0_f64.sqrt()) as f32)));
            gelu_error = gelu_error.max((f64::from(gelu(x)) / 65_536.0 - real * phi).abs());
            let exact = real / (1.0 + (-real).exp());
            silu_error = silu_error.max((f64::from(silu(x)) / 65_536.0 - exact).abs());
        }
        assert!(gelu_error < 1.3e-4, "{gelu_error}");
        assert!(silu_error < 2.7e-4, "{silu_error}");
        for x in [i32::MAX, 40 * ONE, 0] {
            assert_eq!((gelu(x), silu(x)), (x, x));
        }
        for x in [i32::MIN, -40 * ONE] {
            assert_eq!((gelu(x), silu(x)), (0, 0));
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
