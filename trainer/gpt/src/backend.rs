//! Backends that can train.

use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use burn_autodiff::Autodiff;
use burn_cuda::Cuda;
use burn_flex::Flex;

use crate::ops::Ops;
use crate::optimizer::{self, State};
use crate::settings::Settings;

/// A backend that can train: it has a differentiable counterpart.
///
/// The default methods are the reference: plain burn operations.
pub trait TrainBackend: Ops {
    /// The counterpart.
    type Train: AutodiffBackend<InnerBackend = Self, Device = Self::Device> + Ops;

    /// Steps that may be under way before their losses are read: where the device computes on its
    /// own, waiting for each would leave it idle in between.
    const QUEUE: usize = 1;
    /// Whether the device is a GPU: it multiplies `bf16` fast, and its memory is its own.
    const GPU: bool = false;

    /// Returns the Euclidean norm of all gradients together, `[1]`.
    fn global_norm(grads: &Tensor<Self, 1>) -> Tensor<Self, 1> {
        optimizer::global_norm(grads)
    }

    /// Takes a step of the optimiser; see [`State::update`].
    fn update(
        state: &mut State<Self>,
        grads: Tensor<Self, 1>,
        norm: Tensor<Self, 1>,
        settings: &Settings,
        step: u64,
    ) {
        state.update(grads, norm, settings, step);
    }
}

// Flex and its autodiff counterpart have their own ways of computing, see `fused`.
impl TrainBackend for Flex {
    type Train = Autodiff<Self>;

    fn global_norm(grads: &Tensor<Self, 1>) -> Tensor<Self, 1> {
        crate::fused_update::global_norm(grads)
    }

    fn update(
        state: &mut State<Self>,
        grads: Tensor<Self, 1>,
        norm: Tensor<Self, 1>,
        settings: &Settings,
        step: u64,
    ) {
        crate::fused_update::update(state, grads, norm, settings, step);
    }
}

impl Ops for Cuda {}
impl Ops for Autodiff<Cuda> {}
impl TrainBackend for Cuda {
    type Train = Autodiff<Self>;

    const QUEUE: usize = 20;
    const GPU: bool = true;
}
