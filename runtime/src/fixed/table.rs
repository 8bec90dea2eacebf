//! Functions by tables.

use super::magnitude;
use crate::series::{exp, normal_cdf, sin};

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

/// Returns all of [`exp2_table`].
#[cfg(any(kernel = "m0", kernel = "m4", kernel = "rv32"))]
pub(crate) const fn exp2_all() -> &'static [u16; EXP2_STEPS] {
    &EXP2
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

/// Returns what [`gelu`] lacks to [`relu`], as [`Bump`] has it.
#[cfg(any(kernel = "m0", kernel = "m4", kernel = "rv32"))]
pub(crate) const fn gelu_table() -> &'static [i32; 145] {
    &GELU.0
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
    use crate::fixed::ONE;

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
}
