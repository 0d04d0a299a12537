//! Files: how all tables and rows are written, and the first bytes of koel files.
//!
//! A file appears under its name when it is complete:
//!
//! ```text
//! create    target  resolve the name, through links, to a plain file or to a name that does not exist yet
//!           part    a file in the target's folder, without a name (Linux) or with a random one
//! ..        the caller writes the part
//! finish    copy mode and owner of the replaced file; fsync
//!           rename the part to the target, in one step; fsync of the folder
//! drop      remove the part; `remove_parts_then` does so for commands that end by a signal
//! ```
//!
//! Only plain files are read (`section.rs`). Their first bytes identify the kind (`kind.rs`), and the structure of that
//! kind reads the rest. This module also locates the table in files of multivalue tables (`lists.rs`) and of sharded
//! tables (`shards.rs`).
//!
//! Pipes, devices and open descriptors (`/dev/stdout`) cannot be replaced, and are written directly.
//!
//! Files are not written in place. The target is a new file afterwards: other hard links, and processes that have
//! opened or mapped the old file, keep its contents. Access lists and extended attributes are not copied.

mod kind;
mod lists;
mod part;
mod section;
mod shards;
mod target;
#[cfg(test)]
mod tests;

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use part::Part;
use target::Target;

pub use part::remove_parts_then;
pub use section::open;

pub(crate) use kind::{Container, FileKind, Magic, table_in};
pub(crate) use lists::{ALIGNED, Lists, ListsHeader, SUM_BYTES};
pub(crate) use section::Section;
pub(crate) use shards::{MOST_SHARDS, Shards, ShardsHeader, gap_after, sum_of};

/// Writes a file that appears under its name only when it is complete.
pub(crate) fn write_whole<R>(path: &Path, write: &mut dyn FnMut(&mut File) -> Result<R>) -> Result<R> {
    let io = |source| Error::Io { path: path.into(), source };
    let (whole, mut file) = WholeFile::create(path).map_err(io)?;
    let result = write(&mut file)?;
    drop(file);
    whole.finish().map_err(io)?;
    Ok(result)
}

/// A file that gets its name when it is finished, and is removed if it is dropped before.
#[derive(Debug)]
pub struct WholeFile(Option<Replacing>);

/// The replacement of a target. Targets that are written directly have none.
#[derive(Debug)]
struct Replacing {
    part: Part,
    target: PathBuf,
    /// The existing file.
    old: Option<Metadata>,
}

impl WholeFile {
    /// Opens a file that will replace the file with this path.
    ///
    /// # Errors
    /// Errors of the system for the target, or for its folder, in which a file must be created. A file that may not be
    /// written is not replaced either.
    pub fn create(path: &Path) -> io::Result<(WholeFile, File)> {
        WholeFile::create_as(path, Part::create)
    }

    fn create_as(path: &Path, part: fn(&Path, u32) -> io::Result<Part>) -> io::Result<(WholeFile, File)> {
        let (target, old) = match Target::of(path)? {
            Target::Plain { path, old } => (path, old),
            Target::Descriptor(path) => return Ok((WholeFile(None), target::open_descriptor(&path)?)),
            Target::Special(path) => return Ok((WholeFile(None), File::options().write(true).open(path)?)),
        };
        if old.is_some() {
            let writable = File::options().write(true).open(&target);
            writable.map_err(|error| context("a file that cannot be written is not replaced", &error))?;
        }
        let folder = folder_of(&target);
        if !folder.is_dir() {
            let advice = format!("there is no folder {}: create it first", folder.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, advice));
        }
        // Other users must not be able to read a part of a file that they may not read.
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        let part = part(folder, mode)
            .map_err(|error| context("a temporary file to replace it cannot be created in its folder", &error))?;
        let file = part.file().try_clone()?;
        Ok((WholeFile(Some(Replacing { part, target, old })), file))
    }

    /// Gives the file its name, after all its data is on the disk.
    ///
    /// # Errors
    /// Errors of the system. The old file is then unchanged, unless only the folder could not be synchronized.
    pub fn finish(self) -> io::Result<()> {
        let Some(Replacing { part, target, old }) = self.0 else { return Ok(()) };
        // Writing may have taken long: use the metadata of the file that is there now.
        let old = target.metadata().ok().filter(Metadata::is_file).or(old);
        if let Some(old) = &old {
            keep_mode_and_owner(part.file(), old);
        }
        part.file().sync_all()?;
        part.appear(&target, old.is_some()).map_err(|error| context("it cannot be given its name", &error))?;
        sync_folder(folder_of(&target))
    }
}

/// Returns the path at which a file with this name is or would be created, after following all links, with the
/// canonical name of its folder. `None` if the file cannot be created, or is not a plain file.
pub fn lands_at(path: &Path) -> Option<PathBuf> {
    match Target::of(path).ok()? {
        Target::Plain { path, .. } => Some(folder_of(&path).canonicalize().ok()?.join(path.file_name()?)),
        Target::Special(_) | Target::Descriptor(_) => None,
    }
}

/// Whether a path names this process's stdout, as `/dev/stdout` does.
pub fn is_stdout(path: &Path) -> bool {
    matches!(Target::of(path), Ok(Target::Descriptor(path)) if target::own_descriptor(&path) == Some(1))
}

/// The folder of a path. Targets are absolute, so they have one.
fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn context(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{error} ({what})"))
}

/// Copies mode and owner as far as the system allows: only root can change owners, and some file systems have no modes.
#[cfg(unix)]
fn keep_mode_and_owner(file: &File, old: &Metadata) {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let Ok(new) = file.metadata() else { return };
    let mut mode = old.mode() & 0o777;
    if new.gid() != old.gid() && fchown(file, None, Some(old.gid())).is_err() {
        // Another group gets only the permissions of others.
        mode &= !0o070 | ((mode & 0o007) << 3);
    }
    let _ = file.set_permissions(std::fs::Permissions::from_mode(mode));
    if new.uid() != old.uid() {
        let _ = fchown(file, Some(old.uid()), None);
    }
}

#[cfg(not(unix))]
fn keep_mode_and_owner(_: &File, _: &Metadata) {}

/// Makes a file's new name durable.
#[cfg(all(unix, not(miri)))]
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // A folder may be writable but not readable, and some file systems cannot synchronize folders.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        done => done.map_err(|error| context("it has its name, but the folder was not synchronized", &error)),
    }
}

/// Miri cannot synchronize a folder.
#[cfg(any(not(unix), miri))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
