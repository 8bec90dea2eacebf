//! Reading a file whole, with an end to it.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Reads a whole file, or what a pipe brings.
///
/// # Errors
///
/// What the file system reports, a device, which may have no end, and more than `limit` bytes.
pub fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let data = file.metadata()?;
    if !data.is_file() && !data.is_dir() && !is_pipe(&data) {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "a device; expected a file",
        ));
    }
    let too_large = |found: &str| {
        let message = format!("{found} bytes; expected at most {limit}");
        io::Error::new(ErrorKind::FileTooLarge, message)
    };
    if data.len() > limit {
        return Err(too_large(&data.len().to_string()));
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_large("more"));
    }
    Ok(bytes)
}

#[cfg(unix)]
fn is_pipe(data: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let kind = data.file_type();
    kind.is_fifo() || kind.is_socket()
}

#[cfg(not(unix))]
fn is_pipe(_data: &Metadata) -> bool {
    false
}
