//! A block in f64, written for reading: loops over tokens, no buffers, no shortcuts.

use block::{Batch, Dropout, Grads, Params, Rope, Saved, Shape, Site};
use block::{attention_index, residual_index};
use runtime::{Activation, Norm};

/// Names of a block's tensors, in the order of [`Tensors`].
pub(crate) const NAMES: [&str; 14] = [
    "g_attn", "b_attn", "w_qkv", "b_qkv", "w_o", "b_o", "g_ffn", "b_ffn", "w_gate", "b_gate",
    "w_up", "b_up", "w_down", "b_down",
];

/// Tensors of a block by name; an empty one is absent.
#[derive(Clone)]
pub(crate) struct Tensors(pub(crate) [Vec<f64>; 14]);

impl Tensors {
    pub(crate) fn get(&self, name: &str) -> &[f64] {
        let index = NAMES.iter().position(|n| *n == name);
        &self.0[index.expect("a tensor's name")]
    }

    fn to_f32(&self) -> [Vec<f32>; 14] {
        core::array::from_fn(|i| self.0[i].iter().map(|&v| v as f32).collect())
    }
}

/// Which biases a block has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Biases {
    pub(crate) norm: bool,
    pub(crate) attn: bool,
    pub(crate) ff: bool,
}

/// One configuration to check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) shape: Shape,
    pub(crate) biases: Biases,
    pub(crate) batch: usize,
    pub(crate) len: usize,
    pub(crate) window: usize,
    pub(crate) rope: bool,
    pub(crate) dropout: Option<Dropout>,
}

/// A generator of numbers in -1..1.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    }

    /// Numbers that f32 holds exactly.
    pub(crate) fn vector(&mut self, n: usize, scale: f64) -> Vec<f64> {
        (0..n)
            .map(|_| f64::from((self.next() * scale) as f32))
            .collect()
    }
}

impl Case {
    pub(crate) fn sizes(&self) -> [usize; 14] {
        let s = &self.shape;
        let (d, qkv, attention) = (s.d_model, s.qkv_dim(), s.attention_dim());
        let Biases { norm, attn, ff } = self.biases;
        let gated = s.activation == Activation::SwiGlu;
        let only = |there: bool, n: usize| if there { n } else { 0 };
        [
            d,
            only(norm, d),
            qkv * d,
            only(attn, qkv),
            d * attention,
            only(attn, d),
            d,
            only(norm, d),
            only(gated, s.d_ff * d),
            only(gated && ff, s.d_ff),
            s.d_ff * d,
            only(ff, s.d_ff),
            d * s.d_ff,
            only(ff, d),
        ]
    }

    pub(crate) fn tensors(&self, random: &mut Random) -> Tensors {
        let sizes = self.sizes();
        let scale = 1.5 / (self.shape.d_model as f64).sqrt();
        let mut tensors = Tensors(core::array::from_fn(|i| random.vector(sizes[i], scale)));
        for i in [0, 6] {
            tensors.0[i]
                .iter_mut()
                .for_each(|g| *g = f64::from((1.0 + 0.5 * *g) as f32));
        }
        tensors
    }

    /// Cosines and sines, `[len, head_dim / 2]`.
    pub(crate) fn tables(&self) -> (Vec<f32>, Vec<f32>) {
        let pairs = self.shape.head_dim / 2;
        let angle = |i: usize| (i / pairs) as f32 * 0.3f32.powi((i % pairs) as i32);
        let n = self.len * pairs;
        (
            (0..n).map(|i| angle(i).cos()).collect(),
            (0..n).map(|i| angle(i).sin()).collect(),
        )
    }

    pub(crate) fn batch<'a>(&self, tables: &'a (Vec<f32>, Vec<f32>)) -> Batch<'a> {
        Batch {
            batch: self.batch,
            len: self.len,
            window: self.window,
            rope: self.rope.then_some(Rope {
                cos: &tables.0,
                sin: &tables.1,
            }),
            dropout: self.dropout,
        }
    }
}

fn optional(v: &[f32]) -> Option<&[f32]> {
    (!v.is_empty()).then_some(v)
}

fn optional_mut(v: &mut [f32]) -> Option<&mut [f32]> {
    (!v.is_empty()).then_some(v)
}

/// Runs the crate forward and backward: output, gradient of the input, gradients of the parameters.
pub(crate) fn run(
    case: &Case,
    tensors: &Tensors,
    x: &[f64],
    dx_out: &[f64],
    saved: &mut Saved,
) -> (Vec<f32>, Vec<f32>, [Vec<f32>; 14]) {
    let t = tensors.to_f32();
    let params = Params {
        g_attn: &t[0],
        b_attn: optional(&t[1]),
        w_qkv: &t[2],
        b_qkv: optional(&t[3]),
        w_o: &t[4],
        b_o: optional(&t[5]),
        g_ffn: &t[6],
        b_ffn: optional(&t[7]),
        w_gate: optional(&t[8]),
        b_gate: optional(&t[9]),
        w_up: &t[10],
        b_up: optional(&t[11]),
        w_down: &t[12],
        b_down: optional(&t[13]),
    };
    let tables = case.tables();
    let batch = case.batch(&tables);
    let x: Vec<f32> = x.iter().map(|&v| v as f32).collect();
    let dx_out: Vec<f32> = dx_out.iter().map(|&v| v as f32).collect();
    let mut y = vec![f32::NAN; x.len()];
    let mut dx = vec![f32::NAN; x.len()];
    let mut grads: [Vec<f32>; 14] = core::array::from_fn(|i| vec![0.0; t[i].len()]);
    block::forward(&case.shape, &batch, &params, &x, &mut y, saved);
    let [
        g_attn,
        b_attn,
        w_qkv,
        b_qkv,
        w_o,
        b_o,
        g_ffn,
        b_ffn,
        w_gate,
        b_gate,
        w_up,
        b_up,
        w_down,
        b_down,
    ] = &mut grads;
    let mut places = Grads {
        g_attn,
        b_attn: optional_mut(b_attn),
        w_qkv,
        b_qkv: optional_mut(b_qkv),
        w_o,
        b_o: optional_mut(b_o),
        g_ffn,
        b_ffn: optional_mut(b_ffn),
        w_gate: optional_mut(w_gate),
        b_gate: optional_mut(b_gate),
        w_up,
        b_up: optional_mut(b_up),
        w_down,
        b_down: optional_mut(b_down),
    };
    block::backward(
        &case.shape,
        &batch,
        &params,
        saved,
        &dx_out,
        &mut dx,
        &mut places,
    );
    (y, dx, grads)
}

/// `gain * normalised + bias` of one token.
pub(crate) fn norm(kind: Norm, x: &[f64], gain: &[f64], bias: &[f64]) -> Vec<f64> {
    let n = x.len() as f64;
    let mean = if kind == Norm::LayerNorm {
        x.iter().sum::<f64>() / n
    } else {
        0.0
    };
    let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    let inverse = 1.0 / (variance + f64::from(block::NORM_EPS)).sqrt();
    let value = |i: usize| (x[i] - mean) * inverse * gain[i] + bias.get(i).unwrap_or(&0.0);
    (0..x.len()).map(value).collect()
}

/// `w x + bias` of one token, `w` as `[out, in]`.
pub(crate) fn linear(w: &[f64], x: &[f64], bias: &[f64]) -> Vec<f64> {
    let rows = w.chunks_exact(x.len());
    let dot = |row: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
    rows.enumerate()
        .map(|(i, row)| dot(row) + bias.get(i).unwrap_or(&0.0))
        .collect()
}

/// The standard normal distribution function by Simpson's rule from 0.
fn phi(x: f64) -> f64 {
    let n = 100;
    let h = x / f64::from(n);
    let density = |t: f64| (-t * t / 2.0).exp() / core::f64::consts::TAU.sqrt();
    let weight = |i: i32| {
        if i == 0 || i == n {
            1.0
        } else {
            f64::from(2 + 2 * (i % 2))
        }
    };
    0.5 + h / 3.0
        * (0..=n)
            .map(|i| weight(i) * density(f64::from(i) * h))
            .sum::<f64>()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The forward pass.
pub(crate) fn forward(case: &Case, t: &Tensors, x_in: &[f64]) -> Vec<f64> {
    let s = &case.shape;
    let (d, hd, len) = (s.d_model, s.head_dim, case.len);
    let tables = case.tables();
    let mask = |site| case.dropout.map(|dropout| dropout.mask(site));
    let mut out = Vec::new();
    for (sequence, x_in) in x_in.chunks_exact(len * d).enumerate() {
        let place = case.dropout.map_or(0, |dropout| dropout.first_sequence) + sequence as u32;
        let residual = |site, pos: usize, i: usize| {
            let index = residual_index(place, pos as u32, i as u32, len as u32, d as u32);
            mask(site).map_or(1.0, |mask| f64::from(mask.factor(index)))
        };
        let mut x: Vec<Vec<f64>> = x_in.chunks_exact(d).map(<[f64]>::to_vec).collect();
        let mut qkv: Vec<Vec<f64>> = x
            .iter()
            .map(|x| {
                linear(
                    t.get("w_qkv"),
                    &norm(s.norm, x, t.get("g_attn"), t.get("b_attn")),
                    t.get("b_qkv"),
                )
            })
            .collect();
        if case.rope {
            for (pos, qkv) in qkv.iter_mut().enumerate() {
                for (i, pair) in qkv[..(s.n_head + s.n_kv_head) * hd]
                    .chunks_exact_mut(2)
                    .enumerate()
                {
                    let entry = pos * (hd / 2) + i % (hd / 2);
                    let (cos, sin) = (f64::from(tables.0[entry]), f64::from(tables.1[entry]));
                    let (a, b) = (pair[0], pair[1]);
                    (pair[0], pair[1]) = (a * cos - b * sin, a * sin + b * cos);
                }
            }
        }
        for pos in 0..len {
            let mut heads = vec![0.0; s.attention_dim()];
            for head in 0..s.n_head {
                let kv = head / (s.n_head / s.n_kv_head);
                let q = &qkv[pos][head * hd..(head + 1) * hd];
                let first = (pos + 1).saturating_sub(case.window);
                let scores: Vec<f64> = (first..=pos)
                    .map(|key| {
                        let k = &qkv[key][(s.n_head + kv) * hd..(s.n_head + kv + 1) * hd];
                        q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>() / (hd as f64).sqrt()
                    })
                    .collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
                for (key, score) in (first..=pos).zip(&scores) {
                    let (n_head, len) = (s.n_head as u32, len as u32);
                    let index =
                        attention_index(place, head as u32, pos as u32, key as u32, n_head, len);
                    let factor =
                        mask(Site::Attention).map_or(1.0, |mask| f64::from(mask.factor(index)));
                    let prob = (score - max).exp() / sum * factor;
                    let v = &qkv[key][(s.n_head + s.n_kv_head + kv) * hd..];
                    for i in 0..hd {
                        heads[head * hd + i] += prob * v[i];
                    }
                }
            }
            let y = linear(t.get("w_o"), &heads, t.get("b_o"));
            for i in 0..d {
                x[pos][i] += y[i] * residual(Site::AttentionOutput, pos, i);
            }
        }
        for (pos, x) in x.iter_mut().enumerate() {
            let h = norm(s.norm, x, t.get("g_ffn"), t.get("b_ffn"));
            let up = linear(t.get("w_up"), &h, t.get("b_up"));
            let act: Vec<f64> = match s.activation {
                Activation::Gelu => up.iter().map(|&u| u * phi(u)).collect(),
                Activation::Relu => up.iter().map(|u| u.max(0.0)).collect(),
                Activation::Relu2 => up.iter().map(|u| u.max(0.0).powi(2)).collect(),
                Activation::SwiGlu => {
                    let gate = linear(t.get("w_gate"), &h, t.get("b_gate"));
                    gate.iter()
                        .zip(&up)
                        .map(|(g, u)| g * sigmoid(*g) * u)
                        .collect()
                }
            };
            let y = linear(t.get("w_down"), &act, t.get("b_down"));
            for i in 0..d {
                x[i] += y[i] * residual(Site::FeedForwardOutput, pos, i);
            }
        }
        out.extend(x.into_iter().flatten());
    }
    out
}

/// `sum of forward(x) * dx_out`, whose gradients the backward pass computes.
pub(crate) fn objective(case: &Case, t: &Tensors, x: &[f64], dx_out: &[f64]) -> f64 {
    forward(case, t, x)
        .iter()
        .zip(dx_out)
        .map(|(y, d)| y * d)
        .sum()
}
