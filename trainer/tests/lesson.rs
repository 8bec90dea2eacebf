//! The models beside the GPT: padding, decoding, resumption, learning, the program.

mod common;

use std::process::Command;

use burn_flex::{Flex, FlexDevice};
use checkpoint::LessonCheckpoint;
use gpt::evaluation::host;
use gpt::{optimizer, params};
use lesson::decode::{beam, greedy};
use lesson::embedding::{BOS, EOS};
use lesson::layers::{NormOrder, Width};
use lesson::learner::Learner;
use lesson::pairs::Rows;
use lesson::seq2seq::{Seq2Seq, Shape};
use lesson::task::{self, TaskName, stripped};
use lesson::translator::{self, Translator};
use lesson::{init, run};

const D: FlexDevice = FlexDevice;

fn model(norm: NormOrder) -> Seq2Seq<Flex> {
    let shape = Shape {
        n_layer: 2,
        width: Width {
            d_model: 16,
            n_head: 4,
            d_ff: 32,
        },
        vocab_size: 11,
        norm,
    };
    let model = Seq2Seq::new(&shape, &D);
    let weights = init::weights(&params::entries(&model), 3, |_, _| None);
    params::with_values(model, optimizer::upload(weights, &D))
}

#[test]
fn each_target_divides_its_attention_among_the_source_and_none_goes_to_padding() {
    for norm in [NormOrder::Post, NormOrder::Pre] {
        let model = model(norm);
        let source = Rows::new(&[vec![5, 6], vec![7, 8, 9, 10, 3]], 0);
        let target = Rows::new(&[vec![BOS, 3, 4], vec![BOS, 9, 8]], 0);
        let memory = model.encode(source.tensor(0..2, &D), &source.lengths, None);
        let look = |target: &Rows| model.look(target.tensor(0..2, &D), &target.lengths, &memory);
        let layers = look(&target);
        assert_eq!(layers.len(), 2);
        for shares in &layers {
            assert_eq!(shares.dims(), [2, 4, 3, 5]);
            let flat = host(shares.clone().reshape([120]));
            for (i, row) in flat.chunks(5).enumerate() {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
                assert!(i >= 12 || row[2..] == [0.0; 3], "{row:?}");
            }
        }
        // the second layer looks with what the first has made of the past
        let other = Rows::new(&[vec![BOS, 3, 5], vec![BOS, 9, 7]], 0);
        for (shares, changed) in layers.into_iter().zip(look(&other)) {
            let cut = |shares: burn::tensor::Tensor<Flex, 4>, rows: std::ops::Range<usize>| {
                let n = 2 * 4 * rows.len() * 5;
                host(shares.slice([0..2, 0..4, rows, 0..5]).reshape([n]))
            };
            assert_eq!(cut(shares.clone(), 0..2), cut(changed.clone(), 0..2));
            assert_ne!(cut(shares, 2..3), cut(changed, 2..3));
        }
    }
}

#[test]
fn a_batch_of_one_equals_a_batch_of_many_under_padding() {
    for norm in [NormOrder::Post, NormOrder::Pre] {
        let model = model(norm);
        let sources: [&[i32]; 3] = [&[5, 6], &[7, 8, 9, 10, 3, 4, 5], &[4, 4, 4, 4]];
        let targets: [&[i32]; 3] = [&[BOS, 3, 4, 5], &[BOS], &[BOS, 9, 8, 7, 6, 5]];
        let logits = |rows: &[usize], at_least: usize| -> Vec<Vec<f32>> {
            let cut = |all: &[&[i32]; 3]| {
                let rows: Vec<Vec<i32>> = rows.iter().map(|&row| all[row].to_vec()).collect();
                Rows::new(&rows, at_least)
            };
            let (source, target) = (cut(&sources), cut(&targets));
            let memory = model.encode(source.tensor(0..rows.len(), &D), &source.lengths, None);
            let logits = model.decode(
                target.tensor(0..rows.len(), &D),
                &target.lengths,
                &memory,
                None,
            );
            let [_, len, width] = logits.dims();
            let flat = host(logits.reshape([rows.len() * len * width]));
            flat.chunks_exact(len * width)
                .zip(&target.lengths)
                .map(|(row, &own)| row[..own * width].to_vec())
                .collect()
        };
        let many = logits(&[0, 1, 2], 12);
        for (row, among) in many.iter().enumerate() {
            let one = &logits(&[row], 1)[0];
            let worst = one
                .iter()
                .zip(among)
                // the logit of padding is -1e9 and says nothing
                .filter(|(a, _)| **a > -1e8)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            assert_eq!(one.len(), among.len());
            assert!(worst < 1e-5, "row {row}: {worst}");
        }
    }
}

#[test]
fn a_beam_of_one_is_greedy_and_all_targets_end() {
    let model = model(NormOrder::Post);
    let sources = [vec![5, 6, 7], vec![8, 3], vec![9, 9, 9, 4, 10]];
    let answers = greedy(&model, &sources, 9, &D);
    for (source, answer) in sources.iter().zip(&answers) {
        assert_eq!(beam(&model, source, 1, 9, &D), *answer);
        let wide = beam(&model, source, 4, 9, &D);
        assert!(answer.len() <= 9 && wide.len() <= 9);
        assert!(!answer.contains(&EOS) && !wide.contains(&EOS));
    }
}

#[test]
fn tasks_are_what_they_say_and_hold_out_what_they_train_on() {
    let no_corpus = || Ok(common::corpus());
    let (reverse, _) = task::create(TaskName::Reverse, no_corpus).unwrap();
    let (add, _) = task::create(TaskName::Add, no_corpus).unwrap();
    for task in [&reverse, &add] {
        let (dev, val) = (task.dev(), task.val());
        assert_eq!((dev.len(), val.len()), (1_000, 1_000));
        let held: std::collections::HashSet<_> =
            dev.iter().chain(&val).map(|pair| &pair.source).collect();
        assert_eq!(held.len(), 2_000);
        for i in 0..3_000 {
            let pair = task.train(1, i);
            assert!(!held.contains(&pair.source), "{}", pair.source);
            assert!(pair.target.chars().count() <= task.max_len());
        }
    }
    for pair in reverse.val() {
        assert!(pair.source.chars().rev().eq(pair.target.chars()));
    }
    for pair in add.val() {
        let (a, b) = pair.source.split_once('+').unwrap();
        let sum: usize = pair
            .target
            .chars()
            .rev()
            .collect::<String>()
            .parse()
            .unwrap();
        let terms = [a, b].map(|term| term.parse::<usize>().unwrap());
        assert!(terms.iter().all(|&term| term < 10_000));
        assert_eq!(terms[0] + terms[1], sum);
    }
    assert_eq!(
        stripped("O, that's 'twas-born!  Ay"),
        "o thats twas born ay"
    );
}

fn learner(threads: usize) -> Learner<Flex, Translator> {
    let overrides = [
        ("d_model", "16"),
        ("d_ff", "32"),
        ("n_layer", "1"),
        ("batch", "8"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = translator::settings("small", &overrides).unwrap();
    let (task, _) = task::create(settings.task, || Ok(common::corpus())).unwrap();
    let recipe = settings.recipe.checked(task.max_len()).unwrap();
    Learner::new(
        recipe,
        Translator::new(settings, task).unwrap(),
        threads,
        &D,
    )
    .unwrap()
}

#[test]
fn a_resumed_learner_equals_an_uninterrupted_one_on_any_threads() {
    let mut whole = learner(2);
    let mut first = learner(1);
    for _ in 0..6 {
        whole.step().unwrap();
    }
    for _ in 0..3 {
        first.step().unwrap();
    }
    let path = common::scratch("lesson-resume").join("last.lesson");
    let blank = run::blank(translator::MODEL, "{}".to_owned(), "one".to_owned());
    first.to_checkpoint(&blank, true).save(&path).unwrap();
    let mut second = learner(2);
    second
        .restore(&LessonCheckpoint::load(&path).unwrap())
        .unwrap();
    for _ in 0..3 {
        second.step().unwrap();
    }
    let bits = |learner: &Learner<Flex, Translator>| -> Vec<u32> {
        let weights = host(learner.state.weights.clone());
        weights.into_iter().map(f32::to_bits).collect()
    };
    assert_eq!(bits(&second), bits(&whole));
}

#[test]
fn loss_of_a_batch_does_not_depend_on_its_shards() {
    // padding is not counted: the shards of a batch have different numbers of targets
    let mut one = learner(1);
    let mut four = learner(1);
    four.settings.shards = 4;
    let (a, grads_a) = one.gradients();
    let (b, grads_b) = four.gradients();
    assert!((a - b).abs() < 1e-5, "{a} {b}");
    let (a, b) = (host(grads_a), host(grads_b));
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5));
}

fn trainer(runs: &std::path::Path, args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_trainer"))
        .env("CHAPBOOK_RUNS", runs)
        .args(args)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

#[test]
fn the_programs_leave_their_files_and_answer_bad_input() {
    let dir = common::scratch("lesson-run");
    let data = dir.join("words.txt");
    std::fs::write(&data, common::corpus().text).unwrap();
    let data = data.to_str().unwrap();
    let small = ["--steps", "3", "--batch", "4", "--eval-every", "3"];
    let tiny = [
        "--n-layer",
        "1",
        "--d-model",
        "8",
        "--d-ff",
        "8",
        "--n-head",
        "2",
    ];
    let files = [
        "config.json",
        "metrics.jsonl",
        "loss.svg",
        "last.lesson",
        "best.lesson",
        "samples.txt",
        gpt::report::FILE,
    ];
    for (name, model) in [
        ("sum", ["seq2seq", "--task", "add"].as_slice()),
        (
            "cell",
            &["rnn", "--cell", "gru", "--n-params", "900", "--data", data],
        ),
    ] {
        let shape: &[&str] = if name == "sum" { &tiny } else { &[] };
        let args = [model, &["--name", name, "--workers", "2"], &small, shape].concat();
        let (ok, said) = trainer(&dir, &args);
        assert!(ok, "{said}");
        for file in files {
            assert!(dir.join(name).join(file).is_file(), "{file}");
        }
        let (ok, said) = trainer(&dir, &args);
        assert!(!ok && said.contains("--resume"), "{said}");
    }
    for study in ["rnn", "ablation"] {
        let args = [
            "study", study, "--steps", "2", "--name", study, "--data", data,
        ];
        let (ok, said) = trainer(&dir, &args);
        assert!(ok, "{said}");
        for file in ["table.md", "curves.svg"] {
            assert!(dir.join(study).join(file).is_file(), "{file}");
        }
        // a model that is done is not trained again, and the table stays
        let table = std::fs::read_to_string(dir.join(study).join("table.md")).unwrap();
        let (ok, said) = trainer(&dir, &args);
        assert!(
            ok && said.contains("is done") && !said.contains(" step "),
            "{said}"
        );
        let again = std::fs::read_to_string(dir.join(study).join("table.md")).unwrap();
        assert_eq!(again, table);
        let longer = [
            "study", study, "--steps", "3", "--name", study, "--data", data,
        ];
        let (ok, said) = trainer(&dir, &longer);
        assert!(!ok && said.contains("--name"), "{said}");
    }
    let cases: &[(&[&str], &str)] = &[
        (&["seq2seq", "--task", "sort"], "reverse"),
        (&["seq2seq", "--preset", "huge"], "small, middle, full"),
        (&["seq2seq", "--n-head", "5"], "multiple of n_head"),
        (&["seq2seq", "--batch", "5"], "shards"),
        (&["seq2seq", "--workers", "3"], "multiple of 3"),
        (&["rnn", "--workers", "3", "--data", data], "multiple of 3"),
        (&["seq2seq", "--task", "add", "--data", data], "restore"),
        (
            &["rnn", "--dropout", "0.1", "--data", data],
            "drop --dropout",
        ),
        (&["rnn", "--resume", "sum"], "seq2seq"),
        (&["rnn", "--cell", "cnn"], "lstm"),
        (&["seq2seq", "--resume", "nowhere"], "nowhere"),
        (&["study", "cats"], "ablation"),
        (&["sample"], "no trained run"),
        (
            &["sample", "sum"],
            "sum is a run of seq2seq, a model of the lesson",
        ),
        (
            &["report", "cell"],
            "cell is a run of rnn, a model of the lesson",
        ),
        (&["compare", "cell", "sum"], "cell is a run of rnn"),
        (&["--resume", "cell"], "-- rnn --resume"),
    ];
    for (args, expected) in cases {
        let (ok, said) = trainer(&dir, args);
        assert!(!ok, "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
    }
}

#[test]
fn dropout_of_the_tape_is_a_function_of_the_step() {
    let mut run = learner(1);
    run.settings.dropout = 0.3;
    let (a, _) = run.gradients();
    let (b, _) = run.gradients();
    assert_eq!(a.to_bits(), b.to_bits());
    run.settings.dropout = 0.0;
    let (c, _) = run.gradients();
    assert_ne!(a.to_bits(), c.to_bits());
}
