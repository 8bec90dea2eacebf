//! The committed model: its texts, its losses, its size.

use std::fmt::Write as _;
use std::path::PathBuf;

use app::generate::{self, Request};
use app::prompt;
use checkpoint::{AlignedBytes, BOARDS, Corpus, Split, blob, score};
use runtime::{Model, Provenance, Session, Settings, Vocab};

/// What `golden/pocket.txt` holds: a prompt, a temperature and a seed, all past the context.
const TEXTS: [(&str, f32, u64); 3] = [
    (r"ROMEO:\n", 0.0, 1),
    (r"ROMEO:\n", 0.8, 1),
    (r"To be, or not to be", 0.5, 42),
];

const POCKET: &str = "../firmware/model/pocket.bin";

/// Whether the golden texts and the loss that the blob states are written instead of compared.
///
/// For a new pocket.bin, or after `tools/export` has upgraded it to a new arithmetic:
/// `CHAPBOOK_GOLDEN=write cargo test --release --workspace --test pocket`
fn golden_is_written() -> bool {
    std::env::var_os("CHAPBOOK_GOLDEN").is_some_and(|value| value == "write")
}

fn in_repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn pocket() -> AlignedBytes {
    AlignedBytes::read(&in_repository(POCKET)).unwrap()
}

/// Writes every text with its settings and its logits hash.
fn transcript(model: &Model<'_>) -> String {
    let mut memory = vec![0; model.config().state_words()];
    let mut session = Session::new(model, &mut memory).unwrap();
    let mut all = String::new();
    for (line, temperature, seed) in TEXTS {
        let mut buffer = vec![0; Vocab::encode_len(line.len())];
        let (tokens, _) = prompt::encode(line, model.vocab(), &mut buffer);
        let request = Request {
            settings: Settings {
                temperature,
                ..Settings::default()
            },
            seed,
            len: u32::from(model.config().context_len) + 100,
        };
        let mut text = String::new();
        let hash = generate::text(&mut session, tokens, request, |char| text.push(char)).unwrap();
        writeln!(
            all,
            "== {line} temperature {temperature} seed {seed} hash {hash:016x}"
        )
        .unwrap();
        writeln!(all, "{text}").unwrap();
    }
    all
}

#[test]
fn texts_are_the_golden_ones() {
    let blob = pocket();
    let found = transcript(&Model::from_bytes(&blob).unwrap());
    let path = in_repository("golden/pocket.txt");
    if golden_is_written() {
        std::fs::write(&path, &found).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(found, golden, "the text of pocket.bin has changed");
}

#[test]
fn self_test_passes_and_every_board_has_room() {
    let blob = pocket();
    let model = Model::from_bytes(&blob).unwrap();
    assert_eq!(model.len(), blob.len(), "nothing lies after the blob");
    let mut memory = vec![0; model.config().state_words()];
    let mut session = Session::new(&model, &mut memory).unwrap();
    session.self_test().unwrap();
    assert!(model.config().state_bytes() <= 64 * 1024);
    for board in &BOARDS {
        board
            .check(model.len(), model.config().state_bytes())
            .unwrap();
    }
}

#[test]
fn losses_are_those_that_the_blob_states() {
    let blob = pocket();
    let provenance = Model::from_bytes(&blob).unwrap().header().provenance;
    let corpus = match Corpus::tiny_shakespeare() {
        Ok(corpus) => corpus,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    assert_eq!(corpus.sha256, provenance.corpus_sha256);
    let tokens = corpus.tokens(&corpus.vocab()).unwrap();
    let dev = &tokens[Split::of(tokens.len()).dev];
    if golden_is_written() {
        for name in ["small", "medium", "pocket", "large"] {
            write_loss(name, dev);
        }
        return;
    }
    let loss = score::in_window(&Model::from_bytes(&blob).unwrap(), dev).unwrap() as f32;
    assert_eq!(loss, provenance.dev_blob);
    let cost = loss - provenance.dev_f32;
    assert!(cost.abs() <= 0.01, "quantisation costs {cost} nats");
}

/// Writes the loss on dev into a committed blob.
fn write_loss(name: &str, dev: &[u16]) {
    let path = in_repository(&format!("../firmware/model/{name}.bin"));
    let bytes = AlignedBytes::read(&path).unwrap();
    let model = Model::from_bytes(&bytes).unwrap();
    let scored = Provenance {
        dev_blob: score::in_window(&model, dev).unwrap() as f32,
        ..model.header().provenance
    };
    std::fs::write(path, &*blob::reencode(&model, scored).unwrap()).unwrap();
}
