//! The forward pass in `f64` over a whole text at once: no cache, no quantisation, no cleverness.

use std::collections::HashMap;

use checkpoint::NamedTensor;
use runtime::{Activation, Config, Norm, Position};

/// A model in `f64`.
#[derive(Debug)]
pub struct Reference {
    config: Config,
    tensors: HashMap<String, Vec<f64>>,
}

/// What the forward pass computes for each token of a text.
#[derive(Debug)]
pub struct Activations {
    /// Residual stream after the last layer: `[len][d_model]`.
    pub residual: Vec<Vec<f64>>,
    /// Logits: `[len][vocab_size]`.
    pub logits: Vec<Vec<f64>>,
}

impl Reference {
    /// Creates the reference of a checkpoint's weights.
    #[must_use]
    pub fn new(config: Config, weights: &[NamedTensor]) -> Self {
        let widen = |tensor: &NamedTensor| tensor.data.iter().map(|&x| x.into()).collect();
        let tensors = weights
            .iter()
            .map(|tensor| (tensor.name.clone(), widen(tensor)))
            .collect();
        Self { config, tensors }
    }

    /// Computes a text of at most `context_len` tokens.
    ///
    /// # Panics
    ///
    /// If a tensor is missing.
    #[must_use]
    pub fn forward(&self, tokens: &[u16]) -> Activations {
        let config = &self.config;
        let d_model = usize::from(config.d_model);
        let embed = &self.tensors["w_embed"];
        let embed_scale = if config.embed_scale {
            (d_model as f64).sqrt()
        } else {
            1.0
        };
        let mut x: Vec<Vec<f64>> = Vec::new();
        for (pos, &token) in tokens.iter().enumerate() {
            let row = &embed[usize::from(token) * d_model..][..d_model];
            let mut stream: Vec<f64> = row.iter().map(|w| w * embed_scale).collect();
            for (i, x) in stream.iter_mut().enumerate() {
                *x += match config.position {
                    Position::Rope => 0.0,
                    Position::Learned => self.tensors["w_pos"][pos * d_model + i],
                    Position::Sinusoidal => {
                        let power = (i / 2 * 2) as f64 / d_model as f64;
                        let angle = pos as f64 / 10_000.0_f64.powf(power);
                        if i % 2 == 0 { angle.sin() } else { angle.cos() }
                    }
                };
            }
            x.push(stream);
        }
        for layer in 0..config.n_layer {
            let name = |tensor: &str| format!("layers.{layer}.{tensor}");
            self.attention(&mut x, &name);
            for x in &mut x {
                let h = self.norm(x, &name("g_ffn"), &name("b_ffn"));
                let up = self.linear(&h, &name("w_up"), &name("b_up"));
                let hidden: Vec<f64> = match config.activation {
                    Activation::Relu => up.iter().map(|u| u.max(0.0)).collect(),
                    Activation::Relu2 => up.iter().map(|u| u.max(0.0).powi(2)).collect(),
                    Activation::Gelu => up
                        .iter()
                        .map(|u| 0.5 * u * (1.0 + libm::erf(u / 2.0_f64.sqrt())))
                        .collect(),
                    Activation::SwiGlu => {
                        let gate = self.linear(&h, &name("w_gate"), &name("b_gate"));
                        let silu = |g: &f64| g / (1.0 + (-g).exp());
                        up.iter().zip(&gate).map(|(u, g)| u * silu(g)).collect()
                    }
                };
                add(x, &self.linear(&hidden, &name("w_down"), &name("b_down")));
            }
        }
        let w_out = if config.tied { "w_embed" } else { "w_out" };
        let head = |x: &Vec<f64>| {
            let h = self.norm(x, "g_final", "b_final");
            self.linear(&h, w_out, "b_out")
        };
        Activations {
            logits: x.iter().map(head).collect(),
            residual: x,
        }
    }

    fn attention(&self, x: &mut [Vec<f64>], name: &dyn Fn(&str) -> String) {
        let config = &self.config;
        let d_model = usize::from(config.d_model);
        let head_dim = config.head_dim();
        let per_kv = usize::from(config.n_head / config.n_kv_head);
        let mut q = Vec::new();
        let mut k = Vec::new();
        let mut v = Vec::new();
        for (pos, x) in x.iter().enumerate() {
            let h = self.norm(x, &name("g_attn"), &name("b_attn"));
            let mut qkv = self.linear(&h, &name("w_qkv"), &name("b_qkv"));
            if config.position == Position::Rope {
                for head in qkv[..d_model + config.kv_dim()].chunks_exact_mut(head_dim) {
                    self.rotate(head, pos);
                }
            }
            v.push(qkv.split_off(d_model + config.kv_dim()));
            k.push(qkv.split_off(d_model));
            q.push(qkv);
        }
        for (t, x) in x.iter_mut().enumerate() {
            let mut out = vec![0.0; d_model];
            for (head, out) in out.chunks_exact_mut(head_dim).enumerate() {
                let q = &q[t][head * head_dim..][..head_dim];
                let kv = head / per_kv * head_dim;
                let scores: Vec<f64> = k[..=t]
                    .iter()
                    .map(|k| dot(q, &k[kv..kv + head_dim]) / (head_dim as f64).sqrt())
                    .collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|score| (score - max).exp()).sum();
                for (score, v) in scores.iter().zip(&v) {
                    for (out, v) in out.iter_mut().zip(&v[kv..kv + head_dim]) {
                        *out += (score - max).exp() / sum * v;
                    }
                }
            }
            add(x, &self.linear(&out, &name("w_o"), &name("b_o")));
        }
    }

    fn rotate(&self, head: &mut [f64], pos: usize) {
        let head_dim = head.len();
        for (i, pair) in head.chunks_exact_mut(2).enumerate() {
            let power = -((2 * i) as f64) / head_dim as f64;
            let angle = pos as f64 * f64::from(self.config.rope_base).powf(power);
            let (sin, cos) = angle.sin_cos();
            let (a, b) = (pair[0], pair[1]);
            pair[0] = a * cos - b * sin;
            pair[1] = a * sin + b * cos;
        }
    }

    fn norm(&self, x: &[f64], gain: &str, bias: &str) -> Vec<f64> {
        let n = x.len() as f64;
        let mean = match self.config.norm {
            Norm::LayerNorm => x.iter().sum::<f64>() / n,
            Norm::RmsNorm => 0.0,
        };
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let reciprocal = 1.0 / (variance + 1e-5).sqrt();
        let gains = x.iter().zip(&self.tensors[gain]);
        let mut out: Vec<f64> = gains.map(|(x, g)| (x - mean) * reciprocal * g).collect();
        if let Some(bias) = self.tensors.get(bias) {
            add(&mut out, bias);
        }
        out
    }

    fn linear(&self, x: &[f64], w: &str, b: &str) -> Vec<f64> {
        let rows = self.tensors[w].chunks_exact(x.len());
        let mut out: Vec<f64> = rows.map(|row| dot(row, x)).collect();
        if let Some(bias) = self.tensors.get(b) {
            add(&mut out, bias);
        }
        out
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(x: &mut [f64], y: &[f64]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}
