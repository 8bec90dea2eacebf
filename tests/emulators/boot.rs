//! How a firmware is started in its emulator.

use std::ffi::OsStr;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::Chat;
use super::machine::{Emulator, Machine, root};
use super::process::Process;

/// How long an emulator may take to open its serial line.
const START: Duration = Duration::from_secs(30);

/// The firmware of a board, and the blob in the model's region of its flash.
#[derive(Clone, Debug)]
pub struct Firmware {
    pub(super) machine: Machine,
    pub(super) elf: PathBuf,
    /// Beside which the files of one boot are kept.
    pub(super) model: PathBuf,
    pub(super) embedded: bool,
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

    /// Boots it with a computer that has opened its USB serial port and reads nothing from it, and a probe that
    /// has stopped reading its logs, for a line; the line is the UART.
    ///
    /// # Errors
    ///
    /// As [`Firmware::boot`], or if this is not a board with such a port.
    pub fn boot_unread(&self) -> Result<Chat> {
        ensure!(self.machine == Machine::Pico, "only the Pico has USB");
        self.boot_pico(&["--usb-unread", "--logs-unread"])
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
        // A socket of the network, because every system has those.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let chardev = format!("socket,id=uart,host=127.0.0.1,port={port},nodelay=on");
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
        command
            .args(["-M", name, "-display", "none", "-monitor", "none"])
            .args(["-semihosting-config", "enable=on,target=native"])
            .args(["-chardev", &chardev])
            .args(["-serial", "chardev:uart"])
            .args(start)
            .args(extra)
            .args([OsStr::new("-kernel"), self.elf.as_os_str()])
            .stdin(Stdio::null())
            .stdout(File::create(self.frames())?);
        let mut emulator = Process::start(&mut command).with_context(|| {
            format!("{program} is not installed: apt-get install qemu-system-arm qemu-system-misc")
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
            if let Some(status) = emulator.ended()? {
                bail!("QEMU ended at once: {status}");
            }
        };
        line.set_nonblocking(false)?;
        line.set_nodelay(true)?;
        let input = Box::new(line.try_clone()?);
        Ok(Chat::new(emulator, input, line))
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
        let python = folder.join(if cfg!(windows) {
            "venv/Scripts/python.exe"
        } else {
            "venv/bin/python"
        });
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
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut emulator = Process::start(&mut command)?;
        let (input, output) = emulator.pipes().context("both are piped")?;
        Ok(Chat::new(emulator, Box::new(input), output))
    }
}
