//! Choice of the next token.

use core::fmt;

use crate::fixed::{Scale, exp2_neg_wide};

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

    /// Returns a number below `bound`: the upper 32 bits of the next number times `bound`, over 2^32.
    pub const fn next_below(&mut self, bound: u32) -> u32 {
        (((self.next_u64() >> 32) * bound as u64) >> 32) as u32
    }
}

/// Chooses tokens by [`Settings`] and a seeded generator.
///
/// Settings become integers once; choosing takes no floating-point operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// `log2(e) / temperature`, or `None` at temperature 0.
    octaves: Option<Scale>,
    top_k: u16,
    /// `top_p` in units of 2^-16.
    top_p: u32,
    rng: SplitMix64,
    /// What the last token weighed, and all that it was drawn among.
    drawn: (u32, u32),
}

impl Sampler {
    /// Creates a sampler.
    ///
    /// # Errors
    ///
    /// When a setting is out of range.
    pub fn new(settings: Settings, seed: u64) -> Result<Self, SettingsError> {
        settings.validate()?;
        // Below the smallest difference of logits every temperature is greedy.
        let greedy = settings.temperature < 1e-6;
        let octaves = core::f32::consts::LOG2_E / settings.temperature;
        Ok(Self {
            octaves: (!greedy).then(|| scale(octaves)),
            top_k: settings.top_k,
            top_p: ((settings.top_p * 65_536.0) as u32).max(1),
            rng: SplitMix64::new(seed),
            drawn: (1, 1),
        })
    }

    /// Returns the probability with which the last token was drawn, in units of 2^-24: after
    /// temperature, `top_k` and `top_p`, hence 1 at temperature 0 and before the first token.
    #[must_use]
    pub const fn probability(&self) -> u32 {
        let (weight, sum) = self.drawn;
        (((weight as u64) << 24) / sum as u64) as u32
    }

    /// Returns the token to follow, an index into `logits`.
    ///
    /// Of equal logits the first is the more probable one. The generator moves by one number per
    /// call, also at temperature 0, so that a change of temperature leaves later draws in place.
    ///
    /// # Shapes
    ///
    /// - `logits`: `[vocab_size]`, units of 2^-16; overwritten
    /// - `order`: `[vocab_size]`, overwritten
    ///
    /// # Panics
    ///
    /// If `logits` is empty or longer than `order`.
    pub fn sample(&mut self, logits: &mut [i32], order: &mut [u16]) -> u16 {
        let best = argmax(logits);
        let Some(octaves) = self.octaves else {
            self.rng.next_u64();
            self.drawn = (1, 1);
            return best;
        };

        // unnormalised probabilities of at most 2^23; their sum is below 2^31 for 255 tokens and
        // shifted down for more
        let max = logits[usize::from(best)];
        let n = logits.len();
        let spare = (n as u32 >> 8).checked_ilog2().map_or(0, |bits| bits + 1);
        let mut sum = 0;
        for logit in logits.iter_mut() {
            let below = max.wrapping_sub(*logit).cast_unsigned();
            let below = i32::try_from(below).unwrap_or(i32::MAX);
            let prob = exp2_neg_wide(octaves.apply(below).cast_unsigned()) >> spare;
            sum += prob;
            *logit = prob.cast_signed();
        }
        let probs = &*logits;

        // the most probable tokens move to the front of `order`, until k or p is reached
        let order = &mut order[..n];
        for (place, token) in order.iter_mut().enumerate() {
            *token = place as u16;
        }
        let top_k = match usize::from(self.top_k) {
            0 => n,
            k => k.min(n),
        };
        let mut kept = n;
        if top_k < n {
            for place in 0..top_k {
                select(probs, order, place);
            }
            let front = order[..top_k].iter();
            sum = front.map(|&token| prob(probs, token)).sum();
            kept = top_k;
        }
        if self.top_p < ONE_P {
            let target = (u64::from(sum) * u64::from(self.top_p)) >> 16;
            sum = 0;
            kept = 0;
            while kept < top_k && (kept == 0 || u64::from(sum) < target) {
                if top_k == n {
                    select(probs, order, kept);
                }
                sum += prob(probs, order[kept]);
                kept += 1;
            }
        }

        // the token at which the running sum passes a number below the whole
        let mut left = self.rng.next_below(sum);
        for &token in &order[..kept] {
            let prob = prob(probs, token);
            if left < prob {
                self.drawn = (prob, sum);
                return token;
            }
            left -= prob;
        }
        best
    }
}

/// `top_p` of 1.
const ONE_P: u32 = 1 << 16;

/// Converts a positive number to a [`Scale`], cut to 16 bits.
fn scale(x: f32) -> Scale {
    // The bits of a normal `f32`: 8 of exponent, 23 of mantissa below the hidden one.
    let bits = x.to_bits();
    let mantissa = (bits & 0x7F_FFFF) | 0x80_0000;
    Scale::new(mantissa, (bits >> 23) as i32 - 150)
}

fn prob(probs: &[i32], token: u16) -> u32 {
    probs[usize::from(token)].cast_unsigned()
}

/// Returns the index of the largest logit, the first of equals.
fn argmax(logits: &[i32]) -> u16 {
    let mut best = 0;
    for (token, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = token;
        }
    }
    best as u16
}

/// Moves the most probable of `order[place..]` to `place`, of equals the lowest token.
fn select(probs: &[i32], order: &mut [u16], place: usize) {
    let mut best = place;
    for i in place + 1..order.len() {
        let (a, b) = (prob(probs, order[i]), prob(probs, order[best]));
        if a > b || a == b && order[i] < order[best] {
            best = i;
        }
    }
    order.swap(place, best);
}
