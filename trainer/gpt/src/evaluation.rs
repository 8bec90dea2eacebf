//! Loss over a text: every transition once, in fresh windows of the deployed context.

use burn::tensor::{Tensor, TensorData, activation};
use runtime::Config;

use crate::backend::TrainBackend;
use crate::model::Gpt;
use crate::params;
use crate::shards::Shards;
use crate::tables::Tables;

/// Windows in one forward pass.
const WINDOWS: usize = 16;

/// Scores texts with the weights it is given.
#[derive(Debug)]
pub struct Evaluator<B: TrainBackend> {
    config: Config,
    device: B::Device,
    skeleton: Gpt<B>,
    tables: Tables<B>,
}

impl<B: TrainBackend> Evaluator<B> {
    /// Creates an evaluator for models of one shape.
    #[must_use]
    pub fn new(config: Config, device: &B::Device) -> Self {
        let context_len = usize::from(config.context_len);
        Self {
            skeleton: Gpt::zeroed(&config, device),
            tables: Tables::new(&config, context_len, device),
            device: device.clone(),
            config,
        }
    }

    /// Returns the negative log-likelihood of `tokens[1..]` in nats, one value per transition.
    ///
    /// Windows of exactly `context_len` start at offset 0 and do not overlap; the last may be
    /// short.
    #[must_use]
    pub fn nll(&self, shards: &Shards, weights: &Tensor<B, 1>, tokens: &[u16]) -> Vec<f32> {
        let n = tokens.len().saturating_sub(1);
        let len = usize::from(self.config.context_len);
        let starts: Vec<usize> = (0..n / len).map(|window| window * len).collect();
        let mut losses = self.windows(shards, weights, tokens, &starts, len);
        if !n.is_multiple_of(len) {
            losses.extend(self.windows(shards, weights, tokens, &[n - n % len], n % len));
        }
        losses
    }

    /// Returns the losses of windows of `len` transitions that start where `starts` says, one
    /// window after the other.
    ///
    /// # Panics
    ///
    /// If a window ends behind `tokens`.
    #[must_use]
    pub fn windows(
        &self,
        shards: &Shards,
        weights: &Tensor<B, 1>,
        tokens: &[u16],
        starts: &[usize],
        len: usize,
    ) -> Vec<f32> {
        let pieces: Vec<&[usize]> = starts.chunks(WINDOWS).collect();
        let parts = shards.map(pieces.len(), |piece| {
            let starts = pieces[piece];
            let model = params::with_values(self.skeleton.clone(), weights.clone());
            let rows_from = |late: usize| {
                let rows = starts.iter().map(|start| start + late);
                let values: Vec<i32> = rows
                    .flat_map(|start| &tokens[start..start + len])
                    .map(|&token| i32::from(token))
                    .collect();
                Tensor::from_data(TensorData::new(values, [starts.len(), len]), &self.device)
            };
            let nll = model.nll(&self.config, &self.tables, rows_from(0), rows_from(1));
            host(nll.reshape([starts.len() * len]))
        });
        parts.concat()
    }

    /// Returns the logits after each of `tokens`, `[len, vocab_size]` row-major.
    #[must_use]
    pub fn logits(&self, weights: &Tensor<B, 1>, tokens: &[u16]) -> Vec<f32> {
        let values = tokens.iter().map(|&token| i32::from(token)).collect();
        let logits = self.forward(weights, values, [1, tokens.len()]);
        let size = logits.dims().iter().product::<usize>();
        host(logits.reshape([size]))
    }

    /// Returns the distributions after each token of some windows of one length, row-major.
    ///
    /// # Shapes
    ///
    /// - `tokens`: `[windows, len]`; result: `[windows, len, vocab_size]`
    #[must_use]
    pub fn probs(&self, weights: &Tensor<B, 1>, tokens: Vec<i32>, shape: [usize; 2]) -> Vec<f32> {
        let probs = activation::softmax(self.forward(weights, tokens, shape), 2);
        let size = probs.dims().iter().product::<usize>();
        host(probs.reshape([size]))
    }

    fn forward(&self, weights: &Tensor<B, 1>, tokens: Vec<i32>, shape: [usize; 2]) -> Tensor<B, 3> {
        let model = params::with_values(self.skeleton.clone(), weights.clone());
        let input = Tensor::from_data(TensorData::new(tokens, shape), &self.device);
        model.logits(&self.config, &self.tables, input)
    }
}

/// Copies a flat tensor to the host.
///
/// # Panics
///
/// If the backend's float is not `f32`; every backend of this crate has `f32`.
#[must_use]
pub fn host<B: burn::tensor::backend::Backend>(tensor: Tensor<B, 1>) -> Vec<f32> {
    tensor
        .into_data()
        .into_vec()
        .expect("backends of the trainer compute in f32")
}

/// Returns the mean of `values`, summed in `f64` in order.
#[must_use]
pub fn mean(values: &[f32]) -> f64 {
    values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len().max(1) as f64
}
