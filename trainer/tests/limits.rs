//! Limits: memory of a training, flash and RAM of the presets, and the warnings of a run.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use checkpoint::{blob, synthetic};
use gpt::{memory, presets};
use runtime::Provenance;

fn trainer(runs: &Path, text: &str, args: &[&str]) -> String {
    let data = runs.join("text.txt");
    std::fs::write(&data, text).unwrap();
    let output: Output = Command::new(env!("CARGO_BIN_EXE_trainer"))
        .env("CHAPBOOK_RUNS", runs)
        .args(["test", "--device", "cpu", "--data", data.to_str().unwrap()])
        .args(args)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{output:?}");
    said
}

/// The number of megabytes after `word`.
fn megabytes(said: &str, word: &str) -> u64 {
    let (_, after) = said.split_once(word).unwrap();
    let number = after.split_whitespace().next().unwrap();
    number.parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_stays_below_the_memory_that_it_names() {
    let dir = common::scratch("memory");
    // wide enough that the model counts beside the program
    let args = [
        "--d-model",
        "256",
        "--d-ff",
        "1024",
        "--n-layer",
        "4",
        "--steps",
        "3",
        "--eval-every",
        "3",
        "--context-len",
        "64",
        "--train-len",
        "64",
        "--batch",
        "16",
        "--name",
        "wide",
    ];
    let said = trainer(&dir, &common::corpus().text, &args);
    let (most, held) = (
        megabytes(&said, "memory: at most "),
        megabytes(&said, ", held "),
    );
    assert!(held <= most, "{said}");
    assert!(most < 4 * held, "{most} MB say nothing about {held} MB");
}

#[cfg(target_os = "linux")]
#[test]
fn a_long_text_counts_as_memory() {
    let dir = common::scratch("memory-text");
    // so long that the program is small beside it
    let words = common::corpus().text;
    let text = words.repeat(20_000_000 / words.len());
    let of_length = |name: &str, text: &str| {
        let said = trainer(&dir, text, &["--steps", "1", "--name", name]);
        let most = megabytes(&said, "memory: at most ");
        let held = megabytes(&said, ", held ");
        assert!(held <= most, "{said}");
        (most, held)
    };
    // What the program itself holds differs from machine to machine; this is taken off.
    let (_, least) = of_length("short", &words);
    let (most, held) = of_length("long", &text);
    let added = memory::text(text.len() as u64, false).div_ceil(1_000_000);
    assert!(
        held <= least + added,
        "{held} MB for the long text, {least} MB for the short one"
    );
    assert!(most < 2 * held, "{most} MB say nothing about {held} MB");
}

#[test]
fn large_trains_below_two_gigabytes_on_any_number_of_threads() {
    let settings = presets::find("large").unwrap().settings;
    for threads in [1, 2, 64] {
        assert!(memory::ceiling(&settings, threads) < 2_000_000_000);
    }
}

#[test]
fn presets_keep_to_their_flash_and_ram() {
    for (name, flash, ram) in [
        ("small", 64 << 10, 32_000),
        ("medium", 256 << 10, 128_000),
        ("large", 1 << 20, 200_000),
    ] {
        let config = presets::find(name).unwrap().settings.model;
        let from = synthetic::checkpoint(config, 1);
        let provenance = Provenance {
            // a long name of a run is in the blob too
            run: "a-run-with-a-rather-long-name",
            ..from.provenance()
        };
        let blob = blob::write(&config, &from.vocab, from.deployed(), provenance).unwrap();
        assert!(blob.bytes.len() <= flash, "{name}: {}", blob.bytes.len());
        assert!(
            config.state_bytes() <= ram,
            "{name}: {}",
            config.state_bytes()
        );
    }
}

#[test]
fn dev_that_turns_up_is_told_and_the_best_is_kept() {
    let dir = common::scratch("rising");
    // what dev and val hold contradicts what is trained on
    let text = "abcabcabc\n".repeat(900) + &"cbacbacba\n".repeat(150);
    let args = ["--steps", "60", "--eval-every", "10", "--name", "rising"];
    let said = trainer(&dir, &text, &args);
    let warnings = said.matches("warning: dev was best at step 10 ").count();
    assert_eq!(warnings, 4, "{said}");
    let best = dir.join("rising").join(checkpoint::runs::BEST);
    assert_eq!(checkpoint::Checkpoint::load(&best).unwrap().step, 10);

    // where dev is trained on its loss says nothing
    let args = [&args[..4], &["--name", "blind", "--train-on-dev", "true"]].concat();
    assert!(!trainer(&dir, &text, &args).contains("warning"));
    // nor is there a warning while it falls
    let args = ["--steps", "60", "--eval-every", "10", "--name", "falling"];
    assert!(!trainer(&dir, &common::corpus().text, &args).contains("warning"));
}

#[test]
fn a_text_too_short_for_the_model_is_told() {
    let dir = common::scratch("short");
    let said = trainer(
        &dir,
        &common::corpus().text,
        &["--steps", "1", "--name", "short"],
    );
    assert!(
        said.contains("characters per parameter; below 20"),
        "{said}"
    );
    let long = common::corpus().text.repeat(20);
    let said = trainer(&dir, &long, &["--steps", "1", "--name", "long"]);
    assert!(!said.contains("per parameter"), "{said}");
}

#[test]
fn full_fits_a_card_of_16_gb_at_batch_32() {
    let mut settings = presets::find("full").unwrap().settings;
    settings.model.vocab_size = 65;
    assert_eq!(settings.batch, 32);
    let ceiling = memory::device_ceiling(&settings);
    // weights, average, moments and decay alone
    assert!(ceiling > 5 * 4 * settings.model.n_params());
    assert!(ceiling < 16_000_000_000, "{ceiling}");
}
