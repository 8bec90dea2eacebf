//! Training on an NVIDIA GPU, through burn-cuda.
//!
//! A package of its own, because its code takes minutes to compile: whoever changes the model waits
//! for it once, at the end.

use burn_cuda::{Cuda, CudaDevice};
use gpt::bench::BenchArgs;
use gpt::run::Plan;

/// Counts the usable devices; the error is a sentence.
///
/// burn-cuda is not touched: it panics where the driver is missing.
///
/// # Errors
///
/// No driver, no device, or a driver that does not start.
pub fn devices() -> Result<usize, String> {
    // SAFETY: only opens and closes the driver's library; no CUDA call has been made before.
    let present = unsafe { cudarc::driver::sys::is_culib_present() };
    if !present {
        return Err("no CUDA driver is installed".to_owned());
    }
    match cudarc::driver::CudaContext::device_count() {
        Ok(count) if count > 0 => Ok(count as usize),
        Ok(_) => Err("the CUDA driver finds no device".to_owned()),
        Err(error) => Err(format!("the CUDA driver does not start ({error})")),
    }
}

/// Trains on the first device.
///
/// # Errors
///
/// As [`gpt::run::train`].
pub fn train(plan: Plan) -> anyhow::Result<()> {
    gpt::run::train::<Cuda>(plan, &CudaDevice::default())
}

/// Measures on the first device.
///
/// # Errors
///
/// As [`gpt::bench::bench`].
pub fn bench(args: &BenchArgs) -> anyhow::Result<()> {
    gpt::bench::bench::<Cuda>(args, &CudaDevice::default())
}
