//! Help with the products gives the bits of none: weights from other memory, rows on another thread,
//! and help that fails in every way it can.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use checkpoint::blob;
use parity::shapes::{self, PLAIN};
use runtime::kernel::lanes_len;
use runtime::{Assist, Config, Job, Layout, LogitsHash, Model, Rows, Session};

/// Reads in place and computes alone.
struct None;

impl Assist for None {}

/// Copies every piece to one of two buffers in turn, two units at a time.
#[derive(Default)]
struct Copies(Mutex<[Vec<u32>; 2]>);

impl Assist for Copies {
    fn each(&self, rows: Rows<'_>, next: Rows<'_>, take: &mut dyn FnMut(&[u32])) {
        assert!(!next.words.is_empty());
        let mut buffers = self.0.lock().unwrap();
        for (index, piece) in rows.words.chunks(2 * rows.unit).enumerate() {
            let buffer = &mut buffers[index % 2];
            buffer.clear();
            buffer.extend(piece);
            take(buffer);
            // A kernel that looked at it later would see this.
            buffer.fill(0xDEAD_BEEF);
        }
    }
}

/// Computes the second half of all rows on another thread.
struct Threads;

impl Assist for Threads {
    fn compute(&self, mut job: Job<'_>, lanes: &mut [u32]) {
        let (mut mine, mut theirs) = job.split();
        assert!(mine.rows() >= theirs.rows() && mine.rows() % 4 * theirs.rows() == 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut lanes = vec![0xDEAD_BEEF; lanes_len(theirs.cols())];
                theirs.run(&mut lanes);
            });
            mine.run(lanes);
        });
    }
}

/// Both.
#[derive(Default)]
struct Full(Copies);

impl Assist for Full {
    fn each(&self, rows: Rows<'_>, next: Rows<'_>, take: &mut dyn FnMut(&[u32])) {
        self.0.each(rows, next, take);
    }

    fn compute(&self, job: Job<'_>, lanes: &mut [u32]) {
        Threads.compute(job, lanes);
    }
}

/// Fails in another way each time: hands out nothing, the start, half a unit, too much, or the start
/// and then something that does not follow.
#[derive(Default)]
struct Broken(AtomicUsize);

impl Assist for Broken {
    fn each(&self, rows: Rows<'_>, _: Rows<'_>, take: &mut dyn FnMut(&[u32])) {
        let start = &rows.words[..rows.unit.min(rows.words.len())];
        match self.0.fetch_add(1, Ordering::Relaxed) % 5 {
            0 => {}
            1 => take(start),
            2 => take(&start[..start.len() / 2]),
            3 => {
                take(rows.words);
                take(rows.words);
                take(&[]);
            }
            _ => {
                take(start);
                take(&[7; 1][..rows.unit.min(1)]);
                take(&[]);
                take(&vec![7; rows.words.len()]);
                take(&vec![7; rows.unit]);
            }
        }
    }
}

fn hash<'b>(blob: &'b [u8], tokens: &[u16], assist: Option<&'b dyn Assist>) -> u64 {
    let mut model = Model::from_bytes(blob).unwrap();
    if let Some(assist) = assist {
        model = model.assisted(assist);
    }
    let mut memory = vec![0xDEAD_BEEF; model.config().state_words()];
    let mut session = Session::new(&model, &mut memory).unwrap();
    let mut hash = LogitsHash::new();
    for &token in tokens {
        hash.update(session.feed(token).unwrap());
    }
    hash.finish()
}

/// Shapes whose widths fill neither a unit nor a word too.
fn configs() -> Vec<Config> {
    let mut configs = shapes::all();
    for (d_model, d_ff, vocab_size) in [(12, 172, 13), (6, 1_001, 3), (36, 7, 65)] {
        configs.push(Config {
            n_head: 3,
            n_kv_head: 3,
            d_model,
            d_ff,
            vocab_size,
            ..PLAIN
        });
    }
    configs
}

#[test]
fn help_gives_the_same_bits() {
    let copies = Copies::default();
    let full = Full::default();
    let broken = Broken::default();
    let assists: [&dyn Assist; 5] = [&None, &copies, &Threads, &full, &broken];
    for (seed, config) in configs().into_iter().enumerate() {
        let tokens = shapes::random_tokens(config.vocab_size, 6, 1);
        let seed = seed as u64;
        let blobs = [
            shapes::random_blob(config, seed),
            shapes::random_int4_blob(config, Option::None, seed),
        ];
        for (kind, plain) in blobs.into_iter().enumerate() {
            let expected = hash(&plain, &tokens, Option::None);
            // Each with another one.
            let layout = Layout::ALL[(seed as usize + kind) % Layout::ALL.len()];
            let blob = blob::relayout(&plain, layout).unwrap();
            for (index, assist) in assists.into_iter().enumerate() {
                let found = hash(&blob, &tokens, Some(assist));
                assert_eq!(found, expected, "{index} {layout:?} {config:?}");
            }
        }
    }
}

/// Notes the first word of whatever it is asked for, and of what is said to come next.
#[derive(Default)]
struct Log(Mutex<Vec<(usize, usize)>>);

impl Assist for Log {
    fn each(&self, rows: Rows<'_>, next: Rows<'_>, take: &mut dyn FnMut(&[u32])) {
        let place = |rows: Rows<'_>| rows.words.as_ptr().addr();
        self.0.lock().unwrap().push((place(rows), place(next)));
        take(rows.words);
    }
}

#[test]
fn the_order_of_use_is_known_ahead() {
    for config in configs() {
        let blob = shapes::random_blob(config, 1);
        let log = Log::default();
        let model = Model::from_bytes(&blob).unwrap().assisted(&log);
        let order: Vec<usize> = model
            .in_order()
            .map(|rows| rows.words.as_ptr().addr())
            .collect();
        let bytes: usize = model.in_order().map(|rows| 4 * rows.words.len()).sum();
        assert!(bytes < model.tensor_bytes().len());
        let mut memory = vec![0; model.config().state_words()];
        let mut session = Session::new(&model, &mut memory).unwrap();
        for token in [0, 1, 2] {
            session.feed(token).unwrap();
        }
        let log = log.0.lock().unwrap();
        let asked: Vec<usize> = log.iter().map(|asked| asked.0).collect();
        assert_eq!(asked, order.repeat(3), "{config:?}");
        let announced: Vec<usize> = log.iter().map(|asked| asked.1).collect();
        assert_eq!(announced[..announced.len() - 1], asked[1..], "{config:?}");
    }
}
