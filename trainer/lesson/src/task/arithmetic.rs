//! Sums of two numbers of up to four digits, the sum last digit first, the way it is worked out on
//! paper: the carry then comes from what is written already.

use gpt::rng;

use super::{Pair, Task, first, held_out};

#[derive(Debug)]
pub(super) struct Addition;

fn pair(key: u64) -> Pair {
    // every number of digits is as likely, else nine in ten numbers would have four
    let number = |i| rng::below(key, i, [10, 100, 1_000, 10_000][rng::below(key, i + 2, 4)]);
    let (a, b) = (number(0), number(1));
    Pair {
        source: format!("{a}+{b}"),
        target: (a + b).to_string().chars().rev().collect(),
    }
}

impl Task for Addition {
    fn chars(&self) -> String {
        "+0123456789".to_owned()
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
        5
    }
}
