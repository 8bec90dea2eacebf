//! Dropout masks as a function of where they are, so that none is stored and any path can make them.

use crate::panel::{PANEL, Row};

/// Dropout of one layer in one step.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// Probability that a value is dropped, in `0.0..1.0`; what is kept is divided by `1 - rate`.
    pub rate: f32,
    /// Seed of the run.
    pub seed: u64,
    /// Step of the run.
    pub step: u64,
    /// Index of the layer.
    pub layer: u32,
    /// Index, in the whole batch, of the first sequence of this call, so that a batch in shards has the
    /// masks of the batch in one piece.
    pub first_sequence: u32,
}

/// Where a mask is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// Attention probabilities.
    Attention,
    /// Output of the attention part before it joins the residual stream.
    AttentionOutput,
    /// Output of the feed-forward part before it joins the residual stream.
    FeedForwardOutput,
    /// Embedding plus position.
    Embedding,
}

impl Dropout {
    /// Returns the mask of a site.
    #[must_use]
    pub fn mask(&self, site: Site) -> Mask {
        let place = (u64::from(self.layer) << 8) | site as u64;
        let key = mix(mix(mix(self.seed) ^ self.step) ^ place);
        Mask {
            before: key as u32,
            after: (key >> 32) as u32,
            // The product is below 2^32 for any rate below 1.
            threshold: (f64::from(self.rate) * 4_294_967_296.0) as u32,
            scale: 1.0 / (1.0 - self.rate),
        }
    }

    /// Returns the index in the whole batch of sequence `sequence` of this call.
    pub(crate) fn sequence(&self, sequence: usize) -> u32 {
        self.first_sequence.wrapping_add(sequence as u32)
    }
}

/// The mask of one site in one layer and step.
#[derive(Clone, Copy, Debug)]
pub struct Mask {
    before: u32,
    after: u32,
    threshold: u32,
    scale: f32,
}

impl Mask {
    /// Returns the words that make the mask, for a device that makes it itself: what an index is
    /// xored with before and within the hash, the threshold below which a value is dropped.
    #[must_use]
    pub const fn words(&self) -> [u32; 3] {
        [self.before, self.after, self.threshold]
    }

    /// Returns the factor of a value: 0, or `1 / (1 - rate)`.
    ///
    /// The index of an attention probability is [`attention_index`], that of an element of the residual
    /// stream [`residual_index`].
    #[inline(always)]
    #[must_use]
    pub fn factor(&self, index: u32) -> f32 {
        if hash(index ^ self.before, self.after) < self.threshold {
            0.0
        } else {
            self.scale
        }
    }

    /// Multiplies the 32 tokens of a row by their factors; their indices are `step` apart.
    #[inline(always)]
    pub(crate) fn apply(&self, row: &mut Row, index: u32, step: u32) {
        for lane in 0..PANEL {
            row.0[lane] *= self.factor(index.wrapping_add(step.wrapping_mul(lane as u32)));
        }
    }

    /// Multiplies a panel `[d_model]` of the residual stream by its factors.
    #[inline(always)]
    pub(crate) fn apply_residual(
        &self,
        panel: &mut [Row],
        sequence: u32,
        first_pos: u32,
        len: u32,
    ) {
        let d_model = panel.len() as u32;
        for (feature, row) in panel.iter_mut().enumerate() {
            let index = residual_index(sequence, first_pos, feature as u32, len, d_model);
            self.apply(row, index, d_model);
        }
    }
}

/// Index of an attention probability: sequence in the batch, head, query and key position.
#[inline(always)]
#[must_use]
pub const fn attention_index(
    sequence: u32,
    head: u32,
    query: u32,
    key: u32,
    n_head: u32,
    len: u32,
) -> u32 {
    sequence
        .wrapping_mul(n_head)
        .wrapping_add(head)
        .wrapping_mul(len)
        .wrapping_add(query)
        .wrapping_mul(len)
        .wrapping_add(key)
}

/// Index of an element of the residual stream: sequence in the batch, position, feature.
#[inline(always)]
#[must_use]
pub const fn residual_index(sequence: u32, pos: u32, feature: u32, len: u32, d_model: u32) -> u32 {
    sequence
        .wrapping_mul(len)
        .wrapping_add(pos)
        .wrapping_mul(d_model)
        .wrapping_add(feature)
}

/// A bijection of 32 bits with a bias of 0.2 bits ("lowbias32" of C. Wellons' hash-prospector), keyed
/// in the middle as well.
#[inline(always)]
const fn hash(mut x: u32, key: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= (x >> 15) ^ key;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// The finaliser of `SplitMix64`.
const fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
