//! Same input, same bits: whatever the buffers hold, and however the batch is cut.

#[expect(dead_code, reason = "the f64 forward pass serves the other test files")]
mod reference;

use block::{Dropout, Saved, Shape};
use reference::{Biases, Case, Random, run};
use runtime::{Activation, Norm};

fn case() -> Case {
    Case {
        shape: Shape {
            d_model: 40,
            n_head: 4,
            n_kv_head: 2,
            head_dim: 10,
            d_ff: 72,
            norm: Norm::LayerNorm,
            activation: Activation::SwiGlu,
        },
        biases: Biases {
            norm: true,
            attn: true,
            ff: true,
        },
        batch: 4,
        len: 45,
        window: 20,
        rope: true,
        dropout: Some(Dropout {
            rate: 0.1,
            seed: 3,
            step: 4,
            layer: 1,
            first_sequence: 0,
        }),
    }
}

fn bits(v: &[f32]) -> Vec<u32> {
    v.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn dirty_buffers_change_no_bit() {
    let case = case();
    let mut random = Random(1);
    let tensors = case.tensors(&mut random);
    let n = case.batch * case.len * case.shape.d_model;
    let (x, dx_out) = (random.vector(n, 2.0), random.vector(n, 1.0));
    let clean = run(&case, &tensors, &x, &dx_out, &mut Saved::new());

    let mut saved = Saved::new();
    for other in [
        Case { len: 70, ..case },
        Case {
            batch: 1,
            rope: false,
            ..case
        },
        case,
    ] {
        let n = other.batch * other.len * other.shape.d_model;
        let (x, dx_out) = (random.vector(n, 30.0), random.vector(n, 5.0));
        run(&other, &tensors, &x, &dx_out, &mut saved);
    }
    let dirty = run(&case, &tensors, &x, &dx_out, &mut saved);
    assert_eq!(bits(&clean.0), bits(&dirty.0));
    assert_eq!(bits(&clean.1), bits(&dirty.1));
    for (clean, dirty) in clean.2.iter().zip(&dirty.2) {
        assert_eq!(bits(clean), bits(dirty));
    }
}

#[test]
fn shards_give_the_bits_of_the_whole_batch() {
    let whole = case();
    let mut random = Random(2);
    let tensors = whole.tensors(&mut random);
    let n = whole.batch * whole.len * whole.shape.d_model;
    let (x, dx_out) = (random.vector(n, 2.0), random.vector(n, 1.0));
    let all = run(&whole, &tensors, &x, &dx_out, &mut Saved::new());
    for (shard, first_sequence) in [0, 2].into_iter().enumerate() {
        let dropout = whole.dropout.map(|dropout| Dropout {
            first_sequence,
            ..dropout
        });
        let half = Case {
            batch: 2,
            dropout,
            ..whole
        };
        let range = shard * n / 2..(shard + 1) * n / 2;
        let part = run(
            &half,
            &tensors,
            &x[range.clone()],
            &dx_out[range.clone()],
            &mut Saved::new(),
        );
        assert_eq!(bits(&all.0[range.clone()]), bits(&part.0));
        assert_eq!(bits(&all.1[range]), bits(&part.1));
    }
}

#[test]
fn a_changed_token_changes_nothing_before_it() {
    let case = Case {
        window: 45,
        ..case()
    };
    let mut random = Random(3);
    let tensors = case.tensors(&mut random);
    let n = case.batch * case.len * case.shape.d_model;
    let (mut x, dx_out) = (random.vector(n, 2.0), random.vector(n, 1.0));
    let before = run(&case, &tensors, &x, &dx_out, &mut Saved::new()).0;
    let changed = 40 * case.shape.d_model;
    x[changed..changed + case.shape.d_model].fill(50.0);
    let after = run(&case, &tensors, &x, &dx_out, &mut Saved::new()).0;
    assert_eq!(bits(&before[..changed]), bits(&after[..changed]));
    assert_ne!(before[changed], after[changed]);
}

#[test]
fn masks_drop_at_their_rate_and_keep_the_mean() {
    let dropout = Dropout {
        rate: 0.2,
        seed: 1,
        step: 2,
        layer: 3,
        first_sequence: 0,
    };
    let mask = dropout.mask(block::Site::Attention);
    let n = 1_000_000;
    let dropped = (0..n).filter(|&i| mask.factor(i) == 0.0).count() as f64 / f64::from(n);
    assert!(
        (dropped - 0.2).abs() < 0.002,
        "{dropped} of the values dropped"
    );
    let other = Dropout { step: 3, ..dropout }.mask(block::Site::Attention);
    let both = (0..n)
        .filter(|&i| mask.factor(i) == 0.0 && other.factor(i) == 0.0)
        .count();
    let both = both as f64 / f64::from(n);
    assert!(
        (both - 0.04).abs() < 0.001,
        "{both} of the values dropped in two steps"
    );
}
