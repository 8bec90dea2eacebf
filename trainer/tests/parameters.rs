//! Shapes of the presets, counted by hand, and the names that the runtime gives them.

mod common;

use burn_flex::{Flex, FlexDevice};
use gpt::model::Gpt;
use gpt::params;
use gpt::presets::{self, PRESETS};
use runtime::{Config, Kind};

fn count(config: &Config) -> usize {
    let entries = params::entries(&Gpt::<Flex>::zeroed(config, &FlexDevice));
    entries.iter().map(params::Entry::len).sum()
}

fn preset(name: &str) -> Config {
    presets::find(name).unwrap().settings.model
}

#[test]
fn lesson_has_103_809_parameters() {
    let embedding = 65 * 64;
    let norms = 2 * (64 + 64);
    let attention = 3 * 64 * 64 + 64 * 64;
    let feed_forward = 64 * 256 + 256 + 256 * 64 + 64;
    let by_hand = embedding + 2 * (norms + attention + feed_forward) + 2 * 64 + 65;
    assert_eq!(by_hand, 103_809);
    assert_eq!(count(&preset("lesson")), by_hand);
}

#[test]
fn full_has_18_9_million_parameters() {
    let embedding = 65 * 512;
    let layer = 2 * 512 + 4 * 512 * 512 + 2 * 512 * 2_048;
    let by_hand = embedding + 6 * layer + 512;
    assert_eq!(by_hand, 18_914_304);
    assert_eq!(count(&preset("full")), by_hand);
}

#[test]
fn every_preset_counts_as_the_runtime_does() {
    for preset in PRESETS {
        let config = preset.settings.model;
        assert_eq!(count(&config) as u64, config.n_params(), "{}", preset.name);
        preset.settings.validate().unwrap();
    }
}

#[test]
fn names_and_shapes_are_the_runtimes() {
    for shape in common::SHAPES {
        let config = common::settings(shape).model;
        let ours: Vec<_> = params::entries(&Gpt::<Flex>::zeroed(&config, &FlexDevice))
            .into_iter()
            .map(|entry| (entry.name.clone(), entry.len()))
            .collect();
        let theirs: Vec<_> = config
            .tensors()
            .filter(|spec| spec.kind != Kind::U32)
            .map(|spec| (spec.to_string(), spec.rows as usize * spec.cols as usize))
            .collect();
        assert_eq!(ours, theirs);
    }
}

#[test]
fn pocket_needs_at_most_64_kib_of_ram() {
    assert!(preset("pocket").state_bytes() <= 64 << 10);
}

#[test]
fn pico2_fits_a_pico2() {
    let config = preset("pico2");
    let vocab = common::corpus().vocab();
    let board = checkpoint::Board::find("pico2").unwrap();
    board
        .check(
            checkpoint::blob::max_len(&config, &vocab),
            config.state_bytes(),
        )
        .unwrap();
}

#[test]
fn every_tensor_has_its_section_of_the_paper() {
    let parts = || gpt::paper::PARTS.iter().flat_map(|part| part.tensors);
    for shape in common::SHAPES {
        let config = common::settings(shape).model;
        for entry in params::entries(&Gpt::<Flex>::zeroed(&config, &FlexDevice)) {
            let field = entry.name.rsplit('.').next().unwrap();
            let places = parts().filter(|tensor| **tensor == field).count();
            assert_eq!(places, 1, "{}", entry.name);
        }
        let map = gpt::paper::map(&config);
        assert_eq!(map.lines().count(), gpt::paper::PARTS.len());
    }
}
