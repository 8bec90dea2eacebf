//! Fused forward and backward passes for training a small Transformer on a CPU.
//!
//! A block is two calls, [`forward`] and [`backward`], on slices and reused buffers ([`Saved`]). Each
//! call runs on the thread that makes it and gives the same bits for the same input; parallelism
//! (shards of the batch) is the caller's.

mod activation;
mod attention;
mod backward;
mod block;
mod dropout;
mod embedding;
mod linear;
mod loss;
mod norm;
mod panel;
mod product;
mod saved;
mod shape;
mod transpose;
mod update;
#[cfg(test)]
mod vector_units;

pub use backward::backward;
pub use block::forward;
pub use dropout::{Dropout, Mask, Site, attention_index, residual_index};
pub use embedding::Embedding;
pub use loss::{HeadBuffers, HeadGrads, HeadParams, head_loss, head_loss_and_grads};
pub use norm::NORM_EPS;
pub use saved::Saved;
pub use shape::{Batch, Grads, Params, Rope, Shape};
pub use update::{AdamW, global_norm, move_average};
