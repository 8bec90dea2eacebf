//! A module's tensors as one flat vector, and the walk between the two.
//!
//! Optimiser, weight average, clipping and checkpoints work on the flat vector; names and shapes
//! come from the module itself.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{FloatDType, Tensor};

use crate::precision;

/// One tensor of the model and its place in the flat vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path of the field, for example `layers.0.w_qkv`.
    pub name: String,
    /// Shape, `[out, in]` for matrices.
    pub shape: Vec<usize>,
    /// First element in the flat vector.
    pub offset: usize,
}

impl Entry {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether the tensor has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the elements' places in the flat vector.
    #[must_use]
    pub fn range(&self) -> core::ops::Range<usize> {
        self.offset..self.offset + self.len()
    }
}

struct Names {
    path: Vec<String>,
    entries: Vec<Entry>,
}

impl<B: Backend> ModuleVisitor<B> for Names {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let shape = param.val().dims().to_vec();
        let offset = self.entries.last().map_or(0, |entry| entry.range().end);
        self.entries.push(Entry {
            name: self.path.join("."),
            shape,
            offset,
        });
    }

    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }
}

/// Lists the model's tensors in the order of the flat vector.
pub fn entries<B: Backend, M: Module<B>>(model: &M) -> Vec<Entry> {
    let mut names = Names {
        path: Vec::new(),
        entries: Vec::new(),
    };
    model.visit(&mut names);
    names.entries
}

struct Fill<B: Backend> {
    flat: Tensor<B, 1>,
    offset: usize,
}

impl<B: Backend> ModuleMapper<B> for Fill<B> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let (id, old, mapper) = param.consume();
        let dims = old.dims();
        let range = self.offset..self.offset + dims.iter().product::<usize>();
        self.offset = range.end;
        let value = self.flat.clone().slice([range]).reshape(dims);
        // a leaf of its own: replicas that shared one would share a graph and wait for each other
        Param::from_mapped_value(id, value.require_grad(), mapper)
    }
}

/// Returns the model with the values of the flat vector.
pub fn with_values<B: Backend, M: Module<B>>(model: M, flat: Tensor<B, 1>) -> M {
    model.map(&mut Fill { flat, offset: 0 })
}

struct Collect<'a, B: AutodiffBackend> {
    grads: &'a B::Gradients,
    flat: Vec<Tensor<B::InnerBackend, 1>>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Collect<'_, B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let value = param.val();
        let len = value.dims().iter().product::<usize>();
        self.flat.push(match value.grad(self.grads) {
            Some(grad) => grad.reshape([len]),
            None => {
                let zeros = Tensor::zeros([len], &value.device());
                precision::to(zeros, precision::of(&value))
            }
        });
    }
}

/// Returns the gradients of all tensors as one flat vector of `f32`.
pub fn gradients<B: AutodiffBackend, M: Module<B>>(
    model: &M,
    grads: &B::Gradients,
) -> Tensor<B::InnerBackend, 1> {
    let mut collect = Collect {
        grads,
        flat: Vec::new(),
    };
    model.visit(&mut collect);
    precision::to(Tensor::cat(collect.flat, 0), FloatDType::F32)
}
