//! Choice of the next token.

use core::fmt;

use crate::math;

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Settings {
    /// Divides the logits; 0 always takes the most probable token.
    pub temperature: f32,
    /// Keeps only so many most probable tokens; 0 keeps all.
    pub top_k: u16,
    /// Keeps only the most probable tokens that together reach this probability; 1 keeps all.
    pub top_p: f32,
}

impl Default for Settings {
    /// Temperature 0.8, all tokens kept.
    fn default() -> Self {
        Self {
            temperature: 0.8,
            top_k: 0,
            top_p: 1.0,
        }
    }
}

/// Which setting is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SettingsError {
    /// `temperature` is negative, infinite or not a number.
    Temperature,
    /// `top_p` is not above 0 and at most 1.
    TopP,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Temperature => "temperature must be 0 or a positive number",
            Self::TopP => "top_p must be above 0 and at most 1",
        })
    }
}

impl core::error::Error for SettingsError {}

impl Settings {
    /// Checks the ranges.
    ///
    /// # Errors
    ///
    /// The first setting that is out of range.
    pub fn validate(&self) -> Result<(), SettingsError> {
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return Err(SettingsError::Temperature);
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(SettingsError::TopP);
        }
        Ok(())
    }
}

/// The generator `SplitMix64` (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
/// Generators", 2014).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates the generator of a seed; every seed is good.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = self.0;
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns the next number in `[0, 1)`, a multiple of 2^-24.
    pub const fn next_unit(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 * (1.0 / 16_777_216.0)
    }
}

/// Chooses tokens by [`Settings`] and a seeded generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    settings: Settings,
    rng: SplitMix64,
}

impl Sampler {
    /// Creates a sampler.
    ///
    /// # Errors
    ///
    /// When a setting is out of range.
    pub fn new(settings: Settings, seed: u64) -> Result<Self, SettingsError> {
        settings.validate()?;
        Ok(Self {
            settings,
            rng: SplitMix64::new(seed),
        })
    }

    /// Returns the token to follow, an index into `logits`.
    ///
    /// Of equal logits the first is the more probable one. The generator moves by one number per
    /// call, also at temperature 0, so that a change of temperature leaves later draws in place.
    ///
    /// # Shapes
    ///
    /// - `logits`: `[vocab_size]`, overwritten
    /// - `order`: `[vocab_size]`, overwritten
    ///
    /// # Panics
    ///
    /// If `logits` is empty or longer than `order`.
    pub fn sample(&mut self, logits: &mut [f32], order: &mut [u16]) -> u16 {
        let unit = self.rng.next_unit();
        let best = argmax(logits);
        let max = logits[usize::from(best)];
        if self.settings.temperature == 0.0 || !max.is_finite() {
            return best;
        }

        // unnormalised probabilities; the largest is 1, so their sum is never 0
        let mut total = 0.0;
        for logit in logits.iter_mut() {
            *logit = math::exp((*logit - max) / self.settings.temperature);
            total += *logit;
        }
        let probs = logits;
        let n = probs.len();
        let top_k = match usize::from(self.settings.top_k) {
            0 => n,
            k => k.min(n),
        };
        if top_k == n && self.settings.top_p >= 1.0 {
            let tokens = 0..n as u16;
            return draw(probs, tokens, unit * total).unwrap_or(best);
        }

        // the most probable tokens move to the front of `order`, until k or p is reached
        let order = &mut order[..n];
        for (token, place) in order.iter_mut().enumerate() {
            *place = token as u16;
        }
        let mut kept = 0;
        let mut kept_sum = 0.0;
        let mut sum_k = total;
        if top_k < n {
            for place in 0..top_k {
                select(probs, order, place);
            }
            let front = &order[..top_k];
            sum_k = front.iter().map(|&token| probs[usize::from(token)]).sum();
        }
        while kept < top_k && (kept == 0 || kept_sum < self.settings.top_p * sum_k) {
            if top_k == n {
                select(probs, order, kept);
            }
            kept_sum += probs[usize::from(order[kept])];
            kept += 1;
        }
        let tokens = order[..kept].iter().copied();
        draw(probs, tokens, unit * kept_sum).unwrap_or(best)
    }
}

/// Returns the index of the largest value, the first of equals; NaN counts as the smallest.
fn argmax(values: &[f32]) -> u16 {
    let mut best = 0;
    for (i, &value) in values.iter().enumerate() {
        if value > values[best] || values[best].is_nan() && !value.is_nan() {
            best = i;
        }
    }
    best as u16
}

/// Moves the most probable of `order[place..]` to `place`.
fn select(probs: &[f32], order: &mut [u16], place: usize) {
    let mut best = place;
    for i in place + 1..order.len() {
        let (a, b) = (order[i], order[best]);
        let (p_a, p_b) = (probs[usize::from(a)], probs[usize::from(b)]);
        if p_a > p_b || p_a == p_b && a < b {
            best = i;
        }
    }
    order.swap(place, best);
}

/// Returns the token at which the running sum of probabilities passes `target`.
///
/// Rounding may leave the sum below the target; then the last token with a probability is taken.
fn draw(probs: &[f32], tokens: impl Iterator<Item = u16>, target: f32) -> Option<u16> {
    let mut sum = 0.0;
    let mut last = None;
    for token in tokens {
        let prob = probs[usize::from(token)];
        if prob > 0.0 {
            sum += prob;
            last = Some(token);
            if sum > target {
                break;
            }
        }
    }
    last
}
