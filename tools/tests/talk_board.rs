//! `talk` with a board: behind a pseudo-terminal, and this machine in the place of one.

mod common;

use std::convert::Infallible;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use app::frames::{FRAME_BYTES, Message, Request, VERSION, encode};
use checkpoint::AlignedBytes;
use common::{Folder, printed, refused};
use embedded_io::{Read, ReadReady, Write};
use serde_json::Value;
use serial2::SerialPort;
use tools::stand_in::serve;

const EXPORT: &str = env!("CARGO_BIN_EXE_export");
const TALK: &str = env!("CARGO_BIN_EXE_talk");

/// A board on a pseudo-terminal; it ends with this.
struct OnPty {
    port: PathBuf,
    ended: Arc<AtomicBool>,
    board: Option<JoinHandle<()>>,
    /// Keeps the terminal open between programs.
    _program: SerialPort,
}

impl OnPty {
    fn boot(folder: &Folder) -> Self {
        let blob = AlignedBytes::from(folder.read("good.bin").as_slice());
        let (mut far, near) = SerialPort::pair().unwrap();
        let port = std::fs::read_link(format!("/proc/self/fd/{}", near.as_raw_fd())).unwrap();
        far.set_read_timeout(Duration::from_millis(1)).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let line = Line {
            port: far,
            waiting: Vec::new(),
            ended: Arc::clone(&ended),
        };
        let board = thread::spawn(move || {
            serve("stand-in", line, &blob, Some(77 << 32));
        });
        Self {
            port,
            ended,
            board: Some(board),
            _program: near,
        }
    }

    fn port(&self) -> &str {
        self.port.to_str().unwrap()
    }
}

impl Drop for OnPty {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(board) = self.board.take() {
            let _ = board.join();
        }
    }
}

struct Line {
    port: SerialPort,
    waiting: Vec<u8>,
    ended: Arc<AtomicBool>,
}

impl embedded_io::ErrorType for Line {
    type Error = Infallible;
}

impl ReadReady for Line {
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        if self.waiting.is_empty() {
            let mut bytes = [0; 256];
            match self.port.read(&mut bytes) {
                Ok(count) => self.waiting.extend(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                Err(_) => self.ended.store(true, Ordering::Relaxed),
            }
        }
        Ok(!self.waiting.is_empty() || self.ended.load(Ordering::Relaxed))
    }
}

impl Read for Line {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Infallible> {
        while !self.read_ready()? {}
        let count = bytes.len().min(self.waiting.len());
        for (place, byte) in bytes.iter_mut().zip(self.waiting.drain(..count)) {
            *place = byte;
        }
        Ok(count)
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        // Nobody listens between programs.
        let _ = self.port.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

fn objects(printed: &str) -> Vec<Value> {
    let lines = printed.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns the text in the token events.
fn text(objects: &[Value]) -> String {
    let texts = objects.iter().filter_map(|object| object["text"].as_str());
    texts.collect()
}

#[test]
fn the_conversation_is_held_over_a_serial_port() {
    let folder = Folder::exported("talk-script");
    let board = OnPty::boot(&folder);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conversation.txt");
    let arguments = ["--port", board.port(), "--script", script];
    // Twice: the board is in no state of its own in between.
    for _ in 0..2 {
        let said = printed(&folder.run(TALK, &arguments));
        assert!(
            said.ends_with("conversation.txt: 14 turns as expected\n"),
            "{said}"
        );
    }
}

#[test]
fn a_wrong_answer_is_named() {
    let folder = Folder::exported("talk-wrong");
    let run = |script: &str| {
        std::fs::write(folder.path.join("script"), script).unwrap();
        let output = folder.run(TALK, &["--blob", "good.bin", "--script", "script"]);
        let errors = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), errors)
    };
    let (code, said) = run("# a comment\n\n/seed 3\nseed 3\n\n/len 12\nlength 13\n");
    let expected =
        "error: script: line 7: after \"/len 12\" expected \"length 13\", found \"temperature 0.8";
    assert!(said.contains(expected), "{said}");
    assert_eq!(code, Some(1));
    let (code, said) = run("# nothing else\n");
    assert!(said.contains("the script has no turn"), "{said}");
    assert_eq!(code, Some(1));
}

#[test]
fn a_board_prints_the_hosts_text() {
    let folder = Folder::exported("talk-port");
    let board = OnPty::boot(&folder);
    let line = r"ROMEO:\nO \\ more";
    let settings = [
        "--blob", "good.bin", "--len", "40", "--temp", "1.5", "--seed", "9",
    ];
    let host = printed(&folder.run(TALK, &[&settings[..], &[line]].concat()));
    let arguments = [&settings[..], &["--port", board.port(), line]].concat();
    let found = printed(&folder.run(TALK, &arguments));
    let (_, text) = found.split_once('\n').unwrap();
    assert!(
        found.starts_with("(dropped: 1 not in the vocabulary)\n"),
        "{found}"
    );
    assert!(host.ends_with(text), "{host}\n{found}");
    // Without --seed the board's own is in force, and said.
    let own = printed(&folder.run(TALK, &["--port", board.port(), "--seed", "boot", "ROMEO:"]));
    assert!(own.starts_with("(seed 77)\n"), "{own}");
}

#[test]
fn json_has_tokens_with_probabilities() {
    let folder = Folder::exported("talk-json");
    let board = OnPty::boot(&folder);
    let common = ["--json", "--len", "30", "--seed", "4", "ROMEO:"];
    let here = [&["--blob", "good.bin"][..], &common].concat();
    let here = objects(&printed(&folder.run(TALK, &here)));
    let there = [&["--port", board.port()][..], &common].concat();
    let there = objects(&printed(&folder.run(TALK, &there)));
    let host = printed(&folder.run(
        TALK,
        &["--blob", "good.bin", "--len", "30", "--seed", "4", "ROMEO:"],
    ));
    assert!(
        host.starts_with(&format!("{}\n(logits hash ", text(&here))),
        "{host}"
    );
    let tokens = |objects: &[Value]| -> Vec<Value> {
        let tokens = objects.iter().filter(|object| object["event"] == "token");
        tokens.cloned().collect()
    };
    assert_eq!(tokens(&here), tokens(&there));
    assert_eq!(tokens(&here).len(), 30);
    for token in tokens(&here) {
        let probability = token["probability"].as_f64().unwrap();
        assert!(probability > 0.0 && probability <= 1.0, "{token}");
    }
    let events: Vec<&str> = there
        .iter()
        .filter_map(|object| object["event"].as_str())
        .filter(|&event| event != "token")
        .collect();
    assert_eq!(events, ["hello", "settings", "begin", "done", "stats"]);
    let [.., done, stats] = there.as_slice() else {
        panic!("{there:?}");
    };
    assert_eq!(done["logits_hash"], stats["logits_hash"]);
    assert_eq!(there[0]["board"], "stand-in");
}

/// The Python program of FRAMES.md prints what `--json` says.
#[test]
fn the_program_of_the_page_speaks_frames() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no python3");
        return;
    }
    let folder = Folder::exported("talk-python");
    let board = OnPty::boot(&folder);
    let page = include_str!("../../firmware/app/FRAMES.md");
    let (_, program) = page.split_once("```python\n").unwrap();
    let (program, _) = program.split_once("```").unwrap();
    let mut python = Command::new("python3");
    let said = printed(&python.args(["-c", program, board.port()]).output().unwrap());
    let known = ["--json", "--port", board.port(), r"ROMEO:\n"];
    let known = objects(&printed(&folder.run(TALK, &known)));
    let known: Vec<String> = known
        .iter()
        .filter(|object| object["event"] == "token")
        .map(|token| {
            let text = token["text"].as_str().unwrap().replace('\n', r"\n");
            format!("{:.3} '{text}'", token["probability"].as_f64().unwrap())
        })
        .collect();
    assert_eq!(known.len(), 256);
    assert_eq!(said.lines().collect::<Vec<_>>(), known);
}

#[test]
fn replay_makes_the_boards_text_again_and_knows_another_model() {
    let folder = Folder::exported("talk-replay");
    let board = OnPty::boot(&folder);
    let run = |blob: &str| {
        folder.run(
            TALK,
            &[
                "--replay",
                "--port",
                board.port(),
                "--blob",
                blob,
                "--len",
                "25",
                "--seed",
                "boot",
                "O",
            ],
        )
    };
    let said = printed(&run("good.bin"));
    assert!(
        said.contains("(the same on this machine: seed 77, 25 characters, logits hash "),
        "{said}"
    );
    folder.save("other", "best.ckpt", &folder.checkpoint(2));
    printed(&folder.run(EXPORT, &["other", "-o", "other.bin"]));
    let said = refused(&run("other.bin"));
    assert!(
        said.contains("other.bin is another one in every layout"),
        "{said}"
    );
}

#[test]
fn lines_from_a_pipe_are_answered_by_the_board() {
    let folder = Folder::exported("talk-pipe");
    let board = OnPty::boot(&folder);
    std::fs::write(folder.path.join("typed"), "/len 7\nROMEO:\n/frames\n").unwrap();
    let output = Command::new(TALK)
        .args(["--port", board.port(), "--seed", "3"])
        .stdin(std::fs::File::open(folder.path.join("typed")).unwrap())
        .output()
        .unwrap();
    let said = printed(&output);
    let known = printed(&folder.run(
        TALK,
        &["--blob", "good.bin", "--len", "7", "--seed", "3", "ROMEO:"],
    ));
    let known = known.rsplit_once("\n(logits").unwrap().0;
    let expected =
        format!("seed 3, length 7\n{known}\n(frames are for programs: tools/talk --json)\n");
    assert!(said.ends_with(&expected), "{said}");
    assert!(!said.contains('\x1b'), "no colours in a pipe: {said}");
}

#[test]
fn a_board_that_was_left_in_its_frames_is_taken_back() {
    let folder = Folder::exported("talk-left");
    let board = OnPty::boot(&folder);
    let port = SerialPort::open(&board.port, 115_200).unwrap();
    // Endless, from a program that then dies.
    port.write_all(b"/len 4000000000\r/frames\r").unwrap();
    for (id, body) in [
        (1, Request::Hello { version: VERSION }),
        (2, Request::Prompt { text: "ROMEO:" }),
    ] {
        let mut out = [0; FRAME_BYTES];
        let frame = encode(&Message { id, body }, &mut out).unwrap();
        port.write_all(&[&[0], frame].concat()).unwrap();
    }
    drop(port);
    let said = printed(&folder.run(TALK, &["--port", board.port(), "--len", "5", "--json", "O"]));
    assert!(
        objects(&said)
            .iter()
            .any(|object| object["event"] == "done"),
        "{said}"
    );
}

/// Reads a terminal until `text` comes and returns everything up to it.
fn until(terminal: &SerialPort, text: &str) -> String {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(text.as_bytes()) {
        let read = terminal.read(&mut byte);
        assert!(
            read.is_ok(),
            "{read:?} after {:?}, expected {text:?}",
            String::from_utf8_lossy(&seen)
        );
        seen.push(byte[0]);
    }
    String::from_utf8(seen).unwrap()
}

/// Types at a terminal in which `talk` runs, a prompt that is answered by `known` first, and returns what
/// it shows.
fn at_a_terminal(folder: &Folder, no_color: &str, known: &str) -> String {
    let (mut far, near) = SerialPort::pair().unwrap();
    far.set_read_timeout(Duration::from_secs(60)).unwrap();
    let path = std::fs::read_link(format!("/proc/self/fd/{}", near.as_raw_fd())).unwrap();
    let terminal = || {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).open(&path).unwrap()
    };
    let mut talk = Command::new(TALK)
        .args(["--blob", "good.bin", "--len", "9", "--seed", "3"])
        .current_dir(&folder.path)
        .env("TERM", "xterm")
        .env("HOME", &folder.path)
        .env("NO_COLOR", no_color)
        .stdin(terminal())
        .stdout(terminal())
        .stderr(terminal())
        .spawn()
        .unwrap();
    until(&far, "(Ctrl-C stops a text, Ctrl-D ends)");
    // Edited as a line is: the cursor goes back, a character is deleted, another typed.
    let edited = b"RXMEO:\x1b[D\x1b[D\x1b[D\x1b[D\x7fO\r";
    let mut seen = until(&far, "> ");
    for (line, answer) in [
        (&edited[..], known),
        (b"/stats\r", "resets since power"),
        (b"/len 0\r", "found \"0\")"),
    ] {
        far.write_all(line).unwrap();
        seen += &until(&far, answer);
        seen += &until(&far, "\n");
        seen += &until(&far, "> ");
    }
    far.write_all(b"\x04").unwrap();
    assert!(talk.wait().unwrap().success());
    seen
}

#[test]
fn a_person_edits_lines_and_sees_notes_in_colour() {
    let folder = Folder::exported("talk-terminal");
    let known = printed(&folder.run(
        TALK,
        &["--blob", "good.bin", "--len", "9", "--seed", "3", "ROMEO:"],
    ));
    let (text, hash) = known.rsplit_once("\n(").unwrap();
    let hash = hash.trim_end_matches(")\n");
    let seen = at_a_terminal(&folder, "", text);
    assert!(seen.contains(hash), "{seen:?}");
    let note = "\x1b[33m(/len takes a whole number";
    assert!(seen.contains(note), "{seen:?}");
    let history = std::fs::read_to_string(folder.path.join(".chapbook_history")).unwrap();
    assert!(history.contains("ROMEO:\n/stats\n/len 0\n"), "{history}");
    let plain = at_a_terminal(&folder, "1", text);
    assert!(!plain.contains("\x1b[33m"), "{plain:?}");
}

#[test]
#[ignore = "needs QEMU"]
fn an_emulated_board_holds_the_conversation_and_makes_the_hosts_text() {
    let folder = Folder::exported("talk-emulate");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conversation.txt");
    let board = ["--emulate", "qemu", "--blob", "good.bin"];
    let said = printed(&folder.run(TALK, &[&board[..], &["--script", script]].concat()));
    assert!(said.ends_with("14 turns as expected\n"), "{said}");
    let replay = ["--replay", "--len", "20", "--seed", "8", r"ROMEO:\n"];
    let said = printed(&folder.run(TALK, &[&board[..], &replay].concat()));
    assert!(
        said.contains("(the same on this machine: seed 8, 20 characters"),
        "{said}"
    );
}

#[test]
fn what_is_not_there_is_said() {
    let folder = Folder::exported("talk-none");
    let said = refused(&folder.run(TALK, &["--port", "none", "a"]));
    assert!(said.contains("cannot open the serial port none"), "{said}");
    let said = refused(&folder.run(TALK, &["--emulate", "abacus", "--blob", "good.bin", "a"]));
    assert!(
        said.contains("no emulated board \"abacus\"; known are "),
        "{said}"
    );
    let said = refused(&folder.run(TALK, &["--replay", "--blob", "good.bin"]));
    assert!(said.contains("--replay takes a prompt"), "{said}");
    let long = "R".repeat(257);
    let said = refused(&folder.run(TALK, &["--json", "--blob", "good.bin", &long]));
    assert!(
        said.contains("a prompt holds 256 bytes, this one has 257; shorten it"),
        "{said}"
    );
    let usage = |arguments: &[&str]| {
        let output = folder.run(TALK, arguments);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = usage(&["--len", "0", "a"]);
    assert!(
        said.contains("/len takes a whole number from 1 to 4294967295, found \"0\""),
        "{said}"
    );
    let said = usage(&["--port", "a", "--emulate", "pico"]);
    assert!(said.contains("cannot be used with"), "{said}");
}
