//! Weights in RAM, a stream and a second core: the same bits, whatever of it is there or fails.

use std::cell::Cell;
use std::sync::Mutex;
use std::thread;

use app::{Copier, Helper, Kept, Pair, SecondCore, Stream};
use checkpoint::synthetic::{self, PLAIN};
use checkpoint::{AlignedBytes, blob, int4};
use runtime::kernel::lanes_len;
use runtime::{
    Activation, Assist, Config, Job, Layout, LogitsHash, Model, Provenance, Rows, Session,
};

const CONFIG: Config = Config {
    n_head: 3,
    n_kv_head: 1,
    d_model: 36,
    d_ff: 100,
    vocab_size: 65,
    rope_base: 10_000,
    activation: Activation::SwiGlu,
    ..PLAIN
};

/// The same model with int8 and with int4 weights, in the layout of each core.
fn blobs() -> Vec<AlignedBytes> {
    let checkpoint = synthetic::checkpoint(CONFIG, 3);
    let provenance = Provenance {
        run: "tiny",
        corpus_sha256: [0; 32],
        step: 0,
        seed: 3,
        dev_f32: 0.0,
        dev_blob: 0.0,
    };
    let int4 = int4::kinds(&CONFIG, None, &[]).unwrap();
    let mut blobs = Vec::new();
    for kinds in [runtime::Kinds::W8, int4] {
        let weights = checkpoint.deployed();
        let plain = blob::write_as(&CONFIG, kinds, &checkpoint.vocab, weights, provenance);
        let plain = plain.unwrap().bytes;
        for layout in Layout::ALL {
            blobs.push(blob::relayout(&plain, layout).unwrap());
        }
    }
    blobs
}

fn hash(model: &Model<'_>) -> u64 {
    let mut memory = vec![0xDEAD_BEEF; model.state_words()];
    let mut session = Session::new(model, &mut memory).unwrap();
    let mut hash = LogitsHash::new();
    for token in 0..12 {
        hash.update(session.feed(token).unwrap());
    }
    hash.finish()
}

/// Copies at once what a device would copy by and by, until it breaks.
struct Fake {
    capacity: usize,
    buffers: [Vec<u32>; 2],
    begun: Option<usize>,
    /// Copies that it makes before it breaks.
    left: usize,
    /// Copies begun, and those that were given up.
    starts: usize,
    stops: usize,
}

impl Fake {
    fn new(capacity: usize, left: usize) -> Self {
        Self {
            capacity,
            buffers: [vec![0; capacity], vec![0; capacity]],
            begun: None,
            left,
            starts: 0,
            stops: 0,
        }
    }
}

impl Copier for Fake {
    fn capacity(&self) -> usize {
        self.capacity
    }

    fn start(&mut self, buffer: usize, words: &[u32]) {
        assert!(!words.is_empty() && words.len() <= self.capacity);
        self.starts += 1;
        assert!(self.begun.is_none(), "another copy is under way");
        // What was in the buffer is gone.
        self.buffers[buffer].fill(0xDEAD_BEEF);
        self.buffers[buffer][..words.len()].copy_from_slice(words);
        self.begun = Some(buffer);
    }

    fn finish(&mut self) -> bool {
        assert!(self.begun.is_some(), "nothing was begun");
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            self.begun = None;
        }
        self.left > 0
    }

    fn stop(&mut self) {
        self.stops += 1;
        self.begun = None;
    }

    fn buffer(&self, buffer: usize) -> &[u32] {
        assert!(self.begun != Some(buffer), "the buffer is not complete");
        &self.buffers[buffer]
    }
}

/// A thread for each job, until it does not answer.
struct Threads {
    left: Cell<usize>,
}

impl SecondCore for Threads {
    fn beside(&mut self, theirs: &mut Job<'_>, mine: &mut dyn FnMut()) -> bool {
        if self.left.get() == 0 {
            mine();
            return false;
        }
        self.left.set(self.left.get() - 1);
        thread::scope(|scope| {
            scope.spawn(|| theirs.run(&mut vec![0xDEAD_BEEF; lanes_len(theirs.cols())]));
            mine();
        });
        true
    }
}

/// A board with both.
struct Chip {
    stream: Mutex<Stream<Fake>>,
    pair: Mutex<Pair<Threads>>,
}

impl Chip {
    fn new(capacity: usize, copies: usize, jobs: usize) -> Self {
        let words: Vec<u32> = (0..50).collect();
        let left = Cell::new(jobs);
        Self {
            stream: Mutex::new(Stream::probe(Fake::new(capacity, copies), &words)),
            pair: Mutex::new(Pair::new(Threads { left })),
        }
    }

    fn states(&self) -> (Helper, Helper) {
        let stream = self.stream.lock().unwrap();
        (stream.state(), self.pair.lock().unwrap().state())
    }
}

impl Assist for Chip {
    fn each(&self, rows: Rows<'_>, next: Rows<'_>, take: &mut dyn FnMut(&[u32])) {
        self.stream.lock().unwrap().each(rows, next, take);
    }

    fn compute(&self, job: Job<'_>, lanes: &mut [u32]) {
        self.pair.lock().unwrap().compute(job, lanes);
    }
}

#[test]
fn every_mixture_of_help_gives_the_same_bits() {
    const ALWAYS: usize = usize::MAX;
    for blob in blobs() {
        let model = Model::from_bytes(&blob).unwrap();
        let expected = hash(&model);
        let all: usize = model.in_order().map(|rows| rows.words.len()).sum();
        for (copies, jobs, states) in [
            (ALWAYS, ALWAYS, (Helper::Works, Helper::Works)),
            (1, ALWAYS, (Helper::Absent, Helper::Works)),
            (10, 7, (Helper::Failed, Helper::Failed)),
            (ALWAYS, 0, (Helper::Works, Helper::Failed)),
        ] {
            // Nothing kept, a part of a matrix, some matrices, all but a little, all and more.
            for spare in [0, 100, 2_000, all, all + 100] {
                for capacity in [64, 500] {
                    let chip = Chip::new(capacity, copies, jobs);
                    let mut spare = vec![0; spare];
                    let kept = Kept::new(&model, &mut spare, Some(&chip));
                    let found = hash(&model.clone().assisted(&kept));
                    let what = (model.layout(), copies, jobs, kept.bytes(), capacity);
                    assert_eq!(found, expected, "{what:?}");
                    let (kept, bytes) = kept.bytes();
                    assert_eq!(bytes, 4 * all);
                    let streams = kept < bytes && capacity > 64;
                    if streams {
                        assert_eq!(chip.states(), states, "{what:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn ram_that_is_left_is_filled_and_the_rest_is_streamed_ahead() {
    let blob = &blobs()[0];
    let model = Model::from_bytes(blob).unwrap();
    let all: usize = model.in_order().map(|rows| rows.words.len()).sum();
    let n_matrix = model.in_order().count();
    let unit = model.in_order().map(|rows| rows.unit).max().unwrap();
    for spare_words in [0, 5_000, all / 2, all + 2 * n_matrix] {
        let chip = Chip::new(500, usize::MAX, 0);
        let mut spare = vec![0; spare_words];
        let kept = Kept::new(&model, &mut spare, Some(&chip));
        let words = kept.bytes().0 / 4;
        if spare_words > 0 {
            let lost = spare_words.min(all) - words.min(spare_words);
            assert!(lost <= 2 * n_matrix + unit, "{spare_words}: {lost}");
        }
        hash(&model.clone().assisted(&kept));
        let stream = chip.stream.lock().unwrap();
        // Each piece was begun once: the order was known.
        assert_eq!(stream.copier().stops, 0);
        let whole = spare_words > all;
        assert_eq!(stream.copier().starts == 1, whole, "{spare_words}");
    }
}

#[test]
fn without_trust_nothing_is_asked() {
    let blob = &blobs()[1];
    let model = Model::from_bytes(blob).unwrap();
    let expected = hash(&model);
    let chip = Chip::new(500, usize::MAX, usize::MAX);
    let mut spare = vec![0; 3_000];
    let kept = Kept::new(&model, &mut spare, Some(&chip));
    kept.distrust();
    assert_eq!(hash(&model.clone().assisted(&kept)), expected);
    assert_eq!(kept.bytes().0, 0);
    assert_eq!(chip.stream.lock().unwrap().copier().starts, 1);
}
