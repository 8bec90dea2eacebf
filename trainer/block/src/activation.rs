//! Exponential and activation functions on vectors.
//!
//! # Numerics
//!
//! | function | error bound on all of f32 |
//! |---|---|
//! | `exp2` | relative 4e-7 where the result is at least 2^-126; exactly 0 from -127 down |
//! | `gelu` and its slope | 1e-6 times `max(1, abs(x))` |
//! | `silu` and its slope | 2e-6 times `max(1, abs(x))` |

use crate::panel::{Row, vectors_mut};
use pulp::{Simd, WithSimd};
use runtime::Activation;

/// Taylor-like coefficients of `(2^f - 1) / f` for `f` in [-0.5, 0.5], interpolated at 6 Chebyshev
/// nodes: relative error of `2^f` 5e-9.
const EXP2: [f32; 6] = [
    core::f32::consts::LN_2,
    0.240_226_5,
    0.055_503_57,
    0.009_618_083,
    0.001_339_086_3,
    0.000_154_531_63,
];

/// Coefficients in `s = t / 2.5 - 1` of `(1 - Phi(t)) * exp(t^2 / 2)` for `t` in [0, 5], interpolated
/// at 14 Chebyshev nodes: error 4e-8 after the multiplication with `exp(-t^2 / 2)`.
const TAIL: [f32; 14] = [
    0.141_331_35,
    -0.114_034_89,
    0.085_299_275,
    -0.059_860_436,
    0.039_783_85,
    -0.025_154_38,
    0.015_020_822,
    -0.008_767_544,
    0.005_518_666,
    -0.002_944_738,
    0.000_667_897_7,
    -0.000_387_198_1,
    0.000_837_762_4,
    -0.000_391_148_86,
];

/// `2^x` for `x <= 127`.
#[inline(always)]
pub(crate) fn exp2<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // At -127 the fraction is 0 and the exponent field becomes 0: the result is exactly zero.
    let x = simd.max_f32s(x, simd.splat_f32s(-127.0));
    // 1.5 * 2^23: adding it leaves the rounded integer in the low bits of the sum.
    let magic = simd.splat_f32s(12_582_912.0);
    let shifted = simd.add_f32s(x, magic);
    let f = simd.sub_f32s(x, simd.sub_f32s(shifted, magic));
    let mut p = simd.splat_f32s(EXP2[5]);
    for c in EXP2[..5].iter().rev() {
        p = simd.mul_add_e_f32s(p, f, simd.splat_f32s(*c));
    }
    p = simd.mul_add_e_f32s(p, f, simd.splat_f32s(1.0));
    let exponent =
        simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
    simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(p), exponent))
}

/// `x * Phi(x)` and its derivative `Phi(x) + x * phi(x)`.
#[inline(always)]
fn gelu<S: Simd>(simd: S, x: S::f32s) -> (S::f32s, S::f32s) {
    let t = simd.abs_f32s(x);
    // exp(-x^2 / 2) = 2^(x^2 * -log2(e) / 2)
    let power = simd.mul_f32s(
        simd.mul_f32s(x, x),
        simd.splat_f32s(-0.5 * core::f32::consts::LOG2_E),
    );
    let bell = exp2(simd, power);
    let s = simd.mul_add_e_f32s(
        simd.min_f32s(t, simd.splat_f32s(5.0)),
        simd.splat_f32s(0.4),
        simd.splat_f32s(-1.0),
    );
    let mut p = simd.splat_f32s(TAIL[13]);
    for c in TAIL[..13].iter().rev() {
        p = simd.mul_add_e_f32s(p, s, simd.splat_f32s(*c));
    }
    let tail = simd.mul_f32s(p, bell);
    let negative = simd.less_than_f32s(x, simd.splat_f32s(0.0));
    let phi = simd.select_f32s(negative, tail, simd.sub_f32s(simd.splat_f32s(1.0), tail));
    // 1 / sqrt(2 pi)
    let density = simd.mul_f32s(bell, simd.splat_f32s(0.398_942_3));
    (simd.mul_f32s(x, phi), simd.mul_add_e_f32s(x, density, phi))
}

/// `x * sigmoid(x)` and its derivative.
#[inline(always)]
fn silu<S: Simd>(simd: S, x: S::f32s) -> (S::f32s, S::f32s) {
    let one = simd.splat_f32s(1.0);
    // Beyond 87 the exponential would overflow; the sigmoid is 0 or 1 there.
    let power = simd.mul_f32s(x, simd.splat_f32s(-core::f32::consts::LOG2_E));
    let e = exp2(simd, simd.min_f32s(power, simd.splat_f32s(126.0)));
    let sigmoid = simd.div_f32s(one, simd.add_f32s(one, e));
    let y = simd.mul_f32s(x, sigmoid);
    // s + x s (1 - s) = s (1 + x - x s)
    let slope = simd.mul_f32s(sigmoid, simd.sub_f32s(simd.add_f32s(one, x), y));
    (y, slope)
}

/// Applies a one-input activation: reads `slope`, leaves the value in `out` and the slope in `slope`.
pub(crate) struct Activate<'a> {
    pub(crate) activation: Activation,
    pub(crate) slope: &'a mut [Row],
    pub(crate) out: &'a mut [Row],
}

impl WithSimd for Activate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let pairs = vectors_mut::<S>(self.out)
            .iter_mut()
            .zip(vectors_mut::<S>(self.slope).iter_mut());
        let zero = simd.splat_f32s(0.0);
        let one = simd.splat_f32s(1.0);
        match self.activation {
            Activation::Gelu => pairs.for_each(|(out, u)| (*out, *u) = gelu(simd, *u)),
            Activation::Relu => pairs.for_each(|(out, u)| {
                let positive = simd.less_than_f32s(zero, *u);
                *out = simd.max_f32s(*u, zero);
                *u = simd.select_f32s(positive, one, zero);
            }),
            Activation::Relu2 => pairs.for_each(|(out, u)| {
                let relu = simd.max_f32s(*u, zero);
                *out = simd.mul_f32s(relu, relu);
                *u = simd.add_f32s(relu, relu);
            }),
            Activation::SwiGlu => unreachable!("a gated activation has two inputs"),
        }
    }
}

/// Applies `SwiGlu`: reads `gate` and `up`, leaves `silu(gate) * up` in `out` and the two slopes in place.
pub(crate) struct ActivateGated<'a> {
    pub(crate) gate: &'a mut [Row],
    pub(crate) up: &'a mut [Row],
    pub(crate) out: &'a mut [Row],
}

impl WithSimd for ActivateGated<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let inputs = vectors_mut::<S>(self.gate)
            .iter_mut()
            .zip(vectors_mut::<S>(self.up).iter_mut());
        for (out, (gate, up)) in vectors_mut::<S>(self.out).iter_mut().zip(inputs) {
            let (y, slope) = silu(simd, *gate);
            *out = simd.mul_f32s(y, *up);
            *gate = simd.mul_f32s(slope, *up);
            *up = y;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Activate, ActivateGated, exp2};
    use crate::panel::{PANEL, Row, vectors_mut};
    use pulp::{Arch, Simd, WithSimd};
    use runtime::Activation;

    struct Exp2<'a>(&'a mut [Row]);

    impl WithSimd for Exp2<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            vectors_mut::<S>(self.0)
                .iter_mut()
                .for_each(|v| *v = exp2(simd, *v));
        }
    }

    fn points(low: f64, high: f64) -> Vec<Row> {
        let n = 4096 * PANEL;
        let at = |i: usize| (low + (high - low) * i as f64 / (n - 1) as f64) as f32;
        (0..n / PANEL)
            .map(|r| Row(core::array::from_fn(|l| at(r * PANEL + l))))
            .collect()
    }

    /// The error function: Maclaurin series near zero, continued fraction in the tails.
    fn erfc(x: f64) -> f64 {
        if x < 0.0 {
            return 2.0 - erfc(-x);
        }
        if x < 3.0 {
            let (mut term, mut sum) = (x, x);
            for n in 1..200 {
                term *= -x * x / f64::from(n);
                sum += term / f64::from(2 * n + 1);
            }
            return 1.0 - sum * 2.0 / core::f64::consts::PI.sqrt();
        }
        let mut tail = 0.0;
        for n in (1..200).rev() {
            tail = f64::from(n) / 2.0 / (x + tail);
        }
        (-x * x).exp() / core::f64::consts::PI.sqrt() / (x + tail)
    }

    #[test]
    fn exp2_is_within_its_bound() {
        let x = points(-126.0, 126.0);
        let mut y = x.clone();
        Arch::new().dispatch(Exp2(&mut y));
        for (x, y) in x.iter().flat_map(|r| r.0).zip(y.iter().flat_map(|r| r.0)) {
            let want = f64::from(x).exp2();
            assert!(
                (f64::from(y) / want - 1.0).abs() < 4e-7,
                "2^{x} = {y}, not {want}"
            );
        }
    }

    #[test]
    fn exp2_of_minus_infinity_is_zero_and_of_zero_is_one() {
        let mut x = [
            Row([f32::NEG_INFINITY; PANEL]),
            Row([-127.0; PANEL]),
            Row([0.0; PANEL]),
        ];
        Arch::new().dispatch(Exp2(&mut x));
        assert_eq!(x[0].0, [0.0; PANEL]);
        assert_eq!(x[1].0, [0.0; PANEL]);
        assert_eq!(x[2].0, [1.0; PANEL]);
    }

    #[test]
    fn gelu_and_its_slope_are_within_their_bound() {
        for (low, high) in [(-6.0, 6.0), (-40.0, 40.0)] {
            let x = points(low, high);
            let (mut slope, mut y) = (x.clone(), x.clone());
            let activation = Activation::Gelu;
            Arch::new().dispatch(Activate {
                activation,
                slope: &mut slope,
                out: &mut y,
            });
            for (i, x) in x.iter().flat_map(|r| r.0).enumerate() {
                let t = f64::from(x);
                let phi = 0.5 * erfc(-t / 2f64.sqrt());
                let density = (-t * t / 2.0).exp() / core::f64::consts::TAU.sqrt();
                let bound = 1e-6 * t.abs().max(1.0);
                let (y, s) = (y[i / PANEL].0[i % PANEL], slope[i / PANEL].0[i % PANEL]);
                assert!((f64::from(y) - t * phi).abs() < bound, "gelu({x}) = {y}");
                assert!(
                    (f64::from(s) - phi - t * density).abs() < bound,
                    "gelu'({x}) = {s}"
                );
            }
        }
    }

    #[test]
    fn silu_and_its_slope_are_within_their_bound() {
        let x = points(-120.0, 120.0);
        let (mut gate, mut up, mut y) = (x.clone(), vec![Row([1.0; PANEL]); x.len()], x.clone());
        Arch::new().dispatch(ActivateGated {
            gate: &mut gate,
            up: &mut up,
            out: &mut y,
        });
        for (i, x) in x.iter().flat_map(|r| r.0).enumerate() {
            let t = f64::from(x);
            let sigmoid = 1.0 / (1.0 + (-t).exp());
            let bound = 2e-6 * t.abs().max(1.0);
            let (y, s) = (y[i / PANEL].0[i % PANEL], gate[i / PANEL].0[i % PANEL]);
            assert!(
                (f64::from(y) - t * sigmoid).abs() < bound,
                "silu({x}) = {y}"
            );
            let slope = sigmoid * (1.0 + t * (1.0 - sigmoid));
            assert!((f64::from(s) - slope).abs() < bound, "silu'({x}) = {s}");
        }
    }
}
