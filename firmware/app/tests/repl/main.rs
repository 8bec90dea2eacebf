//! Whole conversations with the REPL, over a terminal in memory.

mod support;
mod texts;
mod wire;
