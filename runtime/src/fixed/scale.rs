//! Numbers that are not negative: a mantissa and a power of two.

#[cfg(not(kernel = "m4"))]
use core::hint::black_box;

use super::{divide, leading_zeros, magnitude, mul16, shift};

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
    pub fn new(value: u32, exponent: i32) -> Self {
        if value == 0 {
            return Self::ZERO;
        }
        let left = leading_zeros(value);
        Self {
            mantissa: ((value << left) >> 16) as u16,
            exponent: exponent + 16 - left as i32,
        }
    }

    /// Returns `byte * 2^exponent` for a byte that is 0 or has its top bit set.
    #[inline]
    #[must_use]
    pub(crate) const fn of_byte(byte: u32, exponent: i32) -> Self {
        if byte == 0 {
            return Self::ZERO;
        }
        Self {
            mantissa: (byte << 8) as u16,
            exponent: exponent - 8,
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
        if product == 0 {
            return Self::ZERO;
        }
        // It has 31 or 32 bits.
        let carry = product >> 31;
        Self {
            mantissa: (product >> (15 + carry)) as u16,
            exponent: self.exponent + other.exponent + 15 + carry as i32,
        }
    }

    /// Returns the square root of an integer, cut to 16 bits.
    #[inline(never)]
    #[must_use]
    pub fn root(x: u32) -> Self {
        if x == 0 {
            return Self::ZERO;
        }
        let left = leading_zeros(x) & !1;
        let root = root_of_top(x << left);
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
    pub fn divided_by(self, divisor: Self) -> Self {
        let divisor = if divisor.mantissa == 0 {
            Self::ONE
        } else {
            divisor
        };
        if self.mantissa == 0 {
            return Self::ZERO;
        }
        let quotient = divide(u32::from(self.mantissa) << 16, divisor.mantissa());
        // It has 16 or 17 bits.
        let carry = quotient >> 16;
        Self {
            mantissa: (quotient >> carry) as u16,
            exponent: self.exponent - 16 - divisor.exponent + carry as i32,
        }
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
        if let (false, 2..32) = (cfg!(kernel = "m4"), right) {
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

/// Returns the integer square root of a number of 31 or 32 bits, digit by digit, because small cores
/// divide slowly.
#[cfg(not(kernel = "m4"))]
fn root_of_top(x: u32) -> u32 {
    // A loop of known length would be unrolled, and code is flash.
    let (mut rest, mut root, mut digit) = (x, 0, black_box(1 << 30));
    while digit != 0 {
        let next = root + digit;
        root >>= 1;
        if rest >= next {
            rest -= next;
            root += digit;
        }
        digit >>= 2;
    }
    root
}

#[cfg(kernel = "m4")]
use newton as root_of_top;

/// Does the same by Newton's steps, where division is quick.
#[cfg(any(kernel = "m4", test))]
fn newton(x: u32) -> u32 {
    let divide = |root| x.checked_div(root).unwrap_or(0);
    // A line within 10 % of the root. A step ends at the root or above, and the second within 1.
    let mut root = (x >> 17) + 27 * 1024;
    root = (root + divide(root)) >> 1;
    root = (root + divide(root)) >> 1;
    root - u32::from(root > divide(root))
}

#[cfg(test)]
mod tests {
    use super::super::tests::numbers;
    use super::*;

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

    #[test]
    fn both_roots_of_the_upper_bits_are_the_same() {
        let edges = (1 << 15..1_u32 << 16).flat_map(|root| [root * root, root * root - 1]);
        let steps = (1 << 30..=u32::MAX).step_by(9_973);
        for x in edges.chain(steps).filter(|&x| x >= 1 << 30) {
            assert_eq!(newton(x), root_of_top(x), "{x}");
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
                let quotient = value(x.divided_by(Scale::new(b, 0))) / (value(x) / f64::from(b));
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
}
