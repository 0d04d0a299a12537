//! Resolves a name, through links (also dangling ones), to the file to replace or create.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::folder_of;

/// As many links as the systems follow.
const MOST_LINKS: usize = 40;

/// What a name stands for in the end. Paths are absolute.
pub(super) enum Target {
    /// A plain file, or the name of a new one.
    Plain { path: PathBuf, old: Option<Metadata> },
    /// A pipe or a device.
    Special(PathBuf),
    /// An open file of a process, as `/dev/fd` lists them.
    Descriptor(PathBuf),
}

impl Target {
    pub(super) fn of(path: &Path) -> io::Result<Target> {
        // The system refuses loops, and links that it does not follow for this user. It is the one to judge.
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
                        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no name of a file"));
                    }
                    return Ok(Target::Plain { path, old: None });
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("too many links lead from one to the next"))
    }
}

/// Whether a path is an entry of a list of open files. What such a link says cannot be followed by name.
fn in_descriptors(path: &Path) -> bool {
    let Some(folder) = listing(path) else { return false };
    folder == Path::new("/dev/fd") || (folder.starts_with("/proc") && folder.ends_with("fd"))
}

/// The number of this process's descriptor that a path stands for.
pub(super) fn own_descriptor(path: &Path) -> Option<u32> {
    let folder = listing(path)?;
    let own = ["/proc/self/fd", "/dev/fd"].iter().any(|own| fs::canonicalize(own).is_ok_and(|own| own == folder));
    path.file_name()?.to_str()?.parse().ok().filter(|_| own)
}

/// The folder of a path by its own name. Only systems with `/dev/fd` are of interest.
fn listing(path: &Path) -> Option<PathBuf> {
    if cfg!(unix) { folder_of(path).canonicalize().ok() } else { None }
}

/// Opens a descriptor for writing: stdout and stderr go on where they are, others are opened anew. What their file
/// holds stays, for it may have been opened to append to.
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
