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
    // while it trains: the map of the paper, what it needs, samples at three temperatures
    let (before, training) = said.split_once("needs: ").unwrap();
    assert!(before.contains("3.2.2  multi-head attention"), "{said}");
    for temperature in ["0.5", "0.8", "1.2"] {
        let sample = format!("  temperature {temperature}:");
        assert!(training.contains(&sample), "{said}");
    }
    for file in common::FILES {
        assert!(dir.join("one").join(file).is_file(), "{file}");
    }
    let again = trainer(&dir, &run);
    assert!(!again.status.success());
    assert!(text(&again).contains("--resume one"), "{}", text(&again));

    let output = trainer(&dir, &["sample", "--prompt", "to be", "--len", "20"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).starts_with("to be"));

    // the usual prompt is ROMEO:, which this text has no characters for
    let output = trainer(&dir, &["sample", "--len", "20"]);
    assert!(output.status.success(), "{}", text(&output));
    let refused = trainer(&dir, &["sample", "--prompt", "ROMEO:", "--len", "20"]);
    assert!(text(&refused).contains("'R'"), "{}", text(&refused));

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

    // an imported model has nothing but its best in its folder
    std::fs::remove_file(dir.join("one").join(checkpoint::runs::LAST)).unwrap();
    let again = trainer(&dir, &run);
    assert!(!again.status.success());
    assert!(text(&again).contains("run one exists"), "{}", text(&again));
}

#[test]
fn runs_are_compared_and_reported() {
    let dir = common::scratch("compare");
    let data = dir.join("words.txt");
    std::fs::write(&data, common::corpus().text).unwrap();
    let data = data.to_str().unwrap();
    for (name, threads, seed) in [("one", "1", "1"), ("two", "2", "1"), ("other", "2", "2")] {
        let output = trainer(
            &dir,
            &[
                "test",
                "--data",
                data,
                "--device",
                "cpu",
                "--name",
                name,
                "--threads",
                threads,
                "--seed",
                seed,
            ],
        );
        assert!(output.status.success(), "{}", text(&output));
        assert!(
            text(&output).contains("memory: at most"),
            "{}",
            text(&output)
        );
    }
    let output = trainer(&dir, &["compare", "one", "two", "--within", "0"]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("60 losses of two are within 0"), "{said}");
    let svg = std::fs::read_to_string(dir.join("compare.svg")).unwrap();
    assert!(svg.contains("one, dev") && svg.contains("two, dev"));
    let output = trainer(&dir, &["compare", "one", "other", "--within", "0.0001"]);
    assert!(!output.status.success());
    assert!(text(&output).contains("apart"), "{}", text(&output));

    let report = dir.join("one").join(gpt::report::FILE);
    std::fs::remove_file(&report).unwrap();
    let output = trainer(&dir, &["report", "one", "--prompt", "to be or"]);
    assert!(output.status.success(), "{}", text(&output));
    let html = std::fs::read_to_string(&report).unwrap();
    for part in [
        "layer 1, head 1",
        "temperature 1.2",
        "w_qkv",
        "characters of context",
        "n_layer",
    ] {
        assert!(html.to_lowercase().contains(part), "{part}");
    }
    assert!(
        !html.contains("<script") && !html.contains("src="),
        "it stands alone"
    );
    let output = trainer(&dir, &["report", "one", "--prompt", "zebra"]);
    assert!(!output.status.success());

    let svg = dir.join("one").join(gpt::attention::FILE);
    let draw = |rest: &[&str]| trainer(&dir, &[&["attention", "one"], rest].concat());
    for (rest, drawn) in [
        (&["--prompt", "to be or"][..], 4),
        (&["--prompt", "to be or", "--layer", "1"], 2),
        (&["--prompt", "to be or", "--layer", "1", "--head", "0"], 1),
    ] {
        let output = draw(rest);
        assert!(output.status.success(), "{}", text(&output));
        let svg = std::fs::read_to_string(&svg).unwrap();
        assert_eq!(svg.matches("layer ").count(), drawn);
        assert!(svg.contains("layer 1, head 0"), "{rest:?}");
    }
    let output = draw(&["--prompt", "to be or", "--head", "2"]);
    assert!(!output.status.success());
    let said = text(&output);
    assert!(
        said.contains("no head 2; the model has heads 0 to 1"),
        "{said}"
    );

    // the text moves away
    let moved = dir.join("moved.txt");
    std::fs::rename(data, &moved).unwrap();
    let output = trainer(&dir, &["eval", "one"]);
    assert!(!output.status.success());
    assert!(text(&output).contains("--data FILE"), "{}", text(&output));
    let args = ["eval", "one", "--protocol", "nanogpt", "--json", "--data"];
    let output = trainer(&dir, &[&args[..], &[moved.to_str().unwrap()]].concat());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["batches"], 200, "{}", text(&output));
}

#[test]
fn an_imported_run_is_scored_and_not_taken_for_a_training() {
    let dir = common::scratch("imported");
    let data = dir.join("words.txt");
    std::fs::write(&data, common::corpus().text).unwrap();
    let data = data.to_str().unwrap();
    let run = ["test", "--data", data, "--device", "cpu", "--name"];
    let output = trainer(&dir, &[&run[..], &["one"]].concat());
    assert!(output.status.success(), "{}", text(&output));
    let best = |run: &str| dir.join(run).join(checkpoint::runs::BEST);
    let from = checkpoint::Checkpoint::load(&best("one")).unwrap();
    // as tools/import leaves it, and the newest
    let imported = checkpoint::Checkpoint {
        settings: String::new(),
        run: "own".to_owned(),
        ema: Vec::new(),
        ..from
    };
    imported.save(&best("own")).unwrap();

    // the newest is a trained one while there is one
    for (args, run) in [
        (&["eval"][..], "run one, "),
        (&["eval", "own"], "run own, "),
    ] {
        let output = trainer(&dir, args);
        assert!(output.status.success(), "{}", text(&output));
        assert!(text(&output).starts_with(run), "{}", text(&output));
    }
    let output = trainer(&dir, &["--resume", "--device", "cpu"]);
    assert!(output.status.success(), "{}", text(&output));
    for part in ["run: one, step", "finished: nothing is left to train"] {
        assert!(text(&output).contains(part), "{}", text(&output));
    }
    let last = dir.join("one").join(checkpoint::runs::LAST);
    let whole = std::fs::read(&last).unwrap();
    std::fs::write(&last, &whole[..whole.len() / 2]).unwrap();
    let output = trainer(&dir, &["--resume", "one", "--device", "cpu"]);
    let said = text(&output);
    assert!(
        said.contains("truncated") && said.ends_with("--init one\n"),
        "{said}"
    );
    // one way out is enough
    assert!(!said.contains("copy it again"), "{said}");
    std::fs::write(&last, whole).unwrap();
    let own = [&run[..], &["own"]].concat();
    let cases: &[(&[&str], &str)] = &[
        (&["--resume", "own"], "is an imported run"),
        (
            &["seq2seq", "--resume", "one"],
            "is a run of a GPT, not of seq2seq; continue it with `trainer --resume one`",
        ),
        (&["compare", "one", "own"], "is an imported run"),
        (&["report", "own"], "is an imported run"),
        (&own, "run own exists"),
        (&["compare", "one", "one"], "one is named twice"),
        (&["lesson", "--resume", "one"], "drop the preset"),
        (&["--name", "two", "--resume", "one"], "drop --name"),
    ];
    for (args, expected) in cases {
        let output = trainer(&dir, args);
        let said = text(&output);
        assert!(!output.status.success(), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn speed_is_measured_without_torch_too() {
    let dir = common::scratch("bench");
    let output = Command::new(env!("CARGO_BIN_EXE_trainer"))
        .env("CHAPBOOK_RUNS", &dir)
        // an interpreter that has no torch
        .env("PYTHON", "false")
        .args([
            "bench",
            "test",
            "--turn",
            "2",
            "--rounds",
            "2",
            "--threads",
            "1,2",
            "--json",
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 2);
    assert_eq!(rows[1]["threads"], 2);
    assert!(rows[0]["trainer"][1]["tokens_per_s"].as_f64().unwrap() > 0.0);
    assert!(rows[0]["ratio"].is_null());
}

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

/// Weights of a run's last checkpoint.
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
        (&["--preset", "pockt"], "lesson, pico2, full"),
        (&["lessn"], "lesson"),
        (&["lesson", "--preset", "test"], "lesson and --preset test"),
        (&["--data", &empty], "empty"),
        (&["--data", &latin], "UTF-8"),
        (&["--data", &short], "characters"),
        (&["--data", "no/such/file"], "no/such/file"),
        (&["--device", "tpu"], "auto, cpu or cuda"),
        (&["--data", &words, "--norm", "batch"], "layernorm"),
        (
            &["--data", &words, "--n-layer", "two"],
            "expected a whole number",
        ),
        (
            &["--data", &words, "--n-layer", "70000"],
            "--n-layer: expected a smaller whole number, found \"70000\"",
        ),
        (
            &["--data", &words, "--lr", "fast"],
            "--lr: expected a number",
        ),
        (&["--data", &words, "--precision", "bf16"], "GPU"),
        (&["compare", "nowhere"], "nowhere"),
        (&["bench", "pockt"], "pockt"),
        (&["bench", "test", "--torch", "no/python"], "no/python"),
        (
            &["--data", &words, "--n-head", "5"],
            "n_head 5; d_model must be a multiple",
        ),
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
        (
            &["small", "--data", &words, "--teacher", "pocket"],
            "-- pocket --name pocket` (a committed blob",
        ),
        (&["--init", "pocket"], "-- pocket --name pocket"),
        (&["--init", &words], "is a file; expected"),
        (&["eval", "--blob", &latin], "latin.txt: "),
        (&["sample", "--temperature", "-1"], "0 or a positive number"),
        (&["sample", "--len", "0"], "a whole number of at least 1"),
        (&["--threads", "0"], "a whole number of at least 1"),
        (
            &["--data", &words, "--sample-len", "0"],
            "sample_len must be at least 1",
        ),
    ];
    for (args, expected) in cases {
        let output = trainer(&dir, args);
        let said = text(&output);
        assert!(!output.status.success(), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
    }
}

#[test]
fn a_training_outlives_whoever_reads_what_it_says() {
    let dir = common::scratch("reader-gone");
    let data = dir.join("words.txt");
    std::fs::write(&data, common::corpus().text).unwrap();
    let data = data.to_str().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_trainer"))
        .env("CHAPBOOK_RUNS", &dir)
        .args(["test", "--data", data, "--device", "cpu", "--name", "on"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // as `| head` does
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(dir.join("on").join(gpt::report::FILE).is_file());
}
