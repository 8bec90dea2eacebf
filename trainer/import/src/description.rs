//! safetensors with a JSON description beside it: models of any program, and the way back.
//!
//! The tensors have the names of the runtime's list (`w_embed`, `layers.3.w_qkv`, ...), or those
//! that the description gives them; matrices are `[out, in]`. `trainer/import/README.md` documents
//! the description.

use std::collections::BTreeMap;

use checkpoint::corpus::hex;
use checkpoint::{Checkpoint, Vocabulary, byte_pair};
use runtime::pieces::Special;
use runtime::{Config, TensorId, TensorSpec, Vocab};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde::{Deserialize, Serialize};

use crate::assemble::{Guest, check, collect};
use crate::error::ImportError;
use crate::tensors::Tensors;

/// The JSON beside a safetensors file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    config: Config,
    vocab: Tokens,
    /// Names of the tensors in the file, by our names; one list of names is stacked by rows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tensors: BTreeMap<String, Names>,
    /// Tensors of the file that do not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ignore: Vec<String>,
    /// Which elements of a head turn together.
    #[serde(default, skip_serializing_if = "Pairs::is_default")]
    rope_pairs: Pairs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    training: Option<Training>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Stacked(Vec<String>),
}

/// Elements of a head that rotary positions turn together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Pairs {
    /// Elements 2i and 2i + 1: llama2.c and this program.
    #[default]
    Neighbours,
    /// Elements i and i + `head_dim` / 2: Hugging Face.
    Halves,
}

impl Pairs {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Tokens {
    /// Ascending characters.
    Characters(String),
    Pieces(Pieces),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pieces {
    pieces: Vec<Piece>,
    /// Of two merges the one into the piece of the higher score comes first.
    scores: Vec<f32>,
    bos: Option<u16>,
    eos: Option<u16>,
    byte_base: Option<u16>,
    leading_space: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Piece {
    Text(String),
    Bytes(Vec<u8>),
}

/// Where the weights come from, as far as a blob tells it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Training {
    run: String,
    corpus_name: String,
    corpus_sha256: String,
    step: u64,
    seed: u64,
    /// Loss on dev, nats per token; none when it is not known.
    dev: Option<f64>,
}

/// Reads a safetensors file and its description.
///
/// # Errors
///
/// JSON that is no description, tensors that do not fit it or are left over.
pub fn read(bytes: &[u8], json: &[u8], run: &str) -> Result<Checkpoint, ImportError> {
    let description: Description = serde_json::from_slice(json)
        .map_err(|error| ImportError::Value(format!("description: {error}")))?;
    let config = description.config;
    check(&config)?;
    let vocab = vocabulary(&description.vocab, config.vocab_size)?;
    let mut tensors = Tensors::of_safetensors(bytes)?;
    for name in &description.ignore {
        if tensors.0.remove(name).is_none() {
            return Err(ImportError::Missing(name.clone()));
        }
    }
    check_names(&config, &description.tensors)?;
    let weights = collect(&config, |spec| {
        let mut data = stacked(spec, &description, &mut tensors)?;
        if description.rope_pairs == Pairs::Halves {
            match spec.id {
                TensorId::WQkv => pair_neighbours(&mut data, &config, spec.cols as usize),
                TensorId::BQkv => pair_neighbours(&mut data, &config, 1),
                _ => {}
            }
        }
        Ok(data)
    })?;
    tensors.finish()?;
    let guest = Guest {
        config,
        vocab,
        weights,
        step: 0,
    };
    let mut checkpoint = guest.into_checkpoint(run);
    if let Some(training) = description.training {
        checkpoint.run = training.run;
        checkpoint.corpus_name = training.corpus_name;
        checkpoint.corpus_sha256 = unhex(&training.corpus_sha256).ok_or_else(|| {
            ImportError::Value(format!(
                "description: corpus_sha256: expected 64 hexadecimal digits, found {:?}",
                training.corpus_sha256
            ))
        })?;
        checkpoint.step = training.step;
        checkpoint.seed = training.seed;
        checkpoint.dev_f32 = training.dev.unwrap_or(f64::NAN);
        checkpoint.best_dev = checkpoint.dev_f32;
        checkpoint.best_step = training.step;
    }
    Ok(checkpoint)
}

/// Checks that only tensors of the model are given names.
fn check_names(config: &Config, names: &BTreeMap<String, Names>) -> Result<(), ImportError> {
    let known = |name: &str| config.tensors().any(|spec| spec.name == name);
    match names.keys().find(|name| !known(name)) {
        None => Ok(()),
        Some(name) => Err(ImportError::Value(format!(
            "description: tensors: this model has no {name:?}; expected names without a layer, \
             such as \"w_qkv\""
        ))),
    }
}

/// Takes a tensor, or those that are stacked to make it.
fn stacked(
    spec: &TensorSpec,
    description: &Description,
    tensors: &mut Tensors<'_>,
) -> Result<Vec<f32>, ImportError> {
    let own;
    let names: &[String] = match description.tensors.get(spec.name) {
        None => {
            own = [spec.to_string()];
            &own
        }
        Some(Names::One(name)) => std::slice::from_ref(name),
        Some(Names::Stacked(names)) => names,
    };
    let layer = spec.layer.map(|layer| layer.to_string());
    let name = |name: &String| match &layer {
        Some(layer) => name.replace("{layer}", layer),
        None => name.clone(),
    };
    let (rows, cols) = (u64::from(spec.rows), u64::from(spec.cols));
    let vector = spec.rows == 1;
    if let [one] = names {
        let one = name(one);
        // One row may be a vector or a matrix.
        let flat = vector && tensors.shape(&one)?.len() == 1;
        return if flat {
            tensors.take(&one, &[cols])
        } else {
            tensors.take(&one, &[rows, cols])
        };
    }
    let mut data = Vec::new();
    for one in names {
        let one = name(one);
        let found = tensors.shape(&one)?.to_vec();
        let expected = match found.first() {
            Some(&len) if vector => vec![len],
            Some(&len) => vec![len, cols],
            None => vec![rows, cols],
        };
        data.extend(tensors.take(&one, &expected)?);
    }
    if data.len() as u64 != rows * cols {
        return Err(ImportError::Shape {
            name: spec.to_string(),
            expected: vec![rows, cols],
            found: vec![data.len() as u64 / if vector { 1 } else { cols }, cols],
        });
    }
    Ok(data)
}

/// Reorders the rows of queries and keys from halves to neighbours.
fn pair_neighbours(data: &mut [f32], config: &Config, cols: usize) {
    let head_dim = config.head_dim();
    let turned = (usize::from(config.d_model) + config.kv_dim()) * cols;
    for head in data[..turned].chunks_exact_mut(head_dim * cols) {
        let old = head.to_vec();
        for (row, new) in head.chunks_exact_mut(cols).enumerate() {
            let from = row / 2 + row % 2 * (head_dim / 2);
            new.copy_from_slice(&old[from * cols..][..cols]);
        }
    }
}

fn vocabulary(tokens: &Tokens, vocab_size: u16) -> Result<Vec<u8>, ImportError> {
    let (bytes, found) = match tokens {
        Tokens::Characters(chars) => {
            let ascending = chars.chars().is_sorted_by(|a, b| a < b);
            if !ascending {
                return Err(ImportError::Value(
                    "description: vocab: expected each character once, in ascending order"
                        .to_string(),
                ));
            }
            (chars.as_bytes().to_vec(), chars.chars().count())
        }
        Tokens::Pieces(pieces) => {
            let (n, n_score) = (pieces.pieces.len(), pieces.scores.len());
            if n != n_score {
                return Err(ImportError::Value(format!(
                    "description: scores: expected one for each of {n} pieces, found {n_score}"
                )));
            }
            let bytes = |piece: &Piece| match piece {
                Piece::Text(text) => text.as_bytes().to_vec(),
                Piece::Bytes(bytes) => bytes.clone(),
            };
            let scored = pieces
                .pieces
                .iter()
                .map(bytes)
                .zip(pieces.scores.iter().copied());
            let special = Special {
                bos: pieces.bos,
                eos: pieces.eos,
                byte_base: pieces.byte_base,
                leading_space: pieces.leading_space,
            };
            (
                byte_pair::to_bytes(&scored.collect::<Vec<_>>(), special)?,
                n,
            )
        }
    };
    if found != usize::from(vocab_size) {
        return Err(ImportError::Vocabulary {
            expected: vocab_size.into(),
            found: found as u64,
        });
    }
    Vocabulary::from_bytes(&bytes)
        .map_err(|error| ImportError::Value(format!("description: vocab: {error}")))?;
    Ok(bytes)
}

/// Writes the deployed weights of a checkpoint: a safetensors file and its description.
///
/// # Errors
///
/// A vocabulary that is none.
pub fn write(checkpoint: &Checkpoint) -> Result<(Vec<u8>, String), ImportError> {
    let vocab = Vocab::from_bytes(&checkpoint.vocab)
        .map_err(|error| ImportError::Value(error.to_string()))?;
    let dev = Some(checkpoint.deployed_dev()).filter(|dev| dev.is_finite());
    let description = Description {
        config: checkpoint.config,
        vocab: tokens(vocab),
        tensors: BTreeMap::new(),
        ignore: Vec::new(),
        rope_pairs: Pairs::default(),
        training: Some(Training {
            run: checkpoint.run.clone(),
            corpus_name: checkpoint.corpus_name.clone(),
            corpus_sha256: hex(&checkpoint.corpus_sha256),
            step: checkpoint.step,
            seed: checkpoint.seed,
            dev,
        }),
    };
    let failed = |error: &dyn std::fmt::Display| ImportError::Value(error.to_string());
    let json = serde_json::to_string_pretty(&description).map_err(|error| failed(&error))?;
    let views = checkpoint
        .deployed()
        .iter()
        .map(|tensor| {
            let shape = tensor.shape.iter().map(|&len| len as usize).collect();
            // The runtime compiles for little-endian targets only, this host included.
            let bytes = bytemuck::cast_slice(&tensor.data);
            let view = TensorView::new(Dtype::F32, shape, bytes).map_err(|error| failed(&error))?;
            Ok((tensor.name.as_str(), view))
        })
        .collect::<Result<Vec<_>, ImportError>>()?;
    let bytes = safetensors::serialize(views, None).map_err(|error| failed(&error))?;
    Ok((bytes, json + "\n"))
}

fn tokens(vocab: Vocab<'_>) -> Tokens {
    let pieces = match vocab {
        Vocab::Chars(chars) => return Tokens::Characters(chars.to_string()),
        Vocab::Pieces(pieces) => pieces,
    };
    let special = pieces.special();
    let (pieces, scores) = byte_pair::pieces(&pieces)
        .into_iter()
        .unzip::<Vec<u8>, f32, Vec<_>, Vec<_>>();
    let piece = |bytes: Vec<u8>| match String::from_utf8(bytes) {
        Ok(text) => Piece::Text(text),
        Err(error) => Piece::Bytes(error.into_bytes()),
    };
    Tokens::Pieces(Pieces {
        pieces: pieces.into_iter().map(piece).collect(),
        scores,
        bos: special.bos,
        eos: special.eos,
        byte_base: special.byte_base,
        leading_space: special.leading_space,
    })
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let digits: Vec<u32> = text
        .chars()
        .map(|char| char.to_digit(16))
        .collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    if pairs.len() != bytes.len() {
        return None;
    }
    for (byte, &[high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = (high * 16 + low) as u8;
    }
    Some(bytes)
}
