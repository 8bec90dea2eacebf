//! The blob: prelude, postcard header, tensor section, checksum.
//!
//! The bytes are specified in `runtime/FORMAT.md`. The prelude and the checksum are our own,
//! because postcard is neither self-describing nor versioned.

use core::ops::Range;

use serde::Serialize;

use crate::config::{Config, ConfigError};
use crate::crc::crc32;
use crate::header;
use crate::kinds::Kinds;
use crate::layout::Layout;
use crate::tensor::{TENSOR_ALIGN, TensorId, TensorMap};
use crate::vocab::{Vocab, VocabError};

/// First bytes of every blob.
pub const MAGIC: [u8; 8] = *b"CHAPBOOK";
/// Version of the format that this crate reads and writes.
///
/// - 1: int8 weights with a 16-bit multiplier per output row, logits in units of 2^-16.
/// - 2: the header states the number format of each matrix.
/// - 3: a quicker arithmetic, so another self-test.
pub const FORMAT_VERSION: u16 = 3;
/// Oldest version that [`Model::from_older`](crate::Model::from_older) reads.
pub const OLDEST_VERSION: u16 = 1;
/// Bytes before the postcard header.
pub const PRELUDE_LEN: usize = 24;
/// Bytes of the checksum at the end.
pub const TRAILER_LEN: usize = 4;
/// Largest number of tokens in the golden prompt.
pub const MAX_GOLDEN: usize = 64;

/// Largest exponent of a tensor, either way; keeps every sum of exponents far from overflow.
pub const MAX_EXPONENT: i32 = 64;

/// Everything about a model that is not a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Header<'a> {
    /// Shape.
    pub config: Config,
    /// The vocabulary, see [`Vocab::from_bytes`].
    pub vocab: &'a [u8],
    /// Where the weights come from.
    pub provenance: Provenance<'a>,
    /// What the engine must compute.
    pub golden: Golden<'a>,
    /// Number formats of the matrices; the last field in the blob, and not in one of version 1.
    #[serde(skip)]
    pub kinds: Kinds,
}

/// Where the weights of a blob come from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Provenance<'a> {
    /// Name of the training run.
    pub run: &'a str,
    /// SHA-256 of the text the model was trained on.
    pub corpus_sha256: [u8; 32],
    /// Training step of the weights.
    pub step: u32,
    /// Seed of the training run.
    pub seed: u64,
    /// Loss of the `f32` weights on the dev split, nats per character.
    pub dev_f32: f32,
    /// Loss of this blob on the dev split, nats per character.
    pub dev_blob: f32,
}

/// A self-test: tokens, and the hash of the logits that they must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Golden<'a> {
    /// Token ids, two little-endian bytes each.
    pub prompt: &'a [u8],
    /// [`LogitsHash`](crate::LogitsHash) over the logits after each token of the prompt.
    pub logits_hash: u64,
}

impl<'a> Golden<'a> {
    /// Returns the tokens of the prompt.
    pub fn tokens(&self) -> impl Iterator<Item = u16> + use<'a> {
        self.prompt
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
    }
}

/// Why bytes are not a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LoadError {
    /// The first byte is not at an address divisible by 4.
    Misaligned,
    /// Fewer bytes than a prelude, or than the prelude announces.
    Truncated {
        /// Bytes needed.
        needed: u32,
        /// Bytes given.
        found: u32,
    },
    /// All bytes of the prelude are 0xFF or 0x00: nothing was flashed here.
    Empty,
    /// The first bytes are not [`MAGIC`].
    NotABlob,
    /// The format is older or newer than this build reads.
    UnsupportedVersion {
        /// Version of the blob.
        found: u16,
        /// Newest version this build reads.
        supported: u16,
    },
    /// A matrix has a number format that this build does not read, or may not have the one it states.
    UnsupportedKind(TensorId),
    /// The tensor section is laid out for a core that this build does not know.
    UnsupportedLayout(u8),
    /// The checksum does not match.
    Corrupted {
        /// Checksum in the blob.
        expected: u32,
        /// Checksum of the bytes.
        found: u32,
    },
    /// The postcard header cannot be read, or does not fill its place exactly.
    BadHeader,
    /// The header describes no possible model.
    BadConfig(ConfigError),
    /// The lengths in the prelude do not follow from the header.
    BadLength {
        /// Length that follows from the header.
        expected: u32,
        /// Length in the prelude.
        found: u32,
    },
    /// The vocabulary cannot be used.
    BadVocabulary(VocabError),
    /// The golden prompt is empty, too long or has an unknown token.
    BadGolden,
    /// The exponent of a tensor is outside -[`MAX_EXPONENT`]..=[`MAX_EXPONENT`].
    BadExponent(i32),
}

impl core::fmt::Display for LoadError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Misaligned => f.write_str("the model must start at an address divisible by 4"),
            Self::Truncated { needed, found } => {
                write!(f, "the model needs {needed} bytes, only {found} are there")
            }
            Self::Empty => f.write_str("nothing but erased memory is here"),
            Self::NotABlob => {
                f.write_str("this is not a Chapbook model (no CHAPBOOK at its start)")
            }
            Self::UnsupportedVersion { found, supported } => {
                write!(
                    f,
                    "the model has format version {found}, this build reads {supported}; "
                )?;
                f.write_str(if found < supported {
                    "convert the model with tools/export OLD.bin"
                } else {
                    "the model is newer, so update this program"
                })
            }
            Self::UnsupportedKind(id) => write!(
                f,
                "{} has a number format that this build does not read",
                id.name()
            ),
            Self::UnsupportedLayout(layout) => {
                write!(f, "tensor layout {layout} is not known to this build")
            }
            Self::Corrupted { expected, found } => write!(
                f,
                "the model is damaged: its CRC-32 should be {expected:08x} and is {found:08x}"
            ),
            Self::BadHeader => f.write_str("the header cannot be read"),
            Self::BadConfig(error) => write!(f, "the header describes no model: {error}"),
            Self::BadLength { expected, found } => write!(
                f,
                "the header implies {expected} bytes, the prelude says {found}"
            ),
            Self::BadVocabulary(error) => error.fmt(f),
            Self::BadGolden => f.write_str("the self-test in the header cannot be run"),
            Self::BadExponent(exponent) => write!(
                f,
                "a tensor has exponent {exponent}; at most {MAX_EXPONENT} either way is supported"
            ),
        }
    }
}

impl core::error::Error for LoadError {}

/// A blob whose bytes have been checked.
pub(crate) struct Parsed<'a> {
    pub(crate) header: Header<'a>,
    pub(crate) map: TensorMap,
    pub(crate) layout: Layout,
    pub(crate) tensors: &'a [u8],
    pub(crate) total_len: u32,
    pub(crate) crc: u32,
}

/// Reads a little-endian `u32`.
fn read_u32(bytes: &[u8; PRELUDE_LEN], at: usize) -> u32 {
    let (_, word) = bytes.split_at(at);
    word.first_chunk()
        .map_or(0, |&word| u32::from_le_bytes(word))
}

/// Checks everything about a blob of the version `oldest` or later, but the values of its tensors.
pub(crate) fn parse(bytes: &[u8], oldest: u16) -> Result<Parsed<'_>, LoadError> {
    let found = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let truncated = |needed: u32| LoadError::Truncated { needed, found };
    // first, because an empty slice may start anywhere
    let Some(prelude) = bytes.first_chunk::<PRELUDE_LEN>() else {
        return Err(truncated(PRELUDE_LEN as u32));
    };
    if !(bytes.as_ptr() as usize).is_multiple_of(4) {
        return Err(LoadError::Misaligned);
    }
    if matches!(prelude[0], 0 | 0xFF) && prelude.iter().all(|&byte| byte == prelude[0]) {
        return Err(LoadError::Empty);
    }
    if prelude[..8] != MAGIC {
        return Err(LoadError::NotABlob);
    }
    let version = u16::from_le_bytes([prelude[8], prelude[9]]);
    if !(oldest..=FORMAT_VERSION).contains(&version) {
        return Err(LoadError::UnsupportedVersion {
            found: version,
            supported: FORMAT_VERSION,
        });
    }
    let header_len = read_u32(prelude, 12);
    let tensor_offset = read_u32(prelude, 16);
    let total_len = read_u32(prelude, 20);
    if total_len > found {
        return Err(truncated(total_len));
    }
    let min_len = (PRELUDE_LEN + TRAILER_LEN) as u32;
    if total_len < min_len {
        return Err(LoadError::BadLength {
            expected: min_len,
            found: total_len,
        });
    }
    // The checksum comes before anything that it covers is believed.
    let Some((body, trailer)) =
        (bytes.get(..total_len as usize)).and_then(|blob| blob.split_last_chunk::<TRAILER_LEN>())
    else {
        return Err(truncated(total_len));
    };
    let expected = u32::from_le_bytes(*trailer);
    let crc = crc32(body);
    if crc != expected {
        return Err(LoadError::Corrupted {
            expected,
            found: crc,
        });
    }
    let layout = Layout::from_byte(prelude[10]).ok_or(LoadError::UnsupportedLayout(prelude[10]))?;
    let header_end = (PRELUDE_LEN as u32).checked_add(header_len);
    let header_bytes = header_end
        .and_then(|end| body.get(PRELUDE_LEN..end as usize))
        .ok_or(LoadError::BadHeader)?;
    let (mut header, mut rest) = header::read(header_bytes).ok_or(LoadError::BadHeader)?;
    if version > 1 {
        let (bits, after) = rest.split_first_chunk().ok_or(LoadError::BadHeader)?;
        header.kinds = Kinds::from_bits(u32::from_le_bytes(*bits));
        rest = after;
    }
    if !rest.is_empty() {
        return Err(LoadError::BadHeader);
    }
    header.config.validate().map_err(LoadError::BadConfig)?;
    let kinds = header.kinds.check(&header.config);
    kinds.map_err(LoadError::UnsupportedKind)?;
    let map = TensorMap::new(&header.config, header.kinds, layout).ok_or(LoadError::BadHeader)?;
    let sections = sections(header_bytes.len(), &map);
    if tensor_offset as usize != sections.tensors.start || total_len as usize != sections.total_len
    {
        return Err(LoadError::BadLength {
            expected: sections.total_len as u32,
            found: total_len,
        });
    }
    check_vocab(&header)?;
    check_golden(&header)?;
    Ok(Parsed {
        header,
        map,
        layout,
        tensors: body.get(sections.tensors).unwrap_or_default(),
        total_len,
        crc,
    })
}

#[inline(never)]
fn check_vocab(header: &Header<'_>) -> Result<(), LoadError> {
    let vocab = Vocab::from_bytes(header.vocab);
    vocab
        .and_then(|vocab| vocab.check(header.config.vocab_size))
        .map_err(LoadError::BadVocabulary)
}

fn check_golden(header: &Header<'_>) -> Result<(), LoadError> {
    let prompt = header.golden.prompt;
    let len_ok = prompt.len().is_multiple_of(2) && (2..=2 * MAX_GOLDEN).contains(&prompt.len());
    let known = |token| token < header.config.vocab_size;
    if len_ok && header.golden.tokens().all(known) {
        Ok(())
    } else {
        Err(LoadError::BadGolden)
    }
}

/// Where the parts of a blob lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sections {
    /// The tensor section.
    pub tensors: Range<usize>,
    /// Bytes of the whole blob.
    pub total_len: usize,
}

fn sections(header_len: usize, map: &TensorMap) -> Sections {
    let start = (PRELUDE_LEN + header_len).next_multiple_of(TENSOR_ALIGN as usize);
    let end = start + map.len as usize;
    Sections {
        tensors: start..end,
        total_len: end + TRAILER_LEN,
    }
}

/// Why a blob could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The configuration describes no possible model.
    BadConfig(ConfigError),
    /// A matrix may not have the number format that the header states.
    BadKind(TensorId),
    /// The blob would be larger than its 32-bit lengths allow.
    TooLarge,
    /// The output is too small; the number is the bytes needed, or 0 when not even the header fits.
    BufferTooSmall(usize),
}

impl core::fmt::Display for EncodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::BadConfig(error) => error.fmt(f),
            Self::BadKind(id) => write!(f, "{} cannot have this number format", id.name()),
            Self::TooLarge => f.write_str("the model does not fit a blob of 2 GiB"),
            Self::BufferTooSmall(needed) => write!(f, "the blob needs {needed} bytes"),
        }
    }
}

impl core::error::Error for EncodeError {}

/// Writes prelude, header and padding into `out` and says where the tensors go.
///
/// The caller fills the tensor section (see [`Config::tensors_in`]) and calls [`seal`]. `out` may be
/// longer than the blob; bytes that nobody writes must be zero.
///
/// # Errors
///
/// See [`EncodeError`].
pub fn encode(
    header: &Header<'_>,
    layout: Layout,
    out: &mut [u8],
) -> Result<Sections, EncodeError> {
    header.config.validate().map_err(EncodeError::BadConfig)?;
    let kinds = header.kinds.check(&header.config);
    kinds.map_err(EncodeError::BadKind)?;
    let map = TensorMap::new(&header.config, header.kinds, layout).ok_or(EncodeError::TooLarge)?;
    let body = out
        .get_mut(PRELUDE_LEN..)
        .ok_or(EncodeError::BufferTooSmall(0))?;
    let header_len = postcard::to_slice(&(header, header.kinds.bits().to_le_bytes()), body)
        .map_err(|_| EncodeError::BufferTooSmall(0))?
        .len();
    let sections = sections(header_len, &map);
    if out.len() < sections.total_len {
        return Err(EncodeError::BufferTooSmall(sections.total_len));
    }
    out[..8].copy_from_slice(&MAGIC);
    out[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    out[10..12].copy_from_slice(&[layout.byte(), 0]);
    out[12..16].copy_from_slice(&(header_len as u32).to_le_bytes());
    out[16..20].copy_from_slice(&(sections.tensors.start as u32).to_le_bytes());
    out[20..24].copy_from_slice(&(sections.total_len as u32).to_le_bytes());
    out[PRELUDE_LEN + header_len..sections.tensors.start].fill(0);
    Ok(sections)
}

/// Writes the checksum over all bytes before it into the last four bytes of a complete blob.
///
/// # Panics
///
/// If `blob` is shorter than the checksum.
pub fn seal(blob: &mut [u8]) {
    let (body, trailer) = blob.split_at_mut(blob.len() - TRAILER_LEN);
    trailer.copy_from_slice(&crc32(body).to_le_bytes());
}
