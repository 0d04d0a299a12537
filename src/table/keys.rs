//! What the keys of a table are, where they are more than numbers.
//!
//! A key type describes the keys. It changes no byte of the image, no digest and no answer, and nobody checks that the
//! keys are of that type. Files keep it in their settings (`settings.rs`), so that a program that opens one knows how
//! to make queries.

use std::fmt;

use crate::error::{Error, Result};
use crate::layout::{self, Layout};

/// The most letters of a k-mer: two bits each, in 32.
const MOST_LETTERS: u32 = 16;

/// What the keys of a table stand for.
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
    /// Windows of `k` letters, 1 to 16. A letter has two bits, A C G T = 0 1 2 3, and the first letter has the highest.
    Kmers {
        /// Letters of a key.
        k: u32,
    },
    /// Cells of a picture or a box, see [`layout`].
    Cells(Layout),
}

impl KeyType {
    /// Refuses a type that no key can have.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] for k-mers of 0 letters or of more than 16, and for reversed coordinates of more than
    /// 16 bits.
    pub(super) fn check(self) -> Result<()> {
        match self {
            KeyType::Kmers { k } if !(1..=MOST_LETTERS).contains(&k) => {
                Err(Error::parameter("k", k, "give 1 to 16: a letter has 2 of a key's 32 bits"))
            }
            KeyType::Cells(Layout::BitReversed2 { bits }) if bits > layout::BIT_REVERSED2_BITS => {
                Err(Error::parameter("bits of a coordinate", bits, "give 16 at most"))
            }
            _ => Ok(()),
        }
    }

    /// The type of keys that come from two tables: that of both, or else numbers.
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
            KeyType::Cells(layout) => write!(f, "cells of {layout}"),
        }
    }
}
