//! Whole conversations with the REPL, over a terminal in memory.

#[cfg(feature = "frames")]
mod frames;
mod support;
mod texts;
mod wire;
