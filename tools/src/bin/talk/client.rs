//! A program's side of the frames.

use std::io::{Write, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use app::frames::{
    End, FRAME_BYTES, Message, Reader, Reply, Request, Settings, VERSION, decode, encode,
};
use app::prompt::unescape;
use parity::emulators::Chat;
use tools::Interrupted;

use crate::board::{self, Line};
use crate::{Arguments, interrupts};

/// How long a board may take to say something: a long prompt on a slow board is silent for a while.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take to enter the frames.
const ENTER: Duration = Duration::from_secs(10);
/// How often Ctrl-C is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// A board that speaks in frames.
pub(crate) struct Client {
    chat: Chat,
    reader: Reader<[u8; FRAME_BYTES]>,
    /// Received and not yet read.
    bytes: std::collections::VecDeque<u8>,
    payload: Vec<u8>,
    id: u32,
}

/// How a text came out.
pub(crate) struct Made {
    pub(crate) seed: u64,
    pub(crate) text: String,
    pub(crate) hash: u64,
    pub(crate) end: End,
}

impl Made {
    /// Returns an error if Ctrl-C has cancelled it.
    pub(crate) fn whole(&self) -> Result<()> {
        match self.end {
            End::Complete => Ok(()),
            End::Cancelled => Err(Interrupted.into()),
        }
    }
}

impl Client {
    /// Opens the line that the arguments name, enters the frames and sends what was set on the command
    /// line. `take` sees every reply.
    pub(crate) fn open(
        arguments: &Arguments,
        mut take: impl FnMut(&Reply<'_>) -> Result<()>,
    ) -> Result<(Self, Settings)> {
        let chat = enter(board::open(arguments)?)?;
        let mut client = Self {
            chat,
            reader: Reader::new([0; FRAME_BYTES]),
            bytes: std::collections::VecDeque::new(),
            payload: Vec::new(),
            id: 0,
        };
        client.ask(Request::Hello { version: VERSION }, |reply| {
            if let Reply::Hello { version, .. } = reply
                && *version != VERSION
            {
                bail!(
                    "the board speaks version {version} of the frames, this program version {VERSION}; flash \
                     the board with the firmware of the same repository"
                );
            }
            take(reply)
        })?;
        let mut found = None;
        client.ask(Request::Settings, |reply| {
            if let Reply::Settings(settings) = reply {
                found = Some(*settings);
            }
            Ok(())
        })?;
        let settings = found.context("the board does not tell its settings")?;
        let wanted = arguments.options.over(settings);
        client.ask(Request::Set(wanted), &mut take)?;
        Ok((client, wanted))
    }

    /// Sends a request and hands the one reply to `take`; an error is one here too.
    pub(crate) fn ask(
        &mut self,
        request: Request<'_>,
        mut take: impl FnMut(&Reply<'_>) -> Result<()>,
    ) -> Result<()> {
        let id = self.send(request)?;
        self.reply(id, || false)?;
        let reply: Message<Reply<'_>> = decode(&self.payload)?;
        if let Reply::Error(error) = reply.body {
            bail!("{error}");
        }
        take(&reply.body)
    }

    /// Has a text made of a line, escapes included, and hands its replies to `take`.
    ///
    /// Ctrl-C, which raises `interrupted`, cancels it.
    pub(crate) fn tell(
        &mut self,
        line: &str,
        interrupted: &AtomicBool,
        mut take: impl FnMut(&Reply<'_>) -> Result<()>,
    ) -> Result<Made> {
        let text: String = unescape(line).collect();
        let id = self.send(Request::Prompt { text: &text })?;
        let mut made = Made {
            seed: 0,
            text: String::new(),
            hash: 0,
            end: End::Complete,
        };
        let mut cancelled = false;
        loop {
            if !self.reply(id, || !cancelled && interrupted.load(Ordering::Relaxed))? {
                cancelled = true;
                self.send_as(id, Request::Cancel)?;
                continue;
            }
            let reply: Message<Reply<'_>> = decode(&self.payload)?;
            match reply.body {
                Reply::Error(error) => bail!("{error}"),
                Reply::Begin { seed, .. } => made.seed = seed,
                Reply::Token { text, .. } | Reply::More { text } => made.text += text,
                Reply::Done { end, hash, .. } => {
                    (made.end, made.hash) = (end, hash);
                    take(&reply.body)?;
                    return Ok(made);
                }
                _ => {}
            }
            take(&reply.body)?;
        }
    }

    /// Leaves the frames.
    pub(crate) fn close(mut self) -> Result<()> {
        self.ask(Request::Bye, |_| Ok(()))
    }

    fn send(&mut self, request: Request<'_>) -> Result<u32> {
        self.id += 1;
        self.send_as(self.id, request)?;
        Ok(self.id)
    }

    fn send_as(&mut self, id: u32, body: Request<'_>) -> Result<()> {
        let mut out = [0; FRAME_BYTES];
        let frame = encode(&Message { id, body }, &mut out)
            .context("the prompt does not fit a frame; shorten it")?;
        self.chat.send(frame)
    }

    /// Waits for a reply to `id`, which is the payload then; returns false once `stop` says so.
    ///
    /// An error that belongs to no request is one here too: something was lost.
    fn reply(&mut self, id: u32, stop: impl Fn() -> bool) -> Result<bool> {
        let mut quiet = Instant::now();
        loop {
            while let Some(byte) = self.bytes.pop_front() {
                let Some(payload) = self.reader.feed(byte) else {
                    continue;
                };
                self.payload = payload.context("the board sent what is no frame")?.to_vec();
                let reply: Message<Reply<'_>> =
                    decode(&self.payload).context("the board speaks another version")?;
                if reply.id == id {
                    return Ok(true);
                }
                if let (0, Reply::Error(error)) = (reply.id, reply.body) {
                    bail!("{error}");
                }
            }
            if stop() {
                return Ok(false);
            }
            let bytes = self.chat.take(GLANCE)?;
            if !bytes.is_empty() {
                quiet = Instant::now();
            } else if quiet.elapsed() > PATIENCE {
                let said = String::from_utf8_lossy(self.reader.waiting()).into_owned();
                bail!("the board has gone quiet; the last that it said: {said:?}");
            }
            self.bytes.extend(bytes);
        }
    }
}

/// Returns the frames that bring a board back to its terminal where another program has left it in frames.
///
/// At a prompt string they are noise, none of it a line end, and the Ctrl-C that follows has it forgotten.
pub(crate) fn leave() -> Vec<u8> {
    let mut bytes = vec![0];
    let cancel = Message {
        id: 0,
        body: Request::Cancel,
    };
    let bye = Message {
        id: 1,
        body: Request::Bye,
    };
    for message in [cancel, bye] {
        let mut out = [0; FRAME_BYTES];
        bytes.extend(encode(&message, &mut out).unwrap_or_default());
    }
    bytes
}

/// Has a board speak in frames, whatever it does at the moment.
fn enter(line: Line) -> Result<Chat> {
    let mut chat = match line {
        Line::Boots(mut chat) => {
            chat.prompt()?;
            chat
        }
        Line::Port(mut chat) => {
            board::settle(&mut chat)?;
            chat
        }
    };
    chat.send(b"/frames\r")?;
    chat.expect_within("/frames\r\n\0", ENTER)
        .context("the board does not enter its frames: is its firmware of this repository?")?;
    Ok(chat)
}

/// Prints the text of a board as it comes, then its hash, as the host does.
pub(crate) fn print(arguments: &Arguments, line: &str) -> Result<()> {
    let interrupted = interrupts()?;
    let (mut client, settings) = Client::open(arguments, |_| Ok(()))?;
    let mut out = stdout().lock();
    let made = client.tell(line, &interrupted, |reply| {
        match reply {
            Reply::Begin { seed, unknown, .. } => {
                if *unknown > 0 {
                    writeln!(out, "(dropped: {unknown} not in the vocabulary)")?;
                }
                if !matches!(settings.seed, app::command::Seed::Fixed(_)) {
                    writeln!(out, "(seed {seed})")?;
                }
            }
            Reply::Token { text, .. } | Reply::More { text } => {
                out.write_all(text.as_bytes())?;
                out.flush()?;
            }
            _ => {}
        }
        Ok(())
    })?;
    if made.end == End::Cancelled {
        write!(out, "\n(stopped)")?;
    }
    writeln!(out, "\n(logits hash {:016x})", made.hash)?;
    client.close()?;
    made.whole()
}
