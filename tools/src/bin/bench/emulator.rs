//! Building the bench firmware and running it in QEMU with the plugin that counts cycles.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use checkpoint::runs;

use tools::elf::{Elf, Symbol};

/// Parts that the plugin takes.
const MAX_PARTS: usize = 64;

/// A core, its target, its emulated machine and the cheapest multiply-accumulate it could do.
#[derive(Debug)]
pub(crate) struct Core {
    /// Name in the table and of the plugin's costs.
    pub(crate) name: &'static str,
    /// Name of the plugin's costs.
    costs: &'static str,
    target: &'static str,
    features: &'static [&'static str],
    qemu: &'static [&'static str],
    /// Cycles per multiply-accumulate of the cheapest sequence of instructions: memory without
    /// waits, activations for nothing, no loop.
    pub(crate) floor: f64,
    /// The same for int4 weights.
    pub(crate) floor_w4: f64,
}

/// Every core, in the order of the table. The Cortex-M33 has no costs of its own; those of the M4
/// are above its.
pub(crate) const CORES: [Core; 5] = [
    Core {
        name: "m0plus",
        costs: "m0plus",
        target: "thumbv6m-none-eabi",
        features: &[],
        qemu: &["qemu-system-arm", "-M", "mps2-an385"],
        floor: 3.56,
        floor_w4: 2.38,
    },
    Core {
        name: "m3",
        costs: "m3",
        target: "thumbv6m-none-eabi",
        features: &[],
        qemu: &["qemu-system-arm", "-M", "mps2-an385"],
        floor: 3.31,
        floor_w4: 1.88,
    },
    Core {
        name: "m4f",
        costs: "m4f",
        target: "thumbv7em-none-eabihf",
        features: &[],
        qemu: &["qemu-system-arm", "-M", "mps2-an386"],
        floor: 1.06,
        floor_w4: 1.16,
    },
    Core {
        name: "m33",
        costs: "m4f",
        target: "thumbv8m.main-none-eabihf",
        features: &["--features", "dsp"],
        qemu: &["qemu-system-arm", "-M", "mps2-an505"],
        floor: 1.00,
        floor_w4: 1.13,
    },
    Core {
        name: "rv32",
        costs: "rv32",
        target: "riscv32imc-unknown-none-elf",
        features: &[],
        qemu: &["qemu-system-riscv32", "-M", "virt", "-bios", "none"],
        floor: 3.00,
        floor_w4: 2.19,
    },
];

/// What the plugin counted between two marks.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    /// Instructions.
    pub(crate) instructions: u64,
    /// Cycles.
    pub(crate) cycles: u64,
    /// Cycles of the largest functions, themselves without what they call.
    pub(crate) parts: Vec<(String, u64)>,
}

/// One run of a bench program.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// What it counted.
    pub(crate) regions: Vec<Region>,
    /// What it printed.
    pub(crate) output: String,
    /// Bytes of code and constants, without the model.
    pub(crate) code_len: usize,
    /// Bytes of statics.
    pub(crate) ram_len: usize,
    /// Symbols of the panic machinery.
    pub(crate) panics: Vec<String>,
}

/// Compiles the plugin into a folder; returns its path.
pub(crate) fn plugin(folder: &Path) -> anyhow::Result<PathBuf> {
    let source = firmware().join("cycles.c");
    let plugin = folder.join("cycles.so");
    let status = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&plugin, &source])
        .status()
        .context("cannot run cc; install it with: sudo apt-get install gcc libc6-dev")?;
    ensure!(status.success(), "cc cannot compile {}", source.display());
    Ok(plugin)
}

impl Core {
    /// Builds a program of the bench firmware around a model and runs it; `features` names what the
    /// model needs of the firmware, separated by commas.
    pub(crate) fn run(
        &self,
        program: &str,
        model: &Path,
        features: &str,
        plugin: &Path,
    ) -> anyhow::Result<Run> {
        let target_dir = firmware().join("target");
        let build = Command::new("cargo")
            .args(["build", "--release", "--quiet", "--bin", program])
            .args(["--target", self.target, "--target-dir"])
            .arg(&target_dir)
            .args(self.features)
            .args(["--features", features])
            .current_dir(firmware())
            .env("CHAPBOOK_MODEL", model)
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .output()
            .context("cannot run cargo")?;
        ensure!(
            build.status.success(),
            "the bench firmware does not build for {}:\n{}",
            self.target,
            String::from_utf8_lossy(&build.stderr)
        );
        let elf = target_dir.join(self.target).join("release").join(program);
        let bytes = fs::read(&elf).with_context(|| format!("cannot read {}", elf.display()))?;
        self.emulate(&elf, &Elf::new(&bytes)?, plugin)
    }

    fn emulate(&self, path: &Path, elf: &Elf<'_>, plugin: &Path) -> anyhow::Result<Run> {
        let symbols = elf.symbols()?;
        let log = path.with_extension("log");
        let mut arguments = format!("{},core={}", plugin.display(), self.costs);
        for (name, symbol) in parts(&symbols) {
            let end = symbol.start + symbol.len;
            arguments += &format!(",part={name}:{:x}:{end:x}", symbol.start);
        }
        let output = Command::new(self.qemu[0])
            .args(&self.qemu[1..])
            .args(["-display", "none", "-monitor", "none", "-serial", "stdio"])
            .args(["-semihosting-config", "enable=on,target=native"])
            .arg("-kernel")
            .arg(path)
            .args(["-plugin", &arguments, "-d", "plugin", "-D"])
            .arg(&log)
            .output()
            .with_context(|| {
                format!(
                    "cannot run {}; install it with: sudo apt-get install qemu-system-arm \
                     qemu-system-misc",
                    self.qemu[0]
                )
            })?;
        // Semihosting writes to standard error.
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).trim().to_string();
        ensure!(
            output.status.success(),
            "{} on {} failed: {printed}",
            path.display(),
            self.name
        );
        Ok(Run {
            regions: regions(&fs::read_to_string(&log)?)?,
            output: printed,
            code_len: elf.code_len(),
            ram_len: elf.ram_len(),
            panics: symbols
                .into_iter()
                .map(|symbol| symbol.name)
                .filter(|name| name.contains("panicking"))
                .collect(),
        })
    }
}

fn firmware() -> PathBuf {
    runs::repository().join("firmware/bench")
}

/// Returns the largest functions with short names.
fn parts(symbols: &[Symbol]) -> Vec<(String, &Symbol)> {
    let mut functions: Vec<&Symbol> = symbols
        .iter()
        .filter(|symbol| symbol.is_function && symbol.len > 0)
        .collect();
    functions.sort_by_key(|symbol| std::cmp::Reverse(symbol.len));
    functions
        .into_iter()
        .take(MAX_PARTS)
        .map(|symbol| (short(&symbol.name), symbol))
        .collect()
}

/// Returns the last component of a name in Rust's older mangling, or the name itself.
fn short(name: &str) -> String {
    let mut rest = name.strip_prefix("_ZN").unwrap_or("");
    let mut last = name;
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Ok(len) = rest[..digits].parse::<usize>() else {
            break;
        };
        let Some(component) = rest.get(digits..digits + len) else {
            break;
        };
        rest = &rest[digits + len..];
        // The last one is a hash.
        if !rest.starts_with('E') {
            last = component;
        }
    }
    let plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    last.chars().filter(plain).take(32).collect()
}

fn regions(log: &str) -> anyhow::Result<Vec<Region>> {
    let mut regions = Vec::new();
    for line in log.lines().filter(|line| line.starts_with("region ")) {
        let fields: Vec<&str> = line.split(' ').collect();
        let [
            _,
            _,
            "instructions",
            instructions,
            "cycles",
            cycles,
            parts @ ..,
        ] = &fields[..]
        else {
            bail!("the plugin printed {line:?}");
        };
        let mut region = Region {
            instructions: instructions.parse()?,
            cycles: cycles.parse()?,
            parts: Vec::new(),
        };
        for pair in parts.chunks_exact(2) {
            region.parts.push((pair[0].to_string(), pair[1].parse()?));
        }
        regions.push(region);
    }
    Ok(regions)
}
