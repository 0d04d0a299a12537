//! How a command ends.

use std::fmt;
use std::io;
use std::path::Path;

use super::text;

/// The result of all functions of the command.
pub type Result<T> = std::result::Result<T, Failure>;

/// How a command without errors ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Fine,
    /// A check failed; the command has reported which one.
    CheckFailed,
}

/// Why a command stopped.
pub enum Failure {
    /// An error of the library.
    Koel(koel::Error),
    /// An error in the user's input or in a file: a sentence that says what to do.
    Input(String),
    /// A device returned a wrong answer, and the command needed a right one to continue.
    Wrong(String),
    /// The reader of the output has closed the pipe.
    ClosedPipe,
}

impl Failure {
    /// An I/O error on a file.
    pub fn io(path: &Path, error: &io::Error) -> Failure {
        Failure::Input(format!("{}: {error}", text::path(path)))
    }

    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::ClosedPipe => 0,
            Failure::Wrong(_) => 1,
            Failure::Koel(_) | Failure::Input(_) => 2,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Koel(koel::Error::DuplicateKey { key }) => f.write_str(&given_twice(key)),
            Failure::Koel(error @ koel::Error::NoDevice { .. }) => write!(f, "{error} (`koel devices` lists them)"),
            Failure::Koel(koel::Error::Spill { folder, source }) => {
                let advice =
                    if source.kind() == io::ErrorKind::NotFound { "create it" } else { "free some space there" };
                let folder = text::path(folder);
                write!(f, "temporary files in {folder}: {source}: {advice}, or set TMPDIR to another folder")
            }
            Failure::Koel(error) => error.fmt(f),
            Failure::Input(message) | Failure::Wrong(message) => f.write_str(message),
            Failure::ClosedPipe => f.write_str("the output was closed"),
        }
    }
}

/// Says that a key has two values where only one is allowed.
pub fn given_twice(key: impl fmt::Display) -> String {
    format!(
        "key {key} occurs more than once (it is the smallest such key): remove the duplicates, or use --duplicates \
         first or --duplicates last"
    )
}

impl From<koel::Error> for Failure {
    fn from(error: koel::Error) -> Self {
        match error {
            // A table may be written to a pipe, whose reader may close it.
            koel::Error::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            error => Failure::Koel(error),
        }
    }
}
