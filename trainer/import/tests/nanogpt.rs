//! nanoGPT's checkpoint, as `torch.save` and as safetensors.

mod common;

use std::io::{Cursor, Write};

use checkpoint::Checkpoint;
use common::{NANO, bytes, random};
use import::{ImportError, nanogpt};
use runtime::Config;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const BARE: Config = Config {
    attn_bias: false,
    ff_bias: false,
    norm_bias: false,
    ..NANO
};

/// nanoGPT's name of one of our tensors.
fn name(ours: &str) -> String {
    let theirs = |part: &str| match part {
        "w_embed" => "wte.weight",
        "w_pos" => "wpe.weight",
        "w_out" => "lm_head.weight",
        "g_final" => "ln_f.weight",
        "b_final" => "ln_f.bias",
        "g_attn" => "ln_1.weight",
        "b_attn" => "ln_1.bias",
        "g_ffn" => "ln_2.weight",
        "b_ffn" => "ln_2.bias",
        "w_qkv" => "attn.c_attn.weight",
        "b_qkv" => "attn.c_attn.bias",
        "w_o" => "attn.c_proj.weight",
        "b_o" => "attn.c_proj.bias",
        "w_up" => "mlp.c_fc.weight",
        "b_up" => "mlp.c_fc.bias",
        "w_down" => "mlp.c_proj.weight",
        "b_down" => "mlp.c_proj.bias",
        other => panic!("{other}"),
    };
    match ours
        .strip_prefix("layers.")
        .and_then(|rest| rest.split_once('.'))
    {
        Some((layer, part)) => format!("transformer.h.{layer}.{}", theirs(part)),
        None if ours == "w_out" => "lm_head.weight".to_string(),
        None => format!("transformer.{}", theirs(ours)),
    }
}

/// A pickle in the making.
struct Pickle(Vec<u8>);

impl Pickle {
    fn new() -> Self {
        Self(b"\x80\x02".to_vec())
    }

    fn op(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(bytes);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.op(b"X")
            .op(&(text.len() as u32).to_le_bytes())
            .op(text.as_bytes())
    }

    fn number(&mut self, number: usize) -> &mut Self {
        self.op(b"J").op(&(number as u32).to_le_bytes())
    }

    fn tensor(&mut self, key: usize, offset: usize, len: usize, shape: &[usize]) -> &mut Self {
        self.op(b"ctorch._utils\n_rebuild_tensor_v2\n((")
            .text("storage");
        self.op(b"ctorch\nFloatStorage\n")
            .text(&key.to_string())
            .text("cuda:0");
        self.number(len).op(b"tQ").number(offset);
        let mut stride = shape.iter().product::<usize>();
        self.op(b"(");
        for &len in shape {
            self.number(len);
        }
        self.op(b"t(");
        for &len in shape {
            stride /= len;
            self.number(stride);
        }
        self.op(b"t\x89ccollections\nOrderedDict\n)RtR")
    }
}

/// What `torch.save` writes of a nanoGPT checkpoint; the head's tensor shares the embedding's.
fn checkpoint_pt(from: &Checkpoint, own_head: Option<&[f32]>) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut file = |name: &str, bytes: &[u8]| {
        zip.start_file(format!("ckpt/{name}"), stored).unwrap();
        zip.write_all(bytes).unwrap();
    };
    let mut pickle = Pickle::new();
    pickle
        .op(b"}(")
        .text("model")
        .op(b"ccollections\nOrderedDict\n)R(");
    for (key, tensor) in from.weights.iter().enumerate() {
        // A tensor may begin within its storage.
        let offset = usize::from(tensor.name == "g_final") * 3;
        let len = offset + tensor.data.len();
        let shape: Vec<usize> = tensor.shape.iter().map(|&len| len as usize).collect();
        pickle.text(&format!("_orig_mod.{}", name(&tensor.name)));
        pickle.tensor(key, offset, len, &shape);
        let mut data = vec![9.0; offset];
        data.extend(&tensor.data);
        file(&format!("data/{key}"), &bytes(&data));
    }
    let embed = &from.weights[0];
    let shape: Vec<usize> = embed.shape.iter().map(|&len| len as usize).collect();
    let key = if own_head.is_some() { 999 } else { 0 };
    pickle
        .text("_orig_mod.lm_head.weight")
        .tensor(key, 0, embed.data.len(), &shape);
    if let Some(head) = own_head {
        file("data/999", &bytes(head));
    }
    pickle
        .text("_orig_mod.transformer.h.0.attn.bias")
        .op(b"Nu}b");
    pickle
        .text("model_args")
        .op(b"}(")
        .text("n_head")
        .number(from.config.n_head.into());
    pickle
        .text("bias")
        .op(b"\x88u")
        .text("iter_num")
        .number(5000);
    pickle
        .text("best_val_loss")
        .op(b"G?\xf8\x00\x00\x00\x00\x00\x00u.");
    file("data.pkl", &pickle.0);
    file("byteorder", b"little");
    file("version", b"3\n");
    zip.finish().unwrap().into_inner()
}

fn meta(chars: &str) -> Vec<u8> {
    let mut pickle = Pickle::new();
    pickle
        .op(b"}(")
        .text("vocab_size")
        .number(chars.chars().count());
    pickle.text("itos").op(b"}(");
    for (token, char) in chars.chars().enumerate() {
        pickle.number(token).text(&char.to_string());
    }
    pickle.op(b"uu.");
    pickle.0
}

fn chars(from: &Checkpoint) -> String {
    String::from_utf8(from.vocab.clone()).unwrap()
}

#[test]
fn a_checkpoint_comes_back_exactly() {
    for config in [NANO, BARE] {
        let from = random(config);
        let file = checkpoint_pt(&from, None);
        let guest = nanogpt::read(&file, &meta(&chars(&from)), None).unwrap();
        assert_eq!(guest.config, config);
        assert_eq!(guest.weights, from.weights);
        assert_eq!(guest.vocab, from.vocab);
        assert_eq!(guest.step, 5000);
    }
}

#[test]
fn a_head_of_its_own_is_kept() {
    let own = random(Config {
        tied: false,
        ..NANO
    });
    let head = own
        .weights
        .iter()
        .find(|tensor| tensor.name == "w_out")
        .unwrap();
    let mut tied = own.clone();
    tied.weights.retain(|tensor| tensor.name != "w_out");
    let file = checkpoint_pt(&tied, Some(&head.data));
    let guest = nanogpt::read(&file, &meta(&chars(&own)), None).unwrap();
    assert_eq!(guest.config, own.config);
    assert_eq!(guest.weights, own.weights);
}

#[test]
fn safetensors_need_the_number_of_heads() {
    let from = random(NANO);
    let stored: Vec<Vec<u8>> = from.weights.iter().map(|t| bytes(&t.data)).collect();
    let views = from.weights.iter().zip(&stored).map(|(tensor, bytes)| {
        let shape = tensor.shape.iter().map(|&len| len as usize).collect();
        (
            name(&tensor.name),
            TensorView::new(Dtype::F32, shape, bytes).unwrap(),
        )
    });
    let file = safetensors::serialize(views, None).unwrap();
    let meta = meta(&chars(&from));
    let guest = nanogpt::read(&file, &meta, Some(4)).unwrap();
    assert_eq!((guest.config, &guest.weights), (from.config, &from.weights));
    let said = nanogpt::read(&file, &meta, None).unwrap_err().to_string();
    assert!(said.contains("--n-head"), "{said}");
}

#[test]
fn vocabularies_that_do_not_belong_are_refused() {
    let from = random(NANO);
    let file = checkpoint_pt(&from, None);
    let chars = chars(&from);
    let read = |meta: &[u8]| nanogpt::read(&file, meta, None).unwrap_err();
    let fewer: String = chars.chars().skip(1).collect();
    assert_eq!(
        read(&meta(&fewer)),
        ImportError::Vocabulary {
            expected: 30,
            found: 29
        }
    );
    let more = format!("{chars}\u{10FFFF}");
    assert!(matches!(read(&meta(&more)), ImportError::Vocabulary { .. }));
    let turned: String = chars.chars().rev().collect();
    assert!(read(&meta(&turned)).to_string().contains("ascending"));
}

#[test]
fn damage_is_an_error() {
    let from = random(NANO);
    let file = checkpoint_pt(&from, None);
    let meta = meta(&chars(&from));
    for len in (0..file.len()).step_by(61) {
        assert!(
            nanogpt::read(&file[..len], &meta, Some(4)).is_err(),
            "{len}"
        );
    }
    for at in (0..file.len()).step_by(13) {
        let mut file = file.clone();
        file[at] ^= 0x10;
        // Whatever it is, it ends.
        let _ = nanogpt::read(&file, &meta, Some(4));
    }
    for len in 0..meta.len() {
        assert!(nanogpt::read(&file, &meta[..len], None).is_err(), "{len}");
    }
}
