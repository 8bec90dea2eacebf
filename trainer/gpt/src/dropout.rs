//! Dropout of the plain path; the masks are those of [`block`], functions of (seed, step, layer,
//! site, element), so that they depend on neither thread, shard nor backend.
//!
//! They act on the attention probabilities and on the output of each part before it joins the
//! residual stream ("Attention Is All You Need", section 5.4).

use block::{Dropout, Site};
use burn::tensor::backend::Backend;
use burn::tensor::{ElementConversion, Int, Tensor};

use crate::precision;

/// Multiplies the values of a site, the sequences along the first axis, by their mask.
///
/// The mask is made on the device: at the attention probabilities of a large model it would be
/// hundreds of megabytes a step to send there.
pub fn drop_out<B: Backend, const D: usize>(
    values: Tensor<B, D>,
    dropout: Option<Dropout>,
    site: Site,
) -> Tensor<B, D> {
    let Some(dropout) = dropout else {
        return values;
    };
    let dims = values.dims();
    let len = dims.iter().product::<usize>();
    // elements of a sequence lie together, and the shard starts at one in the middle of the batch
    let sequence = (len / dims[0]) as u32;
    let first = dropout.first_sequence.wrapping_mul(sequence);
    let [before, after, threshold] = dropout.mask(site).words();
    let index = Tensor::<B, 1, Int>::arange(0..len as i64, &values.device())
        .add_scalar(first.cast_signed());
    let hashed = hash(index, before, after);
    // signed numbers compare like unsigned ones once the top bit of both is flipped
    let flipped = hashed.bitwise_xor_scalar(i32::MIN.elem());
    let kept = flipped.greater_equal_elem((threshold ^ (1 << 31)).cast_signed());
    let factors = kept.float().mul_scalar(1.0 / (1.0 - dropout.rate));
    let factors = precision::to(factors.reshape(dims), precision::of(&values));
    values * factors
}

/// The hash of [`block`] in signed 32-bit tensors, which wrap like unsigned ones.
fn hash<B: Backend>(index: Tensor<B, 1, Int>, before: u32, after: u32) -> Tensor<B, 1, Int> {
    let shifted = |x: &Tensor<B, 1, Int>, by: u32| {
        // the shift copies the sign; the mask takes the copies away
        x.clone()
            .bitwise_right_shift_scalar(by.cast_signed().elem())
            .bitwise_and_scalar((u32::MAX >> by).cast_signed().elem())
    };
    let x = index.bitwise_xor_scalar(before.cast_signed().elem());
    let x = x.clone().bitwise_xor(shifted(&x, 16));
    let x = x.mul_scalar(0x7feb_352d_u32.cast_signed());
    let x = x.clone().bitwise_xor(shifted(&x, 15));
    let x = x.bitwise_xor_scalar(after.cast_signed().elem());
    let x = x.mul_scalar(0x846c_a68b_u32.cast_signed());
    x.clone().bitwise_xor(shifted(&x, 16))
}
