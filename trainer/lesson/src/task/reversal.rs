//! Strings of 4 to 16 letters, backwards.

use gpt::rng;

use super::{Pair, Task, first, held_out};

const SHORTEST: usize = 4;
const LONGEST: usize = 16;

#[derive(Debug)]
pub(super) struct Reversal;

fn pair(key: u64) -> Pair {
    let len = SHORTEST + rng::below(key, 0, LONGEST - SHORTEST + 1);
    let letter = |i| char::from(b'a' + rng::below(key, i, 26) as u8);
    let source: String = (1..=len as u64).map(letter).collect();
    Pair {
        target: source.chars().rev().collect(),
        source,
    }
}

impl Task for Reversal {
    fn chars(&self) -> String {
        ('a'..='z').collect()
    }

    fn train(&self, key: u64, i: u64) -> Pair {
        first(rng::draw(key, i), pair, |part| part > 1)
    }

    fn dev(&self) -> Vec<Pair> {
        held_out(0, pair)
    }

    fn val(&self) -> Vec<Pair> {
        held_out(1, pair)
    }

    fn max_len(&self) -> usize {
        LONGEST
    }
}
