//! The operations of a forward pass: pure functions on slices, integers only.
//!
//! Activations are `i32` in units of 2^-16. Before a product a vector becomes int8 with one
//! [`Scale`](crate::fixed::Scale); products are int8 times int8, summed exactly in `i32`.

mod activation;
mod attend;
mod matrix;
mod matvec;
mod norm;
mod quantize;

pub use crate::kernel::passes::Finish;
pub use activation::{multiply_silu, square};
pub use attend::{AttendScratch, Past, attend, rotate, score_factor};
#[cfg(kernel = "m4")]
pub(crate) use attend::{octaves, spare, weight_right, weights_unit};
pub use matrix::{Factor, Matrix};
pub use matvec::{add, matvec, matvec_add, products, sums};
pub use norm::{Gains, norm};
pub use quantize::{HeadScale, max_magnitude, quantize, quantize_head};

/// Largest `head_dim`; keeps `dot * 8-bit scale` exact in `i32`.
pub const MAX_HEAD_DIM: usize = 512;
