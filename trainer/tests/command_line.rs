//! The program as it is typed: what it writes, and what it says to bad input.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn trainer(runs: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trainer"))
        .env("CHAPBOOK_RUNS", runs)
        .args(args)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_run_leaves_its_files_and_can_be_sampled_and_scored() {
    let dir = common::scratch("run");
    let data = dir.join("words.txt");
    std::fs::write(&data, common::corpus().text).unwrap();
    let data = data.to_str().unwrap();
    let run = [
        "--preset", "test", "--data", data, "--name", "one", "--device", "cpu",
    ];
    let output = trainer(&dir, &run);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("device: CPU"), "{said}");
    assert!(said.contains("tools/export one"), "{said}");
    for file in common::FILES {
        assert!(dir.join("one").join(file).is_file(), "{file}");
    }
    let again = trainer(&dir, &run);
    assert!(!again.status.success());
    assert!(text(&again).contains("--resume one"), "{}", text(&again));

    let output = trainer(&dir, &["sample", "--prompt", "to be", "--len", "20"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).starts_with("to be"));

    let output = trainer(&dir, &["eval", "one", "--json"]);
    assert!(output.status.success(), "{}", text(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in [
        "val",
        "val_first",
        "val_second",
        "f32",
        "f32_ema",
        "context_len",
    ] {
        assert!(report[key].is_number(), "{key} in {report}");
    }
    assert!(report.get("streaming").is_some());
    assert_eq!(report["blob_sha256"].as_str().unwrap().len(), 64);
}

/// Weights of a run's last checkpoint.
#[test]
fn a_reader_that_leaves_does_not_end_the_run() {
    let dir = common::scratch("pipe");
    let data = dir.join("words.txt");
    std::fs::write(&data, common::corpus().text).unwrap();
    let data = data.to_str().unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_trainer"))
        .env("CHAPBOOK_RUNS", &dir)
        .args(["--preset", "test", "--data", data, "--name", "one"])
        .args(["--device", "cpu"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(run.stdout.take());
    assert!(run.wait().unwrap().success());
    for file in common::FILES {
        assert!(dir.join("one").join(file).is_file(), "{file}");
    }
}

fn weights(runs: &Path, name: &str) -> Vec<checkpoint::NamedTensor> {
    let path = runs.join(name).join(checkpoint::runs::LAST);
    checkpoint::Checkpoint::load(&path).unwrap().ema
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_goes_on_as_if_nothing_had_happened() {
    let dir = common::scratch("stop");
    let data = dir.join("words.txt");
    std::fs::write(&data, common::corpus().text).unwrap();
    let run = |name| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainer"));
        command
            .env("CHAPBOOK_RUNS", &dir)
            .args([
                "test",
                "--device",
                "cpu",
                "--steps",
                "1500",
                "--eval-every",
                "1000",
            ])
            .args(["--name", name, "--data", data.to_str().unwrap()]);
        command
    };
    assert!(run("whole").output().unwrap().status.success());

    let mut child = run("cut").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // the first line of progress: the handler is set and steps are being taken
    lines
        .find(|line| line.as_ref().unwrap().starts_with("step "))
        .unwrap()
        .unwrap();
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let rest: String = lines.map(|line| line.unwrap() + "\n").collect();
    assert!(child.wait().unwrap().success());
    assert!(rest.contains("--resume cut"), "{rest}");

    let output = trainer(&dir, &["--device", "cpu", "--resume", "cut"]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(weights(&dir, "cut"), weights(&dir, "whole"));
}

#[test]
fn bad_input_is_answered_with_what_to_do() {
    let dir = common::scratch("bad");
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let empty = file("empty.txt", b"");
    let latin = file("latin.txt", b"caf\xe9");
    let short = file("short.txt", b"too short");
    let words = file("words.txt", common::corpus().text.as_bytes());
    let cases: &[(&[&str], &str)] = &[
        (&["--preset", "pockt"], "pocket, lesson, pico2, full, test"),
        (&["lessn"], "lesson"),
        (&["--data", &empty], "empty"),
        (&["--data", &latin], "UTF-8"),
        (&["--data", &short], "characters"),
        (&["--data", "no/such/file"], "no/such/file"),
        (&["--device", "tpu"], "auto, cpu or cuda"),
        (&["--data", &words, "--norm", "batch"], "layernorm"),
        (&["--data", &words, "--n-layer", "two"], "expected a number"),
        (&["--data", &words, "--n-layer", "70000"], "--n-layer"),
        (&["--data", &words, "--n-head", "5"], "multiple of n_head"),
        (&["--data", &words, "--batch", "5"], "shards"),
        (&["--data", &words, "--lr", "-1"], "lr is -1"),
        (&["--data", &words, "--board", "uno"], "pico"),
        (
            &["--data", &words, "--board", "pico", "--d-model", "2048"],
            "bytes",
        ),
        (&["--data", &words, "--name", "../x"], "name"),
        (&["--resume", "nowhere"], "nowhere"),
        (&["sample"], "cargo run --release -p trainer"),
    ];
    for (args, expected) in cases {
        let output = trainer(&dir, args);
        let said = text(&output);
        assert!(!output.status.success(), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
    }
}
