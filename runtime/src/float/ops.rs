//! The operations of the float forward pass: pure functions on slices.
//!
//! Every function is IEEE 754 arithmetic in a fixed order, so a blob gives the same bits on every
//! target. Sums over a vector have eight lanes: element `i` goes to lane `i % 8`, in ascending order
//! from 0.0, and the lanes are added as `((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7))`.

/// Lanes of a sum; two registers of four, or one of eight.
const LANES: usize = 8;
/// Rows that share the loads of the vector.
const ROWS: usize = 4;
/// Added to the variance (or the mean square) before the root.
const NORM_EPS: f32 = 1e-5;

type Lanes = [f32; LANES];

/// Adds the lanes of a sum.
#[inline]
fn total(lanes: &Lanes) -> f32 {
    let half = |lane: usize| lanes[lane] + lanes[lane + 4];
    (half(0) + half(2)) + (half(1) + half(3))
}

/// Sums `term` over the elements of a vector.
#[inline]
fn sum(x: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += term(x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += term(x);
    }
    total(&lanes)
}

/// Multiplies a matrix by a vector and adds a bias.
///
/// # Shapes
///
/// - `w`: `[rows, cols]`; `x`: `[cols]`; `bias`, `out`: `[rows]`
pub(crate) fn matvec(w: &[f32], x: &[f32], bias: &[f32], out: &mut [f32]) {
    let cols = x.len().max(1);
    let (groups, rest) = out.as_chunks_mut::<ROWS>();
    let mut rows = w.chunks_exact(cols * ROWS);
    for (out, w) in groups.iter_mut().zip(&mut rows) {
        *out = four_dots(w, x);
    }
    for (out, row) in rest.iter_mut().zip(rows.remainder().chunks_exact(cols)) {
        *out = dot(row, x);
    }
    for (out, bias) in out.iter_mut().zip(bias) {
        *out += bias;
    }
}

/// Adds the products of two chunks to the lanes of a sum.
#[inline]
fn accumulate(lanes: &mut Lanes, w: &Lanes, x: &Lanes) {
    for lane in 0..LANES {
        lanes[lane] += w[lane] * x[lane];
    }
}

/// Adds the products of what is left after the last whole chunk, and the lanes.
#[inline]
fn finish(mut lanes: Lanes, w: &[f32], x: &[f32]) -> f32 {
    for (lane, (w, x)) in lanes.iter_mut().zip(w.iter().zip(x)) {
        *lane += w * x;
    }
    total(&lanes)
}

/// Returns the product of a row and a vector of the same length.
#[inline]
fn dot(row: &[f32], x: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let ((w, w_rest), (x, x_rest)) = (row.as_chunks(), x.as_chunks());
    for (w, x) in w.iter().zip(x) {
        accumulate(&mut lanes, w, x);
    }
    finish(lanes, w_rest, x_rest)
}

/// Returns the products of four rows and a vector; each is that of [`dot`], but a part of the vector is
/// loaded once and sums do not wait for each other.
#[inline]
fn four_dots(rows: &[f32], x: &[f32]) -> [f32; ROWS] {
    let (a, rows) = rows.split_at(x.len());
    let (b, rows) = rows.split_at(x.len());
    let (c, d) = rows.split_at(x.len());
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks(), b.as_chunks());
    let ((c, c_rest), (d, d_rest)) = (c.as_chunks(), d.as_chunks());
    let (x, x_rest) = x.as_chunks();
    let mut lanes = [[0.0; LANES]; ROWS];
    let [at_a, at_b, at_c, at_d] = &mut lanes;
    for ((((x, a), b), c), d) in x.iter().zip(a).zip(b).zip(c).zip(d) {
        accumulate(at_a, a, x);
        accumulate(at_b, b, x);
        accumulate(at_c, c, x);
        accumulate(at_d, d, x);
    }
    let [in_a, in_b, in_c, in_d] = lanes;
    [
        finish(in_a, a_rest, x_rest),
        finish(in_b, b_rest, x_rest),
        finish(in_c, c_rest, x_rest),
        finish(in_d, d_rest, x_rest),
    ]
}

/// Normalises a vector: `(x - mean) / sqrt(mean((x - mean)^2) + 1e-5) * gain + bias`, the mean taken
/// as 0 without `centred`.
///
/// # Shapes
///
/// - `x`, `gain`, `out`: `[d_model]`; `bias`: the same, or empty
pub(crate) fn norm(centred: bool, x: &[f32], gain: &[f32], bias: &[f32], out: &mut [f32]) {
    let n = x.len() as f32;
    let mean = if centred { sum(x, |x| x) / n } else { 0.0 };
    let square = sum(x, |x| (x - mean) * (x - mean)) / n;
    let reciprocal = 1.0 / libm::sqrtf(square + NORM_EPS);
    for ((out, &x), gain) in out.iter_mut().zip(x).zip(gain) {
        *out = gain * (reciprocal * (x - mean));
    }
    add(out, bias);
}

/// Adds `y` to `x`.
pub(crate) fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

/// Turns each pair (2i, 2i+1) of each head by an angle.
///
/// # Shapes
///
/// - `x`: whole heads of `2 * sin_cos.len()` elements
pub(crate) fn rotate(x: &mut [f32], sin_cos: &[[f32; 2]]) {
    let (pairs, _) = x.as_chunks_mut::<2>();
    for ([a, b], [sin, cos]) in pairs.iter_mut().zip(sin_cos.iter().cycle()) {
        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
    }
}

/// Computes one head of attention: `out = Σ softmax(q·k[t])[t] * v[t]`, with `q` divided by
/// `sqrt(head_dim)` before.
///
/// # Shapes
///
/// - `q`, `out`: `[head_dim]`
/// - `keys`: `[head_dim, context_len]`, so that scores are summed side by side
/// - `values`: `[context_len, head_dim]`
/// - `scores`: scratch, `[n]`, `n` positions that are seen
///
/// # Numerics
///
/// The product of a query and a key is summed in ascending order; a value's element has four sums,
/// slot `t` of the cache in sum `t % 4`, added as `(0 + 2) + (1 + 3)`.
pub(crate) fn attend(q: &[f32], keys: &[f32], values: &[f32], scores: &mut [f32], out: &mut [f32]) {
    let context_len = (keys.len() / q.len().max(1)).max(1);
    scores.fill(0.0);
    for (&q, k) in q.iter().zip(keys.chunks_exact(context_len)) {
        for (score, k) in scores.iter_mut().zip(k) {
            *score += q * k;
        }
    }
    let max = max(scores);
    for score in scores.iter_mut() {
        let below = *score - max;
        *score = exp(if below > LEAST { below } else { LEAST });
    }
    let reciprocal = 1.0 / sum(scores, |p| p);
    let head_dim = out.len();
    let mut start = 0;
    let (chunks, rest) = out.as_chunks_mut::<LANES>();
    for out in chunks {
        let mut sums = [[0.0; LANES]; ROWS];
        let slots = scores.chunks(ROWS).zip(values.chunks(ROWS * head_dim));
        for (scores, values) in slots {
            let rows = scores.iter().zip(values.chunks_exact(head_dim));
            for (lanes, (p, v)) in sums.iter_mut().zip(rows) {
                if let Some(v) = v.get(start..).and_then(<[f32]>::first_chunk::<LANES>) {
                    for lane in 0..LANES {
                        lanes[lane] += p * v[lane];
                    }
                }
            }
        }
        let [a, b, c, d] = sums;
        for lane in 0..LANES {
            out[lane] = ((a[lane] + c[lane]) + (b[lane] + d[lane])) * reciprocal;
        }
        start += LANES;
    }
    for (i, out) in rest.iter_mut().enumerate() {
        let mut sums = [0.0; ROWS];
        let slots = scores.iter().zip(values.chunks_exact(head_dim)).enumerate();
        for (slot, (p, v)) in slots {
            sums[slot % ROWS] += p * v.get(start + i).copied().unwrap_or(0.0);
        }
        let [a, b, c, d] = sums;
        *out = ((a + c) + (b + d)) * reciprocal;
    }
}

/// Least exponent of a weight of attention: smaller weights change no sum, but their products with
/// small values are subnormal, on which many cores are slow.
const LEAST: f32 = -40.0;

/// Returns the largest element.
fn max(x: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = larger(lanes[lane], chunk[lane]);
        }
    }
    lanes
        .iter()
        .chain(rest)
        .fold(f32::NEG_INFINITY, |max, &x| larger(max, x))
}

/// Multiplies each element by its sigmoid.
pub(crate) fn silu(x: &mut [f32]) {
    for x in x {
        *x /= 1.0 + exp(-*x);
    }
}

/// Computes `x * Phi(x)` with the exact error function.
pub(crate) fn gelu(x: &mut [f32]) {
    for x in x {
        *x = 0.5 * *x * (1.0 + libm::erff(*x * core::f32::consts::FRAC_1_SQRT_2));
    }
}

/// Added to a small number, it leaves the nearest integer in the lowest bits of the mantissa.
const ROUND: f32 = 12_582_912.0;
/// ln(2) in two parts; the first has few bits, so that its small multiples are exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// Computes `e^x` within 2 units in the last place, for `x` within -87..=88; beyond, of the end.
///
/// Without a branch or a call, so that a loop over it runs in vectors. The polynomial is that of
/// Cephes' `expf`.
#[inline]
pub(crate) fn exp(x: f32) -> f32 {
    let x = if x > -87.0 { x } else { -87.0 };
    let x = if x < 88.0 { x } else { 88.0 };
    let shifted = x * core::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN_2[0] - n * LN_2[1];
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let p = p * r * r + r + 1.0;
    p * f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        for step in -870_000..=880_000 {
            let x = step as f32 * 1e-4;
            let exact = libm::exp(x.into());
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error < 2.0 * f64::from(f32::EPSILON), "{x}: {error}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-1e9), exp(-87.0));
        assert!(exp(f32::NAN).is_finite());
    }

    #[test]
    fn products_are_summed_in_eight_lanes() {
        let x: [f32; 19] = core::array::from_fn(|i| 1.0 + i as f32 * 1e-3);
        let w: std::vec::Vec<f32> = (0..19 * 7).map(|i| (i as f32).sin()).collect();
        let mut out = [0.0; 7];
        matvec(&w, &x, &[], &mut out);
        for (row, found) in w.chunks(19).zip(out) {
            let mut lanes = [0.0; 8];
            for (i, (w, x)) in row.iter().zip(x).enumerate() {
                lanes[i % 8] += w * x;
            }
            let [a, b, c, d, e, f, g, h] = lanes;
            assert_eq!(found, ((a + e) + (c + g)) + ((b + f) + (d + h)));
        }
    }
}
