//! nanoGPT's checkpoint: `ckpt.pt`, or its tensors in safetensors, and `meta.pkl`.
//!
//! The model has layer norms, learned positions and the exact GELU; biases are on or off together.

use runtime::{Activation, Config, MAX_CONTEXT, MAX_LAYER, MAX_WIDTH, Norm, Position, TensorId};

use crate::assemble::{Guest, check, collect, dimension};
use crate::error::ImportError;
use crate::pickle::{Pickle, Value};
use crate::tensors::Tensors;
use crate::torch::{self, TorchFile};

/// What `torch.compile` puts before every name.
const COMPILED: &str = "_orig_mod.";

/// Reads a checkpoint and its characters.
///
/// `n_head` is needed for safetensors only, because no tensor's shape tells it.
///
/// # Errors
///
/// A file that is damaged, whose shapes do not fit together or whose vocabulary is not that of
/// `meta`.
pub fn read(bytes: &[u8], meta: &[u8], n_head: Option<u16>) -> Result<Guest, ImportError> {
    if torch::is_zip(bytes) {
        let mut file = TorchFile::open(bytes)?;
        let root = file.pickle.root();
        let value = |name: &str| {
            file.pickle.get(root, name).ok_or_else(|| {
                ImportError::Value(format!(
                    "expected nanoGPT's {name:?} in the file, found none"
                ))
            })
        };
        let (model, arguments) = (value("model")?, value("model_args")?);
        let argument = |name: &str| match file.pickle.get(arguments, name) {
            Some(Value::Int(number)) => Ok(number),
            _ => Err(ImportError::Value(format!(
                "expected a number {name:?} in model_args, found none"
            ))),
        };
        let n_head = dimension("n_head", argument("n_head")?, MAX_WIDTH)?;
        let step = match file.pickle.get(root, "iter_num") {
            Some(Value::Int(step)) => u64::try_from(step).unwrap_or(0),
            _ => 0,
        };
        let tensors = file.tensors(model, COMPILED, is_mask)?;
        return guest(tensors, n_head, meta, step);
    }
    let Some(n_head) = n_head else {
        return Err(ImportError::Value(
            "expected the number of heads, which nanoGPT's tensors do not tell; give --n-head"
                .to_string(),
        ));
    };
    let found = Tensors::of_safetensors(bytes)?;
    let short = |name: String| name.strip_prefix(COMPILED).unwrap_or(&name).to_string();
    let named = found.0.into_iter().map(|(name, raw)| (short(name), raw));
    let tensors = Tensors(named.filter(|(name, _)| !is_mask(name)).collect());
    guest(tensors, n_head, meta, 0)
}

/// The causal mask, a constant that older versions save with each layer.
fn is_mask(name: &str) -> bool {
    name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")
}

fn guest(
    mut tensors: Tensors<'_>,
    n_head: u16,
    meta: &[u8],
    step: u64,
) -> Result<Guest, ImportError> {
    let mut config = config(&tensors, n_head)?;
    check(&config)?;
    let vocab = characters(meta, config.vocab_size)?;
    let mut weights = collect(&config, |spec| {
        let name = match spec.id {
            TensorId::WEmbed => "wte.weight",
            TensorId::WPos => "wpe.weight",
            TensorId::GAttn => "ln_1.weight",
            TensorId::BAttn => "ln_1.bias",
            TensorId::WQkv => "attn.c_attn.weight",
            TensorId::BQkv => "attn.c_attn.bias",
            TensorId::WO => "attn.c_proj.weight",
            TensorId::BO => "attn.c_proj.bias",
            TensorId::GFfn => "ln_2.weight",
            TensorId::BFfn => "ln_2.bias",
            TensorId::WUp => "mlp.c_fc.weight",
            TensorId::BUp => "mlp.c_fc.bias",
            TensorId::WDown => "mlp.c_proj.weight",
            TensorId::BDown => "mlp.c_proj.bias",
            TensorId::GFinal => "ln_f.weight",
            TensorId::BFinal => "ln_f.bias",
            _ => "lm_head.weight",
        };
        let name = match (spec.layer, spec.id) {
            (_, TensorId::WOut) => name.to_string(),
            (Some(layer), _) => format!("transformer.h.{layer}.{name}"),
            (None, _) => format!("transformer.{name}"),
        };
        let (rows, cols) = (spec.rows.into(), spec.cols.into());
        match spec.rows {
            1 if spec.id != TensorId::WPos => tensors.take(&name, &[cols]),
            _ => tensors.take(&name, &[rows, cols]),
        }
    })?;
    tensors.finish()?;
    if let Some(place) = weights.iter().position(|tensor| tensor.name == "w_out")
        && weights[place].data == weights[0].data
    {
        weights.remove(place);
        config.tied = true;
    }
    Ok(Guest {
        config,
        vocab,
        weights,
        step,
    })
}

/// Takes the shape of the model from the shapes of its tensors.
fn config(tensors: &Tensors<'_>, n_head: u16) -> Result<Config, ImportError> {
    let size = |field, name: &str, axis: usize, max| {
        let shape = tensors.shape(name)?;
        let found = shape.get(axis).copied().unwrap_or(0);
        dimension(field, i64::try_from(found).unwrap_or(i64::MAX), max)
    };
    let of_layer = |name: &String| {
        let rest = name.strip_prefix("transformer.h.")?;
        rest.split_once('.')?.0.parse::<i64>().ok()
    };
    let n_layer = tensors
        .0
        .keys()
        .filter_map(of_layer)
        .max()
        .unwrap_or(-1)
        .saturating_add(1);
    let biased = |name: &str| tensors.0.contains_key(name);
    Ok(Config {
        n_layer: dimension("n_layer", n_layer, MAX_LAYER)?,
        n_head,
        n_kv_head: n_head,
        d_model: size("n_embd", "transformer.wte.weight", 1, MAX_WIDTH)?,
        d_ff: size(
            "width of mlp.c_fc",
            "transformer.h.0.mlp.c_fc.weight",
            0,
            MAX_WIDTH,
        )?,
        context_len: size("block_size", "transformer.wpe.weight", 0, MAX_CONTEXT)?,
        vocab_size: size("vocab_size", "transformer.wte.weight", 0, u16::MAX)?,
        position: Position::Learned,
        rope_base: 10_000,
        norm: Norm::LayerNorm,
        activation: Activation::Gelu,
        tied: !biased("lm_head.weight"),
        embed_scale: false,
        attn_bias: biased("transformer.h.0.attn.c_attn.bias"),
        ff_bias: biased("transformer.h.0.mlp.c_fc.bias"),
        norm_bias: biased("transformer.ln_f.bias"),
        head_bias: false,
    })
}

/// Reads the characters of `meta.pkl` in token order.
fn characters(meta: &[u8], vocab_size: u16) -> Result<Vec<u8>, ImportError> {
    let wrong = |what: &str| ImportError::Value(format!("meta.pkl: expected {what}"));
    let pickle = Pickle::read(meta)?;
    let pairs = pickle
        .get(pickle.root(), "itos")
        .and_then(|itos| pickle.pairs(itos))
        .ok_or_else(|| {
            wrong(
                "a dictionary \"itos\" of characters; models of GPT-2's tokens do not fit a board",
            )
        })?;
    let mut characters = vec![None; usize::from(vocab_size)];
    for &(token, text) in pairs {
        let mut chars = pickle.text(text).unwrap_or_default().chars();
        let (Some(char), None) = (chars.next(), chars.next()) else {
            return Err(wrong("one character for each token"));
        };
        let place = match token {
            Value::Int(token) => usize::try_from(token).ok(),
            _ => None,
        };
        match place.and_then(|place| characters.get_mut(place)) {
            Some(place) => *place = Some(char),
            None => {
                return Err(ImportError::Vocabulary {
                    expected: vocab_size.into(),
                    found: pairs.len() as u64,
                });
            }
        }
    }
    let characters: Option<String> = characters.into_iter().collect();
    let characters = characters.ok_or(ImportError::Vocabulary {
        expected: vocab_size.into(),
        found: pairs.len() as u64,
    })?;
    if !characters.chars().is_sorted_by(|a, b| a < b) {
        return Err(wrong(
            "characters in ascending order, as nanoGPT's prepare.py sorts them",
        ));
    }
    Ok(characters.into_bytes())
}
