//! The file that `torch.save` writes: a zip of a pickle and of the elements of each tensor.

use std::borrow::Cow;
use std::io::{Cursor, Read};

use zip::ZipArchive;

use crate::error::ImportError;
use crate::pickle::{Node, Pickle, Value};
use crate::tensors::{Numbers, Raw, Tensors};

/// A file of `torch.save`.
pub(crate) struct TorchFile<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    /// Name of the folder that everything lies in.
    folder: String,
    pub(crate) pickle: Pickle,
}

/// Where a tensor's elements are.
struct Storage {
    key: String,
    numbers: Result<Numbers, String>,
    len: u64,
}

/// Returns whether the bytes start like a zip archive.
pub(crate) fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04")
}

fn damaged(error: impl std::fmt::Display) -> ImportError {
    ImportError::Kind {
        expected: "a whole zip archive, as torch.save has written it since PyTorch 1.6",
        found: error.to_string(),
    }
}

fn wrong(what: &str) -> ImportError {
    ImportError::Value(format!("expected {what} in the pickle of the PyTorch file"))
}

impl<'a> TorchFile<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, ImportError> {
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
        let pickle = archive
            .file_names()
            .find(|name| *name == "data.pkl" || name.ends_with("/data.pkl"))
            .map(str::to_string)
            .ok_or_else(|| damaged("no data.pkl"))?;
        let folder = pickle.trim_end_matches("data.pkl").to_string();
        let mut file = Self {
            archive,
            folder,
            pickle: Pickle::read(b"N.")?,
        };
        let bytes = file.entry(&pickle, None)?;
        file.pickle = Pickle::read(&bytes)?;
        let order = format!("{}byteorder", file.folder);
        if file.archive.index_for_name(&order).is_some() && file.entry(&order, None)? != b"little" {
            return Err(ImportError::Unsupported(
                "expected little-endian numbers in the PyTorch file; save it on another machine"
                    .to_string(),
            ));
        }
        Ok(file)
    }

    /// Reads a file of the archive, of the given length if one is given.
    fn entry(&mut self, name: &str, expected: Option<u64>) -> Result<Vec<u8>, ImportError> {
        let mut entry = self.archive.by_name(name).map_err(damaged)?;
        if let Some(expected) = expected
            && entry.size() != expected
        {
            return Err(ImportError::Length {
                of: name.to_string(),
                expected,
                found: entry.size(),
            });
        }
        // Not compressed, so it cannot be longer than the file.
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(damaged)?;
        Ok(bytes)
    }

    /// Reads the tensors of a dictionary, names without `prefix` where they have it; `ignore` says
    /// which are left out.
    pub(crate) fn tensors(
        &mut self,
        dict: Value,
        prefix: &str,
        ignore: impl Fn(&str) -> bool,
    ) -> Result<Tensors<'static>, ImportError> {
        // A copy, because reading a tensor moves through the archive.
        let pairs = self.pickle.pairs(dict).map(<[_]>::to_vec);
        let pairs = pairs.ok_or_else(|| wrong("a dictionary of tensors"))?;
        let mut tensors = Tensors::default();
        for (name, value) in pairs {
            let name = self
                .pickle
                .text(name)
                .ok_or_else(|| wrong("a name of each tensor"))?;
            let name = name.strip_prefix(prefix).unwrap_or(name).to_string();
            if !ignore(&name) {
                let raw = self.tensor(&name, value)?;
                tensors.0.insert(name, raw);
            }
        }
        Ok(tensors)
    }

    fn tensor(&mut self, name: &str, value: Value) -> Result<Raw<'static>, ImportError> {
        let (storage, offset, shape) = self
            .place(value)
            .ok_or_else(|| wrong(&format!("a contiguous tensor at {name}")))?;
        let numbers = match storage.numbers {
            Ok(numbers) => numbers,
            Err(found) => {
                let name = name.to_string();
                return Err(ImportError::Numbers { name, found });
            }
        };
        let too_long = || wrong(&format!("a size of {name} that its elements fill"));
        let elements = shape.iter().try_fold(1_u64, |n, &len| n.checked_mul(len));
        let end = elements
            .and_then(|n| n.checked_add(offset))
            .filter(|&end| end <= storage.len)
            .ok_or_else(too_long)?;
        let len = storage
            .len
            .checked_mul(numbers.len())
            .ok_or_else(too_long)?;
        let file = format!("{}data/{}", self.folder, storage.key);
        let bytes = self.entry(&file, Some(len))?;
        let range = (offset * numbers.len()) as usize..(end * numbers.len()) as usize;
        let bytes = bytes.get(range).ok_or_else(too_long)?.to_vec();
        Ok(Raw {
            shape,
            numbers: Ok(numbers),
            bytes: Cow::Owned(bytes),
        })
    }

    /// Returns storage, first element and shape of a tensor.
    fn place(&self, value: Value) -> Option<(Storage, u64, Vec<u64>)> {
        let pickle = &self.pickle;
        let Node::Made(function, arguments) = pickle.node(value)? else {
            return None;
        };
        let Node::Global(function) = pickle.node(*function)? else {
            return None;
        };
        let arguments = pickle.items(*arguments)?;
        if function == "torch._utils._rebuild_parameter" {
            return self.place(*arguments.first()?);
        }
        if function != "torch._utils._rebuild_tensor_v2" {
            return None;
        }
        let [storage, offset, shape, strides, ..] = arguments else {
            return None;
        };
        let numbers = |value| {
            let numbers = pickle.items(value)?.iter();
            numbers
                .map(|&value| unsigned(value))
                .collect::<Option<Vec<u64>>>()
        };
        let (shape, strides) = (numbers(*shape)?, numbers(*strides)?);
        // Row-major: each stride is the number of elements within.
        let mut within = 1_u64;
        for (&len, &stride) in shape.iter().zip(&strides).rev() {
            if len != 1 && stride != within {
                return None;
            }
            within = within.checked_mul(len)?;
        }
        if strides.len() != shape.len() {
            return None;
        }
        Some((self.storage(*storage)?, unsigned(*offset)?, shape))
    }

    fn storage(&self, value: Value) -> Option<Storage> {
        let pickle = &self.pickle;
        let Node::Outside(id) = pickle.node(value)? else {
            return None;
        };
        let [_, class, key, _, len, ..] = pickle.items(*id)? else {
            return None;
        };
        let Node::Global(class) = pickle.node(*class)? else {
            return None;
        };
        Some(Storage {
            key: pickle.text(*key)?.to_string(),
            numbers: match class.as_str() {
                "torch.FloatStorage" => Ok(Numbers::F32),
                "torch.HalfStorage" => Ok(Numbers::F16),
                "torch.BFloat16Storage" => Ok(Numbers::Bf16),
                other => Err(other.to_string()),
            },
            len: unsigned(*len)?,
        })
    }
}

fn unsigned(value: Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(number).ok(),
        _ => None,
    }
}
