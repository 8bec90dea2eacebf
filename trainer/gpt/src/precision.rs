//! Number format of the forward and the backward pass.
//!
//! Weights, moments, average and gradients stay `f32` whatever it is. Under `bf16` and `f16`, norms,
//! softmax and loss compute in `f32` as well; products and the residual stream do not.
//!
//! `f16` reaches neither as high nor as low as the others: without a [`LossScale`], gradients
//! below 6e-8 would be zero.

use burn::tensor::backend::Backend;
use burn::tensor::{FloatDType, Tensor};
use serde::{Deserialize, Serialize};

/// Number format of products and of the residual stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// The upper 16 bits of an `f32`; GPUs multiply them several times as fast.
    Bf16,
    /// 16 bits with 10 of fraction, for GPUs without `bf16`; the loss is scaled.
    F16,
}

impl Precision {
    /// Returns burn's name of the format.
    #[must_use]
    pub fn dtype(self) -> FloatDType {
        match self {
            Self::F32 => FloatDType::F32,
            Self::Bf16 => FloatDType::BF16,
            Self::F16 => FloatDType::F16,
        }
    }
}

/// Factor of the loss before the backward pass, divided out of the gradients in `f32`.
///
/// It is a power of two, so neither costs a bit. It is halved when a gradient does not fit `f16`,
/// that step being left out, and doubled after many steps that did (Micikevicius et al. 2018).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossScale {
    log2: u32,
    /// Steps since the last change.
    held: u32,
}

impl LossScale {
    /// Steps without an overflow after which the factor is doubled.
    pub const PATIENCE: u32 = 2_000;
    /// Largest exponent.
    const LARGEST: u32 = 24;

    /// Creates the factor `2^log2`; a run starts with 16.
    ///
    /// # Panics
    ///
    /// If `log2` is more than 127: the factor is an `f32`.
    #[must_use]
    pub const fn new(log2: u32) -> Self {
        assert!(log2 <= 127, "the factor is an f32");
        Self { log2, held: 0 }
    }

    /// Returns the factor.
    #[must_use]
    pub fn value(self) -> f32 {
        (self.log2 as f32).exp2()
    }

    /// Returns the factor after a step whose gradients were finite.
    #[must_use]
    pub const fn after_step(self) -> Self {
        let held = self.held.saturating_add(1);
        if held < Self::PATIENCE || self.log2 >= Self::LARGEST {
            Self { held, ..self }
        } else {
            Self::new(self.log2 + 1)
        }
    }

    /// Returns the factor after an overflow; `None` if it was 1 already, so that the loss itself
    /// is what does not fit.
    #[must_use]
    pub const fn after_overflow(self) -> Option<Self> {
        match self.log2 {
            0 => None,
            log2 => Some(Self::new(log2 - 1)),
        }
    }

    /// Returns the factor as a number for a checkpoint.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.log2 as u64) << 32 | self.held as u64
    }

    /// Returns the factor of [`LossScale::to_bits`]; `None` if it is none.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        let (log2, held) = ((bits >> 32) as u32, bits as u32);
        if log2 > 127 {
            return None;
        }
        Some(Self { log2, held })
    }
}

impl Default for LossScale {
    fn default() -> Self {
        Self::new(16)
    }
}

/// Returns the format of a tensor.
pub fn of<B: Backend, const D: usize>(x: &Tensor<B, D>) -> FloatDType {
    x.dtype().into()
}

/// Converts a tensor; one that has the format is returned as it is.
pub fn to<B: Backend, const D: usize>(x: Tensor<B, D>, dtype: FloatDType) -> Tensor<B, D> {
    if of(&x) == dtype { x } else { x.cast(dtype) }
}
