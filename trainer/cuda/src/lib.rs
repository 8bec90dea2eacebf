//! Training on an NVIDIA GPU, through burn-cuda.
//!
//! A package of its own, because its code takes minutes to compile: whoever changes the model waits
//! for it once, at the end.

use burn_cuda::{Cuda, CudaDevice};
use gpt::bench::BenchArgs;
use gpt::request::TrainArgs;
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

/// Trains on the first device, and the other workers of the run on the next ones of `count`.
///
/// # Errors
///
/// As [`gpt::run::train`].
pub fn train(plan: Plan, count: usize) -> anyhow::Result<()> {
    let devices: Vec<_> = (0..count).map(CudaDevice::new).collect();
    gpt::run::train::<Cuda>(plan, &devices)
}

/// Works on the first device for a run that listens at an address.
///
/// # Errors
///
/// As [`gpt::run::join`].
pub fn join(args: &TrainArgs, address: &str) -> anyhow::Result<()> {
    gpt::run::join::<Cuda>(args, address, &CudaDevice::default())
}

/// Measures on the first device.
///
/// # Errors
///
/// As [`gpt::bench::bench`].
pub fn bench(args: &BenchArgs) -> anyhow::Result<()> {
    gpt::bench::bench::<Cuda>(args, &CudaDevice::default())
}
