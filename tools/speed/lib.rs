//! See `benches/tokens.rs`.
