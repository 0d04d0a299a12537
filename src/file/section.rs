//! Reading plain files, and sections of them.

use std::fs::File;
use std::path::Path;

use crate::error::{Error, Result};

/// What begins at a byte of an open file and goes on to its end, or to another byte. Who reads several sections reads
/// them of one open file: by its name a second one might be what a save has put in its place.
pub(crate) struct Section<'a> {
    /// For messages.
    pub(crate) path: &'a Path,
    pub(crate) file: File,
    pub(crate) base: u64,
    /// Where it ends, if that is before the file does.
    pub(crate) end: Option<u64>,
}

impl<'a> Section<'a> {
    /// All of a plain file.
    pub(crate) fn whole(path: &'a Path) -> Result<Section<'a>> {
        Ok(Section { path, file: open(path)?, base: 0, end: None })
    }

    /// That the file does not hold what it should.
    pub(crate) fn bad(&self, reason: impl Into<String>) -> Error {
        Error::BadFile { path: self.path.into(), reason: reason.into() }
    }

    pub(crate) fn io(&self, source: std::io::Error) -> Error {
        Error::Io { path: self.path.into(), source }
    }

    /// This many of its bytes as a section of their own, from `base` on. The two share the place in the file where it
    /// is read next, so they are read one after the other.
    pub(crate) fn part(&self, base: u64, bytes: u64) -> Result<Section<'a>> {
        let file = self.file.try_clone().map_err(|error| self.io(error))?;
        Ok(Section { path: self.path, file, base, end: Some(base.saturating_add(bytes)) })
    }

    /// Bytes of the section.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let of_file = self.file_bytes()?;
        Ok(self.end.map_or(of_file, |end| end.min(of_file)).saturating_sub(self.base))
    }

    /// Bytes of the file, from its beginning.
    pub(crate) fn file_bytes(&self) -> Result<u64> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(|error| self.io(error))
    }
}

/// Opens a plain file, or a link to one, to be read. Anything else is refused before it is opened: opening a pipe waits
/// for a writer, and opening a device can do anything.
///
/// # Errors
/// [`Error::Io`], or [`Error::BadFile`] for what is no plain file.
fn open(path: &Path) -> Result<File> {
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
