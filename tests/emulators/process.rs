//! The process of an emulator, which ends with this program, however that ends.

use std::io;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// An emulator.
///
/// It is in a process group of its own: Ctrl-C at a terminal is for the program that talks to it. A program
/// that is killed has no time to end it, so a shell waits for the end of a pipe that the program holds.
#[derive(Debug)]
pub(super) struct Process {
    emulator: Child,
    watch: Option<Child>,
}

impl Process {
    /// Starts an emulator.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let emulator = apart(command).spawn()?;
        let mut process = Self {
            emulator,
            watch: None,
        };
        if cfg!(unix) {
            let script = format!("read -r end; kill -9 {}", process.emulator.id());
            let mut watch = Command::new("sh");
            let watch = apart(watch.args(["-c", &script]))
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            process.watch = Some(watch.spawn()?);
        }
        Ok(process)
    }

    /// Returns the ends of its standard input and output, if these are piped.
    pub(super) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.emulator.stdin.take()?, self.emulator.stdout.take()?))
    }

    /// Returns how it has ended, if it has.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.emulator.try_wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // the watch first: once the emulator is gone its number may be another's
        for process in self.watch.iter_mut().chain([&mut self.emulator]) {
            // both fail only when it has ended already
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn apart(command: &mut Command) -> &mut Command {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    command
}
