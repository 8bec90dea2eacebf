//! Checkpoints of other programs, as checkpoints of this one.
//!
//! | module | what it reads |
//! |---|---|
//! | [`llama2c`], [`tokenizer`] | llama2.c's `.bin` (versions 0, 1, 2) and its `tokenizer.bin` |
//! | [`nanogpt`] | nanoGPT's `ckpt.pt` or its tensors in safetensors, and `meta.pkl` |
//! | [`description`] | safetensors beside a JSON description; also written |
//!
//! Every length that a file claims is compared with the file before anything of that size is
//! allocated.

mod assemble;
pub mod description;
mod error;
pub mod llama2c;
pub mod nanogpt;
mod pickle;
mod tensors;
pub mod tokenizer;
mod torch;

pub use assemble::Guest;
pub use error::ImportError;
