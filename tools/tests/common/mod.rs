//! A folder of its own for each test, a tiny trained-looking run in it, and the tools to run there.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use checkpoint::synthetic::{self, PLAIN};
use checkpoint::{Checkpoint, Corpus, Vocabulary, runs};
use runtime::Config;

/// Shape of the run.
pub(crate) const CONFIG: Config = Config {
    n_layer: 2,
    n_head: 2,
    n_kv_head: 1,
    d_model: 16,
    d_ff: 24,
    vocab_size: 10,
    head_bias: true,
    ..PLAIN
};

/// A temporary folder with `text.txt` and `runs/`; removed at the end.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
}

impl Folder {
    /// Creates the folder; `name` says whose it is where one is left behind.
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = format!("chapbook-{name}-{}-{}", unique.0, unique.1);
        let path = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(path.join("runs")).unwrap();
        let text = "ROMEO:\nO more, more!\n".repeat(40);
        std::fs::write(path.join("text.txt"), text).unwrap();
        Self { path }
    }

    /// Creates the folder, with a run and its blob `good.bin`.
    #[allow(dead_code, reason = "each test file is a crate of its own")]
    pub(crate) fn exported(name: &str) -> Self {
        let folder = Self::new(name);
        folder.save("run", "best.ckpt", &folder.checkpoint(1));
        let export = env!("CARGO_BIN_EXE_export");
        printed(&folder.run(export, &["-o", "good.bin"]));
        folder
    }

    /// Makes a checkpoint of a model that fits `text.txt`.
    pub(crate) fn checkpoint(&self, seed: u64) -> Checkpoint {
        let corpus = Corpus::from_file(&self.path.join("text.txt")).unwrap();
        let vocab: Vocabulary = corpus.vocab();
        let config = Config {
            vocab_size: u16::try_from(vocab.len()).unwrap(),
            ..CONFIG
        };
        let mut checkpoint = synthetic::checkpoint(config, seed);
        checkpoint.vocab = vocab.as_bytes().to_vec();
        checkpoint.corpus_name = corpus.name;
        checkpoint.corpus_sha256 = corpus.sha256;
        checkpoint.step = 300;
        checkpoint.dev_ema = 4.5;
        checkpoint
    }

    /// Saves a checkpoint as the best of a run.
    pub(crate) fn save(&self, run: &str, file: &str, checkpoint: &Checkpoint) -> PathBuf {
        let path = self.path.join("runs").join(run).join(file);
        checkpoint.save(&path).unwrap();
        path
    }

    /// Runs a tool in this folder, on the runs of this folder.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new(program)
            .args(arguments)
            .current_dir(&self.path)
            .env(runs::RUNS_VARIABLE, self.path.join("runs"))
            .output()
            .unwrap()
    }

    /// Reads a file of this folder.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Returns what a successful tool printed.
#[track_caller]
pub(crate) fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the one line of error that a failing tool printed.
#[track_caller]
pub(crate) fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(errors.starts_with("error: "), "{errors}");
    assert_eq!(errors.trim_end().lines().count(), 1, "{errors}");
    errors
}
