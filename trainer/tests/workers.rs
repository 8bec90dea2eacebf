//! Several workers take the steps of one, and say so when one of them is gone.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use burn_flex::{Flex, FlexDevice};
use checkpoint::{Checkpoint, runs};
use gpt::evaluation::host;
use gpt::metrics;
use gpt::peers::threads::Team;
use gpt::training::{Text, Trainer};
use lesson::char_lm::CharLm;
use lesson::learner::{Learner, Problem};
use lesson::recurrent;
use lesson::rnn::{Cell, RnnShape};
use lesson::settings::Recipe;
use lesson::task;
use lesson::translator::{self, Translator};

/// `burn-collective` has one meeting place per backend and process.
static MEETING: Mutex<()> = Mutex::new(());

/// Largest distance between losses of the same step.
const BOUND: f64 = 1e-4;

fn trainer() -> Trainer<Flex> {
    let settings = [
        ("batch", "8"),
        ("shards", "4"),
        ("steps", "50"),
        ("dropout", "0.1"),
    ];
    common::trainer(common::settings(&settings), 1)
}

fn losses(trainer: &mut Trainer<Flex>) -> Vec<f64> {
    (0..50).map(|_| trainer.step().unwrap().loss).collect()
}

#[test]
fn workers_on_threads_take_the_very_steps_of_one() {
    let _alone = MEETING.lock();
    let mut one = trainer();
    let expected = losses(&mut one);
    for count in [2, 4] {
        let mut first = trainer();
        let team = Team::start(&mut first, count, 1, &[FlexDevice]).unwrap();
        let found = losses(&mut first);
        drop(team);
        for (step, (a, b)) in found.iter().zip(&expected).enumerate() {
            assert!(
                (a - b).abs() <= BOUND,
                "{count} workers, step {step}: {a} {b}"
            );
        }
        assert_eq!(common::bits(&first), common::bits(&one), "{count} workers");
    }
}

/// Takes 50 steps alone and then with two workers; returns the losses of both, and whether the weights are
/// the same bit for bit.
fn lesson_pair<P: Problem<Flex>>(
    learner: impl Fn() -> Learner<Flex, P>,
) -> (Vec<f64>, Vec<f64>, bool) {
    let losses = |learner: &mut Learner<Flex, P>| -> Vec<f64> {
        (0..50).map(|_| learner.step().unwrap().loss).collect()
    };
    let bits = |learner: &Learner<Flex, P>| -> Vec<u32> {
        let weights = host(learner.state.weights.clone());
        weights.into_iter().map(f32::to_bits).collect()
    };
    let (mut one, mut first) = (learner(), learner());
    let expected = losses(&mut one);
    let team = Team::start(&mut first, 2, 1, &[FlexDevice]).unwrap();
    let found = losses(&mut first);
    drop(team);
    let same = bits(&one) == bits(&first);
    (expected, found, same)
}

#[test]
fn workers_take_the_very_steps_of_one_for_the_other_models_too() {
    let _alone = MEETING.lock();
    let small = [("d_model", "16"), ("d_ff", "32"), ("n_layer", "1")];
    let both = [("batch", "8"), ("steps", "50"), ("dropout", "0.1")];
    let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        pairs.iter().map(owned).collect()
    };
    let seq2seq = lesson_pair(|| {
        let settings = translator::settings("small", &owned(&[&small[..], &both].concat()));
        let settings = settings.unwrap();
        let (task, _) = task::create(settings.task, || Ok(common::corpus())).unwrap();
        let recipe = settings.recipe.checked(task.max_len()).unwrap();
        Learner::new(
            recipe,
            Translator::new(settings, task).unwrap(),
            1,
            &FlexDevice,
        )
        .unwrap()
    });
    let rnn = lesson_pair(|| {
        let recipe = recurrent::DEFAULT.recipe;
        let recipe = Recipe {
            batch: 8,
            steps: 50,
            ..recipe
        }
        .checked(16)
        .unwrap();
        let text = Text::new(&common::corpus(), 16, false).unwrap();
        let shape = RnnShape::of_size(Cell::Gru, text.vocab.len(), 900);
        let problem = CharLm::new(shape, text, &recipe).unwrap();
        Learner::new(recipe, problem, 1, &FlexDevice).unwrap()
    });
    for (name, (expected, found, same)) in [("seq2seq", seq2seq), ("rnn", rnn)] {
        for (step, (a, b)) in found.iter().zip(&expected).enumerate() {
            assert!((a - b).abs() <= BOUND, "{name}, step {step}: {a} {b}");
        }
        assert!(same, "{name}: other weights");
    }
}

#[test]
fn a_team_that_stops_early_leaves_nobody_waiting() {
    let _alone = MEETING.lock();
    let mut first = trainer();
    let team = Team::start(&mut first, 2, 1, &[FlexDevice]).unwrap();
    common::steps(&mut first, 3);
    // joins the other worker, which is on its way to step 4
    drop(team);
    assert!(first.step().is_err());
    assert_eq!(first.step, 3);
}

#[test]
fn shards_that_cannot_be_divided_are_an_error() {
    let error = Team::start(&mut trainer(), 3, 1, &[FlexDevice]).unwrap_err();
    assert!(error.to_string().contains("multiple of 3"), "{error}");
}

/// A process of a run, and what it has not said yet.
struct Worker {
    process: Child,
    said: BufReader<ChildStdout>,
}

impl Worker {
    fn start(dir: &Path, args: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_trainer"))
            .env("CHAPBOOK_RUNS", dir)
            .args(["--device", "cpu", "--threads", "1"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        Self { process, said }
    }

    /// Reads on until a line contains a word, and returns what follows it there.
    fn hear(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let len = self.said.read_line(&mut line).unwrap();
            assert!(len > 0, "{word:?} was not said: {}", self.errors());
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
    }

    fn errors(&mut self) -> String {
        let mut errors = String::new();
        let stream = self.process.stderr.as_mut().unwrap();
        stream.read_to_string(&mut errors).unwrap();
        errors
    }

    /// Waits for its end; returns whether it succeeded and what it said, errors behind.
    fn end(mut self) -> (bool, String) {
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        said += &self.errors();
        (self.process.wait().unwrap().success(), said)
    }
}

/// Starts a run of two processes; `steps` are its length.
fn pair(dir: &Path, name: &str, steps: &str, both: &[&str]) -> (Worker, Worker) {
    let data = dir.join("words.txt");
    std::fs::write(&data, common::corpus().text).unwrap();
    let data = data.to_str().unwrap();
    let args = [
        "--preset",
        "test",
        "--batch",
        "8",
        "--shards",
        "4",
        "--eval-every",
        "1000",
        "--data",
        data,
        "--steps",
        steps,
        "--name",
        name,
        "--workers",
        "2",
        "--listen",
        "127.0.0.1:0",
    ];
    let mut first = Worker::start(dir, &[&args, both].concat());
    let address = first.hear("--join ");
    let args = ["--join", &address, "--data", data];
    let mut second = Worker::start(dir, &[&args, both].concat());
    // before it is there
    second.hear("waiting for a run at 127.0.0.1:");
    (first, second)
}

fn train_losses(dir: &Path, name: &str) -> Vec<f64> {
    let lines = metrics::read(&dir.join(name)).unwrap();
    lines.into_iter().map(|line| line.train).collect()
}

fn weights(dir: &Path, name: &str) -> (u64, Vec<Vec<f32>>) {
    let last = Checkpoint::load(&dir.join(name).join(runs::LAST)).unwrap();
    let weights = last.weights.into_iter().map(|tensor| tensor.data);
    (last.step, weights.collect())
}

/// Trains alone with the arguments of [`pair`], or goes on with what is there.
fn alone(dir: &Path, args: &[&str]) {
    let (ok, said) = Worker::start(dir, args).end();
    assert!(ok, "{said}");
}

#[test]
fn two_processes_take_the_very_steps_of_one() {
    let dir = common::scratch("workers-pair");
    let (first, second) = pair(&dir, "pair", "50", &[]);
    for (who, (ok, said)) in [("first", first.end()), ("second", second.end())] {
        assert!(ok, "{who}: {said}");
    }
    let data = dir.join("words.txt");
    alone(
        &dir,
        &[
            "--preset",
            "test",
            "--batch",
            "8",
            "--shards",
            "4",
            "--eval-every",
            "1000",
            "--data",
            data.to_str().unwrap(),
            "--steps",
            "50",
            "--name",
            "one",
        ],
    );
    let (found, expected) = (train_losses(&dir, "pair"), train_losses(&dir, "one"));
    assert_eq!((found.len(), expected.len()), (50, 50));
    for (step, (a, b)) in found.iter().zip(&expected).enumerate() {
        assert!((a - b).abs() <= BOUND, "step {step}: {a} {b}");
    }
    assert_eq!(weights(&dir, "pair"), weights(&dir, "one"));
}

#[test]
fn a_worker_that_dies_ends_the_run_with_a_good_checkpoint() {
    let dir = common::scratch("workers-death");
    for (name, dead) in [("leaf-dies", 1), ("hub-dies", 0)] {
        let (dying, survivor) = at_work(&dir, name, dead, &[]);
        let step = left_with_a_checkpoint(&dir, name, dead, dying, survivor, " is gone", |dying| {
            dying.process.kill().unwrap();
        });
        // one worker alone goes on with it: it is a run like any other
        let data = dir.join("words.txt");
        let data = data.to_str().unwrap();
        let mut on = Worker::start(&dir, &["--resume", name, "--data", data]);
        let from = on.hear(&format!("run: {name}, step "));
        assert!(from.starts_with(&format!("{step} of")), "{from}");
        on.process.kill().unwrap();
        on.process.wait().unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_worker_that_hangs_ends_the_run_with_a_good_checkpoint() {
    let dir = common::scratch("workers-hang");
    for (name, hung) in [("leaf-hangs", 1), ("hub-hangs", 0)] {
        let (hanging, survivor) = at_work(&dir, name, hung, &["--patience", "5"]);
        let said = " is gone: silent for 5 s";
        left_with_a_checkpoint(&dir, name, hung, hanging, survivor, said, |hanging| {
            let pid = hanging.process.id().to_string();
            let stopped = Command::new("kill").args(["-STOP", &pid]).status().unwrap();
            assert!(stopped.success());
        });
    }
}

/// Starts a run of two processes and waits until they take steps; returns the given one and the other.
fn at_work(dir: &Path, name: &str, which: usize, both: &[&str]) -> (Worker, Worker) {
    let (mut first, mut second) = pair(dir, name, "200000", both);
    second.hear("for run ");
    first.hear("/200000 ");
    match which {
        0 => (first, second),
        _ => (second, first),
    }
}

/// Lets worker `rank` fail and checks that the other ends with that reason and a whole checkpoint, whose
/// step is returned.
fn left_with_a_checkpoint(
    dir: &Path,
    name: &str,
    rank: usize,
    mut failing: Worker,
    survivor: Worker,
    reason: &str,
    fail: impl Fn(&mut Worker),
) -> u64 {
    fail(&mut failing);
    let (ok, said) = survivor.end();
    assert!(!ok, "{said}");
    assert!(said.contains(&format!("worker {rank} at ")), "{said}");
    assert!(
        said.contains(reason) && said.contains(&format!("--resume {name}")),
        "{said}"
    );
    assert!(!said.contains("panicked"), "{said}");
    // one that hangs has to be ended now
    let _ = failing.process.kill();
    failing.process.wait().unwrap();
    // it is that of the step that was named
    let (step, weights) = weights(dir, name);
    assert!(said.contains(&format!("saved at step {step} of")), "{said}");
    assert!(step > 0 && weights.iter().flatten().all(|w| w.is_finite()));
    step
}

#[test]
fn bad_requests_of_workers_are_errors() {
    let dir = common::scratch("workers-bad");
    let cases: &[(&[&str], &str)] = &[
        (
            &["--preset", "test", "--workers", "0"],
            "a whole number of at least 1",
        ),
        (
            &["--preset", "test", "--workers", "3", "--shards", "4"],
            "multiple of 3",
        ),
        (
            &["--preset", "test", "--listen", "127.0.0.1:0"],
            "--workers",
        ),
        (
            &[
                "--preset",
                "test",
                "--shards",
                "2",
                "--workers",
                "2",
                "--listen",
                "nowhere",
            ],
            "--listen",
        ),
        (&["--join", "127.0.0.1:1", "--name", "mine"], "drop --name"),
        (&["--join", "nowhere"], "nobody listens at nowhere"),
    ];
    for (args, expected) in cases {
        let (ok, said) = Worker::start(&dir, args).end();
        assert!(!ok && said.contains(expected), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
    }
}
