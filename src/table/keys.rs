//! The types of keys and values: what the numbers represent.
//!
//! A type describes the keys. It does not affect the image, the digest or any answer, and is not verified. Files store
//! it in their settings (`settings.rs`), so that a program that opens a file can create matching queries.

use std::fmt;

use crate::error::{Error, Result};
use crate::layout::{self, Layout};

/// The type of the keys of a table.
///
/// ```
/// use koel::{Cpu, Cuckoo, HashTable, KeyType};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("kmers.koel");
/// // ACG and CGT.
/// let builder = HashTable::builder(Cuckoo::default()).key_type(KeyType::Kmers { k: 3 });
/// builder.build(&Cpu::new(), &[0b000110, 0b011011], &[0, 1])?.save(&path)?;
/// assert_eq!(koel::table::read_info(&path)?.key_type, KeyType::Kmers { k: 3 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum KeyType {
    /// Numbers without a sign.
    #[default]
    Numbers,
    /// Windows of `k` letters: 1 to 16, or to 32 for 64-bit keys. A letter has two bits, A C G T = 0 1 2 3; the first
    /// letter is the most significant.
    Kmers {
        /// Letters of a key.
        k: u32,
    },
    /// As `Kmers`, but the key of a window is the smaller of its number and that of its reverse complement, which is at
    /// the same place on the other strand. So a sequence and its other strand have the same keys. Queries are created
    /// in the same way.
    CanonicalKmers {
        /// Letters of a key.
        k: u32,
    },
    /// Cells of a picture or a box, see [`layout`].
    Cells(Layout),
    /// Signed numbers, whose top bit is inverted in the key, so that keys are ordered as the numbers are: the key of
    /// `n: i64` is `n as u64 ^ 1 << 63`, and that of `n: i32` is `n as u32 ^ 1 << 31`.
    ///
    /// ```
    /// use koel::{Bucketized, CompactingTable, Cpu, IdOrder, KeyType};
    /// let keys = [5, -7, i64::MIN].map(|n: i64| n as u64 ^ 1 << 63);
    /// let builder = CompactingTable::builder(Bucketized::default().of::<u64, u32>()).ids(IdOrder::Ascending);
    /// let table = builder.key_type(KeyType::Signed).build(&Cpu::new(), &keys)?;
    /// let numbers: Vec<i64> = table.unique()?.into_iter().map(|key| (key ^ 1 << 63) as i64).collect();
    /// assert_eq!(numbers, [i64::MIN, -7, 5]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    Signed,
}

impl KeyType {
    /// Returns an error for types that keys of this many bits cannot have.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] for k-mers of 0 letters or more than fit, and for reversed coordinates of more than
    /// 16 bits.
    pub(super) fn check(self, bits: u32) -> Result<()> {
        match self {
            KeyType::Kmers { k } | KeyType::CanonicalKmers { k } if !(1..=bits / 2).contains(&k) => {
                let advice = match bits {
                    32 => "use 1 to 16: a letter has 2 of a key's 32 bits",
                    _ => "use 1 to 32: a letter has 2 of a key's 64 bits",
                };
                Err(Error::parameter("k", k, advice))
            }
            KeyType::Cells(Layout::BitReversed2 { bits }) if bits > layout::BIT_REVERSED2_BITS => {
                Err(Error::parameter("bits of a coordinate", bits, "use 16 at most"))
            }
            _ => Ok(()),
        }
    }

    /// The key type of two tables combined: their common type, or numbers.
    pub(crate) fn of_both(self, other: KeyType) -> KeyType {
        if self == other { self } else { KeyType::Numbers }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyType::Numbers => f.write_str("numbers"),
            KeyType::Kmers { k: 1 } => f.write_str("k-mers of 1 letter"),
            KeyType::Kmers { k } => write!(f, "k-mers of {k} letters"),
            KeyType::CanonicalKmers { k: 1 } => f.write_str("canonical k-mers of 1 letter"),
            KeyType::CanonicalKmers { k } => write!(f, "canonical k-mers of {k} letters"),
            KeyType::Cells(layout) => write!(f, "cells of {layout}"),
            KeyType::Signed => f.write_str("numbers with a sign"),
        }
    }
}

/// The type of the values of a table. Like [`KeyType`], it is only a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ValueType {
    /// Numbers without a sign.
    #[default]
    Numbers,
    /// Signed numbers in two's complement: `value as i64`, or `value as i32`.
    Signed,
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueType::Numbers => "numbers",
            ValueType::Signed => "numbers with a sign",
        })
    }
}
