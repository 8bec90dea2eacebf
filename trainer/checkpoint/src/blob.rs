//! Writing a blob: a loop over the runtime's tensor list.

use std::collections::HashMap;
use std::fmt;

use runtime::fixed::ONE;
use runtime::format::{
    EncodeError, FORMAT_VERSION, Golden, Header, LoadError, PRELUDE_LEN, Provenance, TRAILER_LEN,
    encode, seal,
};
use runtime::{
    Config, Kind, Kinds, Layout, Model, RelayoutError, Sampler, Session, Settings, TENSOR_ALIGN,
    TensorId, TensorSpec, Vocab,
};

use crate::aligned::AlignedBytes;
use crate::file::NamedTensor;
use crate::int4::quantize_groups;
use crate::quantize::{angle_steps, quantize_bias, quantize_gains, quantize_rows};
use crate::turn::turned;
use crate::vocabulary::Vocabulary;

/// Tokens in the golden self-test: the prompt below and what greedy sampling makes of it.
pub const GOLDEN_LEN: usize = 16;
const GOLDEN_PROMPT: &str = "ROMEO:\n";
/// Generous room for the header without its strings.
const HEADER_ROOM: usize = 512;

/// A finished blob and what its making cost.
#[derive(Clone, Debug)]
pub struct Blob {
    /// The bytes of the file.
    pub bytes: AlignedBytes,
    /// One entry per tensor, in blob order.
    pub tensors: Vec<TensorReport>,
}

/// What became of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorReport {
    /// Full name.
    pub name: String,
    /// Rows; 1 for vectors.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// Number format in the blob.
    pub kind: Kind,
    /// Bytes in the blob, scales included.
    pub len: u32,
    /// Largest difference between an element and its stored value.
    pub max_error: f32,
}

/// Writes a blob and its golden self-test.
///
/// # Errors
///
/// A tensor that is missing, of another shape, not finite or not of this model; a vocabulary that
/// does not fit; a configuration that the runtime refuses.
pub fn write(
    config: &Config,
    vocab: &[u8],
    weights: &[NamedTensor],
    provenance: Provenance<'_>,
) -> Result<Blob, BlobError> {
    write_as(config, Kinds::W8, vocab, weights, provenance)
}

/// Writes a blob as [`write()`] does, with tensors of these kinds.
///
/// # Errors
///
/// As [`write()`], and kinds that the configuration cannot have.
pub fn write_as(
    config: &Config,
    kinds: Kinds,
    vocab: &[u8],
    weights: &[NamedTensor],
    provenance: Provenance<'_>,
) -> Result<Blob, BlobError> {
    let (section, tensors) = write_section(config, kinds, weights)?;
    let header = |prompt, logits_hash| Header {
        config: *config,
        vocab,
        provenance,
        golden: Golden {
            prompt,
            logits_hash,
        },
        kinds,
    };
    // The runtime itself continues the prompt and hashes the logits, so that the test holds for
    // every build of it. Each pass works on a valid blob whose hash is not known yet.
    let prompt = golden_start(vocab)?;
    let plain = Layout::Plain;
    let blob = assemble(&header(&prompt, 0), plain, &section)?;
    let prompt = continue_greedily(&Model::from_bytes(&blob)?)?;
    let blob = assemble(&header(&prompt, 0), plain, &section)?;
    let hash = golden_hash(&Model::from_bytes(&blob)?)?;
    Ok(Blob {
        bytes: assemble(&header(&prompt, hash), plain, &section)?,
        tensors,
    })
}

/// Encodes a blob afresh in the runtime's format version, with the given provenance.
///
/// Every tensor keeps its bytes. With the blob's own provenance, a blob of the runtime's version
/// comes out byte for byte the same.
///
/// # Errors
///
/// What the encoder reports; a model that was loaded can be encoded.
pub fn reencode(model: &Model<'_>, provenance: Provenance<'_>) -> Result<AlignedBytes, BlobError> {
    let header = Header {
        provenance,
        ..*model.header()
    };
    assemble(&header, model.layout(), model.tensor_bytes())
}

/// Rewrites a blob of an older format version in the runtime's; one of that version stays as it is.
///
/// Weights and losses are kept. The self-test of an older arithmetic is replaced by this engine's.
///
/// # Errors
///
/// What the loader reports when the bytes are no blob.
pub fn upgrade(blob: &AlignedBytes) -> Result<AlignedBytes, BlobError> {
    if blob.get(8..10) == Some(&FORMAT_VERSION.to_le_bytes()[..]) {
        return Ok(blob.clone());
    }
    let model = Model::from_older(blob)?;
    let golden = Golden {
        logits_hash: golden_hash(&model)?,
        ..model.header().golden
    };
    let header = Header {
        golden,
        ..*model.header()
    };
    assemble(&header, model.layout(), model.tensor_bytes())
}

/// Rewrites a blob in a layout; from plain to any and back gives the same bytes.
///
/// # Errors
///
/// What the loader reports when the bytes are no blob.
pub fn relayout(blob: &[u8], to: Layout) -> Result<AlignedBytes, BlobError> {
    let model = Model::from_bytes(blob)?;
    let end = |spec: TensorSpec| spec.offset + spec.len + TENSOR_ALIGN;
    let specs = model.config().tensors_in(model.header().kinds, to);
    let section = specs.last().map_or(0, end) as usize;
    let mut out = AlignedBytes::zeroed(model.len() - model.tensor_bytes().len() + section);
    let len = runtime::relayout(blob, to, &mut out).map_err(|error| match error {
        RelayoutError::Load(error) => BlobError::Load(error),
        RelayoutError::Encode(error) => BlobError::Encode(error),
    })?;
    out.truncate(len);
    Ok(out)
}

/// Returns an upper bound of the bytes of a blob, before there are weights.
#[must_use]
pub fn max_len(config: &Config, vocab: &Vocabulary) -> usize {
    PRELUDE_LEN
        + HEADER_ROOM
        + vocab.as_bytes().len()
        + section_len(config, Kinds::W8)
        + TRAILER_LEN
}

fn section_len(config: &Config, kinds: Kinds) -> usize {
    let end = |spec: TensorSpec| (spec.offset + spec.len).next_multiple_of(TENSOR_ALIGN);
    let specs = config.tensors_in(kinds, Layout::Plain);
    specs.last().map_or(0, end) as usize
}

fn write_section(
    config: &Config,
    kinds: Kinds,
    weights: &[NamedTensor],
) -> Result<(Vec<u8>, Vec<TensorReport>), BlobError> {
    config
        .validate()
        .map_err(|error| BlobError::Encode(EncodeError::BadConfig(error)))?;
    let mut by_name = HashMap::new();
    for tensor in weights {
        if by_name.insert(tensor.name.as_str(), tensor).is_some() {
            return Err(BlobError::Unexpected(tensor.name.clone()));
        }
    }
    // int4 weights are left alone: a training may have fitted them to their rounding.
    let turned = match kinds.of(TensorId::WQkv) {
        Kind::W8 => turned(config, &by_name),
        _ => HashMap::new(),
    };
    let mut section = vec![0; section_len(config, kinds)];
    let mut reports = Vec::new();
    for spec in config.tensors_in(kinds, Layout::Plain) {
        let name = spec.to_string();
        let out = &mut section[spec.offset as usize..][..spec.len as usize];
        let max_error = if spec.kind == Kind::U32 {
            for (step, word) in angle_steps(config).iter().zip(out.chunks_exact_mut(4)) {
                word.copy_from_slice(&step.to_le_bytes());
            }
            0.0
        } else {
            let tensor = by_name
                .remove(name.as_str())
                .ok_or_else(|| BlobError::Missing(name.clone()))?;
            write_tensor(&spec, turned.get(&name).unwrap_or(tensor), out)?
        };
        reports.push(TensorReport {
            name,
            rows: spec.rows,
            cols: spec.cols,
            kind: spec.kind,
            len: spec.len,
            max_error,
        });
    }
    // The smallest name, so that the message does not depend on the order of a hash map.
    if let Some(&name) = by_name.keys().min() {
        return Err(BlobError::Unexpected(name.to_string()));
    }
    Ok((section, reports))
}

/// Writes one tensor and returns its largest error.
fn write_tensor(spec: &TensorSpec, tensor: &NamedTensor, out: &mut [u8]) -> Result<f32, BlobError> {
    let matrix = [spec.rows, spec.cols];
    let is_vector = spec.rows == 1 && tensor.shape == matrix[1..];
    let elements = u64::from(spec.rows) * u64::from(spec.cols);
    if (tensor.shape != matrix && !is_vector) || tensor.data.len() as u64 != elements {
        return Err(BlobError::Shape {
            name: spec.to_string(),
            expected: matrix,
            found: tensor.shape.clone(),
        });
    }
    let not_finite = |index: usize| BlobError::NotFinite {
        name: spec.to_string(),
        index,
        value: tensor.data[index].to_string(),
    };
    let exponent_at = spec.exponent_offset() as usize;
    let mut max_error = 0.0_f64;
    let mut record = |x: f32, stored: f64| max_error = max_error.max((f64::from(x) - stored).abs());
    match spec.kind {
        Kind::W8 => {
            let cols = spec.cols as usize;
            let rows = quantize_rows(&tensor.data, cols).map_err(not_finite)?;
            out[..rows.w.len()].copy_from_slice(bytemuck::cast_slice(&rows.w));
            put(out, spec.multiplier_offset() as usize, &rows.multiplier);
            put(out, exponent_at, &[rows.exponent]);
            for (index, (&x, &w)) in tensor.data.iter().zip(&rows.w).enumerate() {
                record(x, f64::from(w) * rows.scale(index / cols));
            }
        }
        Kind::F32 => {
            if let Some(index) = tensor.data.iter().position(|x| !x.is_finite()) {
                return Err(not_finite(index));
            }
            put(out, 0, &tensor.data);
        }
        Kind::W4 { group } => {
            let (cols, group) = (spec.cols as usize, group as usize);
            let groups = quantize_groups(&tensor.data, cols, group).map_err(not_finite)?;
            put_nibbles(out, cols, &groups.w);
            let multipliers = spec.multiplier_offset() as usize;
            put(out, multipliers, &groups.multiplier);
            let after = multipliers + (2 * groups.multiplier.len()).next_multiple_of(4);
            put(out, after, &groups.group_multiplier);
            put(out, exponent_at, &[groups.exponent]);
            for (index, (&x, &w)) in tensor.data.iter().zip(&groups.w).enumerate() {
                record(x, f64::from(w) * groups.scale(index / cols, index % cols));
            }
        }
        Kind::G16 => {
            let (gains, exponent) = quantize_gains(&tensor.data).map_err(not_finite)?;
            put(out, 0, &gains);
            put(out, exponent_at, &[exponent]);
            for (&x, &gain) in tensor.data.iter().zip(&gains) {
                record(x, f64::from(gain) * f64::from(exponent).exp2());
            }
        }
        _ => {
            let bias = quantize_bias(&tensor.data).map_err(not_finite)?;
            put(out, 0, &bias);
            for (&x, &units) in tensor.data.iter().zip(&bias) {
                record(x, f64::from(units) / f64::from(ONE));
            }
        }
    }
    Ok(max_error as f32)
}

/// Writes int4 weights as the plain layout has them.
fn put_nibbles(out: &mut [u8], cols: usize, w: &[i8]) {
    for (row, out) in w.chunks(cols).zip(out.chunks_mut(4 * cols.div_ceil(8))) {
        for (col, w) in row.iter().enumerate() {
            out[col / 2] |= (w.cast_unsigned() & 15) << (4 * (col % 2));
        }
    }
}

/// Writes integers at a byte offset; hosts are little-endian, as the runtime demands.
fn put<T: bytemuck::NoUninit>(out: &mut [u8], at: usize, values: &[T]) {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

fn assemble(
    header: &Header<'_>,
    layout: Layout,
    section: &[u8],
) -> Result<AlignedBytes, BlobError> {
    let strings = header.vocab.len() + header.provenance.run.len() + header.golden.prompt.len();
    let room = PRELUDE_LEN + HEADER_ROOM + strings + section.len() + TRAILER_LEN;
    let mut blob = AlignedBytes::zeroed(room);
    let sections = encode(header, layout, &mut blob)?;
    blob[sections.tensors].copy_from_slice(section);
    blob.truncate(sections.total_len);
    seal(&mut blob);
    Ok(blob)
}

/// Encodes the characters of [`GOLDEN_PROMPT`] that the model knows, or takes its first token.
fn golden_start(vocab: &[u8]) -> Result<Vec<u8>, BlobError> {
    let vocab = Vocab::from_bytes(vocab)
        .map_err(|error| BlobError::Load(LoadError::BadVocabulary(error)))?;
    let mut tokens = vec![0; Vocab::encode_len(GOLDEN_PROMPT.len())];
    let n = vocab.encode(GOLDEN_PROMPT.chars(), &mut tokens, |_| {});
    tokens.truncate(n);
    if tokens.is_empty() {
        tokens.push(0);
    }
    Ok(to_bytes(&tokens))
}

fn to_bytes(tokens: &[u16]) -> Vec<u8> {
    tokens
        .iter()
        .flat_map(|token| token.to_le_bytes())
        .collect()
}

fn continue_greedily(model: &Model<'_>) -> Result<Vec<u8>, BlobError> {
    let mut state = vec![0; model.state_words()];
    let mut session = Session::new(model, &mut state).map_err(|_| BlobError::SelfTest)?;
    let greedy = Settings {
        temperature: 0.0,
        ..Settings::default()
    };
    let mut sampler = Sampler::new(greedy, 0).map_err(|_| BlobError::SelfTest)?;
    let mut tokens: Vec<u16> = model.header().golden.tokens().collect();
    for &token in &tokens {
        session.feed(token).map_err(|_| BlobError::SelfTest)?;
    }
    while tokens.len() < GOLDEN_LEN {
        let token = session.sample(&mut sampler);
        session.feed(token).map_err(|_| BlobError::SelfTest)?;
        tokens.push(token);
    }
    Ok(to_bytes(&tokens))
}

fn golden_hash(model: &Model<'_>) -> Result<u64, BlobError> {
    let mut state = vec![0; model.state_words()];
    let mut session = Session::new(model, &mut state).map_err(|_| BlobError::SelfTest)?;
    Ok(match session.self_test() {
        Ok(hash) => hash,
        Err(error) => error.found,
    })
}

/// Why no blob was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlobError {
    /// A tensor that the model needs is not among the weights.
    Missing(String),
    /// A tensor that the model does not have, or has already.
    Unexpected(String),
    /// A tensor of another shape.
    Shape {
        /// The tensor.
        name: String,
        /// Rows and columns that the model needs.
        expected: [u32; 2],
        /// Shape found.
        found: Vec<u32>,
    },
    /// An element that is not finite.
    NotFinite {
        /// The tensor.
        name: String,
        /// The element.
        index: usize,
        /// Its value.
        value: String,
    },
    /// The runtime's encoder refused.
    Encode(EncodeError),
    /// The runtime's loader refused.
    Load(LoadError),
    /// The runtime could not run the self-test.
    SelfTest,
}

impl From<EncodeError> for BlobError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

impl From<LoadError> for BlobError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(
                f,
                "tensor {name} is missing; the checkpoint does not fit its own configuration"
            ),
            Self::Unexpected(name) => write!(
                f,
                "tensor {name} is not part of the model or comes twice; the checkpoint does not \
                 fit its own configuration"
            ),
            Self::Shape {
                name,
                expected,
                found,
            } => write!(
                f,
                "tensor {name}: expected shape {expected:?}, found {found:?}"
            ),
            Self::NotFinite { name, index, value } => write!(
                f,
                "tensor {name} is not finite: element {index} is {value}; export an earlier \
                 checkpoint"
            ),
            Self::Encode(error) => write!(f, "the blob cannot be encoded: {error}"),
            Self::Load(error) => write!(f, "the runtime refuses the blob: {error}"),
            Self::SelfTest => f.write_str("the runtime cannot run the self-test of the blob"),
        }
    }
}

impl std::error::Error for BlobError {}
