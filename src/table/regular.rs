//! Opening files that must be plain ones.

use std::fs::File;
use std::path::Path;

use crate::error::{Error, Result};

/// Opens a plain file, or a link to one, to be read. Anything else is refused before it is opened: opening a pipe waits
/// for a writer, and opening a device can do anything.
///
/// # Errors
/// [`Error::Io`], or [`Error::BadFile`] for what is no plain file.
pub(crate) fn open(path: &Path) -> Result<File> {
    let io = |source| Error::Io { path: path.into(), source };
    let plain = |metadata: std::fs::Metadata| {
        if metadata.is_file() {
            return Ok(());
        }
        let what = if metadata.is_dir() { "a folder" } else { "a pipe or a device" };
        Err(Error::BadFile { path: path.into(), reason: format!("it is {what}: give a plain file") })
    };
    plain(path.metadata().map_err(io)?)?;
    let file = File::open(path).map_err(io)?;
    // The name may have come to mean something else in between.
    plain(file.metadata().map_err(io)?)?;
    Ok(file)
}
