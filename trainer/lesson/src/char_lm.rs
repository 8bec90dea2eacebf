//! Language models over the characters of a text, trained and scored as the GPT is: the same split,
//! windows, order and protocol.

use anyhow::Result;
use block::Dropout;
use burn::module::Module;
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData, activation};
use gpt::backend::TrainBackend;
use gpt::batch::{Batch, Batches};
use gpt::evaluation::{host, mean};
use gpt::rng;
use gpt::settings::Settings;
use gpt::shards::Shards;
use gpt::training::Text;

use crate::learner::Problem;
use crate::seq2seq::losses;

/// Windows that are scored at once.
const WINDOWS: usize = 64;
/// Characters of a sample.
const SAMPLE_LEN: usize = 200;
/// Temperatures of the samples at the end.
const TEMPERATURES: [f32; 3] = [0.5, 0.8, 1.2];

/// A shape that makes a network over any backend.
pub trait Family: Clone + Send + Sync + std::fmt::Debug + 'static {
    /// The network.
    type Net<B: Backend>: Module<B> + Sync;

    /// Returns a network of any values.
    fn net<B: Backend>(&self, device: &B::Device) -> Self::Net<B>;

    /// Returns the logits after each character: `[batch, len]` to `[batch, len, vocab_size]`.
    fn logits<B: Backend>(
        &self,
        net: &Self::Net<B>,
        tokens: Tensor<B, 2, Int>,
        dropout: Option<Dropout>,
    ) -> Tensor<B, 3>;

    /// Returns the first value of an element that does not follow the common rule.
    fn initial(&self, _name: &str, _index: usize) -> Option<f32> {
        None
    }
}

/// A family on a text.
#[derive(Clone, Debug)]
pub struct CharLm<F: Family> {
    /// The family.
    pub family: F,
    text: Text,
    batches: Batches,
    len: usize,
    seed: u64,
}

impl<F: Family> CharLm<F> {
    /// Creates the problem.
    ///
    /// # Errors
    ///
    /// A text that is too short.
    pub fn new(family: F, text: Text, settings: &Settings) -> Result<Self> {
        let train = text.train.clone();
        Ok(Self {
            batches: Batches::new(train, settings.train_len, settings.batch, settings.seed)?,
            len: settings.train_len,
            seed: settings.seed,
            family,
            text,
        })
    }

    /// Returns the losses of `tokens[1..]` in fresh windows, each transition once.
    fn nll<B: TrainBackend>(
        &self,
        net: &F::Net<B>,
        shards: &Shards,
        tokens: &[u16],
        device: &B::Device,
    ) -> Vec<f32> {
        let n = tokens.len().saturating_sub(1);
        let whole = n / self.len;
        let mut pieces: Vec<(usize, usize, usize)> = (0..whole)
            .step_by(WINDOWS)
            .map(|window| (window * self.len, WINDOWS.min(whole - window), self.len))
            .collect();
        if !n.is_multiple_of(self.len) {
            pieces.push((whole * self.len, 1, n % self.len));
        }
        // a module is cloned per lane, as its parameters are not shared between threads
        let parts = shards.map(pieces.len(), |piece| {
            let (start, rows, len) = pieces[piece];
            let of = |start: usize| tensor::<B>(&tokens[start..start + rows * len], rows, device);
            let logits = self.family.logits(net, of(start), None);
            host(losses(logits, of(start + 1)).reshape([rows * len]))
        });
        parts.concat()
    }

    /// Returns the mean loss on dev.
    pub fn dev<B: TrainBackend>(
        &self,
        net: &F::Net<B>,
        shards: &Shards,
        device: &B::Device,
    ) -> f64 {
        mean(&self.nll(net, shards, &self.text.dev, device))
    }

    /// Returns the mean loss on val.
    pub fn val<B: TrainBackend>(
        &self,
        net: &F::Net<B>,
        shards: &Shards,
        device: &B::Device,
    ) -> f64 {
        mean(&self.nll(net, shards, &self.text.val, device))
    }

    /// Returns the mean loss on dev of the last character of every second window, with nothing
    /// behind it in sight: what a model is asked for when it writes.
    pub fn written<B: TrainBackend>(
        &self,
        net: &F::Net<B>,
        shards: &Shards,
        device: &B::Device,
    ) -> f64 {
        let dev = &self.text.dev;
        let starts: Vec<usize> = (0..dev.len() - self.len - 1)
            .step_by(2 * self.len)
            .collect();
        let pieces: Vec<&[usize]> = starts.chunks(WINDOWS).collect();
        let parts = shards.map(pieces.len(), |piece| {
            let rows = pieces[piece];
            let cut = |late: usize| -> Vec<u16> {
                let windows = rows
                    .iter()
                    .flat_map(|start| &dev[start + late..start + late + self.len]);
                windows.copied().collect()
            };
            let (inputs, targets) = (cut(0), cut(1));
            let logits = self
                .family
                .logits(net, tensor::<B>(&inputs, rows.len(), device), None);
            let all = losses(logits, tensor(&targets, rows.len(), device));
            host(
                all.slice([0..rows.len(), self.len - 1..self.len])
                    .reshape([rows.len()]),
            )
        });
        mean(&parts.concat())
    }

    /// Continues a line end by `len` characters.
    pub fn sample<B: TrainBackend>(
        &self,
        net: &F::Net<B>,
        temperature: f32,
        len: usize,
        device: &B::Device,
    ) -> String {
        let mut tokens = vec![self.text.vocab.token('\n').unwrap_or(0)];
        let key = rng::mix(self.seed);
        for i in 0..len {
            let window = &tokens[tokens.len().saturating_sub(self.len)..];
            let n = window.len();
            let logits = self
                .family
                .logits(net, tensor::<B>(window, 1, device), None);
            let size = self.text.vocab.len();
            let last = logits.slice([0..1, n - 1..n]).reshape([size]);
            let probs = host(activation::softmax(last / temperature, 0));
            tokens.push(drawn(&probs, rng::draw(key, i as u64)));
        }
        self.text.vocab.decode(&tokens[1..])
    }
}

/// Returns the token at which the running sum of the probabilities passes the draw.
fn drawn(probs: &[f32], bits: u64) -> u16 {
    let mut left = (bits >> 11) as f64 / (1_u64 << 53) as f64;
    for (token, &prob) in (0..).zip(probs) {
        left -= f64::from(prob);
        if left < 0.0 {
            return token;
        }
    }
    // rounding left the sum below the draw
    (probs.len() - 1) as u16
}

fn tensor<B: Backend>(tokens: &[u16], rows: usize, device: &B::Device) -> Tensor<B, 2, Int> {
    let values: Vec<i32> = tokens.iter().map(|&token| i32::from(token)).collect();
    Tensor::from_data(TensorData::new(values, [rows, tokens.len() / rows]), device)
}

impl<B: TrainBackend, F: Family> Problem<B> for CharLm<F> {
    type Model = F::Net<B::Train>;
    type Plain = F::Net<B>;
    type Batch = Batch;

    fn model(&self, device: &B::Device) -> Self::Model {
        self.family.net(device)
    }

    fn plain(&self, device: &B::Device) -> Self::Plain {
        self.family.net(device)
    }

    fn initial(&self, name: &str, index: usize) -> Option<f32> {
        self.family.initial(name, index)
    }

    fn batch(&mut self, step: u64) -> Batch {
        self.batches.get(step)
    }

    fn loss(
        &self,
        model: &Self::Model,
        batch: &Batch,
        rows: core::ops::Range<usize>,
        dropout: Option<Dropout>,
        device: &B::Device,
    ) -> Tensor<B::Train, 1> {
        let part = rows.start * self.len..rows.end * self.len;
        let of = |all: &[i32]| {
            let values = all[part.clone()].to_vec();
            Tensor::from_data(TensorData::new(values, [rows.len(), self.len]), device)
        };
        let logits = self.family.logits(model, of(&batch.tokens), dropout);
        losses(logits, of(&batch.targets)).sum() / batch.tokens.len() as f32
    }

    fn evaluate(&self, model: &Self::Plain, shards: &Shards, device: &B::Device) -> (f64, String) {
        let sample = shards.serial(|| self.sample::<B>(model, 0.8, SAMPLE_LEN, device));
        (self.dev::<B>(model, shards, device), sample)
    }

    fn conclude(&self, model: &Self::Plain, shards: &Shards, device: &B::Device) -> String {
        let mut text = String::new();
        for temperature in TEMPERATURES {
            let sample =
                shards.serial(|| self.sample::<B>(model, temperature, 2 * SAMPLE_LEN, device));
            text += &format!(
                "temperature {temperature}:\n{}\n\n",
                gpt::run::indented(&sample)
            );
        }
        text + &format!(
            "val {:.4} nats per character: {} transitions once, fresh windows of {}",
            self.val::<B>(model, shards, device),
            self.text.val.len() - 1,
            self.len
        )
    }
}
