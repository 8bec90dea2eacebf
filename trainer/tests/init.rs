//! `--init`: weights that are there already go on with another text.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use checkpoint::{Checkpoint, NamedTensor, runs, synthetic};

fn trainer(runs: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trainer"))
        .env("CHAPBOOK_RUNS", runs)
        .args(["--device", "cpu"])
        .args(args)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A folder for runs with a text in it, and the text's path.
fn place(name: &str, text: &str) -> (PathBuf, String) {
    let dir = common::scratch(name);
    let data = dir.join("words.txt");
    std::fs::write(&data, text).unwrap();
    let data = data.to_str().unwrap().to_owned();
    (dir, data)
}

fn load(runs: &Path, name: &str, file: &str) -> Checkpoint {
    Checkpoint::load(&runs.join(name).join(file)).unwrap()
}

/// The loss on dev that the program says a run starts with.
fn start(said: &str) -> f64 {
    let line = said
        .lines()
        .find(|line| line.starts_with("start: "))
        .unwrap();
    let loss = line.split_whitespace().rev().nth(2).unwrap();
    loss.parse().unwrap()
}

fn data_of(tensors: &[NamedTensor]) -> Vec<u32> {
    let values = tensors.iter().flat_map(|tensor| &tensor.data);
    values.map(|value| value.to_bits()).collect()
}

#[test]
fn a_run_of_ones_own_goes_on_with_another_text() {
    let (dir, data) = place("init-own", &common::corpus().text);
    let output = trainer(&dir, &["test", "--data", &data, "--name", "first"]);
    assert!(output.status.success(), "{}", said(&output));
    let first = load(&dir, "first", runs::BEST);

    // other words of the same characters
    let other = dir.join("other.txt");
    std::fs::write(&other, "not the question that is not ".repeat(400)).unwrap();
    let other = other.to_str().unwrap();
    let tune = [
        "--init",
        "first",
        "--data",
        other,
        "--eval-every",
        "20",
        "--batch",
        "4",
    ];
    let output = trainer(
        &dir,
        &[&tune[..], &["--steps", "40", "--lr", "3e-3"]].concat(),
    );
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("tools/export tuned-1"), "{text}");
    let tuned = load(&dir, "tuned-1", runs::BEST);
    assert_eq!((tuned.vocab, tuned.config), (first.vocab, first.config));
    assert!(tuned.best_dev < start(&text), "{text}");

    // a rate of 0 keeps the weights, bit for bit, and the loss that was said at the start
    let frozen = [
        &tune[..],
        &["--steps", "20", "--lr", "0", "--name", "frozen"],
    ]
    .concat();
    let output = trainer(&dir, &frozen);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    let frozen = load(&dir, "frozen", runs::LAST);
    assert_eq!(data_of(&frozen.weights), data_of(&first.ema));
    assert_eq!(
        format!("{:.4}", frozen.dev_f32),
        format!("{:.4}", start(&text))
    );
    assert_eq!((frozen.best_step, frozen.step), (0, 20));

    // the context can be shortened, and the result is a run like any other
    let short = ["--context-len", "8", "--steps", "20", "--name", "short"];
    let output = trainer(&dir, &[&tune[..], &short].concat());
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(load(&dir, "short", runs::BEST).config.context_len, 8);
    let output = trainer(&dir, &["--resume", "short"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn an_imported_model_of_byte_pairs_goes_on_and_resumes() {
    let (dir, data) = place("init-pairs", &common::corpus().text);
    let config = runtime::Config {
        vocab_size: 400,
        activation: runtime::Activation::SwiGlu,
        ..common::settings(&[]).model
    };
    // as tools/import leaves it
    let imported = Checkpoint {
        vocab: synthetic::byte_pairs(400),
        settings: String::new(),
        run: "pairs".to_owned(),
        ema: Vec::new(),
        ..synthetic::checkpoint(config, 3)
    };
    std::fs::create_dir_all(dir.join("pairs")).unwrap();
    imported.save(&dir.join("pairs").join(runs::BEST)).unwrap();

    // more distinct characters than a vocabulary of characters may have: bytes stand for them
    let strange: String = ('\u{4e00}'..'\u{4f00}').collect();
    std::fs::write(&data, common::corpus().text + &strange).unwrap();
    let tune = [
        "--init", "pairs", "--data", &data, "--steps", "60", "--lr", "1e-2",
    ];
    let output = trainer(
        &dir,
        &[&tune[..], &["--eval-every", "30", "--name", "more"]].concat(),
    );
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("tokens to train on, 400 known"), "{text}");
    assert!(text.contains("nats per token"), "{text}");
    let more = load(&dir, "more", runs::BEST);
    assert_eq!(more.vocab, imported.vocab);
    assert!(more.best_dev < start(&text) - 0.5, "{text}");
    // what follows a training works with it
    let output = trainer(&dir, &["--resume", "more"]);
    assert!(output.status.success(), "{}", said(&output));
    for args in [
        &["eval", "more"][..],
        &["sample", "more", "--prompt", "to be"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainer"));
        let output = command
            .env("CHAPBOOK_RUNS", &dir)
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {}", said(&output));
    }
}

#[test]
fn what_does_not_fit_is_said() {
    let (dir, data) = place("init-bad", &common::corpus().text);
    let output = trainer(&dir, &["test", "--data", &data, "--name", "first"]);
    assert!(output.status.success(), "{}", said(&output));
    let strange = dir.join("strange.txt");
    std::fs::write(&strange, "to be or not to be: 10 % Z, Z ".repeat(400)).unwrap();
    let strange = strange.to_str().unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["--init", "nowhere"], "there is no run nowhere"),
        (
            &["--init", "first", "--data", strange],
            "6 characters that the model does not know: 'Z' (800 times), '%' (400 times)",
        ),
        (&["--init", "first", "--data", strange], "without --init"),
        (
            &["--init", "first", "--data", &data, "--d-model", "32"],
            "--d-model 32 does not fit run first, which has 16",
        ),
        (
            &["--init", "first", "--data", &data, "--norm", "layernorm"],
            "--norm \"layernorm\" does not fit run first",
        ),
        (
            &["--init", "first", "--data", &data, "--context-len", "64"],
            "the context can be 1 to 16 tokens, not 64",
        ),
        (
            &["lesson", "--init", "first", "--data", &data],
            "preset lesson has",
        ),
        (&["--init", "first", "--resume", "first"], "drop --init"),
    ];
    for (args, expected) in cases {
        let output = trainer(&dir, args);
        let said = said(&output);
        assert!(!output.status.success(), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn settings_of_older_runs_are_still_read() {
    let json = common::settings(&[("init_rule", "gpt2")]).to_json();
    let older = json.replace("init_rule", "init");
    assert_ne!(older, json);
    let read = gpt::settings::Settings::from_json(&older).unwrap();
    assert_eq!(read, gpt::settings::Settings::from_json(&json).unwrap());
}
