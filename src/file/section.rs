//! Reading plain files, and sections of them.

use std::fs::File;
use std::path::Path;

use crate::error::{Error, Result};

/// A part of an open file, from a byte to another byte or to the end of the file. All sections of a file must be read
/// from one open file: if it were opened again by name, a save could have replaced it by a newer file.
pub(crate) struct Section<'a> {
    /// The path, for error messages.
    pub(crate) path: &'a Path,
    pub(crate) file: File,
    pub(crate) base: u64,
    /// The end of the section, unless it is the end of the file.
    pub(crate) end: Option<u64>,
}

impl<'a> Section<'a> {
    /// A whole plain file.
    pub(crate) fn whole(path: &'a Path) -> Result<Section<'a>> {
        Ok(Section { path, file: open(path)?, base: 0, end: None })
    }

    /// A file that is already open.
    pub(crate) fn of(file: &File, path: &'a Path) -> Result<Section<'a>> {
        let file = file.try_clone().map_err(|source| Error::Io { path: path.into(), source })?;
        Ok(Section { path, file, base: 0, end: None })
    }

    /// The error for an invalid file.
    pub(crate) fn bad(&self, reason: impl Into<String>) -> Error {
        Error::BadFile { path: self.path.into(), reason: reason.into() }
    }

    pub(crate) fn io(&self, source: std::io::Error) -> Error {
        Error::Io { path: self.path.into(), source }
    }

    /// A range of this many bytes from `base` on, as a section. Both sections share the read position of the file, so
    /// they must be read one after the other.
    pub(crate) fn part(&self, base: u64, bytes: u64) -> Result<Section<'a>> {
        let file = self.file.try_clone().map_err(|error| self.io(error))?;
        Ok(Section { path: self.path, file, base, end: Some(base.saturating_add(bytes)) })
    }

    /// The length of the section in bytes.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let of_file = self.file_bytes()?;
        Ok(self.end.map_or(of_file, |end| end.min(of_file)).saturating_sub(self.base))
    }

    /// The length of the file in bytes.
    pub(crate) fn file_bytes(&self) -> Result<u64> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(|error| self.io(error))
    }
}

/// Opens a plain file, or a link to one, for reading. Anything else is refused before it is opened: opening a pipe
/// waits for a writer, and opening a device can have arbitrary effects.
///
/// # Errors
/// [`Error::Io`], or [`Error::BadFile`] if it is not a plain file.
pub fn open(path: &Path) -> Result<File> {
    let io = |source| Error::Io { path: path.into(), source };
    let plain = |metadata: std::fs::Metadata| {
        if metadata.is_file() {
            return Ok(());
        }
        let what = if metadata.is_dir() { "a folder" } else { "a pipe or a device" };
        Err(Error::BadFile { path: path.into(), reason: format!("it is {what}: use a plain file") })
    };
    plain(path.metadata().map_err(io)?)?;
    let file = File::open(path).map_err(io)?;
    // The name may refer to another file than before.
    plain(file.metadata().map_err(io)?)?;
    Ok(file)
}
