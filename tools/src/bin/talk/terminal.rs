//! A person's terminal on a board: line editing, history and colours on this side of the line.

use std::io::{BufRead, IsTerminal, Write, stdin};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::{Result, bail};
use app::line::{Edit, LineEditor};
use parity::emulators::{Chat, PROMPT};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

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
    let mut chat = board::at_prompt(arguments)?;
    for line in arguments.options.commands() {
        answer(&mut chat, &line, &interrupted)?;
    }
    if !stdin().is_terminal() {
        for line in stdin().lock().split(b'\n') {
            let line = line?;
            answer(&mut chat, &String::from_utf8_lossy(&line), &interrupted)?;
        }
        return Ok(());
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
                interrupted.store(false, Ordering::Relaxed);
                answer(&mut chat, &line, &interrupted)?;
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
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

/// Types a line and prints what the board answers, up to its prompt string.
fn answer(chat: &mut Chat, line: &str, interrupted: &AtomicBool) -> Result<()> {
    let line = line.trim_end_matches('\r');
    if line.trim() == "/frames" {
        println!("(frames are for programs: tools/talk --json)");
        return Ok(());
    }
    chat.send(line.as_bytes())?;
    chat.send(b"\r")?;
    chat.expect(&format!("{}\r\n", echo(line)))?;
    let mut out = Painter::new();
    let mut held = Vec::new();
    let (mut quiet, mut stopped) = (0, false);
    loop {
        let bytes = chat.take(GLANCE)?;
        quiet = if bytes.is_empty() { quiet + 1 } else { 0 };
        if quiet > QUIET {
            bail!("the board has gone quiet");
        }
        held.extend(bytes);
        if let Some(place) = held
            .windows(PROMPT.len())
            .position(|part| part == PROMPT.as_bytes())
        {
            chat.put_back(&held[place + PROMPT.len()..]);
            out.print(&held[..place])?;
            return out.end();
        }
        // The prompt string, or a character, may have come in part.
        let kept = held.len().saturating_sub(PROMPT.len() - 1);
        out.print(&held[..kept])?;
        held.drain(..kept);
        if !stopped && interrupted.load(Ordering::Relaxed) {
            stopped = true;
            chat.send(&[3])?;
        }
    }
}

/// Returns what a board shows of a line as it is typed.
fn echo(line: &str) -> String {
    let mut editor = LineEditor::new();
    let mut shown = String::new();
    for byte in line.bytes() {
        match editor.feed(byte) {
            Edit::Echo(character) => shown.push(character),
            Edit::Erase => shown += "\x08 \x08",
            Edit::None | Edit::Submit | Edit::Interrupt => {}
        }
    }
    shown
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
