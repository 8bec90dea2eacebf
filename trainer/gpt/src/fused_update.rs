//! The optimiser's step on the CPU: one pass over all vectors, in place.

use block::AdamW;
use burn::tensor::{Tensor, TensorPrimitive};
use burn_flex::{Flex, FlexDevice, FlexTensor};

use crate::evaluation::host;
use crate::optimizer::{State, average_decay, learning_rate, upload};
use crate::settings::Settings;

/// Returns the Euclidean norm of all gradients together, `[1]`.
pub(crate) fn global_norm(grads: &Tensor<Flex, 1>) -> Tensor<Flex, 1> {
    let grads = dense(grads.clone());
    let norm = block::global_norm(&[slice(&grads)]);
    upload(vec![norm as f32], &FlexDevice)
}

/// Does what [`State::update`] does.
pub(crate) fn update(
    state: &mut State<Flex>,
    grads: Tensor<Flex, 1>,
    norm: Tensor<Flex, 1>,
    settings: &Settings,
    step: u64,
) {
    let norm = host(norm)[0];
    let grad_scale = (settings.clip as f32 / (norm + 1e-6)).min(1.0);
    let (lr, keep) = (learning_rate(settings, step), average_decay(settings, step));
    let grads = dense(grads);
    let [mut weights, mut ema, mut moment_1, mut moment_2] = [
        &mut state.weights,
        &mut state.ema,
        &mut state.moment_1,
        &mut state.moment_2,
    ]
    .map(take);
    {
        // a vector that a checkpoint or a test still holds is copied here, once
        let weights = weights.storage_mut::<f32>();
        let ema = ema.storage_mut::<f32>();
        let moment_1 = moment_1.storage_mut::<f32>();
        let moment_2 = moment_2.storage_mut::<f32>();
        for (range, weight_decay) in &state.decays {
            let adamw = AdamW {
                lr,
                beta1: settings.beta1,
                beta2: settings.beta2,
                eps: settings.eps,
                weight_decay: *weight_decay,
                step: step + 1,
                grad_scale,
            };
            let range = range.clone();
            adamw.update(
                &mut weights[range.clone()],
                &slice(&grads)[range.clone()],
                &mut moment_1[range.clone()],
                &mut moment_2[range.clone()],
            );
            block::move_average(&mut ema[range.clone()], &weights[range], keep);
        }
    }
    state.weights = whole(weights);
    state.ema = whole(ema);
    state.moment_1 = whole(moment_1);
    state.moment_2 = whole(moment_2);
}

/// Takes a vector out of the state, so that nothing else holds it.
fn take(vector: &mut Tensor<Flex, 1>) -> FlexTensor {
    dense(core::mem::replace(vector, upload(Vec::new(), &FlexDevice)))
}

/// Returns the tensor's own storage if that is one piece from its start, else a copy that is.
fn dense(tensor: Tensor<Flex, 1>) -> FlexTensor {
    let tensor = tensor.into_primitive().tensor();
    if tensor.storage::<f32>().len() == slice_len(&tensor) && tensor.is_contiguous() {
        tensor
    } else {
        tensor.to_contiguous()
    }
}

fn slice_len(tensor: &FlexTensor) -> usize {
    tensor.layout().shape().num_elements()
}

fn slice(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("vectors are made dense before")
}

fn whole(tensor: FlexTensor) -> Tensor<Flex, 1> {
    Tensor::from_primitive(TensorPrimitive::Float(tensor))
}
