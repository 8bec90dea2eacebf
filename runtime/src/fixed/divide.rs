//! Division on cores that have no instruction for it, or a slow one.

#[cfg(any(kernel = "m0", test))]
use super::leading_zeros;

/// `2^23 / m - 1` for the `m` from 128 to 255.
static RECIPROCAL: [u16; 128] = {
    let mut table = [0; 128];
    let mut i = 0;
    while i < 128 {
        table[i] = ((1 << 23) / (128 + i) - 1) as u16;
        i += 1;
    }
    table
};

/// Returns `2^23 / m`, rounded down, for the `m` from 128 to 255.
pub(crate) fn reciprocal(m: u32) -> u32 {
    u32::from(RECIPROCAL[m as usize % 128]) + 1
}

/// Returns the table of [`reciprocal`], whose entries are less by 1.
#[cfg(kernel = "m4")]
pub(crate) const fn reciprocals() -> &'static [u16; 128] {
    &RECIPROCAL
}

/// Returns `x / divisor`, rounded down, for a divisor of at most 16 bits; 0 for that of 0.
pub(crate) fn divide(x: u32, divisor: u32) -> u32 {
    #[cfg(kernel = "m0")]
    return by_reciprocal(x, divisor);
    #[cfg(not(kernel = "m0"))]
    x.checked_div(divisor).unwrap_or(0)
}

/// Does so by multiplications.
#[cfg(any(kernel = "m0", test))]
#[inline(never)]
fn by_reciprocal(x: u32, divisor: u32) -> u32 {
    if divisor == 0 {
        return 0;
    }
    let left = leading_zeros(divisor) - 16;
    let top = divisor << left;
    // 2^31 / top: too large by up to 1/128, after one of Newton's steps too small by up to 2^-13.
    let inverse = reciprocal(top >> 8);
    let inverse = (inverse * ((top * inverse).wrapping_neg() >> 16)) >> 15;
    // What is left has 20 bits, then 18, and at last is the divisor and a few at most.
    let mut quotient = ((x >> 16) * inverse) >> (15 - left);
    let rest = x - quotient * divisor;
    let more = ((rest >> 16) * inverse) >> (15 - left);
    quotient += more;
    let rest = rest - more * divisor;
    let more = ((rest >> 2) * inverse) >> (29 - left);
    quotient += more;
    let mut rest = rest - more * divisor;
    while rest >= divisor {
        rest -= divisor;
        quotient += 1;
    }
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_by_multiplications_are_exact() {
        let mut rng = crate::SplitMix64::new(3);
        let edges = (0..=16).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let divisors = edges.chain(1..600).chain((1 << 15..1 << 16).step_by(7));
        for divisor in divisors.filter(|&divisor: &u32| divisor > 0 && divisor < 1 << 16) {
            let random = (0..40).map(|_| {
                let bits = rng.next_u64();
                bits as u32 >> (bits >> 59)
            });
            let multiple = u32::MAX / divisor * divisor;
            let edges = [0, 1, divisor - 1, divisor, u32::MAX, multiple, multiple - 1];
            for x in random.chain(edges) {
                assert_eq!(by_reciprocal(x, divisor), x / divisor, "{x} / {divisor}");
            }
        }
        assert_eq!(by_reciprocal(7, 0), 0);
    }
}
