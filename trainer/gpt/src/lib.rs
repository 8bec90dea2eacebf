//! A character-level Transformer in burn: model, training run, evaluation, samples.
//!
//! Read [`model`] first, then [`ops`], then [`training`].

/// Prints a line, and goes on when nobody reads it: a closed pipe must not end a training.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        // Losing the reader is no reason to lose the run.
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

pub mod attention;
pub mod backend;
pub mod batch;
pub mod bench;
pub mod chart;
pub mod compare;
pub mod cpu_time;
pub mod dropout;
pub mod eval;
pub mod evaluation;
pub mod fused;
mod fused_update;
pub mod html;
pub mod init;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod needs;
pub mod ops;
pub mod optimizer;
pub mod paper;
pub mod params;
pub mod peers;
pub mod precision;
pub mod presets;
pub mod progress;
pub mod protocol;
pub mod report;
pub mod request;
pub mod rng;
pub mod rounding;
pub mod run;
pub mod sample;
pub mod settings;
pub mod shards;
pub mod tables;
pub mod teacher;
pub mod training;
