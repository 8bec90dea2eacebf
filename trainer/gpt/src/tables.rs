//! Constants of the forward pass: angles, causal mask.

use std::sync::Arc;

use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use runtime::{Config, Position};

/// Tables for sequences of up to a fixed length.
#[derive(Clone, Debug)]
pub struct Tables<B: Backend> {
    /// Sinusoidal positions, `[len, d_model]`.
    pub sines: Option<Tensor<B, 2>>,
    /// Cosines and sines of the rotary angles, `[len, head_dim]` each, every angle twice.
    angles: Option<[Tensor<B, 2>; 2]>,
    /// The same on the host, every angle once, `[len, head_dim / 2]` each.
    pairs: Option<Arc<[Vec<f32>; 2]>>,
    /// `x . swap` turns each pair (a, b) into (-b, a), `[head_dim, head_dim]`.
    swap: Option<Tensor<B, 2>>,
    /// 0 where a query sees a key, else [`HIDDEN`], `[len, len]`.
    mask: Tensor<B, 2>,
}

/// Added to the score of a hidden key: its probability underflows to exactly 0, and, unlike an
/// infinity, it cannot turn into a NaN on the way back.
pub const HIDDEN: f32 = -1e9;

/// Returns the angle of pair `i` out of `width / 2` at `pos`.
#[must_use]
pub fn angle(pos: usize, i: usize, width: usize, base: f64) -> f64 {
    pos as f64 * base.powf(-2.0 * i as f64 / width as f64)
}

fn table<B: Backend>(
    rows: usize,
    cols: usize,
    device: &B::Device,
    f: impl Fn(usize, usize) -> f32,
) -> Tensor<B, 2> {
    let values: Vec<f32> = (0..rows * cols).map(|i| f(i / cols, i % cols)).collect();
    Tensor::from_data(TensorData::new(values, [rows, cols]), device)
}

impl<B: Backend> Tables<B> {
    /// Computes the tables for sequences of up to `len` tokens; a query sees the last
    /// `context_len` positions, itself included.
    #[must_use]
    pub fn new(config: &Config, len: usize, device: &B::Device) -> Self {
        let (d, head_dim) = (usize::from(config.d_model), config.head_dim());
        let window = usize::from(config.context_len);
        let base = f64::from(config.rope_base);
        let rope = config.position == Position::Rope;
        let pick = |col: usize, angle: f64| {
            if col.is_multiple_of(2) {
                angle.sin()
            } else {
                angle.cos()
            }
        };
        Self {
            sines: (config.position == Position::Sinusoidal).then(|| {
                table(len, d, device, |pos, col| {
                    pick(col, angle(pos, col / 2, d, 10_000.0)) as f32
                })
            }),
            angles: rope.then(|| {
                [f64::cos, f64::sin].map(|f| {
                    table(len, head_dim, device, |pos, col| {
                        f(angle(pos, col / 2, head_dim, base)) as f32
                    })
                })
            }),
            pairs: rope.then(|| {
                Arc::new([f64::cos, f64::sin].map(|f| {
                    let pairs = head_dim / 2;
                    (0..len * pairs)
                        .map(|i| f(angle(i / pairs, i % pairs, head_dim, base)) as f32)
                        .collect()
                }))
            }),
            swap: rope.then(|| {
                table(head_dim, head_dim, device, |row, col| {
                    match (row ^ col == 1, row % 2) {
                        (true, 1) => -1.0,
                        (true, _) => 1.0,
                        _ => 0.0,
                    }
                })
            }),
            mask: table(len, len, device, |query, key| {
                if key <= query && query < key + window {
                    0.0
                } else {
                    HIDDEN
                }
            }),
        }
    }

    /// Returns cosines, sines and the pair swap, broadcastable to `[batch, heads, len, head_dim]`.
    ///
    /// # Panics
    ///
    /// If the positions are not rotary.
    #[must_use]
    pub fn rope(&self, len: usize) -> (Tensor<B, 4>, Tensor<B, 4>, Tensor<B, 4>) {
        let [cos, sin] = self.angles.clone().expect("rotary positions");
        let swap = self.swap.clone().expect("rotary positions");
        (
            cos.slice(0..len).unsqueeze(),
            sin.slice(0..len).unsqueeze(),
            swap.unsqueeze(),
        )
    }

    /// Returns cosines and sines on the host, every angle once, `[len, head_dim / 2]` each.
    ///
    /// # Panics
    ///
    /// If the positions are not rotary.
    #[must_use]
    pub fn pairs(&self) -> Arc<[Vec<f32>; 2]> {
        self.pairs.clone().expect("rotary positions")
    }

    /// Returns the mask, broadcastable to `[batch, heads, len, len]`.
    #[must_use]
    pub fn mask(&self, len: usize) -> Tensor<B, 4> {
        self.mask.clone().slice([0..len, 0..len]).unsqueeze()
    }
}
