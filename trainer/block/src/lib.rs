//! Fused forward and backward passes for training a small Transformer on a CPU.
//!
//! A block is two calls, [`forward`] and [`backward`], on slices and reused buffers ([`Saved`]). Each
//! call runs on the thread that makes it and gives the same bits for the same input; parallelism
//! (shards of the batch) is the caller's.
//!
//! [`Embedding`] comes before the blocks, [`head_loss_and_grads`] after them, [`global_norm`] and
//! [`AdamW`] end the step.
//!
//! # Numerics
//!
//! All of it is f32, except for the sum of the losses. Bits depend on the vector unit (AVX-512, AVX2 or
//! none: chosen at run time) by its fused multiply-adds, and on nothing else: not on what the buffers
//! held, nor, for outputs and their gradients, on how a batch is cut into calls.
//!
//! # Speed
//!
//! `cargo run --release -p block --example speed`, forward, loss and backward without the update, one
//! thread of a 2.85 GHz Sapphire Rapids with AVX-512 (182 GFLOP/s at most) shared with other jobs:
//!
//! | model | batch | tokens/s, mean to fastest step | GFLOP/s, fastest step |
//! |---|---|---|---|
//! | 2 layers, 4 heads, 64, context 64, d_ff 256 | 16 | 150,000 to 167,000 | 110 |
//! | 3 layers, 4 heads, 40, context 128, d_ff 160 | 16 | 168,000 to 188,000 | 85 |
//! | 4 layers, 4 heads, 128, context 64, d_ff 512 | 12 | 17,800 to 21,400 | 106 |

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
pub use loss::{HeadBuffers, HeadGrads, HeadParams, Targets, head_loss, head_loss_and_grads};
pub use norm::NORM_EPS;
pub use saved::Saved;
pub use shape::{Batch, Grads, Params, Rope, Shape};
pub use update::{AdamW, global_norm, move_average};
