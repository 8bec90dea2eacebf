//! A decoder-only Transformer for microcontrollers: `no_std`, no heap, weights in place.
//!
//! 1. The order of the code is the order of the mathematics.
//! 2. The caller owns all memory; sizes are known before the first token.
//! 3. Every number that matters is measured by a command in the repository.
//! 4. Simple first; a faster kernel passes the same vectors and pays for its lines.
//!
//! Read [`Model`] first, then [`ops`]. The blob's bytes are specified in `FORMAT.md`.

#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]

// Weights are used in place, so memory order is the blob's order.
#[cfg(target_endian = "big")]
compile_error!("a blob is little-endian and is used in place: the target must be little-endian");

#[cfg(feature = "assist")]
mod assist;
#[cfg(not(kernel = "m4"))]
mod cached_head;
mod config;
mod crc;
pub mod fixed;
#[cfg(feature = "f32")]
mod float;
pub mod format;
mod header;
pub mod kernel;
mod kinds;
mod layout;
mod model;
pub mod ops;
mod part;
#[cfg(feature = "byte-pair")]
pub mod pieces;
mod relayout;
mod sampler;
mod series;
mod session;
mod state;
mod tensor;
mod vocab;

#[cfg(feature = "assist")]
pub use assist::{Assist, Job, Rows, UNIT_ROWS};
pub use config::{
    Activation, Config, ConfigError, MAX_CONTEXT, MAX_LAYER, MAX_WIDTH, Norm, Position,
};
pub use crc::{LogitsHash, crc32};
pub use format::{Golden, Header, LoadError, Provenance};
pub use kinds::{GROUP_STEP, Kinds, MAX_GROUP, is_group};
pub use layout::Layout;
pub use model::Model;
pub use relayout::{RelayoutError, relayout};
pub use sampler::{Sampler, Settings, SettingsError, SplitMix64};
pub use session::{PushError, SelfTestError, Session};
pub use state::StateTooSmall;
pub use tensor::{Kind, TENSOR_ALIGN, TensorId, TensorSpec};
pub use vocab::{BYTE_PAIR_MARK, Decoder, Vocab, VocabError};
