//! Named tensors of a file, taken one by one until none is left.

use std::borrow::Cow;
use std::collections::BTreeMap;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use crate::error::ImportError;

/// A tensor in its file's numbers.
pub(crate) struct Raw<'a> {
    pub(crate) shape: Vec<u64>,
    /// The kind of numbers, or the name of one that is not supported.
    pub(crate) numbers: Result<Numbers, String>,
    /// Little-endian, as many as the shape says.
    pub(crate) bytes: Cow<'a, [u8]>,
}

/// Kinds of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    F32,
    F16,
    Bf16,
}

impl Numbers {
    /// Returns the bytes of an element.
    pub(crate) const fn len(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// All tensors of a file.
#[derive(Default)]
pub(crate) struct Tensors<'a>(pub(crate) BTreeMap<String, Raw<'a>>);

impl<'a> Tensors<'a> {
    /// Reads a safetensors file, whose library checks every offset against the length.
    pub(crate) fn of_safetensors(bytes: &'a [u8]) -> Result<Self, ImportError> {
        let file = SafeTensors::deserialize(bytes).map_err(|error| ImportError::Kind {
            expected: "a whole safetensors file",
            found: error.to_string(),
        })?;
        let raw = |view: safetensors::tensor::TensorView<'a>| Raw {
            shape: view.shape().iter().map(|&len| len as u64).collect(),
            numbers: match view.dtype() {
                Dtype::F32 => Ok(Numbers::F32),
                Dtype::F16 => Ok(Numbers::F16),
                Dtype::BF16 => Ok(Numbers::Bf16),
                other => Err(format!("{other:?}")),
            },
            bytes: Cow::Borrowed(view.data()),
        };
        Ok(Self(
            file.tensors()
                .into_iter()
                .map(|(name, view)| (name, raw(view)))
                .collect(),
        ))
    }

    /// Returns the shape of a tensor.
    pub(crate) fn shape(&self, name: &str) -> Result<&[u64], ImportError> {
        self.0
            .get(name)
            .map(|raw| raw.shape.as_slice())
            .ok_or_else(|| ImportError::Missing(name.to_string()))
    }

    /// Takes the elements of a tensor of this shape.
    pub(crate) fn take(&mut self, name: &str, shape: &[u64]) -> Result<Vec<f32>, ImportError> {
        let found = self.shape(name)?;
        if found != shape {
            return Err(ImportError::Shape {
                name: name.to_string(),
                expected: shape.to_vec(),
                found: found.to_vec(),
            });
        }
        match self.0.remove(name) {
            Some(raw) => raw.floats(name),
            None => Err(ImportError::Missing(name.to_string())),
        }
    }

    /// Checks that nothing is left that nobody has asked for.
    pub(crate) fn finish(&self) -> Result<(), ImportError> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(ImportError::Unexpected(name.clone())),
        }
    }
}

impl Raw<'_> {
    fn floats(&self, name: &str) -> Result<Vec<f32>, ImportError> {
        let halves = || self.bytes.as_chunks::<2>().0.iter();
        match &self.numbers {
            Ok(Numbers::F32) => {
                let words = self.bytes.as_chunks::<4>().0.iter();
                Ok(words.map(|&word| f32::from_le_bytes(word)).collect())
            }
            Ok(Numbers::F16) => Ok(halves()
                .map(|&half| f16::from_le_bytes(half).to_f32())
                .collect()),
            Ok(Numbers::Bf16) => Ok(halves()
                .map(|&half| bf16::from_le_bytes(half).to_f32())
                .collect()),
            Err(found) => Err(ImportError::Numbers {
                name: name.to_string(),
                found: found.clone(),
            }),
        }
    }
}
