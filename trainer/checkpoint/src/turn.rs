//! Turning the rotary pairs of queries and keys, which changes no score but what int8 loses of them.
//!
//! A query and its keys are int8 with one scale each, that of the largest element. Rotary positions
//! turn each pair of elements by an angle, so a fixed angle more, the same in query and key, changes
//! no product of them. Where one element of a pair is much larger than the other, as in pairs
//! that turn slowly, a turn that makes both equal makes the largest element smaller, by a factor of
//! up to the root of two, and with it the scale and all errors.

use std::collections::HashMap;
use std::f64::consts::FRAC_PI_2;

use runtime::{Config, Position};

use crate::file::NamedTensor;

/// Angles that are tried, from 0 to a quarter turn, which only swaps the elements.
const ANGLES: u32 = 64;

/// Returns `w_qkv` and `b_qkv` of all layers by name, turned; none without rotary positions.
///
/// A layer whose tensors are missing or of another shape is left out.
pub(crate) fn turned(
    config: &Config,
    weights: &HashMap<&str, &NamedTensor>,
) -> HashMap<String, NamedTensor> {
    let mut turned = HashMap::new();
    if config.position != Position::Rope {
        return turned;
    }
    for layer in 0..config.n_layer {
        let find = |name: &str| {
            weights
                .get(format!("layers.{layer}.{name}").as_str())
                .copied()
        };
        let Some(rows) = Rows::new(config, &find) else {
            continue;
        };
        let (mut w_qkv, mut b_qkv) = (rows.w_qkv.clone(), rows.b_qkv.cloned());
        let per_kv = config.n_head / config.n_kv_head;
        for kv_head in 0..config.n_kv_head {
            for pair in 0..config.head_dim() / 2 {
                let row = |head: u16| usize::from(head) * config.head_dim() + 2 * pair;
                let heads = kv_head * per_kv..(kv_head + 1) * per_kv;
                let queries: Vec<usize> = heads.map(row).collect();
                let key = row(config.n_head + kv_head);
                let angle = best_angle(rows.square(&queries), rows.square(&[key]));
                for row in queries.into_iter().chain([key]) {
                    turn(&mut w_qkv.data, row, rows.cols, angle);
                    if let Some(bias) = &mut b_qkv {
                        turn(&mut bias.data, row, 1, angle);
                    }
                }
            }
        }
        for tensor in [Some(w_qkv), b_qkv].into_iter().flatten() {
            turned.insert(tensor.name.clone(), tensor);
        }
    }
    turned
}

/// The rows of `w_qkv` and what they are multiplied by.
struct Rows<'a> {
    w_qkv: &'a NamedTensor,
    b_qkv: Option<&'a NamedTensor>,
    g_attn: &'a [f32],
    b_attn: Option<&'a [f32]>,
    cols: usize,
}

impl<'a> Rows<'a> {
    fn new(config: &Config, find: &impl Fn(&str) -> Option<&'a NamedTensor>) -> Option<Self> {
        let cols = usize::from(config.d_model);
        let (w_qkv, b_qkv) = (find("w_qkv")?, find("b_qkv"));
        let (g_attn, b_attn) = (find("g_attn")?, find("b_attn"));
        let fits = w_qkv.data.len() == config.qkv_dim() * cols
            && b_qkv.is_none_or(|bias| bias.data.len() == config.qkv_dim())
            && g_attn.data.len() == cols
            && b_attn.is_none_or(|bias| bias.data.len() == cols);
        fits.then_some(Self {
            w_qkv,
            b_qkv,
            g_attn: &g_attn.data,
            b_attn: b_attn.map(|bias| &*bias.data),
            cols,
        })
    }

    /// Returns the mean squares of the two elements that these rows and the next ones give, and
    /// the mean of their product, where elements before the gain are independent and of variance 1.
    fn square(&self, rows: &[usize]) -> [f64; 3] {
        let mut square = [0.0; 3];
        let mut add = |a: f64, b: f64| {
            square[0] += a * a;
            square[1] += b * b;
            square[2] += a * b;
        };
        for &row in rows {
            let mut mean = [row, row + 1].map(|row| {
                let bias = self.b_qkv.map_or(0.0, |bias| bias.data[row]);
                f64::from(bias)
            });
            for col in 0..self.cols {
                let [a, b] =
                    [row, row + 1].map(|row| f64::from(self.w_qkv.data[row * self.cols + col]));
                let gain = f64::from(self.g_attn[col]);
                add(a * gain, b * gain);
                let bias = self.b_attn.map_or(0.0, |bias| bias[col].into());
                mean = [mean[0] + a * bias, mean[1] + b * bias];
            }
            add(mean[0], mean[1]);
        }
        square
    }
}

/// Returns the angle that makes the larger one of the two elements smallest, as a part of the pair's
/// length, in query and key together.
fn best_angle(query: [f64; 3], key: [f64; 3]) -> f64 {
    let larger = |[a, b, ab]: [f64; 3], (sin, cos): (f64, f64)| {
        let turned = a * cos * cos - 2.0 * ab * sin * cos + b * sin * sin;
        turned.max(a + b - turned) / (a + b).max(f64::MIN_POSITIVE)
    };
    let mut best = (f64::INFINITY, 0.0);
    for step in 0..ANGLES {
        let angle = FRAC_PI_2 * f64::from(step) / f64::from(ANGLES);
        let turn = libm::sincos(angle);
        let cost = larger(query, turn) + larger(key, turn);
        if cost < best.0 {
            best = (cost, angle);
        }
    }
    best.1
}

/// Turns the pairs of two rows.
fn turn(matrix: &mut [f32], row: usize, cols: usize, angle: f64) {
    let (sin, cos) = libm::sincos(angle);
    let pair = &mut matrix[row * cols..][..2 * cols];
    let (first, second) = pair.split_at_mut(cols);
    for (a, b) in first.iter_mut().zip(second) {
        let (x, y) = (f64::from(*a), f64::from(*b));
        (*a, *b) = ((x * cos - y * sin) as f32, (x * sin + y * cos) as f32);
    }
}

#[cfg(test)]
mod tests {
    use runtime::{Activation, Norm};

    use super::*;
    use crate::synthetic;

    const CONFIG: Config = Config {
        n_layer: 2,
        n_head: 4,
        n_kv_head: 2,
        d_model: 16,
        d_ff: 8,
        context_len: 8,
        vocab_size: 10,
        position: Position::Rope,
        rope_base: 100,
        norm: Norm::LayerNorm,
        activation: Activation::Gelu,
        tied: true,
        embed_scale: false,
        attn_bias: true,
        ff_bias: false,
        norm_bias: true,
        head_bias: false,
    };

    fn by_name(weights: &[NamedTensor]) -> HashMap<&str, &NamedTensor> {
        let named = weights.iter().map(|tensor| (tensor.name.as_str(), tensor));
        named.collect()
    }

    /// Returns a head of `w x + b`, its pairs turned by the angles of a position.
    fn head(w: &NamedTensor, b: &NamedTensor, head: usize, x: &[f32], pos: f64) -> Vec<f64> {
        let rows = head * 4..head * 4 + 4;
        let product = |row: usize| {
            let row = (&w.data[16 * row..][..16], f64::from(b.data[row]));
            let products = row.0.iter().zip(x).map(|(&w, &x)| f64::from(w * x));
            products.sum::<f64>() + row.1
        };
        let mut head: Vec<f64> = rows.map(product).collect();
        for (pair, rate) in head.chunks_exact_mut(2).zip([1.0, 0.1]) {
            let (sin, cos) = (pos * rate).sin_cos();
            let [a, b] = [pair[0], pair[1]];
            (pair[0], pair[1]) = (a * cos - b * sin, a * sin + b * cos);
        }
        head
    }

    #[test]
    fn scores_stay_and_the_largest_element_becomes_smaller() {
        let mut checkpoint = synthetic::checkpoint(CONFIG, 1);
        // The second pair of the first query and key has one large element.
        let w_qkv = checkpoint.weights.iter_mut();
        for tensor in w_qkv.filter(|tensor| tensor.name == "layers.1.w_qkv") {
            for row in [2, 16 + 2] {
                tensor.data[16 * row..][..16]
                    .iter_mut()
                    .for_each(|w| *w *= 8.0);
            }
        }
        let weights = by_name(&checkpoint.weights);
        let turned = turned(&CONFIG, &weights);
        assert_eq!(turned.len(), 4);
        let rng = &mut runtime::SplitMix64::new(2);
        let mut random = || -> Vec<f32> {
            (0..16)
                .map(|_| rng.next_below(99) as f32 / 50.0 - 1.0)
                .collect()
        };
        let (x, y) = (random(), random());
        let mut largest = [0.0_f64; 2];
        for layer in 0..2 {
            let names = ["w_qkv", "b_qkv"].map(|name| format!("layers.{layer}.{name}"));
            let before = names.each_ref().map(|name| weights[name.as_str()]);
            let after = names.each_ref().map(|name| &turned[name]);
            for query in 0..4 {
                let score = |[w, b]: [&NamedTensor; 2]| {
                    let (q, k) = (
                        head(w, b, query, &x, 7.0),
                        head(w, b, 4 + query / 2, &y, 3.0),
                    );
                    q.iter().zip(&k).map(|(q, k)| q * k).sum::<f64>()
                };
                assert!((score(before) - score(after)).abs() < 1e-4);
            }
            for (largest, [w, _]) in largest.iter_mut().zip([before, after]) {
                let norm = |row: usize| {
                    w.data[16 * row..][..16]
                        .iter()
                        .map(|w| f64::from(w * w))
                        .sum()
                };
                *largest = [2, 3, 18, 19].into_iter().map(norm).fold(0.0, f64::max);
            }
            // values are left alone
            assert_eq!(before[0].data[16 * 24..], after[0].data[16 * 24..]);
        }
        assert!(largest[1] < 0.6 * largest[0], "{largest:?}");
        let learned = Config {
            position: Position::Learned,
            ..CONFIG
        };
        assert!(super::turned(&learned, &weights).is_empty());
    }
}
