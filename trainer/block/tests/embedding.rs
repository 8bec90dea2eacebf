//! The embedding against its definition.

use block::{Dropout, Embedding, Site, residual_index};

#[test]
fn sums_gradients_and_masks_follow_the_definition() {
    let (d, len, vocab_size) = (5, 3, 4);
    let tokens = [0_u16, 3, 1, 3, 3, 2];
    let table: Vec<f32> = (0..vocab_size * d).map(|i| i as f32).collect();
    let positions: Vec<f32> = (0..len * d).map(|i| 0.01 * i as f32).collect();
    let dropout = Dropout {
        rate: 0.4,
        seed: 1,
        step: 2,
        layer: 7,
        first_sequence: 4,
    };
    for dropout in [None, Some(dropout)] {
        let positions = Some(&positions[..]);
        let embedding = Embedding {
            d_model: d,
            len,
            scale: 2.0,
            positions,
            dropout,
        };
        let mut x = vec![f32::NAN; tokens.len() * d];
        embedding.forward(&table, &tokens, &mut x);
        let mut dx: Vec<f32> = (0..x.len()).map(|i| 1.0 + i as f32).collect();
        let (mut dtable, mut dpositions) = (vec![0.0; table.len()], vec![0.0; len * d]);
        let (mut want_table, mut want_positions) = (dtable.clone(), dpositions.clone());
        for (index, &token) in tokens.iter().enumerate() {
            for i in 0..d {
                let (sequence, pos) = (4 + (index / len) as u32, (index % len) as u32);
                let place = residual_index(sequence, pos, i as u32, len as u32, d as u32);
                let factor = dropout.map_or(1.0, |d| d.mask(Site::Embedding).factor(place));
                let entry = usize::from(token) * d + i;
                let position = index % len * d + i;
                let sum = 2.0 * table[entry] + 0.01 * position as f32;
                assert!((x[index * d + i] - sum * factor).abs() < 1e-5);
                want_table[entry] += 2.0 * factor * dx[index * d + i];
                want_positions[position] += factor * dx[index * d + i];
            }
        }
        embedding.backward(&tokens, &mut dx, &mut dtable, Some(&mut dpositions));
        for (got, want) in dtable.iter().zip(&want_table) {
            assert!((got - want).abs() < 1e-4);
        }
        for (got, want) in dpositions.iter().zip(&want_positions) {
            assert!((got - want).abs() < 1e-4);
        }
    }
}
