//! The frame around what a run keeps in a file.
//!
//! Integers little-endian: magic of 8 bytes, `u32` version, `u64` length of the body, the body
//! (postcard), CRC-32 of everything before it. A reader thus tells a file that was cut from one
//! that was damaged, and both from one that a later program wrote.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use runtime::crc32;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::durable::write_durably;
use crate::file::{FileError, FormatError, NamedTensor};

const MAGIC_LEN: usize = 8;
/// What the magic of every kind begins with.
const MAGIC_START: &[u8] = b"CHAP";
const PRELUDE_LEN: usize = MAGIC_LEN + 4 + 8;
const CRC_LEN: usize = 4;

pub(crate) fn encode<T: Serialize>(
    magic: &[u8; MAGIC_LEN],
    version: u32,
    value: &T,
) -> Result<Vec<u8>, FormatError> {
    let mut bytes = magic.to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend([0; 8]);
    let mut bytes = postcard::to_extend(value, bytes).map_err(FormatError::Body)?;
    let body_len = (bytes.len() - PRELUDE_LEN) as u64;
    bytes[PRELUDE_LEN - 8..PRELUDE_LEN].copy_from_slice(&body_len.to_le_bytes());
    let crc = crc32(&bytes);
    bytes.extend(crc.to_le_bytes());
    Ok(bytes)
}

pub(crate) fn decode<T: DeserializeOwned>(
    magic: &[u8; MAGIC_LEN],
    version: u32,
    bytes: &[u8],
) -> Result<T, FormatError> {
    let magic_len = bytes.len().min(MAGIC_LEN);
    if bytes[..magic_len] != magic[..magic_len] {
        return Err(FormatError::NotACheckpoint);
    }
    if bytes.len() < PRELUDE_LEN {
        return Err(FormatError::Truncated {
            expected: (PRELUDE_LEN + CRC_LEN) as u64,
            found: bytes.len() as u64,
        });
    }
    let found = u32::from_le_bytes(array(&bytes[8..12]));
    if found != version {
        return Err(FormatError::Version { found });
    }
    let body_len = u64::from_le_bytes(array(&bytes[12..PRELUDE_LEN]));
    let expected = body_len.saturating_add((PRELUDE_LEN + CRC_LEN) as u64);
    let found = bytes.len() as u64;
    if found < expected {
        return Err(FormatError::Truncated { expected, found });
    }
    if found > expected {
        return Err(FormatError::TooLong { expected });
    }
    let (covered, crc) = bytes.split_at(bytes.len() - CRC_LEN);
    let expected = u32::from_le_bytes(array(crc));
    let found = crc32(covered);
    if expected != found {
        return Err(FormatError::Crc { expected, found });
    }
    postcard::from_bytes(&covered[PRELUDE_LEN..]).map_err(FormatError::Body)
}

/// Checks that every tensor has as many elements as its shape says.
pub(crate) fn check_shapes<'a>(
    tensors: impl IntoIterator<Item = &'a Vec<NamedTensor>>,
) -> Result<(), FormatError> {
    for tensor in tensors.into_iter().flatten() {
        let expected = tensor
            .shape
            .iter()
            .try_fold(1_u64, |product, &len| product.checked_mul(len.into()));
        if expected != Some(tensor.data.len() as u64) {
            return Err(FormatError::Shape {
                name: tensor.name.clone(),
                shape: tensor.shape.clone(),
                found: tensor.data.len(),
            });
        }
    }
    Ok(())
}

/// Writes under a temporary name and renames, so that an interrupted save leaves the previous file.
pub(crate) fn save(path: &Path, bytes: Result<Vec<u8>, FormatError>) -> Result<(), FileError> {
    let bytes = bytes.map_err(|source| FileError::Format {
        path: path.to_path_buf(),
        source,
    })?;
    write_durably(path, &bytes).map_err(|source| FileError::Io {
        path: path.to_path_buf(),
        source,
    })
}

pub(crate) fn load<T>(
    path: &Path,
    from_bytes: impl FnOnce(&[u8]) -> Result<T, FormatError>,
) -> Result<T, FileError> {
    let bytes = read(path).map_err(|source| FileError::Io {
        path: path.to_path_buf(),
        source,
    })?;
    from_bytes(&bytes).map_err(|source| FileError::Format {
        path: path.to_path_buf(),
        source,
    })
}

/// Reads a framed file; of one without a frame only its start, which tells that, however long it is.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file)
        .take(PRELUDE_LEN as u64)
        .read_to_end(&mut bytes)?;
    if bytes.len() == PRELUDE_LEN && bytes.starts_with(MAGIC_START) {
        let body_len = u64::from_le_bytes(array(&bytes[PRELUDE_LEN - 8..]));
        // one more, which tells a file that is too long
        let rest = body_len.saturating_add(CRC_LEN as u64 + 1);
        file.take(rest).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(bytes);
    out
}
