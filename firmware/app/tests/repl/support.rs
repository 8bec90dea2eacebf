//! A terminal in memory, and a small model to talk to.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;

use app::{Board, Chip, Helper, Helpers, Memory, RECORD_LEN, Reset, Resets, Stack, StoreError};
use checkpoint::synthetic::{self, PLAIN};
use checkpoint::{AlignedBytes, Checkpoint, blob};
use embedded_io::{ErrorType, Read, ReadReady, Write};
use runtime::{Assist, Config, Provenance};

/// RAM of the board that the tests run on, in words.
pub(crate) const STATE_WORDS: usize = 8 * 1024;

pub(crate) const CONFIG: Config = Config {
    n_layer: 2,
    n_head: 2,
    n_kv_head: 1,
    d_model: 16,
    d_ff: 32,
    vocab_size: 65,
    rope_base: 10_000,
    ..PLAIN
};

/// A blob with random weights over the vocabulary of tiny Shakespeare.
pub(crate) fn blob() -> AlignedBytes {
    blob_of(synthetic::checkpoint(CONFIG, 8))
}

/// As [`blob`], for a text without line ends.
pub(crate) fn blob_without_newline() -> AlignedBytes {
    let mut checkpoint = synthetic::checkpoint(CONFIG, 7);
    checkpoint.vocab[0] = b'\t';
    blob_of(checkpoint)
}

/// As [`blob`], with byte pairs for tokens.
pub(crate) fn blob_of_byte_pairs() -> AlignedBytes {
    let config = Config {
        vocab_size: 380,
        ..CONFIG
    };
    let mut checkpoint = synthetic::checkpoint(config, 7);
    checkpoint.vocab = synthetic::byte_pairs(config.vocab_size);
    blob_of(checkpoint)
}

fn blob_of(checkpoint: Checkpoint) -> AlignedBytes {
    let provenance = Provenance {
        run: "tiny",
        corpus_sha256: [0xab; 32],
        step: 12,
        seed: 7,
        dev_f32: 1.25,
        dev_blob: 1.2575,
    };
    blob::write(
        &checkpoint.config,
        &checkpoint.vocab,
        &checkpoint.weights,
        provenance,
    )
    .expect("the synthetic checkpoint has every tensor")
    .bytes
}

/// When the person at the terminal types.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// As soon as the prompt string is there.
    Prompt,
    /// When the board waits and nothing else is to come.
    Idle,
    /// When this many bytes have come since the last thing typed.
    Output(usize),
}

/// The far end of the serial line: types by a script and keeps what it sees.
#[derive(Default)]
pub(crate) struct Terminal {
    script: VecDeque<(When, Vec<u8>)>,
    typed: VecDeque<u8>,
    seen: Rc<RefCell<Vec<u8>>>,
    since: usize,
    /// The board has nothing to do.
    pub(crate) idle: Rc<Cell<bool>>,
    ended: bool,
    /// Every write fails: nobody listens.
    pub(crate) deaf: bool,
    /// So many reads fail, as when bytes came faster than they were taken.
    pub(crate) overruns: u32,
    /// So often the board finds nothing to do before anything else comes.
    pub(crate) quiet: u32,
}

impl Terminal {
    /// Types by `script` and keeps what it sees in `seen`.
    pub(crate) fn new(seen: &Rc<RefCell<Vec<u8>>>, script: &[(When, &[u8])]) -> Self {
        let steps = script.iter().map(|(when, bytes)| (*when, bytes.to_vec()));
        Self {
            script: steps.collect(),
            seen: Rc::clone(seen),
            ..Self::default()
        }
    }

    /// Types `bytes` before the board has booted.
    pub(crate) fn type_ahead(&mut self, bytes: &[u8]) {
        self.typed.extend(bytes);
    }

    fn follow_script(&mut self) {
        let seen = self.seen.borrow();
        let due = match self.script.front() {
            Some((When::Prompt, _)) => seen.ends_with(b"\r\n> ") && self.typed.is_empty(),
            Some((When::Output(count), _)) => self.since >= *count,
            Some((When::Idle, _)) | None => false,
        };
        drop(seen);
        if due {
            self.type_next();
        }
    }

    fn type_next(&mut self) {
        self.since = 0;
        let step = self.script.pop_front();
        self.typed.extend(step.into_iter().flat_map(|step| step.1));
    }
}

/// A failure of the serial port.
#[derive(Debug)]
pub(crate) struct Fault;

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the line failed")
    }
}

impl std::error::Error for Fault {}

impl embedded_io::Error for Fault {
    fn kind(&self) -> embedded_io::ErrorKind {
        embedded_io::ErrorKind::BrokenPipe
    }
}

impl ErrorType for Terminal {
    type Error = Fault;
}

impl Read for Terminal {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Fault> {
        if self.overruns > 0 {
            self.overruns -= 1;
            return Err(Fault);
        }
        let count = bytes.len().min(self.typed.len());
        for byte in &mut bytes[..count] {
            *byte = self.typed.pop_front().unwrap_or_default();
        }
        Ok(count)
    }
}

impl ReadReady for Terminal {
    fn read_ready(&mut self) -> Result<bool, Fault> {
        if self.idle.take() && self.typed.is_empty() {
            if self.quiet > 0 {
                self.quiet -= 1;
                return Ok(false);
            }
            while self.typed.is_empty() && matches!(self.script.front(), Some((When::Idle, _))) {
                self.type_next();
            }
            self.ended = self.typed.is_empty();
        }
        Ok(!self.typed.is_empty() || self.overruns > 0 || self.ended)
    }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        if self.deaf {
            return Err(Fault);
        }
        self.seen.borrow_mut().extend(bytes);
        self.since += bytes.len();
        self.follow_script();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

/// The LED, which counts its changes.
#[derive(Clone, Default)]
pub(crate) struct Led(pub(crate) Rc<RefCell<u32>>);

impl embedded_hal::digital::ErrorType for Led {
    type Error = Infallible;
}

impl embedded_hal::digital::OutputPin for Led {
    fn set_low(&mut self) -> Result<(), Infallible> {
        *self.0.borrow_mut() += 1;
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        self.set_low()
    }
}

/// What a chip of the tests remembers and does.
#[derive(Clone, Default)]
pub(crate) struct TestChip {
    pub(crate) micros: u64,
    /// The longest time between two feeds of the watchdog, and when it was last fed.
    pub(crate) hungry: Rc<Cell<u64>>,
    pub(crate) fed: u64,
    pub(crate) noise: Option<u64>,
    /// The flash that keeps settings; it refuses to be written where it is worn out.
    pub(crate) flash: Option<Rc<Cell<[u8; RECORD_LEN]>>>,
    pub(crate) worn_out: bool,
    pub(crate) resets: Resets,
    pub(crate) idle: Rc<Cell<bool>>,
    pub(crate) assist: Option<&'static dyn Assist>,
}

impl Chip for TestChip {
    fn micros(&mut self) -> u64 {
        self.micros += 250;
        self.micros
    }

    fn core_hz(&self) -> u32 {
        100_000_000
    }

    fn idle(&mut self) {
        self.micros += 250;
        self.idle.set(true);
    }

    fn feed(&mut self) {
        let hungry = self.micros - self.fed;
        self.hungry.set(self.hungry.get().max(hungry));
        self.fed = self.micros;
    }

    fn watchdog_ms(&self) -> Option<u32> {
        Some(5_000)
    }

    fn entropy(&mut self) -> Option<u64> {
        self.noise
    }

    fn load(&mut self, record: &mut [u8; RECORD_LEN]) -> Result<(), StoreError> {
        *record = self.flash.as_ref().ok_or(StoreError::Absent)?.get();
        Ok(())
    }

    fn save(&mut self, record: &[u8; RECORD_LEN]) -> Result<(), StoreError> {
        if self.worn_out {
            return Err(StoreError::Failed);
        }
        let flash = self.flash.as_ref().ok_or(StoreError::Absent)?;
        flash.set(*record);
        Ok(())
    }

    fn stack(&self) -> Option<Stack> {
        Some(Stack {
            used: 1_234,
            size: 8_192,
        })
    }

    fn resets(&self) -> Resets {
        self.resets
    }

    fn assist(&mut self) -> Option<&'static dyn Assist> {
        self.assist
    }

    fn helpers(&self) -> Helpers {
        Helpers {
            stream: Helper::Works,
            core: Helper::Failed,
        }
    }
}

/// A chip that a panic has started over.
pub(crate) fn panicked() -> TestChip {
    TestChip {
        resets: Resets {
            count: 3,
            last: Reset::Panic,
        },
        ..TestChip::default()
    }
}

/// Runs a board to the end of the script and returns everything it sent.
pub(crate) fn converse(blob: &[u8], state_words: usize, script: &[(When, &[u8])]) -> String {
    let seen = Rc::default();
    let terminal = Terminal::new(&seen, script);
    run(terminal, Led::default(), blob, state_words);
    let bytes = seen.borrow().clone();
    String::from_utf8(bytes).expect("only UTF-8 is sent")
}

/// Runs a board on this terminal.
pub(crate) fn run(serial: Terminal, led: Led, blob: &[u8], state_words: usize) {
    run_on(TestChip::default(), serial, led, blob, state_words);
}

/// Runs a board with this chip.
pub(crate) fn run_on(chip: TestChip, serial: Terminal, led: Led, blob: &[u8], state_words: usize) {
    let board = Board {
        name: "test",
        chip: TestChip {
            idle: Rc::clone(&serial.idle),
            ..chip
        },
        serial,
        led,
    };
    app::run(board, blob, &mut Memory::new(), &mut vec![0; state_words]);
}

/// Has a board with this chip answer a script and returns everything it sent.
pub(crate) fn converse_on(chip: TestChip, script: &[(When, &[u8])]) -> String {
    let seen = Rc::default();
    let terminal = Terminal::new(&seen, script);
    run_on(chip, terminal, Led::default(), &blob(), STATE_WORDS);
    let bytes = seen.borrow().clone();
    String::from_utf8(bytes).expect("only UTF-8 is sent")
}

/// Types each line when the prompt string is there and returns the answers, echoes left out.
pub(crate) fn answers(lines: &[&str]) -> Vec<String> {
    answers_of(&blob(), STATE_WORDS, lines)
}

/// As [`answers`], on this blob and so much RAM.
pub(crate) fn answers_of(blob: &[u8], state_words: usize, lines: &[&str]) -> Vec<String> {
    let typed: Vec<Vec<u8>> = lines
        .iter()
        .map(|line| format!("{line}\r").into_bytes())
        .collect();
    let script: Vec<(When, &[u8])> = typed
        .iter()
        .map(|line| (When::Prompt, line.as_slice()))
        .collect();
    let seen = converse(blob, state_words, &script);
    let mut turns = seen.split("\r\n> ");
    let _banner = turns.next();
    let answers: Vec<String> = turns
        .filter_map(|turn| turn.split_once("\r\n"))
        .map(|(_echo, answer)| answer.replace("\r\n", "\n"))
        .collect();
    assert_eq!(answers.len(), lines.len(), "{seen}");
    answers
}
