//! An empty library, because a manifest needs a target; see `Cargo.toml` beside it.
#![no_std]
