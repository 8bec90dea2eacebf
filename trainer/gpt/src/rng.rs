//! Counter-based random numbers: every draw is a function of what it is for, not of a state.
//!
//! This is what makes a resumed run equal an uninterrupted one, and one thread equal two.

/// What a draw is for; keeps the streams of one seed apart.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Initial weights; counters: tensor, element.
    Weights = 1,
    /// Order of the training windows; counters: epoch, swap.
    Order = 2,
    /// Offset of the training windows; counter: epoch.
    Phase = 3,
}

/// Mixes 64 bits (the finaliser of `SplitMix64`).
#[must_use]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the key of a stream; its draws are `mix(key + GAMMA * i)`.
#[must_use]
pub fn key(seed: u64, purpose: Purpose, counter: u64) -> u64 {
    mix(mix(seed.wrapping_add(GAMMA.wrapping_mul(purpose as u64)))
        .wrapping_add(counter.wrapping_mul(GAMMA)))
}

/// Weyl increment of `SplitMix64`: odd, golden ratio times 2^64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns draw `i` of a stream.
#[must_use]
pub fn draw(key: u64, i: u64) -> u64 {
    mix(key.wrapping_add(i.wrapping_add(1).wrapping_mul(GAMMA)))
}

/// Returns draw `i` of a stream as a number in `0..n`.
#[must_use]
pub fn below(key: u64, i: u64, n: usize) -> usize {
    ((u128::from(draw(key, i)) * n as u128) >> 64) as usize
}

/// Returns normal draw `i` of a stream: mean 0, deviation 1 (Box-Muller).
#[must_use]
pub fn normal(key: u64, i: u64) -> f64 {
    // (0, 1], so that the logarithm is finite
    let unit = |bits: u64| ((bits >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let radius = (-2.0 * unit(draw(key, 2 * i)).ln()).sqrt();
    radius * (core::f64::consts::TAU * unit(draw(key, 2 * i + 1))).cos()
}
