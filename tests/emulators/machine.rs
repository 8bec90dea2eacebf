//! The boards that an emulator runs.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use checkpoint::AlignedBytes;
use runtime::{Layout, relayout};

use super::Chat;

/// How long an emulator may take to open its serial line.
const START: Duration = Duration::from_secs(30);

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

/// The firmware of a board, and the blob in the model's region of its flash.
#[derive(Clone, Debug)]
pub struct Firmware {
    machine: Machine,
    elf: PathBuf,
    /// Beside which the files of one boot are kept.
    model: PathBuf,
    embedded: bool,
}

/// How a machine is built and started.
struct Recipe {
    /// Folder and binary.
    name: &'static str,
    target: &'static str,
    features: &'static str,
    emulator: Emulator,
    /// Where the model's region begins, as the board's memory.x has it.
    model_at: u32,
}

/// What runs a machine.
#[derive(Clone, Copy)]
enum Emulator {
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

    const fn recipe(self) -> Recipe {
        let mps2 = Recipe {
            name: "qemu",
            target: "thumbv7em-none-eabihf",
            features: "faults",
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
                features: "faults,dsp",
                emulator: Emulator::Qemu("mps2-an505"),
                model_at: 0x1002_0000,
                ..mps2
            },
            Self::Virt => Recipe {
                name: "virt",
                target: "riscv32imc-unknown-none-elf",
                features: "faults",
                emulator: Emulator::Qemu("virt"),
                model_at: 0x8002_0000,
            },
            Self::Pico => Recipe {
                name: "pico",
                target: "thumbv6m-none-eabi",
                features: "faults",
                emulator: Emulator::Rp2040js,
                model_at: 0x1002_0000,
            },
            Self::Pico2 => Recipe {
                name: "pico2",
                target: "thumbv8m.main-none-eabihf",
                features: "faults",
                emulator: Emulator::Unicorn("pico2"),
                model_at: 0x1002_0000,
            },
            Self::Blackpill => Recipe {
                name: "blackpill",
                target: "thumbv7em-none-eabihf",
                features: "faults",
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

    /// Builds the firmware without a model and puts `blob`, in the order of the board's core, where
    /// the model lies; `label` names the files.
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
        let model = root().join("firmware/model/pocket.bin");
        let elf = self.compile(&model.display().to_string(), "")?;
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
        let kind = if model == "none" { "bare" } else { "full" };
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
                recipe.features,
                "--features",
                feature,
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

/// Builds the program `name` of `firmware/examples` around the committed model, runs it in QEMU and
/// returns what it prints.
///
/// # Errors
///
/// If cargo fails, or the program does not end well within a minute.
pub fn example(name: &str) -> Result<String> {
    let model = root().join("firmware/model/pocket.bin");
    let target = cargo_build("examples", &["--bin", name], model.as_os_str())?;
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
fn native(blob: &[u8], target: &str) -> Vec<u8> {
    let layout = Layout::of_target(target, true);
    let blob = AlignedBytes::from(blob);
    let mut out = vec![0; 2 * blob.len() + 4096];
    match relayout(&blob, layout, &mut out) {
        Ok(len) => out.truncate(len),
        Err(_) => out = blob.to_vec(),
    }
    out
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

/// Returns the folder for what the tests keep.
fn kept() -> Result<PathBuf> {
    let folder = root().join("firmware/target/emulated");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

impl Firmware {
    /// Boots it and waits for nothing.
    ///
    /// # Errors
    ///
    /// If the emulator is not installed or does not start.
    pub fn boot(&self) -> Result<Chat> {
        match self.machine.recipe().emulator {
            Emulator::Qemu(name) => self.boot_qemu(name, &[]),
            Emulator::Rp2040js => self.boot_pico(&[]),
            Emulator::Unicorn(board) => self.boot_unicorn(board, &[]),
        }
    }

    /// Boots it in QEMU with a clock that counts instructions: one is a nanosecond.
    ///
    /// # Errors
    ///
    /// As [`Firmware::boot`], or if this is not a board for QEMU.
    pub fn boot_counting(&self) -> Result<Chat> {
        match self.machine.recipe().emulator {
            Emulator::Qemu(name) => self.boot_qemu(name, &["-icount", "shift=0"]),
            _ => bail!("only QEMU counts instructions"),
        }
    }

    /// Boots it with a source of noise, drawn from `seed`; without, the emulated chips have a stuck one.
    ///
    /// # Errors
    ///
    /// As [`Firmware::boot`], or if the emulator has no noise.
    pub fn boot_noisy(&self, seed: u32) -> Result<Chat> {
        match self.machine.recipe().emulator {
            Emulator::Unicorn(board) => self.boot_unicorn(board, &["--noise", &seed.to_string()]),
            _ => bail!("only Unicorn's chips have noise"),
        }
    }

    /// Boots it with its USB serial port, which is silent until the host has found it, for a line.
    ///
    /// # Errors
    ///
    /// As [`Firmware::boot`], or if this is not a board with such a port.
    pub fn boot_usb(&self) -> Result<Chat> {
        ensure!(self.machine == Machine::Pico, "only the Pico has USB");
        self.boot_pico(&["--usb"])
    }

    /// Boots it with a flash cache that can stream, for a line; its emulator alone cannot.
    ///
    /// # Errors
    ///
    /// As [`Firmware::boot`], or if this is not a board with such a cache.
    pub fn boot_streaming(&self) -> Result<Chat> {
        match self.machine {
            Machine::Pico => self.boot_pico(&["--streams"]),
            Machine::Pico2 => self.boot_unicorn("pico2", &["--streams"]),
            _ => bail!("only the Pico and the Pico 2 stream"),
        }
    }

    /// Returns the ELF file.
    #[must_use]
    pub fn elf(&self) -> &Path {
        &self.elf
    }

    /// Returns the file with the defmt frames of the last boot.
    #[must_use]
    pub fn frames(&self) -> PathBuf {
        self.model.with_extension("defmt")
    }

    fn boot_qemu(&self, name: &str, extra: &[&str]) -> Result<Chat> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        // Socket paths are short by law (108 bytes), a target folder's may not be.
        let socket = std::env::temp_dir().join(format!("chapbook-{}-{}.uart", unique.0, unique.1));
        let listener = UnixListener::bind(&socket)?;
        listener.set_nonblocking(true)?;
        let mut chardev = OsString::from("socket,id=uart,path=");
        chardev.push(&socket);
        // Without a BIOS, which only the second has, it starts at the beginning of its RAM.
        let (program, start): (_, &[&str]) = match self.machine {
            Machine::Virt => ("qemu-system-riscv32", &["-bios", "none"]),
            _ => ("qemu-system-arm", &[]),
        };
        let mut command = Command::new(program);
        if !self.embedded {
            let at = self.machine.recipe().model_at;
            let model = self.model.display();
            let loader = format!("loader,file={model},addr={at:#x},force-raw=on");
            command.args(["-device", &loader]);
        }
        let mut emulator = command
            .args(["-M", name, "-display", "none", "-monitor", "none"])
            .args(["-semihosting-config", "enable=on,target=native"])
            .args([OsStr::new("-chardev"), &chardev])
            .args(["-serial", "chardev:uart"])
            .args(start)
            .args(extra)
            .args([OsStr::new("-kernel"), self.elf.as_os_str()])
            .stdin(Stdio::null())
            .stdout(File::create(self.frames())?)
            .spawn()
            .with_context(|| {
                format!(
                    "{program} is not installed: apt-get install qemu-system-arm qemu-system-misc"
                )
            })?;
        let start = Instant::now();
        let line = loop {
            match listener.accept() {
                Ok((line, _)) => break line,
                Err(error) if start.elapsed() > START => {
                    bail!("QEMU opens no serial line: {error}")
                }
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
            if let Some(status) = emulator.try_wait()? {
                bail!("QEMU ended at once: {status}");
            }
        };
        line.set_nonblocking(false)?;
        let input = Box::new(line.try_clone()?);
        Ok(Chat::new(emulator, input, line, Some(socket)))
    }

    fn boot_pico(&self, extra: &[&str]) -> Result<Chat> {
        let folder = root().join("tests/emulators");
        ensure!(
            folder.join("node_modules/rp2040js").is_dir(),
            "rp2040js is not installed: (cd tests/emulators && npm ci)"
        );
        let mut command = Command::new("node");
        command.arg(folder.join("rp2040.mjs")).arg(&self.elf);
        self.boot_piped(command, extra)
            .context("node is not installed: apt-get install nodejs npm")
    }

    fn boot_unicorn(&self, board: &str, extra: &[&str]) -> Result<Chat> {
        let folder = root().join("tests/emulators");
        let python = folder.join("venv/bin/python");
        ensure!(
            python.is_file(),
            "Unicorn is not installed: (cd tests/emulators && python3 -m venv venv && venv/bin/pip \
             install -r requirements.txt)"
        );
        let mut command = Command::new(python);
        command.arg(folder.join("cortexm.py")).arg(board);
        command.arg(&self.elf);
        self.boot_piped(command, extra)
    }

    /// Boots an emulator whose standard input and output are the serial line.
    fn boot_piped(&self, mut command: Command, extra: &[&str]) -> Result<Chat> {
        command
            .args([OsStr::new("--defmt"), self.frames().as_os_str()])
            .args(extra);
        if !self.embedded {
            let at = format!("{:#x}", self.machine.recipe().model_at);
            command.args([OsStr::new("--model"), self.model.as_os_str()]);
            command.args(["--model-at", &at]);
        }
        let mut emulator = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = emulator.stdin.take().context("stdin is piped")?;
        let output = emulator.stdout.take().context("stdout is piped")?;
        Ok(Chat::new(emulator, Box::new(input), output, None))
    }
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
