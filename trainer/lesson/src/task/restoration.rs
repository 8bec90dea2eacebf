//! Lines of a text, lower-cased and stripped of punctuation, back to what they were.

use anyhow::{Result, ensure};
use checkpoint::{Corpus, Split};
use gpt::rng;

use super::{HELD_OUT, Pair, Task};

/// Longest line in characters; longer ones are left out.
const LONGEST: usize = 56;
/// Shortest line in characters.
const SHORTEST: usize = 8;

#[derive(Debug)]
pub(super) struct Restoration {
    chars: String,
    train: Vec<Pair>,
    dev: Vec<Pair>,
    val: Vec<Pair>,
}

/// Lower-cases a line and drops everything but letters, digits and single spaces.
#[must_use]
pub fn stripped(line: &str) -> String {
    let words = line.split(|char: char| char.is_whitespace() || char == '-');
    let bare = words.map(|word| {
        let kept = word.chars().filter(|char| char.is_alphanumeric());
        kept.flat_map(char::to_lowercase).collect::<String>()
    });
    let bare: Vec<String> = bare.filter(|word| !word.is_empty()).collect();
    bare.join(" ")
}

impl Restoration {
    pub(super) fn new(corpus: &Corpus) -> Result<Self> {
        let chars: Vec<char> = corpus.text.chars().collect();
        let split = Split::of(chars.len());
        let pairs = |range: std::ops::Range<usize>| -> Vec<Pair> {
            let text: String = chars[range].iter().collect();
            // a part may start and end inside a line: its first and last are left out
            let mut lines: Vec<&str> = text.lines().skip(1).collect();
            lines.pop();
            let fits = |line: &&str| (SHORTEST..=LONGEST).contains(&line.chars().count());
            let pair = |line: &str| Pair {
                source: stripped(line),
                target: line.to_owned(),
            };
            let pairs = lines.into_iter().filter(fits).map(pair);
            pairs.filter(|pair| !pair.source.is_empty()).collect()
        };
        let train = pairs(split.train);
        let known: std::collections::HashSet<&str> =
            train.iter().map(|pair| pair.source.as_str()).collect();
        let held_out = |range| -> Vec<Pair> {
            let new = |pair: &Pair| !known.contains(pair.source.as_str());
            pairs(range)
                .into_iter()
                .filter(new)
                .take(HELD_OUT)
                .collect()
        };
        let (dev, val) = (held_out(split.dev), held_out(split.val));
        ensure!(
            !train.is_empty() && !dev.is_empty() && !val.is_empty(),
            "the text has too few lines of {SHORTEST} to {LONGEST} characters; use a longer one"
        );
        // a lower-cased letter need not occur in the text itself
        let mut distinct: std::collections::BTreeSet<char> = chars.iter().copied().collect();
        distinct.extend(chars.iter().copied().flat_map(char::to_lowercase));
        Ok(Self {
            chars: distinct.into_iter().collect(),
            train,
            dev,
            val,
        })
    }
}

impl Task for Restoration {
    fn chars(&self) -> String {
        self.chars.clone()
    }

    fn train(&self, key: u64, i: u64) -> Pair {
        self.train[rng::below(key, i, self.train.len())].clone()
    }

    fn dev(&self) -> Vec<Pair> {
        self.dev.clone()
    }

    fn val(&self) -> Vec<Pair> {
        self.val.clone()
    }

    fn max_len(&self) -> usize {
        LONGEST
    }
}
