//! Every way an operation can fail, each with what to do about it.

use std::fmt::Display;
use std::path::PathBuf;

use crate::scheme::{Crowd, Violation};

/// The result of every fallible operation here.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. After any error the table in hand holds what it held before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter out of its range.
    #[error("{what} {given} is not possible: {advice}")]
    InvalidParameter {
        /// Which parameter.
        what: &'static str,
        /// The value given.
        given: String,
        /// What to give instead.
        advice: &'static str,
    },
    /// Two slices or buffers that belong together differ in length.
    #[error("{what} has length {found} where {expected} is needed")]
    LengthMismatch {
        /// Which argument.
        what: &'static str,
        /// Its length.
        found: u64,
        /// The length it must have.
        expected: u64,
    },
    /// A slice for results that is shorter than they are. Nothing was written to it.
    #[error(
        "{what} has room for {given} results and there are {needed}: give one that long, or take the results in parts"
    )]
    TooShort {
        /// Which argument.
        what: &'static str,
        /// Its length.
        given: u64,
        /// The length it must have at least.
        needed: u64,
    },
    /// A key that had to be known and is not.
    #[error("key {key}, at position {position}, is none of the table's: ask only for keys that it was built from")]
    UnknownKey {
        /// The first such key.
        key: u64,
        /// Where it stands in the input.
        position: u64,
    },
    /// The input holds a key more than once and the table was to hold each once.
    #[error(
        "key {key} is given more than once (it is the smallest such key): remove the copies, or build with KeepFirst or \
         KeepLast"
    )]
    DuplicateKey {
        /// The smallest key that occurs more than once, on every device.
        key: u64,
    },
    /// No attempt placed every pair.
    #[error(
        "{pairs} pairs do not fit {slots} slots (load {:.3}); attempts made: {attempts}, pairs left over in the last: \
         {unplaced}. {}",
        *pairs as f64 / *slots as f64,
        if *by_load {
            "Lower the load, give more slots, take a scheme (or hash functions) for higher loads, or another seed"
        } else {
            "Other constants can do this load: take another seed (one at random, if strangers choose the keys), or allow \
             more attempts"
        }
    )]
    TooFull {
        /// Pairs to be placed.
        pairs: u64,
        /// Slots there were.
        slots: u64,
        /// Attempts made, each with its own constants.
        attempts: u32,
        /// Pairs without a slot at the end of the last attempt (classic: chains that were cut).
        unplaced: u64,
        /// Whether the load may be the reason: it is above what the hash functions can do, or that is not known.
        by_load: bool,
    },
    /// No attempt placed every pair, because too many keys share their places.
    #[error(
        "{} keys are {}, and {} of them at most have a place; attempts made: {attempts}. Give another \
         capacity or more attempts, or another sequence, extent or scheme; another seed helps where hashes meet, and \
         not where the keys themselves are congruent",
        crowd.keys, crowd.which, crowd.most
    )]
    Crowded {
        /// Attempts made, each with its own constants.
        attempts: u32,
        /// The keys, as the last attempt had them.
        crowd: Crowd,
    },
    /// A key or a value that the table's slots have no room for.
    #[error("{what} {given} does not fit the {bits} bits that these tables have for it: {advice}")]
    TooWide {
        /// `key` or `value`.
        what: &'static str,
        /// The greatest one.
        given: u64,
        /// Bits there are.
        bits: u32,
        /// What to do instead.
        advice: &'static str,
    },
    /// An integer sum that 64 bits do not hold.
    #[error(
        "the sum of the values of key {key} does not fit 64 bits: group fewer rows at a time, or give the values as f64, \
         whose sums round"
    )]
    SumTooLarge {
        /// The first such key, in the order of the groups.
        key: u64,
    },
    /// A size beyond what the format or the device can hold.
    #[error("{asked} is too many {what}; the most is {most}")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many were asked for.
        asked: u64,
        /// How many there can be.
        most: u64,
    },
    /// A device had no room.
    #[error("{device} has no room for {bytes} bytes more: free tables, take fewer pairs, or use another device")]
    OutOfMemory {
        /// Which.
        device: String,
        /// The size of the allocation that failed.
        bytes: u64,
    },
    /// No such device.
    #[error("no device for {wanted}: {reason}")]
    NoDevice {
        /// What was asked for.
        wanted: String,
        /// Why there is none, and what there is.
        reason: String,
    },
    /// A device that lacks something koel needs.
    #[error("{device} cannot be used: {missing}")]
    Unsupported {
        /// Which.
        device: String,
        /// What it lacks, and how that was found out.
        missing: String,
    },
    /// A buffer of another device, or of another context, was passed.
    #[error("this buffer belongs to another device: move it with `to_backend`, or upload it where the table is")]
    WrongDevice,
    /// The matched rows of one index of a column were passed to another.
    #[error(
        "these matched rows belong to another index: take them from the index that is asked (`ColumnIndex::matched`)"
    )]
    WrongIndex,
    /// The system has no randomness to give.
    #[error("the system gives no random seed ({reason}): give a seed instead")]
    NoRandomness {
        /// The system's words.
        reason: String,
    },
    /// Two buffers of one call are the same memory, which was handed in twice, or is a part of the other's.
    #[error("two of these buffers are the same memory: hand each memory in once (`interop`), or copy it first")]
    Aliased,
    /// The device's driver reported an error.
    #[error("{device}, while {doing}: {message}")]
    Device {
        /// Which.
        device: String,
        /// During what.
        doing: String,
        /// The driver's words.
        message: String,
    },
    /// The device's compiler refused a program.
    #[error("{device} does not compile {program}; this is a fault of koel or of the driver, please report it:\n{log}")]
    Compile {
        /// Which device.
        device: String,
        /// Which program.
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
        /// The folder they are in.
        folder: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file that is no table, or a damaged one.
    #[error("{} is not a usable table: {reason}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An image that breaks an invariant of its scheme.
    #[error("the table is damaged: {0}")]
    Damaged(#[from] Violation),
}

impl Error {
    pub(crate) fn parameter(what: &'static str, given: impl Display, advice: &'static str) -> Error {
        Error::InvalidParameter { what, given: given.to_string(), advice }
    }

    /// Refuses more rows than can be numbered: a row's number is below `u32::MAX`.
    pub(crate) fn check_rows(what: &'static str, rows: usize) -> Result<()> {
        let most = u32::MAX.into();
        if rows as u64 <= most {
            return Ok(());
        }
        Err(Error::TooLarge { what, asked: rows as u64, most })
    }

    /// Refuses a length other than the one needed.
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

    /// A row beyond the last is refused before there is a buffer for it.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn rows_without_a_number_are_refused() {
        let most = u32::MAX as usize;
        assert!(Error::check_rows("rows", 0).is_ok() && Error::check_rows("rows", most).is_ok());
        let asked = u64::from(u32::MAX) + 1;
        assert!(matches!(Error::check_rows("rows", most + 1), Err(Error::TooLarge { asked: a, .. }) if a == asked));
    }
}
