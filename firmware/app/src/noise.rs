//! A seed from a source of noise that may be biased, stuck or dead.

/// Pairs of bits that are looked at before a source counts as stuck.
const PAIRS: u32 = 4_096;

/// Draws a seed from single bits: of each pair of unequal ones the first (von Neumann), so that a biased
/// source gives a fair seed. A stuck source gives none, nor does one that does not answer.
pub fn seed(mut bit: impl FnMut() -> Option<bool>) -> Option<u64> {
    let (mut seed, mut found) = (0_u64, 0);
    for _ in 0..PAIRS {
        let (first, second) = (bit()?, bit()?);
        if first != second {
            seed = seed << 1 | u64::from(first);
            found += 1;
            if found == u64::BITS {
                return Some(seed);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits of which one in `n` is set, drawn by a generator.
    fn one_in(n: u64) -> impl FnMut() -> Option<bool> {
        let mut state = 1_u64;
        move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            Some((state >> 33).is_multiple_of(n))
        }
    }

    #[test]
    fn a_biased_source_gives_fair_bits() {
        for n in [2, 5, 10] {
            let mut bit = one_in(n);
            let mut ones = 0;
            for _ in 0..100 {
                ones += seed(&mut bit).expect("there is noise").count_ones();
            }
            // 6,400 bits; four standard deviations are 160.
            assert!((3_040..=3_360).contains(&ones), "{n}: {ones}");
        }
    }

    #[test]
    fn a_stuck_or_dead_source_gives_none() {
        assert_eq!(seed(|| Some(true)), None);
        assert_eq!(seed(|| Some(false)), None);
        assert_eq!(seed(|| None), None);
        let mut looks = 0;
        let fades = seed(|| {
            looks += 1;
            (looks < 20).then_some(looks % 2 == 0)
        });
        assert_eq!((fades, looks), (None, 20));
    }
}
