//! Backends that can train.

use burn::tensor::backend::AutodiffBackend;
use burn_autodiff::Autodiff;
use burn_cuda::Cuda;
use burn_flex::Flex;

use crate::ops::Ops;

/// A backend that can train: it has a differentiable counterpart.
pub trait TrainBackend: Ops {
    /// The counterpart.
    type Train: AutodiffBackend<InnerBackend = Self, Device = Self::Device> + Ops;
}

// Flex and its autodiff counterpart have their own ways of computing, see `fused`.
impl TrainBackend for Flex {
    type Train = Autodiff<Self>;
}

impl Ops for Cuda {}
impl Ops for Autodiff<Cuda> {}
impl TrainBackend for Cuda {
    type Train = Autodiff<Self>;
}
