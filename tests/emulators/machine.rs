//! The boards that an emulator runs, and how their firmware is built.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use checkpoint::{AlignedBytes, Board, blob};
use runtime::Layout;

use super::Firmware;

/// A board and its emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// MPS2-AN385 in QEMU, a Cortex-M3.
    An385,
    /// MPS2-AN386 in QEMU, a Cortex-M4F: the board of `firmware/qemu`.
    Qemu,
    /// MPS2-AN500 in QEMU, a Cortex-M7.
    An500,
    /// MPS2-AN505 in QEMU, a Cortex-M33.
    An505,
    /// `virt` in QEMU, an RV32IMC core.
    Virt,
    /// Raspberry Pi Pico in rp2040js.
    Pico,
    /// Raspberry Pi Pico 2 in Unicorn.
    Pico2,
    /// Black Pill, an STM32F411, in Unicorn.
    Blackpill,
}

/// How a machine is built and started.
pub(super) struct Recipe {
    /// Folder and binary.
    name: &'static str,
    target: &'static str,
    /// Those that the core calls for.
    features: &'static str,
    pub(super) emulator: Emulator,
    /// Where the model's region begins, as the board's memory.x has it.
    pub(super) model_at: u32,
}

/// What runs a machine.
#[derive(Clone, Copy)]
pub(super) enum Emulator {
    /// QEMU, which has the machine under this name.
    Qemu(&'static str),
    Rp2040js,
    /// Unicorn, with the chip of this board modelled here.
    Unicorn(&'static str),
}

impl Machine {
    /// Every machine.
    pub const ALL: [Self; 8] = [
        Self::An385,
        Self::Qemu,
        Self::An500,
        Self::An505,
        Self::Virt,
        Self::Pico,
        Self::Pico2,
        Self::Blackpill,
    ];

    pub(super) const fn recipe(self) -> Recipe {
        let mps2 = Recipe {
            name: "qemu",
            target: "thumbv7em-none-eabihf",
            features: "",
            emulator: Emulator::Qemu("mps2-an386"),
            model_at: 0x0002_0000,
        };
        match self {
            Self::An385 => Recipe {
                target: "thumbv7m-none-eabi",
                emulator: Emulator::Qemu("mps2-an385"),
                ..mps2
            },
            Self::Qemu => mps2,
            Self::An500 => Recipe {
                emulator: Emulator::Qemu("mps2-an500"),
                ..mps2
            },
            Self::An505 => Recipe {
                target: "thumbv8m.main-none-eabihf",
                features: "dsp",
                emulator: Emulator::Qemu("mps2-an505"),
                model_at: 0x1002_0000,
                ..mps2
            },
            Self::Virt => Recipe {
                name: "virt",
                target: "riscv32imc-unknown-none-elf",
                features: "",
                emulator: Emulator::Qemu("virt"),
                model_at: 0x8002_0000,
            },
            Self::Pico => Recipe {
                name: "pico",
                target: "thumbv6m-none-eabi",
                features: "",
                emulator: Emulator::Rp2040js,
                model_at: 0x1002_0000,
            },
            Self::Pico2 => Recipe {
                name: "pico2",
                target: "thumbv8m.main-none-eabihf",
                features: "",
                emulator: Emulator::Unicorn("pico2"),
                model_at: 0x1002_0000,
            },
            Self::Blackpill => Recipe {
                name: "blackpill",
                target: "thumbv7em-none-eabihf",
                features: "",
                emulator: Emulator::Unicorn("blackpill"),
                model_at: 0x0801_8000,
            },
        }
    }

    /// Returns the name of the board's folder.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.recipe().name
    }

    /// Returns the name of the machine on a command line: the folder's, or the variant's.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::An385 => "an385",
            Self::An500 => "an500",
            Self::An505 => "an505",
            Self::Qemu | Self::Virt | Self::Pico | Self::Pico2 | Self::Blackpill => self.name(),
        }
    }

    /// Finds a machine by its name on a command line.
    ///
    /// # Errors
    ///
    /// If there is none; the message has the names.
    pub fn find(label: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|one| one.label() == label);
        found.with_context(|| {
            let known = Self::ALL.map(Self::label).join(" ");
            format!("no emulated board {label:?}; known are {known}")
        })
    }

    /// Builds the firmware without a model, with the command `/fault`, and puts `blob`, in the order of
    /// the board's core, where the model lies; `label` names the files.
    ///
    /// # Errors
    ///
    /// If cargo fails; the message has what it printed.
    pub fn build(self, label: &str, blob: &[u8]) -> Result<Firmware> {
        self.build_with("", label, blob)
    }

    /// Does what [`Machine::build`] does, with a further feature of the board, or none.
    ///
    /// # Errors
    ///
    /// As [`Machine::build`].
    pub fn build_with(self, feature: &str, label: &str, blob: &[u8]) -> Result<Firmware> {
        let elf = self.compile("none", feature)?;
        let model = kept()?.join(format!("{self:?}-{label}.bin"));
        write_once(&model, &native(blob, self.recipe().target))?;
        Ok(Firmware {
            machine: self,
            elf,
            model,
            embedded: false,
        })
    }

    /// Builds the firmware with the committed model in it, as a newcomer does.
    ///
    /// # Errors
    ///
    /// As [`Machine::build`].
    pub fn build_default(self) -> Result<Firmware> {
        let elf = self.compile(&default_model().display().to_string(), "")?;
        let model = kept()?.join(format!("{self:?}-default.bin"));
        Ok(Firmware {
            machine: self,
            elf,
            model,
            embedded: true,
        })
    }

    /// Has cargo build the firmware around a model, `none` for none, and returns the ELF.
    fn compile(self, model: &str, feature: &str) -> Result<PathBuf> {
        // One build at a time, because each leaves its ELF in the same place.
        static BUILT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
        let mut built = BUILT
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let recipe = self.recipe();
        let (kind, faults) = match model {
            "none" => ("bare", "faults"),
            _ => ("full", ""),
        };
        let elf = format!("{}-{}-{kind}{feature}.elf", recipe.name, recipe.target);
        let elf = kept()?.join(elf);
        if built.contains(&elf) {
            return Ok(elf);
        }
        let binary = cargo_build(
            recipe.name,
            &[
                "--target",
                recipe.target,
                "--features",
                &[recipe.features, faults, feature].join(","),
            ],
            model.as_ref(),
        )?
        .join(recipe.target)
        .join("release")
        .join(recipe.name);
        fs::copy(binary, &elf)?;
        built.push(elf.clone());
        Ok(elf)
    }
}

/// Builds the firmware of a board with the committed model in it, as a newcomer does, and returns the ELF.
///
/// # Errors
///
/// If cargo fails; the message has what it printed.
pub fn build_board(board: &Board) -> Result<PathBuf> {
    let arguments = ["--target", board.target];
    let target = cargo_build(board.name, &arguments, default_model().as_os_str())?;
    Ok(target.join(board.target).join("release").join(board.name))
}

/// Builds the program `name` of `firmware/examples` around the committed model, runs it in QEMU and
/// returns what it prints.
///
/// # Errors
///
/// If cargo fails, or the program does not end well within a minute.
pub fn example(name: &str) -> Result<String> {
    let target = cargo_build("examples", &["--bin", name], default_model().as_os_str())?;
    let elf = target.join("thumbv7em-none-eabihf/release").join(name);
    let output = Command::new("timeout")
        .args(["60", "qemu-system-arm", "-M", "mps2-an386"])
        .args(["-display", "none", "-monitor", "none", "-serial", "none"])
        .args(["-semihosting-config", "enable=on,target=native", "-kernel"])
        .arg(elf)
        .stdin(Stdio::null())
        .output()
        .context("qemu-system-arm is not installed: apt-get install qemu-system-arm")?;
    let printed = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{name} failed after {printed:?}");
    Ok(printed)
}

/// Has cargo build a package of the boards around a model and returns its target folder.
fn cargo_build(package: &str, arguments: &[&str], model: &OsStr) -> Result<PathBuf> {
    let folder = root().join("firmware").join(package);
    let target = root().join("firmware/target");
    let output = Command::new("cargo")
        .args(["build", "--release", "--target-dir"])
        .arg(&target)
        .args(arguments)
        .current_dir(&folder)
        .env("CHAPBOOK_MODEL", model)
        // These override what the board's .cargo/config.toml says.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cargo build in {} failed:\n{}",
        folder.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(target)
}

/// Returns the blob with its weights in the order of a target's core; what is no model, as it is.
fn native(bytes: &[u8], target: &str) -> AlignedBytes {
    let plain = AlignedBytes::from(bytes);
    blob::relayout(&plain, Layout::of_target(target, true)).unwrap_or(plain)
}

/// Writes a file unless it has these bytes: another test's emulator may be reading it.
fn write_once(path: &Path, bytes: &[u8]) -> Result<()> {
    static WRITING: Mutex<()> = Mutex::new(());
    let _guard = WRITING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::write(path, bytes)?;
    }
    Ok(())
}

/// Returns the committed model that boards embed.
fn default_model() -> PathBuf {
    root().join("firmware/model/pocket.bin")
}

/// Returns the folder for what the tests keep.
fn kept() -> Result<PathBuf> {
    let folder = root().join("firmware/target/emulated");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Returns the root of the repository.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
