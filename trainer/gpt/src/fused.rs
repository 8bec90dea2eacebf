//! The CPU's own way: block and head as one autodiff node each, over the fused loops of `block`.
//!
//! burn's tape differentiates an operation at a time; at these sizes that costs more than the
//! arithmetic. A custom node puts a whole block on the tape.

use std::sync::{Arc, Mutex, PoisonError};

use block::{Batch, Grads, HeadBuffers, HeadGrads, HeadParams, Params, Rope, Saved, Shape};
use burn::module::Param;
use burn::tensor::backend::Backend;
use burn::tensor::{FloatDType, Int, Tensor, TensorData, TensorPrimitive};
use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::NoCheckpointing;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops as NodeOps, OpsKind};
use burn_flex::{Flex, FlexDevice, FlexTensor};
use runtime::{Config, Position};

use crate::model::{Gpt, Layer};
use crate::ops::{Ops, Targets, plain_head_loss, plain_layer};
use crate::precision;
use crate::tables::Tables;

/// Tensors of a block, in the order of [`Layer`].
const N_LAYER_TENSOR: usize = 14;
/// Tensors of the head: gain, bias, matrix, bias.
const N_HEAD_TENSOR: usize = 4;

/// Buffers of blocks, kept from step to step.
static SAVED: Pool<Saved> = Pool::new();
/// Buffers of the head.
static HEADS: Pool<HeadBuffers> = Pool::new();

/// Values that are lent out and come back.
struct Pool<T>(Mutex<Vec<Box<T>>>);

impl<T: Default> Pool<T> {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn take(&self) -> Box<T> {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        free.pop().unwrap_or_default()
    }

    fn give_back(&self, value: Box<T>) {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(value);
    }
}

/// A block's call without its tensors.
#[derive(Clone, Debug)]
struct Call {
    shape: Shape,
    batch: usize,
    len: usize,
    window: usize,
    rope: Option<Arc<[Vec<f32>; 2]>>,
    dropout: Option<block::Dropout>,
}

impl Call {
    fn new<B: Backend>(
        config: &Config,
        tables: &Tables<B>,
        [batch, len, _]: [usize; 3],
        dropout: Option<block::Dropout>,
    ) -> Self {
        Self {
            shape: Shape::from(config),
            batch,
            len,
            window: usize::from(config.context_len),
            rope: (config.position == Position::Rope).then(|| tables.pairs()),
            dropout,
        }
    }

    fn batch(&self) -> Batch<'_> {
        let pairs = self.len * self.shape.head_dim / 2;
        Batch {
            batch: self.batch,
            len: self.len,
            window: self.window,
            rope: self.rope.as_ref().map(|rope| Rope {
                cos: &rope[0][..pairs],
                sin: &rope[1][..pairs],
            }),
            dropout: self.dropout,
        }
    }

    fn forward(&self, tensors: &LayerTensors, x: &FlexTensor, saved: &mut Saved) -> FlexTensor {
        let mut out = vec![0.0; self.batch * self.len * self.shape.d_model];
        let params = layer_params(tensors);
        block::forward(
            &self.shape,
            &self.batch(),
            &params,
            slice(x),
            &mut out,
            saved,
        );
        self.stream(out)
    }

    fn stream(&self, values: Vec<f32>) -> FlexTensor {
        tensor(values, [self.batch, self.len, self.shape.d_model])
    }
}

type LayerTensors = [Option<FlexTensor>; N_LAYER_TENSOR];
type HeadTensors = [Option<FlexTensor>; N_HEAD_TENSOR];

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

/// Returns the tensor with its elements in one piece.
fn dense(tensor: FlexTensor) -> FlexTensor {
    if tensor.as_slice::<f32>().is_some() {
        tensor
    } else {
        tensor.to_contiguous()
    }
}

fn slice(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("tensors are made dense before")
}

fn layer_params(tensors: &LayerTensors) -> Params<'_> {
    let some = |i: usize| tensors[i].as_ref().map(slice);
    let must = |i: usize| some(i).expect("every block has gains and matrices");
    Params {
        g_attn: must(0),
        b_attn: some(1),
        w_qkv: must(2),
        b_qkv: some(3),
        w_o: must(4),
        b_o: some(5),
        g_ffn: must(6),
        b_ffn: some(7),
        w_gate: some(8),
        b_gate: some(9),
        w_up: must(10),
        b_up: some(11),
        w_down: must(12),
        b_down: some(13),
    }
}

fn layer_grads(grads: &mut [Option<Vec<f32>>; N_LAYER_TENSOR]) -> Grads<'_> {
    let [
        g_attn,
        b_attn,
        w_qkv,
        b_qkv,
        w_o,
        b_o,
        g_ffn,
        b_ffn,
        w_gate,
        b_gate,
        w_up,
        b_up,
        w_down,
        b_down,
    ] = grads.each_mut().map(Option::as_deref_mut);
    let must = |grad: Option<_>| grad.expect("every block has gains and matrices");
    Grads {
        g_attn: must(g_attn),
        b_attn,
        w_qkv: must(w_qkv),
        b_qkv,
        w_o: must(w_o),
        b_o,
        g_ffn: must(g_ffn),
        b_ffn,
        w_gate,
        b_gate,
        w_up: must(w_up),
        b_up,
        w_down: must(w_down),
        b_down,
    }
}

fn head_params<'a>(config: &Config, tensors: &'a HeadTensors) -> HeadParams<'a> {
    let some = |i: usize| tensors[i].as_ref().map(slice);
    let must = |i: usize| some(i).expect("every head has a gain and a matrix");
    HeadParams {
        norm: config.norm,
        g_final: must(0),
        b_final: some(1),
        w_out: must(2),
        b_out: some(3),
    }
}

fn primitive<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> B::FloatTensorPrimitive {
    tensor.into_primitive().tensor()
}

fn layer_tensors<B: Backend>(
    layer: &Layer<B>,
) -> [Option<B::FloatTensorPrimitive>; N_LAYER_TENSOR] {
    fn some<B: Backend, const D: usize>(
        param: &Option<Param<Tensor<B, D>>>,
    ) -> Option<B::FloatTensorPrimitive> {
        param.as_ref().map(|param| primitive(param.val()))
    }
    fn must<B: Backend, const D: usize>(
        param: &Param<Tensor<B, D>>,
    ) -> Option<B::FloatTensorPrimitive> {
        Some(primitive(param.val()))
    }
    [
        must(&layer.g_attn),
        some(&layer.b_attn),
        must(&layer.w_qkv),
        some(&layer.b_qkv),
        must(&layer.w_o),
        some(&layer.b_o),
        must(&layer.g_ffn),
        some(&layer.b_ffn),
        some(&layer.w_gate),
        some(&layer.b_gate),
        must(&layer.w_up),
        some(&layer.b_up),
        must(&layer.w_down),
        some(&layer.b_down),
    ]
}

fn head_tensors<B: Backend>(model: &Gpt<B>) -> [Option<B::FloatTensorPrimitive>; N_HEAD_TENSOR] {
    [
        Some(primitive(model.g_final.val())),
        model.b_final.as_ref().map(|param| primitive(param.val())),
        Some(primitive(model.head())),
        model.b_out.as_ref().map(|param| primitive(param.val())),
    ]
}

fn tokens<B: Backend>(targets: Tensor<B, 2, Int>) -> Vec<u16> {
    let values: Vec<i32> = targets
        .into_data()
        .into_vec()
        .expect("tokens are made as i32");
    // a token is below vocab_size, which is a u16
    values.into_iter().map(|token| token as u16).collect()
}

impl Ops for Flex {
    fn layer(
        layer: &Layer<Self>,
        config: &Config,
        tables: &Tables<Self>,
        x: Tensor<Self, 3>,
        dropout: Option<block::Dropout>,
    ) -> Tensor<Self, 3> {
        let call = Call::new(config, tables, x.dims(), dropout);
        let tensors = layer_tensors(layer).map(|tensor| tensor.map(dense));
        let mut saved = SAVED.take();
        let out = call.forward(&tensors, &dense(primitive(x)), &mut saved);
        SAVED.give_back(saved);
        Tensor::from_primitive(TensorPrimitive::Float(out))
    }

    fn head_nll(
        model: &Gpt<Self>,
        config: &Config,
        x: Tensor<Self, 3>,
        targets: Tensor<Self, 2, Int>,
    ) -> Tensor<Self, 2> {
        let [batch, len, _] = x.dims();
        let tensors = head_tensors(model).map(|tensor| tensor.map(dense));
        let mut losses = vec![0.0; batch * len];
        let mut buffers = HEADS.take();
        block::head_loss(
            &head_params(config, &tensors),
            slice(&dense(primitive(x))),
            &tokens(targets),
            Some(&mut losses),
            &mut buffers,
        );
        HEADS.give_back(buffers);
        Tensor::from_data(TensorData::new(losses, [batch, len]), &FlexDevice)
    }
}

/// A block on the tape.
#[derive(Debug)]
struct LayerNode;

#[derive(Clone, Debug)]
struct LayerState {
    call: Call,
    tensors: LayerTensors,
    // taken by the backward pass, which runs once
    saved: Arc<Mutex<Option<Box<Saved>>>>,
}

impl Backward<Flex, { 1 + N_LAYER_TENSOR }> for LayerNode {
    type State = LayerState;

    fn backward(
        self,
        ops: NodeOps<LayerState, { 1 + N_LAYER_TENSOR }>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let dx_out = dense(grads.consume::<Flex>(&ops.node));
        let LayerState {
            call,
            tensors,
            saved,
        } = ops.state;
        let mut saved = saved
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .expect("a tape is walked back once");
        let mut dx = vec![0.0; slice(&dx_out).len()];
        let mut dparams = tensors
            .each_ref()
            .map(|tensor| tensor.as_ref().map(|tensor| vec![0.0; slice(tensor).len()]));
        block::backward(
            &call.shape,
            &call.batch(),
            &layer_params(&tensors),
            &mut saved,
            slice(&dx_out),
            &mut dx,
            &mut layer_grads(&mut dparams),
        );
        SAVED.give_back(saved);
        let [x_parent, parents @ ..] = ops.parents;
        if let Some(node) = x_parent {
            grads.register::<Flex>(node.id, call.stream(dx));
        }
        for ((parent, tensor), dparam) in parents.into_iter().zip(tensors).zip(dparams) {
            if let (Some(node), Some(tensor), Some(dparam)) = (parent, tensor, dparam) {
                grads.register::<Flex>(node.id, shaped_like(&tensor, dparam));
            }
        }
    }
}

fn shaped_like(tensor: &FlexTensor, values: Vec<f32>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, tensor.layout().shape().clone()))
}

/// Last norm, head and loss on the tape; the gradients are made on the way forward.
#[derive(Debug)]
struct HeadNode;

#[derive(Clone, Debug)]
struct HeadState {
    dx: FlexTensor,
    dparams: HeadTensors,
}

impl Backward<Flex, { 1 + N_HEAD_TENSOR }> for HeadNode {
    type State = HeadState;

    fn backward(
        self,
        ops: NodeOps<HeadState, { 1 + N_HEAD_TENSOR }>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        // the loss is the root of the tape: its own gradient is 1
        grads.consume::<Flex>(&ops.node);
        let [x_parent, parents @ ..] = ops.parents;
        if let Some(node) = x_parent {
            grads.register::<Flex>(node.id, ops.state.dx);
        }
        for (parent, dparam) in parents.into_iter().zip(ops.state.dparams) {
            if let (Some(node), Some(dparam)) = (parent, dparam) {
                grads.register::<Flex>(node.id, dparam);
            }
        }
    }
}

impl Ops for Autodiff<Flex> {
    fn layer(
        layer: &Layer<Self>,
        config: &Config,
        tables: &Tables<Self>,
        x: Tensor<Self, 3>,
        dropout: Option<block::Dropout>,
    ) -> Tensor<Self, 3> {
        // the fused loops are written for one format
        if precision::of(&x) != FloatDType::F32 {
            return plain_layer(layer, config, tables, x, dropout);
        }
        let call = Call::new(config, tables, x.dims(), dropout);
        let x = primitive(x);
        let tracked = layer_tensors(layer);
        // a tensor that the model lacks gets the node of `x` and no gradient
        let node = |i: usize| tracked[i].as_ref().map_or(&x, |tensor| tensor).node.clone();
        let nodes = core::array::from_fn(|i| if i == 0 { x.node.clone() } else { node(i - 1) });
        let tensors = tracked.each_ref().map(|tensor| {
            tensor
                .as_ref()
                .map(|tensor| dense(tensor.primitive.clone()))
        });
        let mut saved = SAVED.take();
        let out = call.forward(&tensors, &dense(x.primitive.clone()), &mut saved);
        let prep = LayerNode.prepare::<NoCheckpointing>(nodes).compute_bound();
        let out = match prep.stateful() {
            OpsKind::Tracked(prep) => {
                let state = LayerState {
                    call,
                    tensors,
                    saved: Arc::new(Mutex::new(Some(saved))),
                };
                prep.finish(state, out)
            }
            OpsKind::UnTracked(prep) => {
                SAVED.give_back(saved);
                prep.finish(out)
            }
        };
        Tensor::from_primitive(TensorPrimitive::Float(out))
    }

    fn head_loss(
        model: &Gpt<Self>,
        config: &Config,
        x: Tensor<Self, 3>,
        targets: Targets<Self>,
        scale: f32,
    ) -> Tensor<Self, 1> {
        if precision::of(&x) != FloatDType::F32 {
            return plain_head_loss(model, config, x, targets) * scale;
        }
        let soft = targets.soft.map(|soft| dense(primitive(soft).primitive));
        let shape = x.dims();
        let x = primitive(x);
        let tracked = head_tensors(model);
        let node = |i: usize| tracked[i].as_ref().map_or(&x, |tensor| tensor).node.clone();
        let nodes = core::array::from_fn(|i| if i == 0 { x.node.clone() } else { node(i - 1) });
        let tensors = tracked.each_ref().map(|tensor| {
            tensor
                .as_ref()
                .map(|tensor| dense(tensor.primitive.clone()))
        });
        let mut dx = vec![0.0; shape.iter().product()];
        let mut dparams = tensors
            .each_ref()
            .map(|tensor| tensor.as_ref().map(|tensor| vec![0.0; slice(tensor).len()]));
        let mut buffers = HEADS.take();
        let loss = {
            let [g_final, b_final, w_out, b_out] = dparams.each_mut().map(Option::as_deref_mut);
            block::head_loss_and_grads(
                &head_params(config, &tensors),
                slice(&dense(x.primitive.clone())),
                block::Targets {
                    tokens: &tokens(targets.tokens),
                    soft: soft.as_ref().map(slice),
                },
                scale,
                &mut dx,
                &mut HeadGrads {
                    g_final: g_final.expect("every head has a gain"),
                    b_final,
                    w_out: w_out.expect("every head has a matrix"),
                    b_out,
                },
                &mut buffers,
            )
        };
        HEADS.give_back(buffers);
        let loss = tensor(vec![(loss * f64::from(scale)) as f32], [1]);
        let prep = HeadNode.prepare::<NoCheckpointing>(nodes).compute_bound();
        let loss = match prep.stateful() {
            OpsKind::Tracked(prep) => {
                let mut grads = dparams.into_iter();
                let state = HeadState {
                    dx: tensor(dx, shape),
                    dparams: tensors.each_ref().map(|tensor| {
                        let grad = grads.next().flatten()?;
                        Some(shaped_like(tensor.as_ref()?, grad))
                    }),
                };
                prep.finish(state, loss)
            }
            OpsKind::UnTracked(prep) => prep.finish(loss),
        };
        Tensor::from_primitive(TensorPrimitive::Float(loss))
    }
}
