use super::*;
use crate::SplitMix64;
use crate::kernel::lanes_len;

/// A matrix and the words of it in one layout.
struct Matrix {
    words: Vec<u32>,
    multiplier: Vec<i16>,
    rows: usize,
    cols: usize,
    group: usize,
    layout: Layout,
}

impl Matrix {
    /// Lays out weights `[rows, cols]` and multipliers `[rows, n_group]`, with rubbish between them.
    fn new(layout: Layout, size: [usize; 3], weights: &[i8], multipliers: &[i16]) -> Self {
        let [rows, cols, group] = size;
        let mut matrix = Self {
            words: vec![0xA5C3_5A3C; layout.w4_len(rows, cols, group) / 4],
            multiplier: Vec::new(),
            rows,
            cols,
            group,
            layout,
        };
        let mut put = |(word, right): (usize, u32), mask: u32, bits: u32| {
            matrix.words[word] = matrix.words[word] & !(mask << right) | bits << right;
        };
        let places = Nibbles {
            words: &[],
            multiplier: &[],
            rows,
            cols,
            group,
            layout,
        };
        for (index, &weight) in weights.iter().enumerate() {
            let bits = (weight as u32 & 15) ^ Nibbles::bias(layout);
            put(places.place(index / cols, index % cols), 15, bits);
        }
        if layout == Layout::Plain {
            matrix.multiplier = multipliers.to_vec();
        } else {
            let n_group = n_group(cols, group);
            for (index, &multiplier) in multipliers.iter().enumerate() {
                let place = places.multiplier_place(index / n_group, index % n_group);
                put(place, 0xFFFF, u32::from(multiplier.cast_unsigned()));
            }
        }
        matrix
    }

    fn nibbles(&self) -> Nibbles<'_> {
        Nibbles {
            words: &self.words,
            multiplier: &self.multiplier,
            rows: self.rows,
            cols: self.cols,
            group: self.group,
            layout: self.layout,
        }
    }
}

fn exact(size: [usize; 3], weights: &[i8], multipliers: &[i16], x: &[i8]) -> Vec<i32> {
    let [_, cols, group] = size;
    let rows = weights.chunks(cols);
    rows.zip(multipliers.chunks(n_group(cols, group)))
        .map(|(row, multipliers)| {
            let groups = row.chunks(group).zip(x.chunks(group)).zip(multipliers);
            let sum: i64 = groups
                .map(|((w, x), &multiplier)| {
                    let products = w.iter().zip(x).map(|(&w, &x)| i64::from(w) * i64::from(x));
                    products.sum::<i64>() * i64::from(multiplier)
                })
                .sum();
            // Modulo 2^32.
            sum as i32
        })
        .collect()
}

/// What `chapbook_m4_w4_*` do, instruction for instruction.
fn m4_block(words: &[u32], group: usize, lanes: &[u32]) -> [i32; 4] {
    let halves = |x: u32| [x as i16, (x >> 16) as i16].map(i32::from);
    let smlad = |a: u32, b: u32, sum: i32| {
        let ([a0, a1], [b0, b1]) = (halves(a), halves(b));
        sum.wrapping_add(a0 * b0).wrapping_add(a1 * b1)
    };
    let mut totals = [0_i32; 4];
    let groups = words.chunks_exact(group / STEP * 4 + 2);
    for (words, lanes) in groups.zip(lanes.chunks_exact(group / 2)) {
        let mut sums = [0; 4];
        for (words, lanes) in words.chunks_exact(4).zip(lanes.chunks_exact(4)) {
            for (sum, word) in sums.iter_mut().zip(words) {
                for (left, lane) in [12, 8, 4, 0].into_iter().zip(lanes) {
                    *sum = smlad(word << left & 0xF000_F000, *lane, *sum);
                }
            }
        }
        for (row, (total, sum)) in totals.iter_mut().zip(sums).enumerate() {
            let multiplier = halves(words[words.len() - 2 + row / 2])[row % 2];
            *total = total.wrapping_add((sum >> 16) * multiplier);
        }
    }
    totals
}

/// Computes the sums as the kernel of the layout does.
fn emulated(w: &Nibbles<'_>, x: &[i8]) -> Vec<i32> {
    let mut lanes = vec![0xDEAD_BEEF; lanes_len(x.len())];
    let blocks = w.words.chunks_exact(w.n_group() * w.group_words());
    let mut out: Vec<i32> = match w.layout {
        Layout::M0 => {
            let lanes = lane::write(x, w.group, w.n_group(), &mut lanes).unwrap();
            blocks
                .flat_map(|b| lane::block_sums::<2>(b, w.group, lanes))
                .collect()
        }
        Layout::Rv32 => {
            let lanes = lane::write(x, w.group, w.n_group(), &mut lanes).unwrap();
            blocks
                .flat_map(|b| lane::block_sums::<4>(b, w.group, lanes))
                .collect()
        }
        _ => {
            let lanes = pair::write(x, w.group, w.n_group(), &mut lanes).unwrap();
            blocks.flat_map(|b| m4_block(b, w.group, lanes)).collect()
        }
    };
    out.truncate(w.rows);
    out
}

#[test]
fn every_kernel_is_exact_in_every_layout() {
    let mut rng = SplitMix64::new(1);
    for [rows, cols] in [
        [1, 1],
        [3, 8],
        [4, 31],
        [5, 48],
        [2, 172],
        [9, 173],
        [6, 520],
    ] {
        for group in [8, 16, 24, 32] {
            let size = [rows, cols, group];
            let mut random = |low: i32, n: u32| (rng.next_below(n) as i32 + low) as i16;
            let weights: [Vec<i8>; 4] = [
                (0..rows * cols).map(|_| random(-8, 16) as i8).collect(),
                vec![-8; rows * cols],
                vec![7; rows * cols],
                vec![0; rows * cols],
            ];
            let n = rows * n_group(cols, group);
            let multipliers: [Vec<i16>; 4] = [
                (0..n).map(|_| random(-32_768, 65_536)).collect(),
                vec![i16::MAX; n],
                vec![-1; n],
                vec![0; n],
            ];
            let vectors: [Vec<i8>; 4] = [
                (0..cols).map(|_| random(-127, 255) as i8).collect(),
                vec![127; cols],
                vec![-127; cols],
                (0..cols)
                    .map(|col| if col % 8 < 4 { 127 } else { -127 })
                    .collect(),
            ];
            for layout in Layout::ALL {
                for (weights, multipliers) in weights
                    .iter()
                    .flat_map(|w| multipliers.iter().map(move |m| (w, m)))
                {
                    let matrix = Matrix::new(layout, size, weights, multipliers);
                    let w = matrix.nibbles();
                    for x in &vectors {
                        let expected = exact(size, weights, multipliers, x);
                        let mut out = vec![-1; rows];
                        reference(&w, x, &mut out);
                        assert_eq!(out, expected, "{layout:?} {size:?}");
                        let mut lanes = vec![0xDEAD_BEEF; lanes_len(cols)];
                        out.fill(-1);
                        sums(&w, x, &mut lanes, &mut out);
                        assert_eq!(out, expected, "{layout:?} {size:?}");
                        if layout != Layout::Plain {
                            assert_eq!(emulated(&w, x), expected, "{layout:?} {size:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn groups_and_scratch_memory_of_every_width() {
    for cols in 1..=16_384 {
        for group in [8, 16, 24, 32] {
            assert_eq!(n_group(cols, group), cols.div_ceil(group));
            assert!(n_group(cols, group) * (group / 2 + 1) <= lanes_len(cols));
        }
    }
}
