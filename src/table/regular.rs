//! Opening files that must be plain ones.

use std::fs::File;
use std::path::Path;

use crate::error::{Error, Result};

/// What begins at a byte of an open file and goes on to its end. Who reads several parts reads them of one open file: by its
/// name a second one might be what a save has put in its place.
pub(crate) struct Part<'a> {
    /// For messages.
    pub(crate) path: &'a Path,
    pub(crate) file: File,
    pub(crate) base: u64,
}

impl<'a> Part<'a> {
    /// All of a plain file.
    pub(crate) fn whole(path: &'a Path) -> Result<Part<'a>> {
        Ok(Part { path, file: open(path)?, base: 0 })
    }
}

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
