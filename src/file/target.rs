//! Resolves a name to the file to replace or create, following links, including dangling ones.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::folder_of;

/// The maximum number of links that are followed, as in common systems.
const MOST_LINKS: usize = 40;

/// The file to which a name resolves. Paths are absolute.
pub(super) enum Target {
    /// A plain file, or the name of a new one.
    Plain { path: PathBuf, old: Option<Metadata> },
    /// A pipe or a device.
    Special(PathBuf),
    /// An open file of a process, from a folder such as `/dev/fd`.
    Descriptor(PathBuf),
}

impl Target {
    pub(super) fn of(path: &Path) -> io::Result<Target> {
        // The system refuses loops, and links that this user may not follow. Its decision applies here too.
        if let Err(error) = path.metadata()
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut path = std::path::absolute(path)?;
        for _ in 0..=MOST_LINKS {
            if in_descriptors(&path) {
                return Ok(Target::Descriptor(path));
            }
            match path.symlink_metadata() {
                Ok(there) if there.is_symlink() => path = folder_of(&path).join(fs::read_link(&path)?),
                Ok(there) if there.is_file() => return Ok(Target::Plain { path, old: Some(there) }),
                Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
                Ok(_) => return Ok(Target::Special(path)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let slash = path.as_os_str().as_encoded_bytes().last().is_some_and(|&byte| byte == b'/');
                    if slash || path.file_name().is_none() {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidInput,
                            "this is the name of a folder: add that of a file",
                        ));
                    }
                    return Ok(Target::Plain { path, old: None });
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("too many links lead from one to the next"))
    }
}

/// Whether a path is an entry of a folder of open files. Such links cannot be followed by name.
fn in_descriptors(path: &Path) -> bool {
    let Some(folder) = listing(path) else { return false };
    folder == Path::new("/dev/fd") || (folder.starts_with("/proc") && folder.ends_with("fd"))
}

/// The number of this process's descriptor to which a path refers.
pub(super) fn own_descriptor(path: &Path) -> Option<u32> {
    let folder = listing(path)?;
    let own = ["/proc/self/fd", "/dev/fd"].iter().any(|own| fs::canonicalize(own).is_ok_and(|own| own == folder));
    path.file_name()?.to_str()?.parse().ok().filter(|_| own)
}

/// The canonical folder of a path. Only systems with `/dev/fd` need it.
fn listing(path: &Path) -> Option<PathBuf> {
    if cfg!(unix) { folder_of(path).canonicalize().ok() } else { None }
}

/// Opens a descriptor for writing. Stdout and stderr continue at their current position, others are opened again.
/// Existing contents are kept, because the file may have been opened for appending.
pub(super) fn open_descriptor(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        match own_descriptor(path) {
            Some(1) => return Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
            Some(2) => return Ok(io::stderr().as_fd().try_clone_to_owned()?.into()),
            _ => {}
        }
    }
    File::options().append(true).open(path)
}
