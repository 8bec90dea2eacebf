//! Dropout of the plain path; the masks are those of [`block`], functions of (seed, step, layer,
//! site, element), so that they depend on neither thread, shard nor backend.
//!
//! They act on the attention probabilities and on the output of each part before it joins the
//! residual stream ("Attention Is All You Need", section 5.4).

use block::{Dropout, Site};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};

/// Multiplies the values of a site, the sequences along the first axis, by their mask.
pub fn drop_out<B: Backend, const D: usize>(
    values: Tensor<B, D>,
    dropout: Option<Dropout>,
    site: Site,
) -> Tensor<B, D> {
    let Some(dropout) = dropout else {
        return values;
    };
    let dims = values.dims();
    // elements of a sequence lie together, and the shard starts at one in the middle of the batch
    let sequence = dims[1..].iter().product::<usize>() as u32;
    let first = dropout.first_sequence.wrapping_mul(sequence);
    let mask = dropout.mask(site);
    let factors: Vec<f32> = (0..sequence.wrapping_mul(dims[0] as u32))
        .map(|i| mask.factor(first.wrapping_add(i)))
        .collect();
    values.clone() * Tensor::from_data(TensorData::new(factors, dims), &values.device())
}
