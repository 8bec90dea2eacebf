//! The block against a plain f64 block: output, and every kind of gradient by central differences.

mod reference;

use block::{Dropout, Saved, Shape};
use reference::{Biases, Case, NAMES, Random, forward, objective, run};
use runtime::{Activation, Norm};

const ALL: Biases = Biases {
    norm: true,
    attn: true,
    ff: true,
};
const NONE: Biases = Biases {
    norm: false,
    attn: false,
    ff: false,
};

fn base() -> Case {
    Case {
        shape: Shape {
            d_model: 20,
            n_head: 4,
            n_kv_head: 4,
            head_dim: 5,
            d_ff: 28,
            norm: Norm::LayerNorm,
            activation: Activation::Gelu,
        },
        biases: ALL,
        batch: 2,
        len: 37,
        window: 37,
        rope: false,
        dropout: None,
    }
}

/// Checks the output in full and, per tensor, up to `samples` gradients spread over it.
fn check(case: &Case, samples: usize) {
    let mut random = Random(7);
    let tensors = case.tensors(&mut random);
    let n = case.batch * case.len * case.shape.d_model;
    let x = random.vector(n, 2.0);
    let dx_out = random.vector(n, 1.0);
    let (y, dx, grads) = run(case, &tensors, &x, &dx_out, &mut Saved::new());

    for (i, (y, want)) in y.iter().zip(forward(case, &tensors, &x)).enumerate() {
        let error = (f64::from(*y) - want).abs();
        assert!(error < 1e-5, "output {i} is {y}, not {want}: {case:?}");
    }

    // Small enough that hardly a ReLU changes sides in between.
    let step = 1e-6;
    let spread = |len: usize| (0..len).step_by(len.div_ceil(samples).max(1));
    for (t, name) in NAMES.iter().enumerate() {
        // Rounding grows with the gradients summed over all tokens.
        let largest = grads[t].iter().fold(1.0, |m: f32, g| m.max(g.abs()));
        for i in spread(grads[t].len()) {
            let mut moved = tensors.clone();
            moved.0[t][i] += step;
            let above = objective(case, &moved, &x, &dx_out);
            moved.0[t][i] -= 2.0 * step;
            let below = objective(case, &moved, &x, &dx_out);
            let want = (above - below) / (2.0 * step);
            let error = (f64::from(grads[t][i]) - want).abs();
            let bound = 1e-5 * f64::from(largest);
            assert!(
                error < bound,
                "{name}[{i}] is {}, not {want}: {case:?}",
                grads[t][i]
            );
        }
    }
    for i in spread(n) {
        let mut moved = x.clone();
        moved[i] += step;
        let above = objective(case, &tensors, &moved, &dx_out);
        moved[i] -= 2.0 * step;
        let below = objective(case, &tensors, &moved, &dx_out);
        let want = (above - below) / (2.0 * step);
        let error = (f64::from(dx[i]) - want).abs();
        assert!(error < 2e-5, "dx[{i}] is {}, not {want}: {case:?}", dx[i]);
    }
}

#[test]
fn every_norm_activation_and_bias() {
    for norm in [Norm::LayerNorm, Norm::RmsNorm] {
        for activation in [
            Activation::Gelu,
            Activation::Relu,
            Activation::Relu2,
            Activation::SwiGlu,
        ] {
            for biases in [
                ALL,
                NONE,
                Biases { norm: true, ..NONE },
                Biases { attn: true, ..NONE },
                Biases { ff: true, ..NONE },
            ] {
                let mut case = Case {
                    biases,
                    batch: 1,
                    ..base()
                };
                case.shape.norm = norm;
                case.shape.activation = activation;
                check(&case, 5);
            }
        }
    }
}

#[test]
fn every_gradient_of_the_plain_block() {
    check(
        &Case {
            batch: 1,
            len: 33,
            window: 33,
            ..base()
        },
        200,
    );
}

#[test]
fn grouped_heads_share_keys_and_values() {
    for n_kv_head in [1, 2] {
        let mut case = base();
        case.shape.n_kv_head = n_kv_head;
        check(&case, 20);
    }
}

#[test]
fn rotary_positions() {
    let mut case = Case {
        rope: true,
        ..base()
    };
    case.shape.head_dim = 6;
    check(&case, 20);
    case.shape.n_kv_head = 2;
    check(&case, 20);
}

#[test]
fn windows_of_every_kind() {
    for (len, window) in [
        (70, 1),
        (70, 7),
        (70, 32),
        (70, 33),
        (70, 40),
        (70, 70),
        (70, 1000),
    ] {
        check(
            &Case {
                batch: 1,
                len,
                window,
                ..base()
            },
            6,
        );
    }
}

#[test]
fn lengths_that_do_and_do_not_fill_a_panel() {
    for len in [1, 2, 31, 32, 33, 64, 97] {
        check(
            &Case {
                len,
                window: len,
                ..base()
            },
            4,
        );
    }
}

#[test]
fn heads_of_every_width() {
    for head_dim in [1, 8, 10, 16, 17, 32, 40, 64] {
        let mut case = Case { batch: 1, ..base() };
        case.shape.n_head = 2;
        case.shape.n_kv_head = 2;
        case.shape.head_dim = head_dim;
        check(&case, 6);
    }
}

#[test]
fn widths_of_every_kind() {
    for (d_model, d_ff) in [
        (1, 1),
        (3, 65),
        (8, 16),
        (40, 48),
        (48, 40),
        (64, 33),
        (80, 8),
    ] {
        let mut case = Case {
            batch: 1,
            len: 20,
            window: 20,
            ..base()
        };
        case.shape.d_model = d_model;
        case.shape.d_ff = d_ff;
        check(&case, 6);
    }
}

#[test]
fn dropout_at_all_three_sites() {
    let dropout = Dropout {
        rate: 0.3,
        seed: 11,
        step: 5,
        layer: 2,
        first_sequence: 9,
    };
    let case = Case {
        dropout: Some(dropout),
        ..base()
    };
    check(&case, 20);
    let mut case = Case {
        window: 12,
        rope: true,
        ..case
    };
    case.shape.head_dim = 4;
    case.shape.n_kv_head = 2;
    case.shape.activation = Activation::SwiGlu;
    check(&case, 10);
}
