//! Every pass over a vector against its definition, on awkward lengths and extreme values.

use runtime::SplitMix64;
use runtime::fixed::{Scale, magnitude};
use runtime::kernel::passes::{self, Finish, Octaves, Rescale, plain};
use runtime::kernel::{Element, NATIVE, Wide};

const MAX_LEN: usize = 68;
const LENGTHS: [usize; 9] = [1, 3, 4, 5, 12, 47, 48, 65, 68];

/// Numbers of a round: words within some bits and a sign, halves, and both once more to compare.
struct Vectors {
    words: [i32; MAX_LEN],
    more: [i32; MAX_LEN],
    /// One more, so that they may start between two words.
    halves: [u16; MAX_LEN + 1],
    others: [u16; MAX_LEN + 1],
}

/// Returns whether all passes agree with their definitions.
pub fn agree(rng: &mut SplitMix64) -> bool {
    let mut agree = true;
    for len in LENGTHS {
        for round in 0..24 {
            let vectors = Vectors::new(rng, round);
            // Halves that start at a word, and some that do not.
            let shift = usize::from(round % 4 == 3);
            agree &= vectors.sums_agree(len, shift, rng)
                && vectors.quantize_agrees(len, round)
                && vectors.heads_agree(len, shift, rng)
                && vectors.scale_agrees(len, rng)
                && vectors.norm_agrees(len, shift)
                && vectors.attention_agrees(len, shift, rng);
        }
    }
    agree
}

impl Vectors {
    /// The bits of the words fall from 31 on with the rounds; some rounds have only the extremes.
    fn new(rng: &mut SplitMix64, round: u32) -> Self {
        let mut word = || {
            let bits = rng.next_u64();
            let word = if round.is_multiple_of(5) {
                i32::MAX ^ (bits as i32 >> 31)
            } else {
                bits as i32
            };
            word >> round
        };
        let (mut words, mut more) = ([0; MAX_LEN], [0; MAX_LEN]);
        words.fill_with(&mut word);
        more.fill_with(&mut word);
        let mut half = || match round % 6 {
            0 => 0xFFFF,
            1 => 0,
            _ => (rng.next_u64() as u16) >> (round / 8),
        };
        let (mut halves, mut others) = ([0; MAX_LEN + 1], [0; MAX_LEN + 1]);
        halves.fill_with(&mut half);
        others.fill_with(&mut half);
        Self {
            words,
            more,
            halves,
            others,
        }
    }

    fn sums_agree(&self, len: usize, shift: usize, rng: &mut SplitMix64) -> bool {
        let multiplier = &self.halves[shift..shift + len];
        // Sums have 15 bits and a sign once they are cut.
        let sums = self.words.map(|word| word >> 8);
        let bits = sums.iter().fold(0, |bits, &sum| bits | (sum ^ (sum >> 31)));
        let cut = 17_u32.saturating_sub(bits.leading_zeros());
        let by = Rescale {
            cut,
            half: (1 << cut) >> 1,
            factor: 0x8000 | rng.next_below(0x8000),
            right: rng.next_below(20),
        };
        let both = |pass: &dyn Fn(&mut [i32]) -> u32, plain: &dyn Fn(&mut [i32]) -> u32| {
            let (mut found, mut expected) = (sums, sums);
            let max = pass(&mut found[..len]);
            max == plain(&mut expected[..len]) && found == expected
        };
        let add = |f: fn(&mut [i32], &[u16], Rescale, &mut [i32]), sums: &mut [i32]| {
            let mut x = self.more;
            f(sums, multiplier, by, &mut x[..len]);
            sums.copy_from_slice(&x[..len]);
            0
        };
        [Finish::Linear, Finish::Relu, Finish::Gelu]
            .into_iter()
            .all(|finish| {
                both(
                    &|sums| passes::rescale(sums, multiplier, by, finish),
                    &|sums| plain::rescale(sums, multiplier, by, finish),
                )
            })
            && both(&|sums| add(passes::rescale_add, sums), &|sums| {
                add(plain::rescale_add, sums)
            })
    }

    fn quantize_agrees(&self, len: usize, round: u32) -> bool {
        let x = &self.words[..len];
        let max = x.iter().fold(0, |max, &x| max.max(magnitude(x)));
        let mut agree = true;
        // The first makes the largest 7 bits, the last zeros of all but the largest.
        for (mantissa, exponent) in [
            (1 << 16, 0),
            (40_000, -24),
            (33_000, -14),
            (0, 0),
            (65_535, -38),
        ] {
            // Room for a start that is no word's.
            let (mut found, mut expected) = ([0 as Element; MAX_LEN + 1], [0; MAX_LEN + 1]);
            let places = usize::from(round % 3 == 2)..;
            let (found_q, expected_q) = (&mut found[places.clone()], &mut expected[places]);
            agree &= passes::quantize(x, max, mantissa, exponent, &mut found_q[..len])
                == plain::quantize(x, max, mantissa, exponent, &mut expected_q[..len])
                && found == expected;
        }
        agree
    }

    /// All of a vector as one head, and as heads of four.
    fn heads_agree(&self, len: usize, shift: usize, rng: &mut SplitMix64) -> bool {
        let multiplier = &self.halves[shift..shift + len];
        let mantissa = 0x8000 | rng.next_below(0x8000);
        [len, 4].into_iter().all(|head_dim| {
            let (mut found, mut expected) = (self.words.map(|word| word >> 16), [0; MAX_LEN]);
            expected.copy_from_slice(&found);
            let (mut found_q, mut expected_q) = ([0 as Element; MAX_LEN], [0; MAX_LEN]);
            let (found, expected) = (&mut found[..len], &mut expected[..len]);
            let (found_q, expected_q) = (&mut found_q[..len], &mut expected_q[..len]);
            let pass = passes::quantize_heads;
            if !pass(found, multiplier, head_dim, mantissa, -30, found_q) {
                return !len.is_multiple_of(4) || shift != 0;
            }
            plain::quantize_heads(expected, multiplier, head_dim, mantissa, -30, expected_q);
            let firsts = found.iter().zip(&*expected).step_by(head_dim);
            found_q == expected_q
                && firsts
                    .into_iter()
                    .all(|(found, expected)| found == expected)
        })
    }

    fn scale_agrees(&self, len: usize, rng: &mut SplitMix64) -> bool {
        let by = Scale::new(
            0x8000 | rng.next_below(0x8000),
            -(rng.next_below(40) as i32),
        );
        let (mut found, mut expected) = (self.words, self.words);
        passes::scale(&mut found[..len], by) == plain::scale(&mut expected[..len], by)
            && found == expected
    }

    fn norm_agrees(&self, len: usize, shift: usize) -> bool {
        let x = &self.words[..len];
        let bits = passes::norm_bits(x);
        let cut = 18_u32.saturating_sub(bits.leading_zeros());
        let sums = passes::norm_sums(x, cut);
        let mean = sums.0 / len as i32;
        let mut gain = [0_i16; MAX_LEN + 1];
        for (gain, &half) in gain.iter_mut().zip(&self.halves) {
            *gain = half.cast_signed();
        }
        let gain = &gain[shift..shift + len];
        let (mut found, mut expected) = ([0; MAX_LEN], [0; MAX_LEN]);
        bits == plain::norm_bits(x)
            && sums == plain::norm_sums(x, cut)
            && passes::norm_products(x, cut, mean, gain, &mut found[..len])
                == plain::norm_products(x, cut, mean, gain, &mut expected[..len])
            && found == expected
    }

    fn attention_agrees(&self, len: usize, shift: usize, rng: &mut SplitMix64) -> bool {
        // A mantissa of 8 bits and a shift of at most 19.
        let scale = |half: &u16| {
            let right = (half >> 8) % 20;
            right << 11 | 0x80 | half & 0xFF
        };
        let (mut k_scale, mut v_scale) = (self.halves, self.others);
        k_scale.iter_mut().for_each(|half| *half = scale(half));
        v_scale.iter_mut().for_each(|half| *half = scale(half));
        let (k_scale, v_scale) = (&k_scale[shift..shift + len], &v_scale[shift..shift + len]);
        let (mut scores, mut expected) = (self.words, self.words);
        for score in scores.iter_mut().chain(&mut expected) {
            *score >>= 8;
        }
        let found = passes::scale_scores(&mut scores[..len], k_scale, v_scale);
        if found != plain::scale_scores(&mut expected[..len], k_scale, v_scale)
            || scores != expected
        {
            return false;
        }
        let unit = Scale::new(
            0x8000 | rng.next_below(0x8000),
            -(rng.next_below(40) as i32) - 16,
        );
        let (octaves, scores, max) = (Octaves::new(unit), &scores[..len], found.0);
        let right = 8_u32.wrapping_sub(u32::from(found.1 >> 11));
        let filled = NATIVE.row_len(len);
        let (mut weights, mut expected) = ([1 as Wide; MAX_LEN], [2; MAX_LEN]);
        let (weights, expected) = (&mut weights[..filled], &mut expected[..filled]);
        passes::weigh(scores, max, octaves, v_scale, right, weights)
            == plain::weigh(scores, max, octaves, v_scale, right, expected)
            && weights == expected
    }
}
