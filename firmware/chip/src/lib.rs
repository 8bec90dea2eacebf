//! What the boards share below the REPL: the stack, the resets, the faults and the model's region.
//!
//! A board's linker script puts the stack at the bottom of RAM, so that an overflow leaves RAM and
//! faults at once instead of writing over variables.

#![cfg(target_os = "none")]
#![no_std]

#[cfg_attr(target_arch = "arm", path = "cortex.rs")]
#[cfg_attr(target_arch = "riscv32", path = "riscv.rs")]
mod arch;
mod common;
#[cfg(feature = "whole")]
mod fault;
pub mod kept;
pub mod led;
pub mod line;
#[cfg(feature = "whole")]
mod model;
mod register;
mod resets;
#[cfg(feature = "whole")]
mod run;
pub mod stack;

pub use arch::idle;
pub use common::Common;
#[cfg(feature = "whole")]
pub use fault::{fault, panic};
pub use register::Register;
pub use resets::announce;
#[cfg(feature = "whole")]
pub use run::run;
