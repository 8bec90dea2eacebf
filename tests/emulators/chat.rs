//! A conversation over a serial line.

use std::fmt;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// What the board prints when it waits for a line.
const PROMPT: &str = "\r\n> ";
/// How long any one answer may take; emulators on a busy machine are slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running emulator and both directions of its serial line.
///
/// The emulator ends when this is dropped.
pub struct Chat {
    emulator: Child,
    input: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    /// Received and not yet taken.
    pending: Vec<u8>,
    socket: Option<PathBuf>,
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chat")
            .field("emulator", &self.emulator.id())
            .field("pending", &String::from_utf8_lossy(&self.pending))
            .finish_non_exhaustive()
    }
}

impl Chat {
    /// Takes over an emulator, whose `socket` is removed at the end.
    pub(crate) fn new(
        emulator: Child,
        input: Box<dyn Write + Send>,
        mut output: impl Read + Send + 'static,
        socket: Option<PathBuf>,
    ) -> Self {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            emulator,
            input,
            output: receiver,
            pending: Vec::new(),
            socket,
        }
    }

    /// Types bytes as they are.
    ///
    /// # Errors
    ///
    /// If the emulator has ended.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.input.write_all(bytes)?;
        self.input.flush().context("the emulator has ended")
    }

    /// Waits for `text` and returns what came before it.
    ///
    /// # Errors
    ///
    /// If the text does not come in time, or the emulator ends; the message has what came instead.
    pub fn expect(&mut self, text: &str) -> Result<String> {
        let start = Instant::now();
        loop {
            let found = self
                .pending
                .windows(text.len())
                .position(|window| window == text.as_bytes());
            if let Some(place) = found {
                let before = self.pending.drain(..place).collect();
                self.pending.drain(..text.len());
                return String::from_utf8(before)
                    .context("the board sent bytes that are not UTF-8");
            }
            let left = PATIENCE.saturating_sub(start.elapsed());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.pending.extend(bytes),
                Err(error) => {
                    let why = match error {
                        RecvTimeoutError::Timeout => "did not come in time",
                        RecvTimeoutError::Disconnected => "did not come before the emulator ended",
                    };
                    let seen = String::from_utf8_lossy(&self.pending);
                    bail!("expected {text:?}, which {why}; found {seen:?}");
                }
            }
        }
    }

    /// Waits for the prompt string and returns what came before it.
    ///
    /// # Errors
    ///
    /// As [`Chat::expect`].
    pub fn prompt(&mut self) -> Result<String> {
        self.expect(PROMPT)
    }

    /// Returns what has come, waiting for it if nothing has.
    ///
    /// # Errors
    ///
    /// If nothing comes in time, or the emulator ends.
    pub fn receive(&mut self) -> Result<String> {
        if self.pending.is_empty() {
            let bytes = self.output.recv_timeout(PATIENCE);
            self.pending = bytes.context("the board has gone quiet")?;
        }
        // A character may have come in part: its rest stays.
        let whole = match std::str::from_utf8(&self.pending) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = self.pending.drain(..whole).collect();
        String::from_utf8(text).context("the board sent bytes that are not UTF-8")
    }

    /// Types a line at the prompt string and returns the answer, with CR LF as LF.
    ///
    /// # Errors
    ///
    /// As [`Chat::expect`], or if the line is not echoed.
    pub fn ask(&mut self, line: &str) -> Result<String> {
        self.send(line.as_bytes())?;
        self.send(b"\r")?;
        self.expect(&format!("{line}\r\n"))?;
        Ok(self.prompt()?.replace("\r\n", "\n"))
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        // Both fail only when the emulator has ended already.
        let _ = self.emulator.kill();
        let _ = self.emulator.wait();
        if let Some(socket) = &self.socket {
            let _ = std::fs::remove_file(socket);
        }
    }
}
