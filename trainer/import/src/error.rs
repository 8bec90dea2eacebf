//! What can be wrong with a file of another program.

use std::fmt;

use checkpoint::byte_pair::PiecesError;
use runtime::ConfigError;

/// Why a file is no model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ImportError {
    /// The file is of another kind.
    Kind {
        /// What it should be.
        expected: &'static str,
        /// What it seems to be.
        found: String,
    },
    /// A number in the header is out of range.
    Dimension {
        /// Name of the number in that format.
        field: &'static str,
        /// Largest value.
        max: u64,
        /// Value found.
        found: i64,
    },
    /// The file is shorter or longer than its header says.
    Length {
        /// What the length follows from.
        of: String,
        /// Bytes expected.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// The file ends, or says something impossible, at this byte.
    Damaged {
        /// What was read.
        what: &'static str,
        /// The byte.
        offset: usize,
    },
    /// The shape is not one that the runtime can run.
    Config(ConfigError),
    /// The model is larger than a blob can be.
    TooLarge,
    /// A tensor is missing.
    Missing(String),
    /// A tensor is not part of the model.
    Unexpected(String),
    /// A tensor has another shape.
    Shape {
        /// The tensor.
        name: String,
        /// Shape that follows from the configuration.
        expected: Vec<u64>,
        /// Shape found.
        found: Vec<u64>,
    },
    /// A tensor's numbers are not of a supported kind.
    Numbers {
        /// The tensor.
        name: String,
        /// The kind.
        found: String,
    },
    /// An element is not finite.
    NotFinite {
        /// The tensor.
        name: String,
        /// The element.
        index: usize,
    },
    /// The vocabulary has another size than the model.
    Vocabulary {
        /// Tokens of the model.
        expected: u64,
        /// Tokens of the vocabulary.
        found: u64,
    },
    /// The pieces are no vocabulary.
    Pieces(PiecesError),
    /// A value that the format has is missing or not of its kind; the sentence says which.
    Value(String),
    /// The program is not one that these models come from.
    Unsupported(String),
}

impl From<ConfigError> for ImportError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<PiecesError> for ImportError {
    fn from(error: PiecesError) -> Self {
        Self::Pieces(error)
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::Dimension { field, max, found } => {
                write!(f, "{field}: expected 1 to {max}, found {found}; ")?;
                f.write_str("the file is damaged or of another kind")
            }
            Self::Length {
                of,
                expected,
                found,
            } => {
                write!(f, "{of}: expected {expected} bytes, found {found}; ")?;
                f.write_str(if found < expected {
                    "the file is cut, or the header is wrong: copy it again"
                } else {
                    "the file holds more than its header says"
                })
            }
            Self::Damaged { what, offset } => write!(
                f,
                "expected {what} at byte {offset}, found the end or nonsense; copy the file again"
            ),
            Self::Config(error) => write!(f, "no model of this shape can run: {error}"),
            Self::TooLarge => f.write_str("the model does not fit a blob of 2 GiB"),
            Self::Missing(name) => write!(f, "tensor {name} is missing"),
            Self::Unexpected(name) => write!(
                f,
                "tensor {name} is not part of the model; if it does not matter, leave it out"
            ),
            Self::Shape {
                name,
                expected,
                found,
            } => write!(
                f,
                "tensor {name}: expected shape {expected:?}, found {found:?}"
            ),
            Self::Numbers { name, found } => write!(
                f,
                "tensor {name}: expected numbers of F32, F16 or BF16, found {found}"
            ),
            Self::NotFinite { name, index } => write!(
                f,
                "tensor {name}: element {index} is not finite; take an earlier checkpoint"
            ),
            Self::Vocabulary { expected, found } => write!(
                f,
                "the vocabulary does not belong to the model: expected {expected} tokens, found \
                 {found}"
            ),
            Self::Pieces(error) => error.fmt(f),
            Self::Value(what) | Self::Unsupported(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ImportError {}
