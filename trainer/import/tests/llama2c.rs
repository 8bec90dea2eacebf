//! llama2.c's files in all versions, whole and damaged.

mod common;

use checkpoint::Checkpoint;
use common::{LLAMA, bytes, random, tensor};
use import::{ImportError, llama2c, tokenizer};
use runtime::Config;

const OWN: Config = Config {
    tied: false,
    ..LLAMA
};

/// Splits queries, keys and values, as llama2.c stores them.
fn part<'a>(from: &'a Checkpoint, name: &str, layer: u16) -> &'a [f32] {
    let full = |name: &str| {
        tensor(from, &format!("layers.{layer}.{name}"))
            .data
            .as_slice()
    };
    let (d, kv) = (usize::from(from.config.d_model), from.config.kv_dim());
    match name {
        "q" => &full("w_qkv")[..d * d],
        "k" => &full("w_qkv")[d * d..(d + kv) * d],
        "v" => &full("w_qkv")[(d + kv) * d..],
        "embed" => &tensor(from, "w_embed").data,
        "final" => &tensor(from, "g_final").data,
        "out" => &tensor(from, "w_out").data,
        name => full(name),
    }
}

fn header(config: &Config, vocab_size: i32) -> Vec<u8> {
    [
        i32::from(config.d_model),
        config.d_ff.into(),
        config.n_layer.into(),
        config.n_head.into(),
        config.n_kv_head.into(),
        vocab_size,
        config.context_len.into(),
    ]
    .iter()
    .flat_map(|number| number.to_le_bytes())
    .collect()
}

fn version_0(from: &Checkpoint) -> Vec<u8> {
    let config = &from.config;
    let sign = if config.tied { 1 } else { -1 };
    let mut file = header(config, sign * i32::from(config.vocab_size));
    let layers = |file: &mut Vec<u8>, name: &str| {
        for layer in 0..config.n_layer {
            file.extend(bytes(part(from, name, layer)));
        }
    };
    file.extend(bytes(part(from, "embed", 0)));
    for name in [
        "g_attn", "q", "k", "v", "w_o", "g_ffn", "w_gate", "w_down", "w_up",
    ] {
        layers(&mut file, name);
    }
    file.extend(bytes(part(from, "final", 0)));
    let angles = usize::from(config.context_len) * config.head_dim();
    file.extend(bytes(&vec![0.5; angles]));
    if !config.tied {
        file.extend(bytes(part(from, "out", 0)));
    }
    file
}

fn later(from: &Checkpoint, version: i32, group: i32) -> Vec<u8> {
    let config = &from.config;
    let mut file = 0x616b_3432_u32.to_le_bytes().to_vec();
    file.extend(version.to_le_bytes());
    file.extend(header(config, config.vocab_size.into()));
    file.push(config.tied.into());
    file.extend(group.to_le_bytes());
    file.resize(256, 0);
    for name in ["g_attn", "g_ffn"] {
        for layer in 0..config.n_layer {
            file.extend(bytes(part(from, name, layer)));
        }
    }
    file.extend(bytes(part(from, "final", 0)));
    let mut matrices = vec![("embed", 0)];
    for name in ["q", "k", "v", "w_o", "w_gate", "w_down", "w_up"] {
        matrices.extend((0..config.n_layer).map(|layer| (name, layer)));
    }
    if !config.tied {
        matrices.push(("out", 0));
    }
    for (name, layer) in matrices {
        let matrix = part(from, name, layer);
        if version == 1 {
            file.extend(bytes(matrix));
            continue;
        }
        let groups = matrix.chunks_exact(group as usize).map(quantize);
        let (weights, scales): (Vec<_>, Vec<_>) = groups.unzip();
        file.extend(weights.concat());
        file.extend(bytes(&scales));
    }
    file
}

/// Quantises a group as llama2.c does.
fn quantize(group: &[f32]) -> (Vec<u8>, f32) {
    let scale = group.iter().fold(0.0_f32, |max, x| max.max(x.abs())) / 127.0;
    let steps = group
        .iter()
        .map(|x| ((x / scale).round() as i8).cast_unsigned());
    (steps.collect(), scale)
}

fn read(file: &[u8]) -> Result<import::Guest, ImportError> {
    llama2c::read(file, |_| Ok(vec![]))
}

#[test]
fn float_versions_come_back_exactly() {
    for config in [LLAMA, OWN] {
        let from = random(config);
        for file in [version_0(&from), later(&from, 1, 0)] {
            let guest = read(&file).unwrap();
            assert_eq!(guest.config, config);
            assert_eq!(guest.weights, from.weights);
        }
    }
}

#[test]
fn groups_of_int8_come_back_within_half_a_step() {
    for config in [LLAMA, OWN] {
        let from = random(config);
        // 4 divides every matrix, though not the rows of w_down by 8
        for group in [4, 16] {
            let guest = read(&later(&from, 2, group)).unwrap();
            assert_eq!(guest.config, config);
            for (found, exact) in guest.weights.iter().zip(&from.weights) {
                let matrix = exact.shape.len() == 2;
                let groups = found.data.chunks(group as usize);
                for (found, exact) in groups.zip(exact.data.chunks(group as usize)) {
                    let step = exact.iter().fold(0.0_f32, |max, x| max.max(x.abs())) / 127.0;
                    let allowed = if matrix { step * 0.501 } else { 0.0 };
                    for (found, exact) in found.iter().zip(exact) {
                        assert!((found - exact).abs() <= allowed, "{found} {exact}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_file_of_another_length_says_both() {
    let file = version_0(&random(LLAMA));
    for len in [0, 27, 28, 100, file.len() - 1] {
        let error = read(&file[..len]).unwrap_err();
        assert!(
            matches!(error, ImportError::Length { found, expected, .. }
                if found == len as u64 && expected > found),
            "{error}"
        );
    }
    let longer = [file.as_slice(), &[0; 4]].concat();
    let said = read(&longer).unwrap_err().to_string();
    assert!(said.contains("holds more than its header says"), "{said}");
    assert!(said.contains("vocab_size 30"), "{said}");
    // a header that says the classifier is shared, and a file that has one
    let mut own = version_0(&random(OWN));
    own[20..24].copy_from_slice(&30_i32.to_le_bytes());
    assert!(matches!(read(&own), Err(ImportError::Length { .. })));
}

#[test]
fn absurd_dimensions_are_refused_before_anything_is_allocated() {
    let file = version_0(&random(LLAMA));
    for (at, field) in [
        (0, "dim"),
        (4, "hidden_dim"),
        (8, "n_layers"),
        (20, "vocab_size"),
    ] {
        for value in [1_032_058_864_i32, 0, i32::MIN, i32::MAX] {
            let mut file = file.clone();
            file[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let error = read(&file).unwrap_err();
            let said = error.to_string();
            assert!(
                matches!(error, ImportError::Dimension { field: found, .. } if found == field),
                "{said}"
            );
        }
    }
    // within the range of each number, but terabytes together
    let mut file = file;
    for at in [0, 4] {
        file[at..at + 4].copy_from_slice(&16_384_i32.to_le_bytes());
    }
    file[12..16].copy_from_slice(&64_i32.to_le_bytes());
    file[8..12].copy_from_slice(&256_i32.to_le_bytes());
    assert!(matches!(read(&file), Err(ImportError::TooLarge)));
}

#[test]
fn versions_and_groups_that_cannot_be_are_named() {
    let from = random(LLAMA);
    let said = read(&later(&from, 3, 4)).unwrap_err().to_string();
    assert!(said.contains("expected version 1 or 2"), "{said}");
    let mut file = later(&from, 2, 4);
    file[37..41].copy_from_slice(&7_i32.to_le_bytes());
    let said = read(&file).unwrap_err().to_string();
    assert!(said.contains("group_size"), "{said}");
    let mut file = version_0(&from);
    file[28..32].copy_from_slice(&f32::NAN.to_le_bytes());
    let said = read(&file).unwrap_err().to_string();
    assert!(said.contains("w_embed: element 0 is not finite"), "{said}");
}

fn tokenizer_bin(pieces: &[(&[u8], f32)]) -> Vec<u8> {
    let mut file = 27_u32.to_le_bytes().to_vec();
    for (piece, score) in pieces {
        file.extend(score.to_le_bytes());
        file.extend((piece.len() as u32).to_le_bytes());
        file.extend(*piece);
    }
    file
}

#[test]
fn a_tokenizer_has_to_be_whole_and_of_the_models_size() {
    let pieces: [(&[u8], f32); 4] = [
        (b"<unk>", 0.0),
        (b"\n<s>\n", 0.0),
        (b"a", -1.0),
        (b"b", -2.0),
    ];
    let file = tokenizer_bin(&pieces);
    assert!(tokenizer::vocabulary(&file, 4).is_ok());
    assert_eq!(
        tokenizer::vocabulary(&file, 5),
        Err(ImportError::Vocabulary {
            expected: 5,
            found: 4
        })
    );
    for len in 0..file.len() {
        assert!(tokenizer::vocabulary(&file[..len], 4).is_err(), "{len}");
    }
    let mut huge = file;
    huge[8..12].copy_from_slice(&1_032_058_864_u32.to_le_bytes());
    assert!(matches!(
        tokenizer::vocabulary(&huge, 4),
        Err(ImportError::Damaged { offset: 4, .. })
    ));
}
