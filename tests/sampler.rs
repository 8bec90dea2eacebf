//! The sampler: every setting, every edge, and the probabilities it promises.

use runtime::fixed::ONE;
use runtime::{Sampler, Settings, SettingsError, SplitMix64};

fn settings(temperature: f32, top_k: u16, top_p: f32) -> Settings {
    Settings {
        temperature,
        top_k,
        top_p,
    }
}

fn sample(settings: Settings, seed: u64, logits: &[i32]) -> u16 {
    let mut order = vec![0; logits.len()];
    let mut sampler = Sampler::new(settings, seed).unwrap();
    sampler.sample(&mut logits.to_vec(), &mut order)
}

/// Draws `n` tokens and returns how often each came.
fn counts(settings: Settings, logits: &[i32], n: usize) -> Vec<usize> {
    let mut sampler = Sampler::new(settings, 1).unwrap();
    let mut counts = vec![0; logits.len()];
    let mut order = vec![0; logits.len()];
    for _ in 0..n {
        counts[usize::from(sampler.sample(&mut logits.to_vec(), &mut order))] += 1;
    }
    counts
}

fn nats(x: f64) -> i32 {
    (x * f64::from(ONE)) as i32
}

#[test]
fn temperature_zero_takes_the_first_largest() {
    let logits = [nats(1.0), nats(3.0), nats(3.0), nats(-2.0)];
    for seed in 0..50 {
        for greedy in [0.0, -0.0, 1e-30, 1e-7] {
            assert_eq!(sample(settings(greedy, 0, 1.0), seed, &logits), 1);
        }
        assert_eq!(sample(settings(1.0, 1, 1.0), seed, &logits), 1);
        assert_eq!(sample(settings(1.0, 0, 1e-9), seed, &logits), 1);
    }
}

#[test]
fn frequencies_are_the_probabilities() {
    let real = [0.0, 1.0, 2.0, -1.0, 2.0, -9.0];
    let logits = real.map(nats);
    for temperature in [0.5, 0.8, 1.0, 3.0] {
        let weight = |x: f64| (x / f64::from(temperature)).exp();
        let sum: f64 = real.iter().map(|&x| weight(x)).sum();
        let n = 200_000;
        let found = counts(settings(temperature, 0, 1.0), &logits, n);
        for (&x, &count) in real.iter().zip(&found) {
            let exact = weight(x) / sum;
            let frequency = count as f64 / n as f64;
            // Five standard deviations, and the table's 1.5e-3.
            let bound = 5.0 * (exact / n as f64).sqrt() + 3e-3 * exact;
            assert!((frequency - exact).abs() < bound, "{frequency} for {exact}");
        }
    }
}

#[test]
fn top_k_keeps_the_k_most_probable() {
    let logits = [0.0, 1.0, 2.0, -1.0, 2.0].map(nats);
    let kept = |top_k| -> Vec<bool> {
        let counts = counts(settings(1.0, top_k, 1.0), &logits, 20_000);
        counts.iter().map(|&count| count > 0).collect()
    };
    assert_eq!(kept(1), [false, false, true, false, false]);
    assert_eq!(kept(2), [false, false, true, false, true]);
    assert_eq!(kept(3), [false, true, true, false, true]);
    for all in [0, 5, 6, u16::MAX] {
        assert_eq!(kept(all), [true; 5]);
    }
}

#[test]
fn top_p_keeps_the_fewest_that_reach_it() {
    // Probabilities 0.5, 0.25, 0.125, 0.125.
    let logits = [-1.0, 0.0, -2.0, -2.0].map(|octaves| nats(octaves * 2.0_f64.ln()));
    let kept = |top_k, top_p| -> Vec<bool> {
        let counts = counts(settings(1.0, top_k, top_p), &logits, 20_000);
        counts.iter().map(|&count| count > 0).collect()
    };
    assert_eq!(kept(0, 0.4), [false, true, false, false]);
    assert_eq!(kept(0, 0.6), [true, true, false, false]);
    assert_eq!(kept(0, 0.8), [true, true, true, false]);
    assert_eq!(kept(0, 1.0), [true; 4]);
    // Of the two that top-k keeps, the first alone has two thirds.
    assert_eq!(kept(2, 0.6), [false, true, false, false]);
    assert_eq!(kept(2, 0.7), [true, true, false, false]);
}

#[test]
fn million_draws_stay_in_the_vocabulary() {
    let mut rng = SplitMix64::new(5);
    let mut sampler = Sampler::new(settings(0.8, 0, 0.95), 1).unwrap();
    for n in [1, 2, 3, 65, 255, 256, 257, 1_000] {
        let mut order = vec![0; n];
        for round in 0..1_000_000 / 8 / n.max(50) {
            // Small and huge spreads, down to equal logits.
            let shift = round % 33;
            let draw = |_| {
                (rng.next_u64() as i32)
                    .checked_shr(shift as u32)
                    .unwrap_or(0)
            };
            let mut logits: Vec<i32> = (0..n).map(draw).collect();
            assert!(usize::from(sampler.sample(&mut logits, &mut order)) < n);
        }
    }
    for extreme in [[i32::MIN; 4], [i32::MAX; 4], [i32::MIN, i32::MAX, 0, -1]] {
        for temperature in [0.0, 1e-5, 1.0, f32::MAX] {
            for top_p in [1e-30, 0.5, 1.0] {
                assert!(sample(settings(temperature, 0, top_p), 3, &extreme) < 4);
            }
        }
    }
}

#[test]
fn one_number_per_token_at_every_temperature() {
    let logits = [0.0, 1.0, 2.0, -1.0].map(nats);
    let mut order = [0; 4];
    let mut cold = Sampler::new(settings(0.0, 0, 1.0), 9).unwrap();
    let mut warm = Sampler::new(settings(1.0, 2, 0.9), 9).unwrap();
    cold.sample(&mut logits.to_vec(), &mut order);
    warm.sample(&mut logits.to_vec(), &mut order);
    let mut rng = SplitMix64::new(9);
    rng.next_u64();
    assert!(format!("{cold:?}").contains(&format!("{rng:?}")));
    assert!(format!("{warm:?}").contains(&format!("{rng:?}")));
}

#[test]
fn settings_out_of_range_are_errors() {
    for bad in [-1.0, f32::NAN, f32::INFINITY] {
        let error = Sampler::new(settings(bad, 0, 1.0), 0).unwrap_err();
        assert_eq!(error, SettingsError::Temperature);
    }
    for bad in [0.0, -0.5, 1.5, f32::NAN] {
        let error = Sampler::new(settings(1.0, 0, bad), 0).unwrap_err();
        assert_eq!(error, SettingsError::TopP);
    }
}

#[test]
fn generator_is_split_mix_64() {
    // The first numbers of the reference implementation for seed 1234567.
    let mut rng = SplitMix64::new(1_234_567);
    let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
    assert_eq!(
        first,
        [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423
        ]
    );
}
