//! Settings as data: every field can be set, saved and read back.

mod common;

use gpt::presets::PRESETS;
use gpt::settings::{FIELDS, Settings};

#[test]
fn the_command_line_knows_every_field() {
    let json: serde_json::Value = serde_json::from_str(&common::settings(&[]).to_json()).unwrap();
    let mut fields: Vec<&str> = FIELDS.iter().map(|&(field, _)| field).collect();
    // the text decides about the vocabulary
    fields.push("vocab_size");
    fields.sort_unstable();
    let mut keys: Vec<&str> = json
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, fields);
}

#[test]
fn settings_survive_their_json() {
    for preset in PRESETS {
        let settings = preset.settings;
        assert_eq!(Settings::from_json(&settings.to_json()).unwrap(), settings);
    }
}

#[test]
fn the_length_of_training_sequences_follows_the_context() {
    let with = |overrides: &[(&str, &str)]| {
        let lesson = gpt::presets::find("lesson").unwrap().settings;
        let overrides: Vec<_> = overrides
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        lesson.with(&overrides).unwrap().train_len
    };
    assert_eq!(with(&[]), 64);
    assert_eq!(with(&[("context_len", "32")]), 32);
    assert_eq!(with(&[("context_len", "32"), ("train_len", "64")]), 64);
}
