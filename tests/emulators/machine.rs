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

use super::Chat;

/// How long an emulator may take to open its serial line.
const START: Duration = Duration::from_secs(30);

/// A board and its emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// MPS2-AN386 in QEMU.
    Qemu,
    /// Raspberry Pi Pico in rp2040js.
    Pico,
}

/// The firmware of a board around one blob.
#[derive(Clone, Debug)]
pub struct Firmware {
    machine: Machine,
    elf: PathBuf,
}

impl Machine {
    /// Returns the name of the board's folder.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Qemu => "qemu",
            Self::Pico => "pico",
        }
    }

    const fn target(self) -> &'static str {
        match self {
            Self::Qemu => "thumbv7em-none-eabihf",
            Self::Pico => "thumbv6m-none-eabi",
        }
    }

    /// Builds the firmware with the blob in `blob`; `label` names the result.
    ///
    /// # Errors
    ///
    /// If cargo fails; the message has what it printed.
    pub fn build(self, label: &str, blob: &[u8]) -> Result<Firmware> {
        // One build at a time, because each leaves its ELF in the same place.
        static BUILD: Mutex<()> = Mutex::new(());
        let _guard = BUILD
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());

        let folder = root().join("firmware").join(self.name());
        let kept = folder.join("target").join("emulated");
        fs::create_dir_all(&kept)?;
        let model = kept.join(label).with_extension("bin");
        // An unchanged file keeps its time stamp, and cargo its build.
        if fs::read(&model).ok().as_deref() != Some(blob) {
            fs::write(&model, blob)?;
        }
        let output = Command::new("cargo")
            .args(["build", "--release", "--target-dir", "target"])
            .current_dir(&folder)
            .env("CHAPBOOK_MODEL", &model)
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
        let built = folder.join("target").join(self.target()).join("release");
        let elf = kept.join(label).with_extension("elf");
        fs::copy(built.join(self.name()), &elf)?;
        Ok(Firmware { machine: self, elf })
    }
}

impl Firmware {
    /// Boots it and waits for nothing.
    ///
    /// # Errors
    ///
    /// If the emulator is not installed or does not start.
    pub fn boot(&self) -> Result<Chat> {
        match self.machine {
            Machine::Qemu => self.boot_qemu(&[]),
            Machine::Pico => self.boot_pico(),
        }
    }

    /// Boots it in QEMU with a clock that counts instructions: one is a nanosecond.
    ///
    /// # Errors
    ///
    /// As [`Firmware::boot`], or if this is not a board for QEMU.
    pub fn boot_counting(&self) -> Result<Chat> {
        ensure!(
            self.machine == Machine::Qemu,
            "only QEMU counts instructions"
        );
        self.boot_qemu(&["-icount", "shift=0"])
    }

    /// Returns the ELF file.
    #[must_use]
    pub fn elf(&self) -> &Path {
        &self.elf
    }

    /// Returns the file with the defmt frames of the last boot.
    #[must_use]
    pub fn frames(&self) -> PathBuf {
        self.elf.with_extension("defmt")
    }

    fn boot_qemu(&self, extra: &[&str]) -> Result<Chat> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        // Socket paths are short by law (108 bytes), a target folder's may not be.
        let socket = std::env::temp_dir().join(format!("chapbook-{}-{}.uart", unique.0, unique.1));
        let listener = UnixListener::bind(&socket)?;
        listener.set_nonblocking(true)?;
        let mut chardev = OsString::from("socket,id=uart,path=");
        chardev.push(&socket);
        let mut emulator = Command::new("qemu-system-arm")
            .args(["-M", "mps2-an386", "-display", "none", "-monitor", "none"])
            .args(["-semihosting-config", "enable=on,target=native"])
            .args([OsStr::new("-chardev"), &chardev])
            .args(["-serial", "chardev:uart"])
            .args(extra)
            .args([OsStr::new("-kernel"), self.elf.as_os_str()])
            .stdin(Stdio::null())
            .stdout(File::create(self.frames())?)
            .spawn()
            .context("qemu-system-arm is not installed: apt-get install qemu-system-arm")?;
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

    fn boot_pico(&self) -> Result<Chat> {
        let folder = root().join("tests/emulators");
        ensure!(
            folder.join("node_modules/rp2040js").is_dir(),
            "rp2040js is not installed: (cd tests/emulators && npm ci)"
        );
        let mut emulator = Command::new("node")
            .arg(folder.join("rp2040.mjs"))
            .arg(&self.elf)
            .args([OsStr::new("--defmt"), self.frames().as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("node is not installed: apt-get install nodejs npm")?;
        let input = emulator.stdin.take().context("stdin is piped")?;
        let output = emulator.stdout.take().context("stdout is piped")?;
        Ok(Chat::new(emulator, Box::new(input), output, None))
    }
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
