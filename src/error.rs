//! The errors of all operations. Each message says how to resolve the error.

use std::fmt::Display;
use std::path::PathBuf;

use crate::scheme::{Crowd, Violation};

/// The result of koel's fallible operations.
pub type Result<T> = std::result::Result<T, Error>;

/// An error. After an error, a table has the contents that it had before the operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid parameter.
    #[error("{what} {given} is not valid: {advice}")]
    InvalidParameter {
        /// The parameter.
        what: &'static str,
        /// The invalid value.
        given: String,
        /// Valid values, or how to resolve the error.
        advice: &'static str,
    },
    /// Two slices or buffers that belong together differ in length.
    #[error("{what} has length {found} where {expected} is needed")]
    LengthMismatch {
        /// The argument.
        what: &'static str,
        /// Its length.
        found: u64,
        /// The required length.
        expected: u64,
    },
    /// A slice that is too short for the results. Nothing was written to it.
    #[error(
        "{what} has capacity for {given} results, but there are {needed}: pass one of that length, or fetch the \
         results in chunks"
    )]
    TooShort {
        /// The argument.
        what: &'static str,
        /// The length of the argument.
        given: u64,
        /// The minimum length.
        needed: u64,
    },
    /// A queried key that must be in the table, but is not.
    #[error("key {key} (position {position}) is not in the table: query only keys that the table was built from")]
    UnknownKey {
        /// The first such key.
        key: u64,
        /// Its position in the input.
        position: u64,
    },
    /// The input contains a key more than once, but each key must be unique.
    #[error(
        "key {key} occurs more than once (it is the smallest such key): remove the duplicates, or build with \
         KeepFirst or KeepLast"
    )]
    DuplicateKey {
        /// The least key that occurs more than once; it is the same on every device.
        key: u64,
    },
    /// No attempt placed every pair.
    #[error(
        "{pairs} pairs do not fit in {slots} slots (load {:.3}); attempts made: {attempts}, pairs left over in the \
         last: {unplaced}. {}",
        *pairs as f64 / *slots as f64,
        if pairs > slots {
            "Use more slots or a larger capacity"
        } else if *by_load {
            "Lower the load, use more slots, a scheme or hash functions for higher loads, or another seed"
        } else {
            "This load is feasible: try another seed (a random one if the keys are untrusted), or allow more attempts"
        }
    )]
    TooFull {
        /// The number of pairs to place.
        pairs: u64,
        /// The number of slots.
        slots: u64,
        /// The number of attempts, each with other constants.
        attempts: u32,
        /// The number of pairs without a slot after the last attempt (classic: after the maximum number of moves).
        unplaced: u64,
        /// Whether the load may be the reason: it exceeds what the hash functions support, or their limit is unknown.
        by_load: bool,
    },
    /// No attempt placed every pair, because too many keys share the same places.
    #[error(
        "{} keys are {}, but at most {} such keys fit; attempts made: {attempts}. Use another capacity, sequence, \
         extent or scheme, or more attempts; another seed helps only if hashes collide, not if the keys are congruent",
        crowd.keys, crowd.which, crowd.most
    )]
    Crowded {
        /// The number of attempts, each with other constants.
        attempts: u32,
        /// The keys that share places, found in the last attempt.
        crowd: Crowd,
    },
    /// A key or a value that does not fit in the slots of the table.
    #[error("{what} {given} does not fit in the {bits} bits that these tables have for it: {advice}")]
    TooWide {
        /// `key` or `value`.
        what: &'static str,
        /// The greatest such key or value.
        given: u64,
        /// The number of bits available.
        bits: u32,
        /// What to do instead.
        advice: &'static str,
    },
    /// A sum of integers that does not fit in 64 bits.
    #[error(
        "the sum of the values of key {key} does not fit in 64 bits: group fewer rows at a time, or give the values \
        as f64, \
         whose sums round"
    )]
    SumTooLarge {
        /// The first key with such a sum, in the order of groups.
        key: u64,
    },
    /// A size that exceeds what the format or the device supports.
    #[error("{requested} is too many {what}; the most is {most}")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// The requested number.
        requested: u64,
        /// The maximum.
        most: u64,
    },
    /// A device is out of memory.
    #[error("{device} has no memory for {bytes} more bytes: free tables, use fewer pairs, or use another device")]
    OutOfMemory {
        /// The device.
        device: String,
        /// The size of the failed allocation, in bytes.
        bytes: u64,
    },
    /// A device that does not exist.
    #[error("no device for {wanted}: {reason}")]
    NoDevice {
        /// The requested device.
        wanted: String,
        /// The reason, and the existing devices.
        reason: String,
    },
    /// A device that lacks a feature that koel requires.
    #[error("{device} cannot be used: {missing}")]
    Unsupported {
        /// The device.
        device: String,
        /// The missing feature, and how this was detected.
        missing: String,
    },
    /// A buffer that belongs to another device or context.
    #[error("this buffer belongs to another device: move it with `to_backend`, or upload it where the table is")]
    WrongDevice,
    /// Matched rows of one column index that were passed to another index.
    #[error(
        "these matched rows belong to another index: use those of the index that is queried (`ColumnIndex::matched`)"
    )]
    WrongIndex,
    /// The system has no source of random numbers.
    #[error("the system did not provide a random seed ({reason}): specify a seed")]
    NoRandomness {
        /// The system's message.
        reason: String,
    },
    /// Two buffers of one call that share memory: the same memory was passed twice, or one is a part of the other.
    #[error("two of these buffers share memory: pass each memory once (`interop`), or copy it first")]
    Aliased,
    /// The device's driver reported an error.
    #[error("{device}, while {doing}: {message}")]
    Device {
        /// The device.
        device: String,
        /// The operation.
        doing: String,
        /// The driver's message.
        message: String,
    },
    /// The device's compiler rejected a program.
    #[error("{device} cannot compile {program}; this is a bug in koel or in the driver, please report it:\n{log}")]
    Compile {
        /// The device.
        device: String,
        /// The program.
        program: String,
        /// The build log.
        log: String,
    },
    /// Reading or writing a file failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A temporary file cannot be written or read.
    #[error("temporary files in {}: {source}: free some space there, or name another folder", folder.display())]
    Spill {
        /// Their folder.
        folder: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file that is not a table, or is damaged.
    #[error("{} is not a usable table: {reason}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        reason: String,
    },
    /// An image that violates an invariant of its scheme.
    #[error("the table is damaged: {0}")]
    Damaged(#[from] Violation),
}

impl Error {
    pub(crate) fn parameter(what: &'static str, given: impl Display, advice: &'static str) -> Error {
        Error::InvalidParameter { what, given: given.to_string(), advice }
    }

    /// Returns an error if there are more rows than row numbers, which are below `u32::MAX`.
    pub(crate) fn check_rows(what: &'static str, rows: usize) -> Result<()> {
        let most = u32::MAX.into();
        if rows as u64 <= most {
            return Ok(());
        }
        Err(Error::TooLarge { what, requested: rows as u64, most })
    }

    /// Returns an error unless the lengths are equal.
    pub(crate) fn check_length(what: &'static str, found: usize, expected: usize) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(Error::LengthMismatch { what, found: found as u64, expected: expected as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of rows is checked before a buffer is allocated.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn rows_without_a_number_are_refused() {
        let most = u32::MAX as usize;
        assert!(Error::check_rows("rows", 0).is_ok() && Error::check_rows("rows", most).is_ok());
        let requested = u64::from(u32::MAX) + 1;
        assert!(
            matches!(Error::check_rows("rows", most + 1), Err(Error::TooLarge { requested: a, .. }) if a == requested)
        );
    }
}
