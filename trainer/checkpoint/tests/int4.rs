//! int4 matrices: their scales, their bounds, and what the trainer sees of them.

use checkpoint::int4::{self, fake_quantize, quantize_groups};
use checkpoint::{blob, synthetic};
use runtime::kernel::w4::Nibbles;
use runtime::{Activation, Config, Kind, Kinds, Layout, Model, Norm, Position, Provenance};
use runtime::{SplitMix64, TensorId};

fn random(rows: usize, cols: usize, seed: u64) -> Vec<f32> {
    let mut rng = SplitMix64::new(seed);
    let element = |index: usize| {
        // Rows of very different size, a heavy tail within each.
        let x = (rng.next_u64() >> 40) as f32 / 16_777_216.0 - 0.5;
        x * x.abs() * 2.0_f32.powi(-(index as i32 / cols as i32) * 3)
    };
    (0..rows * cols).map(element).collect()
}

#[test]
fn sums_of_every_row_fit_and_errors_are_small() {
    for (cols, group) in [
        (1, 8),
        (16, 8),
        (172, 32),
        (173, 24),
        (1_000, 16),
        (16_384, 32),
    ] {
        let matrix = random(5, cols, 1);
        let groups = quantize_groups(&matrix, cols, group).unwrap();
        let n_group = cols.div_ceil(group);
        assert_eq!(groups.group_multiplier.len(), 5 * n_group);
        assert!(groups.multiplier.iter().max() >= Some(&(1 << 15)));
        let (mut error, mut square) = (0.0, 0.0);
        for row in 0..5 {
            let mut sum = 0;
            for col in 0..cols {
                let w = groups.w[row * cols + col];
                assert!((-8..=7).contains(&w));
                let multiplier = groups.group_multiplier[row * n_group + col / group];
                sum += 127 * i64::from(w.unsigned_abs()) * i64::from(multiplier.unsigned_abs());
                let x = f64::from(matrix[row * cols + col]);
                error += (x - f64::from(w) * groups.scale(row, col)).powi(2);
                square += x * x;
            }
            assert!(sum < 1 << 31, "{cols}/{group}: {sum}");
            // Nearly all bits are used, unless a multiplier has its 15 already or the row is so small
            // that the steps of its own multiplier are long.
            let largest = groups.group_multiplier[row * n_group..][..n_group]
                .iter()
                .map(|m| m.unsigned_abs())
                .max();
            let fine = groups.multiplier[row] > 1_000;
            assert!(
                sum > 1 << 30 || largest > Some(32_000) || !fine,
                "{cols}/{group}: {sum}"
            );
        }
        assert!(
            (error / square).sqrt() < 0.12,
            "{cols}/{group}: {}",
            error / square
        );
    }
}

#[test]
fn zeros_extremes_and_rubbish_are_defined() {
    let groups = quantize_groups(&[0.0; 40], 20, 8).unwrap();
    assert_eq!(groups.dequantize(), [0.0; 40]);
    // A group of zeros beside one that is not.
    let mut row = [0.0; 16];
    row[3] = 2.5;
    let values = fake_quantize(&row, 16, 8).unwrap();
    assert!((values[3] - 2.5).abs() < 1e-3);
    assert!(
        values
            .iter()
            .enumerate()
            .all(|(col, &x)| col == 3 || x == 0.0)
    );
    for row in [[f32::MAX, f32::MIN], [1e-38, -1e-38], [1e-45, 1.0]] {
        let values = fake_quantize(&row, 2, 8).unwrap();
        assert!(values.iter().all(|x| x.is_finite()), "{values:?}");
    }
    // Below the smallest exponent of the format a row has fewer steps, never an overflow.
    assert_eq!(fake_quantize(&[1e-40, -1e-40], 2, 8), Ok(vec![0.0, 0.0]));
    assert_eq!(quantize_groups(&[0.0, f32::NAN], 2, 8), Err(1));
}

#[test]
fn smaller_groups_lose_less() {
    let matrix = random(8, 96, 3);
    let error = |group| -> f64 {
        let values = fake_quantize(&matrix, 96, group).unwrap();
        let errors = matrix
            .iter()
            .zip(values)
            .map(|(a, b)| f64::from(a - b).powi(2));
        errors.sum()
    };
    assert!(error(8) < error(16) && error(16) < error(24) && error(24) < error(32));
}

const CONFIG: Config = Config {
    n_layer: 2,
    n_head: 2,
    n_kv_head: 1,
    d_model: 20,
    d_ff: 44,
    context_len: 8,
    vocab_size: 12,
    position: Position::Rope,
    rope_base: 1_000,
    norm: Norm::RmsNorm,
    activation: Activation::SwiGlu,
    tied: false,
    embed_scale: false,
    attn_bias: false,
    ff_bias: false,
    norm_bias: false,
    head_bias: false,
};

fn collect<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Vec<T> {
    let values = bytes.chunks_exact(size_of::<T>());
    values.map(bytemuck::pod_read_unaligned).collect()
}

#[test]
fn blob_holds_what_the_trainer_saw() {
    let checkpoint = synthetic::checkpoint(CONFIG, 4);
    let provenance = Provenance {
        run: "test",
        corpus_sha256: [0; 32],
        step: 0,
        seed: 4,
        dev_f32: 0.0,
        dev_blob: 0.0,
    };
    let kinds = int4::kinds(&CONFIG, Some(16), &["w_o".to_string()]).unwrap();
    let weights = checkpoint.deployed();
    let blob = blob::write_as(&CONFIG, kinds, &checkpoint.vocab, weights, provenance).unwrap();
    for layout in Layout::ALL {
        let bytes = blob::relayout(&blob.bytes, layout).unwrap();
        let model = Model::from_bytes(&bytes).unwrap();
        assert_eq!(model.header().kinds, kinds);
        let mut compared = 0;
        for spec in model.tensors() {
            let Kind::W4 { group } = spec.kind else {
                assert!(!spec.name.starts_with("w_") || "w_embed w_out w_o".contains(spec.name));
                continue;
            };
            let bytes = &model.tensor_bytes()[spec.offset as usize..][..spec.len as usize];
            let (rows, cols) = (spec.rows as usize, spec.cols as usize);
            let at = spec.multiplier_offset() as usize;
            let after = at + (2 * rows).next_multiple_of(4);
            let exponent = bytemuck::pod_read_unaligned::<i32>(&bytes[bytes.len() - 4..]);
            let multiplier: Vec<u16> = collect(&bytes[at..after]);
            let groups: Vec<i16> = collect(&bytes[after..bytes.len() - 4]);
            let words: Vec<u32> = collect(&bytes[..at]);
            let w = Nibbles {
                words: &words,
                multiplier: &groups,
                rows,
                cols,
                group: group as usize,
                layout,
            };
            let tensor = weights.iter().find(|t| t.name == spec.to_string()).unwrap();
            let seen = fake_quantize(&tensor.data, cols, group as usize).unwrap();
            for (index, seen) in seen.into_iter().enumerate() {
                let (row, col) = (index / cols, index % cols);
                let group_multiplier = f64::from(w.multiplier(row, col / w.group));
                let unit = f64::from(multiplier[row]) * f64::from(exponent).exp2();
                let value = (f64::from(w.at(row, col)) * (group_multiplier * unit)) as f32;
                assert_eq!(value.to_bits(), seen.to_bits(), "{spec} {row} {col}");
            }
            compared += 1;
        }
        assert_eq!(compared, 2 * 4);
    }
}

#[test]
fn kinds_follow_the_request() {
    let kinds = int4::kinds(&CONFIG, None, &[]).unwrap();
    assert_eq!(kinds.of(TensorId::WEmbed), Kind::W8);
    assert_eq!(kinds.of(TensorId::WOut), Kind::W8);
    // 20 columns: one group of 24; 44: 48 in two groups.
    assert_eq!(kinds.of(TensorId::WQkv), Kind::W4 { group: 24 });
    assert_eq!(kinds.of(TensorId::WDown), Kind::W4 { group: 24 });
    let all = ["w_qkv", "w_o", "w_gate", "w_up", "w_down"].map(String::from);
    assert_eq!(int4::kinds(&CONFIG, Some(8), &all), Ok(Kinds::W8));
    assert!(int4::kinds(&CONFIG, Some(12), &[]).is_err());
    assert!(int4::kinds(&CONFIG, None, &["w_embed".to_string()]).is_err());
    let relu = Config {
        activation: Activation::Relu,
        ..CONFIG
    };
    assert!(int4::kinds(&relu, None, &["w_gate".to_string()]).is_err());
}
