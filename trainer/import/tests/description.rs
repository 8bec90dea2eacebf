//! safetensors and back, and files with names of other programs.

mod common;

use checkpoint::{Checkpoint, blob, byte_pair};
use common::{LLAMA, NANO, bytes, random, tensor};
use import::description;
use runtime::Provenance;
use runtime::pieces::Special;
use safetensors::Dtype;
use safetensors::tensor::TensorView;

fn blob_of(from: &Checkpoint) -> Vec<u8> {
    let provenance = Provenance {
        run: &from.run,
        corpus_sha256: from.corpus_sha256,
        step: from.step as u32,
        seed: from.seed,
        dev_f32: from.deployed_dev() as f32,
        dev_blob: f32::NAN,
    };
    let blob = blob::write(&from.config, &from.vocab, from.deployed(), provenance);
    blob.unwrap().bytes.to_vec()
}

#[test]
fn what_is_written_is_read_exactly() {
    let mut byte_pairs = random(LLAMA);
    let pieces: Vec<(Vec<u8>, f32)> = (0..30_u8)
        .map(|i| (vec![200 + i; 2], -f32::from(i / 3)))
        .collect();
    let special = Special {
        bos: Some(1),
        eos: None,
        byte_base: None,
        leading_space: true,
    };
    byte_pairs.vocab = byte_pair::to_bytes(&pieces, special).unwrap();
    for mut from in [random(LLAMA), random(NANO), byte_pairs] {
        from.dev_ema = 1.25;
        from.step = 300;
        from.corpus_sha256 = [0xA5; 32];
        let (file, json) = description::write(&from).unwrap();
        let back = description::read(&file, json.as_bytes(), "ignored").unwrap();
        assert_eq!(back.config, from.config);
        assert_eq!(back.vocab, from.vocab);
        assert_eq!(back.weights, from.deployed());
        assert_eq!(back.run, from.run);
        assert_eq!(back.corpus_sha256, from.corpus_sha256);
        assert_eq!(blob_of(&back), blob_of(&from));
        assert_eq!(description::write(&back).unwrap(), (file, json));
    }
}

/// The names of Hugging Face's Llama, and its order of the elements that turn together.
#[test]
fn names_and_pairs_of_another_program_are_mapped() {
    let from = random(LLAMA);
    let (d, kv) = (16, 8);
    let mut tensors = vec![
        (
            "embed".to_string(),
            vec![30, d],
            tensor(&from, "w_embed").data.clone(),
        ),
        (
            "norm".to_string(),
            vec![d],
            tensor(&from, "g_final").data.clone(),
        ),
        ("rotary.inv_freq".to_string(), vec![2], vec![1.0, 0.01]),
    ];
    for layer in 0..2 {
        let data = |name: &str| {
            tensor(&from, &format!("layers.{layer}.{name}"))
                .data
                .clone()
        };
        let qkv = data("w_qkv");
        // from neighbours to halves, head by head
        let halves = |rows: &[f32]| -> Vec<f32> {
            let heads = rows.chunks_exact(4 * d);
            let row = |head: &[f32], row: usize| head[row * d..][..d].to_vec();
            heads
                .flat_map(|head| [0, 2, 1, 3].map(|from| row(head, from)).concat())
                .collect()
        };
        let name = |part: &str| format!("model.{layer}.{part}");
        tensors.extend([
            (name("q"), vec![d, d], halves(&qkv[..d * d])),
            (name("k"), vec![kv, d], halves(&qkv[d * d..][..kv * d])),
            (name("v"), vec![kv, d], qkv[(d + kv) * d..].to_vec()),
        ]);
        for (part, shape) in [
            ("w_o", vec![d, d]),
            ("w_gate", vec![12, d]),
            ("w_up", vec![12, d]),
            ("w_down", vec![d, 12]),
            ("g_attn", vec![d]),
            ("g_ffn", vec![d]),
        ] {
            tensors.push((format!("layers.{layer}.{part}"), shape, data(part)));
        }
    }
    let stored: Vec<Vec<u8>> = tensors.iter().map(|(_, _, data)| bytes(data)).collect();
    let views = tensors
        .iter()
        .zip(&stored)
        .map(|((name, shape, _), bytes)| {
            (
                name,
                TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap(),
            )
        });
    let file = safetensors::serialize(views, None).unwrap();
    let (_, json) = description::write(&from).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&json).unwrap();
    json["tensors"] = serde_json::json!({
        "w_embed": "embed",
        "g_final": "norm",
        "w_qkv": ["model.{layer}.q", "model.{layer}.k", "model.{layer}.v"],
    });
    json["rope_pairs"] = "halves".into();
    let read = |json: &serde_json::Value| description::read(&file, json.to_string().as_bytes(), "");
    let said = read(&json).unwrap_err().to_string();
    assert!(
        said.contains("rotary.inv_freq is not part of the model"),
        "{said}"
    );
    json["ignore"] = serde_json::json!(["rotary.inv_freq"]);
    assert_eq!(read(&json).unwrap().weights, from.weights);

    json["config"]["d_ff"] = 13.into();
    let said = read(&json).unwrap_err().to_string();
    assert!(
        said.contains("expected shape [13, 16], found [12, 16]"),
        "{said}"
    );
    json["config"]["vocab_size"] = 31.into();
    let said = read(&json).unwrap_err().to_string();
    assert!(said.contains("expected 31 tokens, found 30"), "{said}");
}

#[test]
fn halves_of_a_number_are_widened() {
    let from = random(LLAMA);
    let (_, json) = description::write(&from).unwrap();
    let as_bf16 = |x: &f32| (x.to_bits() >> 16) as u16;
    let stored: Vec<Vec<u8>> = from
        .weights
        .iter()
        .map(|t| {
            t.data
                .iter()
                .flat_map(|x| as_bf16(x).to_le_bytes())
                .collect()
        })
        .collect();
    let views = from.weights.iter().zip(&stored).map(|(tensor, bytes)| {
        let shape = tensor.shape.iter().map(|&len| len as usize).collect();
        (
            &tensor.name,
            TensorView::new(Dtype::BF16, shape, bytes).unwrap(),
        )
    });
    let file = safetensors::serialize(views, None).unwrap();
    let back = description::read(&file, json.as_bytes(), "").unwrap();
    for (found, exact) in back.weights.iter().zip(&from.weights) {
        for (found, exact) in found.data.iter().zip(&exact.data) {
            assert_eq!(found.to_bits(), exact.to_bits() & 0xFFFF_0000);
        }
    }
}

#[test]
fn damage_is_an_error() {
    let (file, json) = description::write(&random(LLAMA)).unwrap();
    let read = |file: &[u8]| description::read(file, json.as_bytes(), "");
    for len in (0..file.len()).step_by(97) {
        assert!(read(&file[..len]).is_err(), "{len}");
    }
    let mut huge = file.clone();
    huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(read(&huge).is_err());
    let said = description::read(&file, b"{}", "").unwrap_err().to_string();
    assert!(said.contains("missing field `config`"), "{said}");
}
