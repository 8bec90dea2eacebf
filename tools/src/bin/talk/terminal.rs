//! A person's terminal on a board: line editing, history and colours on this side of the line.

use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::{Result, bail};
use app::line::{Edit, LineEditor};
use parity::emulators::{Chat, PROMPT};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tools::Interrupted;

use crate::{Arguments, board, interrupts};

/// How often Ctrl-C is looked at.
const GLANCE: Duration = Duration::from_millis(100);
/// How long a board may say nothing while it makes a text.
const QUIET: u32 = 600;
/// Where the lines of earlier conversations are, in the home folder.
const HISTORY: &str = ".chapbook_history";

/// The board's notes, lines in parentheses.
const NOTE: Style = AnsiColor::Yellow.on_default();
/// The prompt string.
const ASK: Style = AnsiColor::Green.on_default().bold();

/// Passes lines to the board and prints its answers until the input ends.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let interrupted = interrupts()?;
    let mut talk = Talk {
        chat: board::at_prompt(arguments)?,
        editor: LineEditor::new(),
        typed: Vec::new(),
        echo: String::new(),
        interrupted,
    };
    for line in arguments.options.commands() {
        talk.line(&line)?;
    }
    if !stdin().is_terminal() {
        return talk.pipe();
    }
    eprintln!("(Ctrl-C stops a text, Ctrl-D ends)");
    let mut editor = DefaultEditor::new()?;
    let history = std::env::home_dir().map(|home| home.join(HISTORY));
    if let Some(history) = &history {
        // There is none the first time.
        let _ = editor.load_history(history);
    }
    let ask = format!("{ASK}> {ASK:#}");
    let ask = if colours() { ask.as_str() } else { "> " };
    loop {
        match editor.readline(ask) {
            Ok(line) => {
                keep(&mut editor, history.as_ref(), &line);
                talk.interrupted.store(false, Ordering::Relaxed);
                talk.line(&line)?;
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Adds a line to the history; a conversation goes on without one.
fn keep(editor: &mut DefaultEditor, history: Option<&PathBuf>, line: &str) {
    let _ = editor.add_history_entry(line);
    if let Some(history) = history {
        let _ = editor.append_history(history);
    }
}

/// Returns whether the standard output shows colours: a terminal, and `NO_COLOR` does not forbid them.
fn colours() -> bool {
    anstream::AutoStream::choice(&stdout()) != anstream::ColorChoice::Never
}

/// A conversation line by line.
struct Talk {
    chat: Chat,
    /// What the board's own editor makes of the bytes.
    editor: LineEditor,
    /// Bytes of a line that the board has not been sent yet.
    typed: Vec<u8>,
    /// What the board will show of them.
    echo: String,
    interrupted: Arc<AtomicBool>,
}

impl Talk {
    /// Types a whole line and prints what the board answers.
    fn line(&mut self, line: &str) -> Result<()> {
        for byte in line.bytes().chain([b'\r']) {
            self.feed(byte)?;
        }
        Ok(())
    }

    /// Types what comes on the standard input until it ends, or until Ctrl-C.
    fn pipe(&mut self) -> Result<()> {
        for byte in stdin().lock().bytes() {
            self.feed(byte?)?;
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
        }
        if self.editor.line().is_empty() && self.editor.dropped().is_empty() {
            return Ok(());
        }
        self.feed(b'\r')
    }

    /// Takes a byte; one that ends a line has the board answer it.
    fn feed(&mut self, byte: u8) -> Result<()> {
        self.typed.push(byte);
        match self.editor.feed(byte) {
            Edit::None => {}
            Edit::Echo(character) => self.echo.push(character),
            Edit::Erase => self.echo += "\x08 \x08",
            // as if they had not been typed: the board knows nothing of them yet
            Edit::Interrupt => {
                self.typed.clear();
                self.echo.clear();
            }
            Edit::Submit => {
                if self.editor.line().trim() == "/frames" {
                    writeln!(stdout(), "(frames are for programs: tools/talk --json)")?;
                } else {
                    self.chat.send(&self.typed)?;
                    self.chat.expect(&format!("{}\r\n", self.echo))?;
                    self.answer()?;
                }
                self.typed.clear();
                self.echo.clear();
                self.editor.clear();
            }
        }
        Ok(())
    }

    /// Prints what the board says up to its prompt string.
    fn answer(&mut self) -> Result<()> {
        let mut out = Painter::new();
        let mut held = Vec::new();
        let (mut quiet, mut stopped) = (0, false);
        loop {
            let bytes = self.chat.take(GLANCE)?;
            quiet = if bytes.is_empty() { quiet + 1 } else { 0 };
            if quiet > QUIET {
                bail!("the board has gone quiet");
            }
            held.extend(bytes);
            if let Some(place) = held
                .windows(PROMPT.len())
                .position(|part| part == PROMPT.as_bytes())
            {
                self.chat.put_back(&held[place + PROMPT.len()..]);
                out.print(&held[..place])?;
                return out.end();
            }
            // The prompt string, or a character, may have come in part.
            let kept = held.len().saturating_sub(PROMPT.len() - 1);
            out.print(&held[..kept])?;
            held.drain(..kept);
            if !stopped && self.interrupted.load(Ordering::Relaxed) {
                stopped = true;
                self.chat.send(&[3])?;
            }
        }
    }
}

/// Prints a board's bytes, with its notes in a colour.
struct Painter {
    out: anstream::Stdout,
    /// Bytes of a character that has come in part.
    partial: Vec<u8>,
    line_start: bool,
    note: bool,
}

impl Painter {
    fn new() -> Self {
        Self {
            out: anstream::stdout(),
            partial: Vec::new(),
            line_start: true,
            note: false,
        }
    }

    fn print(&mut self, bytes: &[u8]) -> Result<()> {
        self.partial.extend(bytes);
        let whole = match std::str::from_utf8(&self.partial) {
            Ok(text) => text.len(),
            Err(error) => match error.error_len() {
                Some(len) => error.valid_up_to() + len,
                None => error.valid_up_to(),
            },
        };
        let text: Vec<u8> = self.partial.drain(..whole).collect();
        for character in String::from_utf8_lossy(&text).chars() {
            match character {
                '\r' => continue,
                '(' if self.line_start => {
                    self.note = true;
                    write!(self.out, "{NOTE}")?;
                }
                '\n' if self.note => {
                    self.note = false;
                    write!(self.out, "{NOTE:#}")?;
                }
                _ => {}
            }
            self.line_start = character == '\n';
            write!(self.out, "{character}")?;
        }
        Ok(self.out.flush()?)
    }

    /// Ends the answer.
    fn end(mut self) -> Result<()> {
        if self.note {
            write!(self.out, "{NOTE:#}")?;
        }
        if !self.line_start {
            writeln!(self.out)?;
        }
        Ok(self.out.flush()?)
    }
}
