//! Number format of the forward and the backward pass.
//!
//! Weights, moments, average and gradients stay `f32` whatever it is. Under `bf16`, norms,
//! softmax and loss compute in `f32` as well; products and the residual stream do not.

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
}

impl Precision {
    /// Returns burn's name of the format.
    #[must_use]
    pub fn dtype(self) -> FloatDType {
        match self {
            Self::F32 => FloatDType::F32,
            Self::Bf16 => FloatDType::BF16,
        }
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
