//! Targets from sources, one token at a time: greedy, or the best of a beam.

use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData, activation};
use gpt::evaluation::host;

use crate::embedding::{BOS, EOS};
use crate::pairs::Rows;
use crate::seq2seq::{Memory, Seq2Seq};

/// Exponent of the length by which a beam compares: the sum of the log-probabilities is divided by
/// `((5 + len) / 6)^0.6` ("Attention Is All You Need", 6.1, after Wu et al. 2016).
const LENGTH_PENALTY: f64 = 0.6;

/// Takes the likeliest token at each place; `sources` as a rectangle, the results without `EOS`.
///
/// A target that has not ended after `max_len` tokens is cut there.
pub fn greedy<B: Backend>(
    model: &Seq2Seq<B>,
    sources: &[Vec<i32>],
    max_len: usize,
    device: &B::Device,
) -> Vec<Vec<i32>> {
    let rows = Rows::new(sources, 1);
    let memory = model.encode(rows.tensor(0..sources.len(), device), &rows.lengths, None);
    let mut targets = vec![vec![BOS]; sources.len()];
    let mut open = vec![true; sources.len()];
    for _ in 0..=max_len {
        if !open.contains(&true) {
            break;
        }
        let log_probs = next(model, &memory, &targets, device);
        let vocab_size = log_probs.len() / targets.len();
        for ((target, open), row) in targets
            .iter_mut()
            .zip(&mut open)
            .zip(log_probs.chunks_exact(vocab_size))
        {
            let token = best(row);
            *open &= token != EOS;
            // rows stay equally long; what follows the end is dropped below
            target.push(token);
        }
    }
    targets
        .into_iter()
        .map(|target| until_end(&target[1..], max_len))
        .collect()
}

/// Follows the `width` likeliest targets of one source and returns the best, without `EOS`.
///
/// # Panics
///
/// If `width` is 0.
pub fn beam<B: Backend>(
    model: &Seq2Seq<B>,
    source: &[i32],
    width: usize,
    max_len: usize,
    device: &B::Device,
) -> Vec<i32> {
    let rows = Rows::new(&[source.to_vec()], 1);
    let one = model.encode(rows.tensor(0..1, device), &rows.lengths, None);
    let mut open: Vec<(f64, Vec<i32>)> = vec![(0.0, vec![BOS])];
    let mut ended: Vec<(f64, Vec<i32>)> = Vec::new();
    for _ in 0..=max_len {
        let targets: Vec<Vec<i32>> = open.iter().map(|(_, target)| target.clone()).collect();
        let memory = Memory {
            states: one.states.clone().repeat_dim(0, open.len()),
            mask: one.mask.repeated(open.len()),
        };
        let log_probs = next(model, &memory, &targets, device);
        let vocab_size = log_probs.len() / open.len();
        let mut grown: Vec<(f64, Vec<i32>)> = Vec::new();
        for ((sum, target), row) in open.iter().zip(log_probs.chunks_exact(vocab_size)) {
            for (token, &log_prob) in (0..).zip(row) {
                let longer = [target.as_slice(), &[token]].concat();
                grown.push((sum + f64::from(log_prob), longer));
            }
        }
        grown.sort_by(|a, b| b.0.total_cmp(&a.0));
        grown.truncate(width);
        let (done, rest): (Vec<_>, Vec<_>) = grown
            .into_iter()
            .partition(|(_, target)| target.last() == Some(&EOS));
        ended.extend(done);
        open = rest;
        if open.is_empty() || ended.len() >= width {
            break;
        }
    }
    // nothing ended within max_len: the best that there is
    let pool = if ended.is_empty() { open } else { ended };
    let score = |sum: f64, len: usize| sum / ((5 + len) as f64 / 6.0).powf(LENGTH_PENALTY);
    let (_, target) = pool
        .into_iter()
        .max_by(|a, b| score(a.0, a.1.len()).total_cmp(&score(b.0, b.1.len())))
        .expect("a beam has at least one target");
    until_end(&target[1..], max_len)
}

/// Returns the log-probabilities of the token after each target, `[targets, vocab_size]` flat.
fn next<B: Backend>(
    model: &Seq2Seq<B>,
    memory: &Memory<B>,
    targets: &[Vec<i32>],
    device: &B::Device,
) -> Vec<f32> {
    let (n, len) = (targets.len(), targets[0].len());
    let tokens = targets.concat();
    let tokens = Tensor::<B, 2, Int>::from_data(TensorData::new(tokens, [n, len]), device);
    let logits = model.decode(tokens, &vec![len; n], memory, None);
    let [_, _, vocab_size] = logits.dims();
    let last = logits.slice([0..n, len - 1..len]).reshape([n, vocab_size]);
    host(activation::log_softmax(last, 1).reshape([n * vocab_size]))
}

fn best(row: &[f32]) -> i32 {
    let mut best = 0;
    for (i, &value) in row.iter().enumerate() {
        if value > row[best] {
            best = i;
        }
    }
    best as i32
}

fn until_end(target: &[i32], max_len: usize) -> Vec<i32> {
    let end = target.iter().position(|&token| token == EOS);
    target[..end.unwrap_or(target.len()).min(max_len)].to_vec()
}
