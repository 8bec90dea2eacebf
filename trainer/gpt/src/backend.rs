//! Where the training runs: CUDA when a device is usable, else the CPU, chosen at run time.

use anyhow::{Result, bail};
use burn::tensor::backend::AutodiffBackend;
use burn_autodiff::Autodiff;
use burn_cuda::Cuda;
use burn_flex::Flex;

use crate::ops::Ops;

/// A backend that can train: it has a differentiable counterpart.
pub trait TrainBackend: Ops {
    /// The counterpart.
    type Train: AutodiffBackend<InnerBackend = Self, Device = Self::Device> + Ops;
}

// Flex and its autodiff counterpart have their own ways of computing, see `fused`.
impl TrainBackend for Flex {
    type Train = Autodiff<Self>;
}

#[cfg(feature = "cuda")]
impl Ops for Cuda {}
#[cfg(feature = "cuda")]
impl Ops for Autodiff<Cuda> {}
#[cfg(feature = "cuda")]
impl TrainBackend for Cuda {
    type Train = Autodiff<Self>;
}

/// The device that a run uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// burn-flex.
    Cpu,
    /// burn-cuda, device 0.
    Cuda,
}

/// Chooses the device by the word on the command line; also returns the reason, one sentence.
///
/// # Errors
///
/// An unknown word, or CUDA demanded where there is none.
pub fn choose(word: &str) -> Result<(Device, String)> {
    match word {
        "cpu" => Ok((Device::Cpu, "as asked".to_owned())),
        "cuda" => match find_cuda() {
            Ok(count) => Ok((Device::Cuda, format!("as asked; {count} found"))),
            Err(reason) => bail!("{reason}; use --device cpu or --device auto"),
        },
        "auto" => Ok(match find_cuda() {
            Ok(count) => (Device::Cuda, format!("{count} CUDA device(s) found")),
            Err(reason) => (Device::Cpu, reason),
        }),
        other => bail!("there is no device {other:?}; expected auto, cpu or cuda"),
    }
}

/// Counts CUDA devices without touching burn-cuda, which panics where the driver is missing.
fn find_cuda() -> Result<i32, String> {
    // SAFETY: only opens and closes the driver's library; no CUDA call has been made before.
    let present = unsafe { cudarc::driver::sys::is_culib_present() };
    if !present {
        return Err("no CUDA driver is installed".to_owned());
    }
    match cudarc::driver::CudaContext::device_count() {
        Ok(0) => Err("the CUDA driver finds no device".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("the CUDA driver does not start ({error})")),
    }
}
