//! Joins of tables by their key columns.
//!
//! ```text
//! index    the right keys as words (encode.rs), and koel's index of these words
//! join     the left keys as words, and koel's join: pairs of rows, ordered by left row, then by right row
//! ```
//!
//! The result consists of row numbers, with which any column can be gathered ([`Column::take`](crate::Column::take)):
//! only rows of the result are copied.

use arrow_array::{BooleanArray, UInt32Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use koel::join::{ColumnJoin, JoinRows};
use koel::scheme::Key;
use koel::{Any, ColumnIndex, JoinKind, NO_ROW, Runs};

use crate::encode::{Encoder, NullEquality, Width, Words, hash_bits};
use crate::error::Result;
use crate::keys::Keys;
use crate::kind::check_types;
use crate::prepared::{Hashed, SavedIndex};
use crate::probe::FirstKeys;

/// The rows of a join, by number: each left row with each matching right row, ordered by left row, then by right row.
/// In right and full joins, the right rows without a match follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Joined {
    /// The left row; null for a right row without a match in a right or full join.
    pub left: UInt32Array,
    /// The right row; null for a left row without a match in a left or full join. `None` in semi and anti joins, which
    /// return left rows only.
    pub right: Option<UInt32Array>,
}

impl Joined {
    /// The number of rows of the result.
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// Whether the result is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A slice of the rows.
    pub fn slice(&self, offset: usize, len: usize) -> Self {
        Joined { left: self.left.slice(offset, len), right: self.right.as_ref().map(|right| right.slice(offset, len)) }
    }

    fn of(rows: JoinRows, how: JoinKind) -> Self {
        let JoinRows { left, right } = rows;
        Joined {
            left: numbers(left, how.keeps_right()),
            right: how.has_right().then(|| numbers(right, how.keeps_left())),
        }
    }
}

/// Row numbers as a column, null for a missing row.
fn numbers(rows: Vec<u32>, may_miss: bool) -> UInt32Array {
    let nulls = may_miss.then(|| NullBuffer::from_iter(rows.iter().map(|&row| row != NO_ROW)));
    UInt32Array::new(rows.into(), nulls.filter(|nulls| nulls.null_count() > 0))
}

/// An index of right keys, which can be joined with any number of tables of left keys.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, StringArray};
/// use koel_arrow::{JoinKind, Keys, NullEquality, RightKeys};
///
/// let right: ArrayRef = Arc::new(StringArray::from(vec!["plum", "fig", "plum"]));
/// let index = RightKeys::new(&koel::auto().backend, &Keys::of_arrays(&[right])?, NullEquality::NothingEquals)?;
/// let left: ArrayRef = Arc::new(StringArray::from(vec![Some("fig"), None, Some("plum")]));
/// let rows = index.join(&Keys::of_arrays(&[left])?, JoinKind::Inner)?;
/// assert_eq!(rows.left.values(), &[0, 2, 2]);
/// assert_eq!(rows.right.expect("an inner join has right rows").values(), &[1, 0, 2]);
/// # Ok::<(), koel_arrow::Error>(())
/// ```
pub struct RightKeys {
    pub(crate) keys: Keys,
    coding: Coding,
    pub(crate) index: Index,
}

/// How left keys are converted to words.
enum Coding {
    Dense(Encoder),
    /// For an index that can be saved.
    Hashed(Hashed),
}

pub(crate) enum Index {
    Narrow(ColumnIndex<Any, u32>),
    Wide(ColumnIndex<Any, u64>),
}

impl RightKeys {
    /// Creates an index of right keys.
    ///
    /// Cost: a pass over each column, and koel's build of an index; for strings also their hashes, a table of the
    /// hashes, and a comparison of each string with its first occurrence. Memory: 8 bytes per row and column while
    /// words are computed.
    ///
    /// # Errors
    /// [`Error::UnsupportedKey`](crate::Error::UnsupportedKey), or what koel reports.
    pub fn new(device: &Any, right: &Keys, nulls: NullEquality) -> Result<Self> {
        Self::with_hashes(device, right, nulls, hash_bits())
    }

    /// As [`new`](Self::new), with hashes of `bits` bits.
    pub(crate) fn with_hashes(device: &Any, right: &Keys, nulls: NullEquality, bits: u32) -> Result<Self> {
        let (encoder, words) = Encoder::fit(device, right, nulls, bits)?;
        let index = match &words {
            Words::Narrow(words) => Index::Narrow(ColumnIndex::build(device, words)?),
            Words::Wide(words) => Index::Wide(ColumnIndex::build(device, words)?),
        };
        Ok(RightKeys { keys: right.clone(), coding: Coding::Dense(encoder), index })
    }

    /// An index of hashes ([`PreparedJoin`](crate::PreparedJoin)).
    pub(crate) fn of_hashes(keys: Keys, hashed: Hashed, index: SavedIndex) -> Self {
        RightKeys { keys, coding: Coding::Hashed(hashed), index: Index::Wide(index.into()) }
    }

    /// The index of hashes; `None` for other indexes.
    pub(crate) fn saved(&self) -> Option<&SavedIndex> {
        match (&self.coding, &self.index) {
            (Coding::Hashed(_), Index::Wide(index)) => index.as_join_index(),
            _ => None,
        }
    }

    /// The first right row with the key of each left row, or [`NO_ROW`]; for an index of hashes.
    pub(crate) fn first_rows(&self, left: &Keys) -> Result<Vec<u32>> {
        check_types(left, &self.keys)?;
        match (&self.coding, self.saved()) {
            (Coding::Hashed(hashed), Some(index)) => Ok(hashed.first_rows(left, &self.keys, index)?.1),
            _ => Err(koel::Error::WrongIndex.into()),
        }
    }

    /// Joins left keys with the right keys.
    ///
    /// # Errors
    /// [`Error::KeyCount`](crate::Error::KeyCount), [`Error::TypeMismatch`](crate::Error::TypeMismatch),
    /// [`Error::UnsupportedKey`](crate::Error::UnsupportedKey); [`koel::Error::TooLarge`] for a result of 2^32 rows or
    /// more ([`join_pieces`](Self::join_pieces) has no such limit), or what koel reports.
    pub fn join(&self, left: &Keys, how: JoinKind) -> Result<Joined> {
        let rows = match &self.index {
            Index::Narrow(index) => index.join(&self.words(left)?, how)?.collect()?,
            Index::Wide(index) => index.join(&self.words(left)?, how)?.collect()?,
        };
        Ok(Joined::of(rows, how))
    }

    /// Joins left keys with the right keys, and passes on the result in pieces of this number of rows, in order, so
    /// that the whole result is never in memory. `start` is called once before, with the total number of rows.
    ///
    /// # Errors
    /// As [`join`](Self::join), and those of the two functions. The join stops at the first error.
    pub fn join_pieces<E: From<crate::Error>>(
        &self,
        left: &Keys,
        how: JoinKind,
        rows: usize,
        start: impl FnOnce(u64) -> std::result::Result<(), E>,
        piece: impl FnMut(Joined) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match &self.index {
            Index::Narrow(index) => {
                let words = self.words(left)?;
                pieces(&index.join(&words, how).map_err(crate::Error::from)?, how, rows, start, piece)
            }
            Index::Wide(index) => {
                let words = self.words(left)?;
                pieces(&index.join(&words, how).map_err(crate::Error::from)?, how, rows, start, piece)
            }
        }
    }

    /// The words of left keys, which have the width of the index.
    pub(crate) fn words<K: Width>(&self, left: &Keys) -> Result<ScalarBuffer<K>> {
        check_types(left, &self.keys)?;
        let words = match (&self.coding, self.saved()) {
            (Coding::Dense(encoder), _) => encoder.encode(left, &self.keys)?,
            (Coding::Hashed(hashed), Some(index)) => hashed.encode(left, &self.keys, index)?,
            (Coding::Hashed(_), None) => return Err(koel::Error::WrongIndex.into()),
        };
        Ok(K::of(words).expect("both sides have words of one width"))
    }
}

fn pieces<K: Key, E: From<crate::Error>>(
    join: &ColumnJoin<'_, Any, K>,
    how: JoinKind,
    rows: usize,
    start: impl FnOnce(u64) -> std::result::Result<(), E>,
    mut piece: impl FnMut(Joined) -> std::result::Result<(), E>,
) -> std::result::Result<(), E>
where
    Any: Runs<K::Rows>,
{
    start(join.len())?;
    for chunk in join.chunks(rows) {
        piece(Joined::of(chunk.map_err(crate::Error::from)?, how))?;
    }
    Ok(())
}

impl std::fmt::Debug for RightKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RightKeys").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Joins two tables by their keys: returns the numbers of matching rows.
///
/// Cost: an index of the right keys ([`RightKeys::new`]), a lookup per left row, and 8 bytes per row of the result. The
/// right side should be the smaller one.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array};
/// use koel_arrow::{JoinKind, Keys, NullEquality, join};
///
/// let left: ArrayRef = Arc::new(Int64Array::from(vec![7, -1, 7]));
/// let right: ArrayRef = Arc::new(Int64Array::from(vec![3, 7]));
/// let (left, right) = (Keys::of_arrays(&[left])?, Keys::of_arrays(&[right])?);
/// let rows = join(&koel::auto().backend, &left, &right, JoinKind::Left, NullEquality::NothingEquals)?;
/// assert_eq!(rows.left.values(), &[0, 1, 2]);
/// let right: Vec<_> = rows.right.iter().flatten().collect();
/// assert_eq!(right, [Some(1), None, Some(1)]);
/// # Ok::<(), koel_arrow::Error>(())
/// ```
///
/// # Errors
/// As [`RightKeys::join`].
pub fn join(device: &Any, left: &Keys, right: &Keys, how: JoinKind, nulls: NullEquality) -> Result<Joined> {
    // Types are checked before anything is built.
    check_types(left, right)?;
    RightKeys::new(device, right, nulls)?.join(left, how)
}

/// Returns for each left row whether its key is among the right keys. The result has no nulls.
///
/// # Errors
/// As [`RightKeys::join`].
pub fn is_in(device: &Any, left: &Keys, right: &Keys, nulls: NullEquality) -> Result<BooleanArray> {
    check_types(left, right)?;
    Ok(BooleanArray::from(FirstKeys::new(device, right, nulls)?.contains(left)?))
}
