//! Bytes at an aligned address, as the runtime wants its blobs.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::{Deref, DerefMut};
use std::path::Path;

use runtime::format::{MAGIC, PRELUDE_LEN};

/// Bytes that tell what a file is.
const HEAD: u64 = 4_096;

/// A byte buffer that starts at an address divisible by 16.
#[derive(Clone, Default)]
pub struct AlignedBytes {
    words: Vec<u128>,
    len: usize,
}

impl AlignedBytes {
    /// Creates a buffer of `len` zeros.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(16)],
            len,
        }
    }

    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// What the file system reports.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(Self::from(std::fs::read(path)?.as_slice()))
    }

    /// Reads a blob, without what may follow it; of a file that is none only its start, which tells
    /// that, however long it is.
    ///
    /// # Errors
    ///
    /// What the file system reports.
    pub fn read_blob(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(HEAD).read_to_end(&mut bytes)?;
        if bytes.starts_with(&MAGIC)
            && let Some(&total_len) = bytes
                .get(PRELUDE_LEN - 4..)
                .and_then(|end| end.first_chunk())
        {
            let total_len = u32::from_le_bytes(total_len) as usize;
            let rest = total_len.saturating_sub(bytes.len());
            file.take(rest as u64).read_to_end(&mut bytes)?;
            bytes.truncate(total_len.max(PRELUDE_LEN));
        }
        Ok(Self::from(bytes.as_slice()))
    }

    /// Drops the bytes from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl From<&[u8]> for AlignedBytes {
    fn from(bytes: &[u8]) -> Self {
        let mut aligned = Self::zeroed(bytes.len());
        aligned.copy_from_slice(bytes);
        aligned
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }
}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBytes({} bytes)", self.len)
    }
}

impl PartialEq for AlignedBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for AlignedBytes {}
