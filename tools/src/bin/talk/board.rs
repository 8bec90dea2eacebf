//! The line to a board: a serial port, an emulator, or this machine in the place of a board.

use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parity::emulators::{Chat, Machine, PROMPT};
use runtime::crc32;
use serial2::SerialPort;
use tools::input;

use crate::client::leave;
use crate::{Arguments, ports, stand_in};

/// The speed of every board's serial line.
const BAUD: u32 = 115_200;
/// How long a board that is asked for its prompt string may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A board that has said nothing for so long has said all.
const QUIET: Duration = Duration::from_millis(300);
/// Ctrl-C.
const INTERRUPT: u8 = 3;
/// A line whose other end may be in any state, or waits at its prompt string.
pub(crate) enum Line {
    /// A board that has been on for a while.
    Port(Chat),
    /// A board that boots.
    Boots(Chat),
}

/// Opens the line that the arguments name.
pub(crate) fn open(arguments: &Arguments) -> Result<Line> {
    if let Some(port) = &arguments.port {
        let path = if port == "auto" {
            ports::find()?
        } else {
            port.into()
        };
        return Ok(Line::Port(serial(&path)?));
    }
    let (_, blob) = input::blob(arguments.blob.as_deref())?;
    let Some(board) = &arguments.emulate else {
        return Ok(Line::Boots(stand_in::boot(blob)));
    };
    let machine = Machine::find(board)?;
    eprintln!("talk: building the firmware of {board}");
    let firmware = machine.build(&format!("talk-{:08x}", crc32(&blob)), &blob)?;
    Ok(Line::Boots(firmware.boot()?))
}

/// Opens the line and waits for the prompt string.
pub(crate) fn at_prompt(arguments: &Arguments) -> Result<Chat> {
    match open(arguments)? {
        Line::Boots(mut chat) => {
            let banner = chat.prompt()?;
            eprintln!("{}", banner.replace("\r\n", "\n").trim());
            Ok(chat)
        }
        Line::Port(mut chat) => {
            settle(&mut chat)?;
            Ok(chat)
        }
    }
}

/// Brings a board to its prompt string, whatever it does at the moment.
pub(crate) fn settle(chat: &mut Chat) -> Result<()> {
    chat.send(&leave())?;
    chat.send(&[INTERRUPT])?;
    // What comes first may be from earlier.
    let start = Instant::now();
    while start.elapsed() < PATIENCE && !chat.take(QUIET)?.is_empty() {}
    chat.send(&[INTERRUPT])?;
    chat.expect_within(&format!("^C{PROMPT}"), PATIENCE)
        .context("no prompt string: is the board on, and is this its port?")?;
    Ok(())
}

fn serial(path: &Path) -> Result<Chat> {
    let hint = "is it plugged in, free, and may this user open it?";
    let port = SerialPort::open(path, BAUD)
        .with_context(|| format!("cannot open the serial port {}: {hint}", path.display()))?;
    // A board's USB port sends nothing before this; other lines ignore it, and pseudo-terminals refuse.
    let _ = port.set_dtr(true);
    let output = port.try_clone().context("cannot share the serial port")?;
    Ok(Chat::over(Box::new(Ends(port)), Ends(output)))
}

/// A serial port that never gives up.
struct Ends(SerialPort);

impl Read for Ends {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(bytes) {
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                done => return done,
            }
        }
    }
}

impl io::Write for Ends {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
