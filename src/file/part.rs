//! The file that is written before it gets its name.
//!
//! On Linux it has no name at all (`O_TMPFILE`), so nothing remains however the process ends. On other systems, and on
//! file systems without such files, it is named `.koel-RANDOM.part`, and is always created as a new file and never
//! through a link. The process locks it. A part that can be locked therefore belongs to no process, and the next part
//! in the same folder removes it. The kernel manages locks: they end with the process, work across containers, and do
//! not depend on process numbers, which are reused.
//!
//! On a file system that hides locks of other machines (NFS mounted with `local_lock`), a part that another machine is
//! writing may be removed. The rename of its writer then fails, and the old file remains.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempPath;

use super::folder_of;

const PREFIX: &str = ".koel-";
const SUFFIX: &str = ".part";
const RANDOM_LETTERS: usize = 12;

/// The named parts of this process. Names only change while this lock is held.
static NAMED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn named_parts() -> MutexGuard<'static, Vec<PathBuf>> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the parts of all files that this process is writing, and then calls `end`. No file gets its name meanwhile.
pub fn remove_parts_then(end: impl FnOnce()) {
    let parts = named_parts();
    parts.iter().for_each(|part| drop(fs::remove_file(part)));
    end();
}

#[derive(Debug)]
pub(super) struct Part {
    file: File,
    name: Option<TempPath>,
}

impl Part {
    /// A part in a folder, with this mode on systems that have modes.
    pub(super) fn create(folder: &Path, mode: u32) -> io::Result<Part> {
        remove_orphans(folder);
        match Part::unnamed(folder, mode) {
            Some(part) => Ok(part),
            None => Part::named(folder, mode),
        }
    }

    /// `None` if the file system has no unnamed files, or could not name one later.
    #[cfg(target_os = "linux")]
    pub(super) fn unnamed(folder: &Path, mode: u32) -> Option<Part> {
        use std::os::unix::fs::OpenOptionsExt;
        if crate::tuning::tuning().named_files() {
            return None;
        }
        let flags = rustix::fs::OFlags::TMPFILE.bits() as i32;
        let file = File::options().write(true).mode(mode).custom_flags(flags).open(folder).ok()?;
        open_link(&file).symlink_metadata().ok()?;
        // It is locked before it has a name, so that no other process treats it as an orphan.
        let _ = file.try_lock();
        Some(Part { file, name: None })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn unnamed(_: &Path, _: u32) -> Option<Part> {
        None
    }

    pub(super) fn named(folder: &Path, mode: u32) -> io::Result<Part> {
        let mut parts = named_parts();
        let made = names().make_in(folder, |path| {
            let file = create_new(path, mode)?;
            match file.try_lock() {
                // Another process locked it as an orphan before this one did, and removes its name.
                Err(TryLockError::WouldBlock) => Err(io::ErrorKind::AlreadyExists.into()),
                Ok(()) if !is_at(&file, path) => Err(io::ErrorKind::AlreadyExists.into()),
                // If there are no locks, no process treats it as an orphan.
                Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
            }
        })?;
        let (file, name) = made.into_parts();
        parts.push(name.to_path_buf());
        Ok(Part { file, name: Some(name) })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Renames the part to the target, which may exist.
    pub(super) fn appear(mut self, target: &Path, replaces: bool) -> io::Result<()> {
        let mut parts = named_parts();
        let name = match self.name.take() {
            Some(name) => name,
            None if replaces => self.link_in_folder(target)?,
            None => match link(&self.file, target) {
                // The target was created in the meantime.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.link_in_folder(target)?,
                done => return done,
            },
        };
        let part = name.to_path_buf();
        let renamed = name.persist(target).map_err(|failed| failed.error);
        parts.retain(|other| *other != part);
        renamed
    }

    /// Gives an unnamed file a name: only named files can replace others.
    fn link_in_folder(&self, target: &Path) -> io::Result<TempPath> {
        Ok(names().make_in(folder_of(target), |path| link(&self.file, path))?.into_temp_path())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            let mut parts = named_parts();
            parts.retain(|other| *other != *name);
            // The original error is more informative than a failure to clean up.
            drop(name);
        }
    }
}

fn names() -> tempfile::Builder<'static, 'static> {
    let mut names = tempfile::Builder::new();
    names.prefix(PREFIX).suffix(SUFFIX).rand_bytes(RANDOM_LETTERS);
    names
}

fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options.write(true).create_new(true).open(path)
}

/// The link under which the system lists an open file.
#[cfg(target_os = "linux")]
fn open_link(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Gives an unnamed file a new name.
#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    Ok(linkat(CWD, open_link(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Removes the parts in a folder that no process has locked. Parts that this process may not remove are kept.
fn remove_orphans(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if is_part(&entry.file_name()) && entry.file_type().is_ok_and(|there| there.is_file()) {
            remove_orphan(&entry.path());
        }
    }
}

fn remove_orphan(path: &Path) {
    // It is opened for reading too, because opening a pipe with the same name only for writing would block.
    let Ok(file) = File::options().read(true).write(true).open(path) else { return };
    if file.try_lock().is_ok() && is_at(&file, path) {
        let _ = fs::remove_file(path);
    }
}

fn is_part(name: &OsStr) -> bool {
    let random = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
    random.is_some_and(|random| random.len() == RANDOM_LETTERS && random.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Whether an open file still has this name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}
