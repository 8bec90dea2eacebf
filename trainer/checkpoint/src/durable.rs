//! Writing a file so that a crash leaves the old one or the new one, never a mixture.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes `bytes` to a temporary name beside `path`, flushes them to disk and renames.
///
/// A folder that is missing is created.
///
/// # Errors
///
/// Whatever the file system reports; `path` is then unchanged.
pub fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(folder)?;
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    // The process id keeps two writers of one file apart.
    let mut temporary_name = name.to_os_string();
    temporary_name.push(format!(".{}.tmp", std::process::id()));
    let temporary = folder.join(temporary_name);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| std::fs::rename(&temporary, path));
    if renamed.is_err() {
        // The first error is the one worth reporting; a leftover temporary file is harmless.
        let _ = std::fs::remove_file(&temporary);
        return renamed;
    }
    // The rename itself is durable once the folder is flushed; platforms that cannot open a folder
    // have no such step.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}
