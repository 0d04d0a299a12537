//! Files that appear when they are whole.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::failure::{Failure, Result};

/// A file that gets its name at the end, and goes if there is none. What is no plain file is written through.
pub struct Part {
    /// While it is being written.
    part: PathBuf,
    path: PathBuf,
    finished: bool,
}

impl Part {
    /// Creates it beside its place.
    pub fn create(path: &Path) -> Result<(Part, File)> {
        // A link, a pipe or a device is written through; only a plain file can be replaced in one step.
        let in_place = path.symlink_metadata().is_ok_and(|there| !there.is_file());
        let mut part = path.as_os_str().to_owned();
        if !in_place {
            part.push(format!(".{}.part", std::process::id()));
        }
        let part = Part { part: part.into(), path: path.into(), finished: in_place };
        let file = File::create(&part.part).map_err(|error| Failure::io(path, &error))?;
        Ok((part, file))
    }

    /// Its name in the end.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it that name.
    pub fn finish(mut self) -> Result<()> {
        if !self.finished {
            fs::rename(&self.part, &self.path).map_err(|error| Failure::io(&self.path, &error))?;
            self.finished = true;
        }
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.finished {
            // The error that led here says more than a failure to clean up would.
            let _ = fs::remove_file(&self.part);
        }
    }
}
