//! The plain kernel against `i64` in every layout, and blobs rewritten from one layout to another.

use checkpoint::{AlignedBytes, blob};
use parity::shapes::{self, PLAIN};
use runtime::kernel::{self, Vector, Weights};
use runtime::{Config, Layout, LogitsHash, Model, Session, SplitMix64};

/// A matrix and its copy in one layout.
struct Matrix {
    rows: usize,
    cols: usize,
    values: Vec<i8>,
    words: Vec<u32>,
    layout: Layout,
    biased: bool,
}

impl Matrix {
    fn new(rows: usize, cols: usize, layout: Layout, biased: bool, values: Vec<i8>) -> Self {
        let row_len = layout.row_len(cols);
        let mut words = vec![0; layout.matrix_len(rows, cols).div_ceil(4)];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        for (index, &value) in values.iter().enumerate() {
            let (row, col) = (index / cols, index % cols);
            let bias = if biased && col % 2 == 0 { 0x80 } else { 0 };
            bytes[layout.place(row, col, row_len)] = value as u8 ^ bias;
        }
        Self {
            rows,
            cols,
            values,
            words,
            layout,
            biased,
        }
    }

    fn weights(&self) -> Weights<'_> {
        Weights {
            words: &self.words,
            rows: self.rows,
            cols: self.cols,
            row_len: self.layout.row_len(self.cols),
            layout: self.layout,
            biased: self.biased,
        }
    }

    fn exact<T: Copy + Into<i64>>(&self, x: &[T]) -> Vec<i64> {
        let dot = |row: &[i8]| {
            row.iter()
                .zip(x)
                .map(|(&w, &x)| i64::from(w) * x.into())
                .sum()
        };
        self.values.chunks_exact(self.cols).map(dot).collect()
    }
}

fn sums(w: &Weights<'_>, x: Vector<'_>) -> Vec<i64> {
    let mut lanes = vec![0xDEAD_BEEF; kernel::lanes_len(x.len())];
    let mut out = vec![-1; w.rows];
    kernel::sums(w, x, &mut lanes, &mut out);
    let mut reference = vec![-1; w.rows];
    kernel::reference(w, x, &mut reference);
    assert_eq!(out, reference);
    out.into_iter().map(i64::from).collect()
}

#[test]
fn plain_kernel_reads_every_layout() {
    let mut rng = SplitMix64::new(1);
    let mut random = |len: usize| -> Vec<i8> {
        (0..len)
            .map(|_| (rng.next_below(255) as i32 - 127) as i8)
            .collect()
    };
    for (rows, cols) in [
        (1, 1),
        (4, 1),
        (3, 2),
        (5, 7),
        (8, 12),
        (65, 48),
        (9, 172),
        (2, 519),
        // What the kernel of this machine takes in one piece, in steps and in groups of rows.
        (7, 8),
        (6, 64),
        (3, 512),
        (5, 1031),
    ] {
        let mut vectors: Vec<Vec<i8>> = [0, 127, -127].map(|x| vec![x; cols]).to_vec();
        vectors.push(random(cols));
        let mut matrices: Vec<Vec<i8>> = [0, 127, -127].map(|w| vec![w; rows * cols]).to_vec();
        matrices.push(random(rows * cols));
        for values in &matrices {
            for layout in Layout::ALL {
                for biased in [false, matches!(layout, Layout::M0 | Layout::M4)] {
                    let matrix = Matrix::new(rows, cols, layout, biased, values.clone());
                    for x in &vectors {
                        let found = sums(&matrix.weights(), Vector::Int8(x));
                        assert_eq!(found, matrix.exact(x), "{layout:?} {rows} x {cols}");
                        if biased {
                            continue;
                        }
                        let wide: Vec<i16> = x.iter().map(|&x| i16::from(x) * 120).collect();
                        let found = sums(&matrix.weights(), Vector::Int16(&wide));
                        assert_eq!(found, matrix.exact(&wide), "{layout:?} {rows} x {cols}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_product_takes_the_first_columns_of_longer_rows() {
    let mut rng = SplitMix64::new(2);
    let mut random = |len: usize| -> Vec<i8> {
        let int8 = |_| (rng.next_below(255) as i32 - 127) as i8;
        (0..len).map(int8).collect()
    };
    for row_len in [16, 40, 520, 1_100] {
        let matrix = Matrix::new(9, row_len, Layout::Plain, false, random(9 * row_len));
        for cols in [1, 7, 8, 9, 15, 16, row_len - 1] {
            let x = random(cols);
            let w = Weights {
                cols,
                ..matrix.weights()
            };
            assert_eq!(sums(&w, Vector::Int8(&x)), matrix.exact(&x), "{cols}");
            let wide: Vec<i16> = x.iter().map(|&x| i16::from(x) * 120).collect();
            assert_eq!(
                sums(&w, Vector::Int16(&wide)),
                matrix.exact(&wide),
                "{cols}"
            );
        }
    }
}

/// Widths that fill neither a block nor a word, heads of one element, a matrix too wide to be
/// proven for the biased form unless its weights are looked at.
fn odd_shapes() -> Vec<Config> {
    let odd = |n_head, d_model, d_ff, vocab_size| Config {
        n_layer: 1,
        n_head,
        n_kv_head: n_head,
        d_model,
        d_ff,
        vocab_size,
        context_len: 5,
        ..PLAIN
    };
    let learned = Config {
        position: runtime::Position::Learned,
        ..odd(3, 9, 7, 11)
    };
    let one_wide = Config {
        n_head: 3,
        n_kv_head: 3,
        d_model: 3,
        ..learned
    };
    vec![odd(2, 12, 172, 13), odd(1, 6, 1_001, 3), learned, one_wide]
}

fn hash(blob: &[u8], tokens: &[u16]) -> u64 {
    let model = Model::from_bytes(blob).unwrap();
    let mut memory = vec![0xDEAD_BEEF; model.config().state_words()];
    let mut session = Session::new(&model, &mut memory).unwrap();
    session.self_test().unwrap();
    let mut hash = LogitsHash::new();
    for &token in tokens {
        hash.update(session.feed(token).unwrap());
    }
    hash.finish()
}

#[test]
fn rewritten_blob_gives_the_same_bits_and_comes_back() {
    for (seed, config) in shapes::all().into_iter().chain(odd_shapes()).enumerate() {
        let groups = [None, Some(8), Some(16), Some(24), Some(32)];
        let group = groups[seed % groups.len()];
        comes_back(config, &shapes::random_blob(config, seed as u64));
        comes_back(
            config,
            &shapes::random_int4_blob(config, group, seed as u64),
        );
    }
}

fn comes_back(config: Config, plain: &AlignedBytes) {
    let tokens = shapes::random_tokens(config.vocab_size, 40, 1);
    {
        let expected = hash(plain, &tokens);
        let mut from = plain.clone();
        // Each layout is written from the one before it, not from the plain one.
        for layout in Layout::ALL.into_iter().rev() {
            let rewritten = blob::relayout(&from, layout).unwrap();
            let model = Model::from_bytes(&rewritten).unwrap();
            assert_eq!(model.layout(), layout);
            assert_eq!(hash(&rewritten, &tokens), expected, "{layout:?} {config:?}");
            let back = blob::relayout(&rewritten, Layout::Plain).unwrap();
            assert_eq!(back[..], plain[..], "{layout:?} {config:?}");
            from = rewritten;
        }
        assert_eq!(from[..], plain[..]);
    }
}

#[test]
fn every_flipped_bit_of_a_rewritten_blob_is_an_error_or_runs() {
    let config = odd_shapes()[2];
    let plain = shapes::random_blob(config, 1);
    let int4 = shapes::random_int4_blob(config, None, 1);
    let layouts = [Layout::M0, Layout::M4, Layout::Rv32];
    for (plain, layout) in [plain, int4]
        .iter()
        .flat_map(|blob| layouts.map(|layout| (blob, layout)))
    {
        let original = blob::relayout(plain, layout).unwrap();
        for bit in 0..8 * (original.len() - 4) {
            let mut blob: AlignedBytes = original.clone();
            blob[bit / 8] ^= 1 << (bit % 8);
            runtime::format::seal(&mut blob);
            if let Ok(model) = Model::from_bytes(&blob) {
                if model.config().state_bytes() > 1 << 20 {
                    continue;
                }
                let mut memory = vec![0; model.config().state_words()];
                let mut session = Session::new(&model, &mut memory).unwrap();
                for _ in 0..6 {
                    session.feed(0).unwrap();
                }
            }
        }
    }
}
