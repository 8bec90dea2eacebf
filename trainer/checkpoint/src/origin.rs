//! How a run was made: its command and the machine, kept in the run's folder.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::durable::write_durably;
use crate::runs;

/// The command that started a run and the machine that it ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Command to repeat the run with, from the top of the repository.
    pub command: String,
    /// Processor and number of cores.
    pub machine: String,
}

impl Origin {
    /// Describes the running program, which was started with `args`, its own path left out.
    #[must_use]
    pub fn here(args: impl IntoIterator<Item = String>) -> Self {
        let mut command = "cargo run --release -p trainer --".to_owned();
        for arg in args {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,=/".contains(c);
            command.push(' ');
            if !arg.is_empty() && arg.chars().all(plain) {
                command += &arg;
            } else {
                command += &format!("'{}'", arg.replace('\'', r"'\''"));
            }
        }
        Self {
            command,
            machine: machine(),
        }
    }

    /// Writes it to the folder of a run.
    ///
    /// # Errors
    ///
    /// A folder that cannot be written to.
    ///
    /// # Panics
    ///
    /// Never: two strings have a JSON form.
    pub fn save(&self, run: &Path) -> std::io::Result<()> {
        let json = serde_json::to_string_pretty(self).expect("strings have a JSON form");
        write_durably(&run.join(runs::ORIGIN), (json + "\n").as_bytes())
    }

    /// Reads that of a run; `None` for a run without one.
    #[must_use]
    pub fn load(run: &Path) -> Option<Self> {
        let json = std::fs::read(run.join(runs::ORIGIN)).ok()?;
        serde_json::from_slice(&json).ok()
    }
}

/// Returns the processor's name, where the system tells it, and the number of cores.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "model name")
        .map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{name}, {cores} cores")
}
