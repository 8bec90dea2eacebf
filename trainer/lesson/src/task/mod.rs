//! What the encoder-decoder learns: pairs of a source and a target string.

mod arithmetic;
mod restoration;
mod reversal;

use anyhow::Result;
use checkpoint::Corpus;
use gpt::rng;
use serde::{Deserialize, Serialize};

pub use restoration::stripped;

/// Name of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskName {
    /// Strings of letters, backwards.
    Reverse,
    /// Sums of two numbers of up to four digits, last digit first.
    Add,
    /// Case and punctuation of lines of the corpus.
    Restore,
}

/// A source and what is to be made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Source.
    pub source: String,
    /// Target.
    pub target: String,
}

/// Where pairs come from; training and held-out pairs have no source in common.
pub trait Task: Send + Sync + std::fmt::Debug {
    /// Returns the characters of sources and targets, each once.
    fn chars(&self) -> String;

    /// Returns pair `i` of the training stream.
    fn train(&self, key: u64, i: u64) -> Pair;

    /// Returns the pairs that are chosen on.
    fn dev(&self) -> Vec<Pair>;

    /// Returns the pairs that are reported.
    fn val(&self) -> Vec<Pair>;

    /// Returns the longest target.
    fn max_len(&self) -> usize;
}

/// Creates a task; `corpus` is read only by the one on real text.
///
/// # Errors
///
/// A corpus without usable lines.
pub fn create(
    name: TaskName,
    corpus: impl FnOnce() -> Result<Corpus>,
) -> Result<(Box<dyn Task>, Option<Corpus>)> {
    Ok(match name {
        TaskName::Reverse => (Box::new(reversal::Reversal), None),
        TaskName::Add => (Box::new(arithmetic::Addition), None),
        TaskName::Restore => {
            let corpus = corpus()?;
            (
                Box::new(restoration::Restoration::new(&corpus)?),
                Some(corpus),
            )
        }
    })
}

/// Pairs of dev and of val, each.
const HELD_OUT: usize = 1_000;

/// One source in this many belongs to dev, and one to val.
const PARTS: u64 = 20;

/// Part of a source: 0 is dev, 1 is val, the rest is trained on.
fn part(source: &str) -> u64 {
    let hash = source
        .bytes()
        .fold(0, |hash, byte| rng::mix(hash ^ u64::from(byte)));
    hash % PARTS
}

/// Returns the first pair that `draw` makes of a stream of keys and that `wanted` accepts.
fn first(key: u64, draw: impl Fn(u64) -> Pair, wanted: impl Fn(u64) -> bool) -> Pair {
    // nine in ten sources are wanted for training, one in twenty for dev and for val
    let mut candidates = (0..).map(|i| draw(rng::draw(key, i)));
    candidates
        .find(|pair| wanted(part(&pair.source)))
        .expect("the stream has no end")
}

/// Returns distinct pairs of one of the held-out parts.
fn held_out(wanted: u64, draw: impl Fn(u64) -> Pair) -> Vec<Pair> {
    let mut seen = std::collections::HashSet::new();
    let mut pairs = Vec::new();
    for i in 0.. {
        let pair = first(rng::mix(wanted ^ i << 8), &draw, |part| part == wanted);
        if seen.insert(pair.source.clone()) {
            pairs.push(pair);
        }
        if pairs.len() == HELD_OUT {
            break;
        }
    }
    pairs
}
