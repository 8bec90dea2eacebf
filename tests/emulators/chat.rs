//! A conversation over a serial line.

use std::fmt;
use std::io::{Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::process::Process;

/// What the board prints when it waits for a line.
pub const PROMPT: &str = "\r\n> ";
/// How long any one answer may take; emulators on a busy machine are slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// Both directions of a serial line, and the emulator behind it, if it is one.
///
/// The emulator ends when this is dropped, and with the program, however that ends.
pub struct Chat {
    emulator: Option<Process>,
    input: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    /// Received and not yet taken.
    pending: Vec<u8>,
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chat")
            .field("emulator", &self.emulator)
            .field("pending", &String::from_utf8_lossy(&self.pending))
            .finish_non_exhaustive()
    }
}

impl Chat {
    /// Takes over an emulator.
    pub(super) fn new(
        emulator: Process,
        input: Box<dyn Write + Send>,
        output: impl Read + Send + 'static,
    ) -> Self {
        let mut chat = Self::over(input, output);
        chat.emulator = Some(emulator);
        chat
    }

    /// Takes over a line to a board.
    pub fn over(input: Box<dyn Write + Send>, mut output: impl Read + Send + 'static) -> Self {
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
            emulator: None,
            input,
            output: receiver,
            pending: Vec::new(),
        }
    }

    /// Types bytes as they are.
    ///
    /// # Errors
    ///
    /// If the line has ended.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.input.write_all(bytes)?;
        self.input.flush().context("the line has ended")
    }

    /// Waits for `text` and returns what came before it.
    ///
    /// # Errors
    ///
    /// If the text does not come in time, or the emulator ends; the message has what came instead.
    pub fn expect(&mut self, text: &str) -> Result<String> {
        self.expect_within(text, PATIENCE)
    }

    /// Does what [`Chat::expect`] does, with another patience.
    ///
    /// # Errors
    ///
    /// As [`Chat::expect`].
    pub fn expect_within(&mut self, text: &str, patience: Duration) -> Result<String> {
        let start = Instant::now();
        // Where the text may still begin: a flood is not searched again with each piece of it.
        let mut from = 0;
        loop {
            let found = self.pending[from..]
                .windows(text.len())
                .position(|window| window == text.as_bytes());
            if let Some(place) = found {
                let place = from + place;
                let before = self.pending.drain(..place).collect();
                self.pending.drain(..text.len());
                return String::from_utf8(before)
                    .context("the board sent bytes that are not UTF-8");
            }
            from = (self.pending.len() + 1).saturating_sub(text.len());
            let left = patience.saturating_sub(start.elapsed());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.pending.extend(bytes),
                Err(error) => {
                    let why = match error {
                        RecvTimeoutError::Timeout => "did not come in time",
                        RecvTimeoutError::Disconnected => "did not come before the line ended",
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

    /// Returns the bytes that have come, waiting a while if none have; none if it stays quiet.
    ///
    /// # Errors
    ///
    /// If the line has ended.
    pub fn take(&mut self, patience: Duration) -> Result<Vec<u8>> {
        if self.pending.is_empty() {
            match self.output.recv_timeout(patience) {
                Ok(bytes) => self.pending = bytes,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the line has ended"),
            }
        }
        Ok(std::mem::take(&mut self.pending))
    }

    /// Puts bytes back that [`Chat::take`] gave too many.
    pub fn put_back(&mut self, bytes: &[u8]) {
        self.pending.splice(..0, bytes.iter().copied());
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
