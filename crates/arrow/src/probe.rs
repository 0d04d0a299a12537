//! Joins left keys in batches, for streaming engines: the results of each batch are row numbers, in pieces.
//!
//! ```text
//! RightKeys::probe    the words of a batch, and the number of its results; also the results, if they are few
//! RightKeys::piece    some of the results; if they are many, the batch is looked up again for each piece, which costs little
//!                     compared with writing the results, and only the words of the batch are kept
//! FirstKeys           for each left row the first right row with its key, for semi, anti and mark joins of either side
//! ```
//!
//! Matched right rows are not recorded: a residual filter may reject matches, so the engine must record them.

use arrow_schema::DataType;
use koel::group::FirstRows;
use koel::join::JoinRows;
use koel::{Any, JoinKind};

use crate::encode::{Encoder, NullEquality, Words, hash_bits};
use crate::error::Result;
use crate::join::{Index, RightKeys};
use crate::keys::Keys;
use crate::kind::check_types;
use crate::leaf::scales;

/// Returns an error if keys cannot have this column type.
///
/// # Errors
/// [`Error::UnsupportedKey`](crate::Error::UnsupportedKey), with what to do instead.
pub fn check_key(name: &str, data_type: &DataType) -> Result<()> {
    scales(name, data_type).map(drop)
}

/// The results of joining a batch of left keys with [`RightKeys`].
pub struct Probe {
    how: JoinKind,
    found: Found,
    len: u64,
}

enum Found {
    Rows(JoinRows),
    Words(Words),
}

impl Probe {
    /// The number of results.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no results.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl RightKeys {
    /// The number of right rows.
    pub fn len(&self) -> usize {
        match &self.index {
            Index::Narrow(index) => index.len(),
            Index::Wide(index) => index.len(),
        }
    }

    /// Whether there are no right rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Looks up a batch of left keys for an inner, left, semi or anti join. The rows of the batch are numbered from 0.
    /// Right and full joins are treated as inner and left joins, because right rows without a match are known only
    /// after the last batch.
    ///
    /// Cost: a lookup per left row. Memory: 8 bytes per result if there are at most `at_once` results, and otherwise
    /// the words of the batch, 4 or 8 bytes per row.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, StringArray};
    /// use koel_arrow::{JoinKind, Keys, NullEquality, RightKeys};
    ///
    /// let right: ArrayRef = Arc::new(StringArray::from(vec!["plum", "fig", "plum"]));
    /// let index = RightKeys::new(&koel::auto().backend, &Keys::of_arrays(&[right])?, NullEquality::NothingEquals)?;
    /// let left: ArrayRef = Arc::new(StringArray::from(vec!["fig", "plum", "pear"]));
    /// let probe = index.probe(&Keys::of_arrays(&[left])?, JoinKind::Inner, 1)?;
    /// assert_eq!(probe.len(), 3);
    /// let rows = index.piece(&probe, 1, 10)?;
    /// assert_eq!((rows.left, rows.right), (vec![1, 1], vec![0, 2]));
    /// # Ok::<(), koel_arrow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`join`](Self::join); a batch may have any number of results.
    pub fn probe(&self, left: &Keys, how: JoinKind, at_once: usize) -> Result<Probe> {
        let how = match how {
            JoinKind::Right => JoinKind::Inner,
            JoinKind::Full => JoinKind::Left,
            other => other,
        };
        macro_rules! looked_up {
            ($index:expr, $width:ident) => {{
                let words = self.words(left)?;
                let join = $index.join(&words, how)?;
                let len = join.len();
                let found = match usize::try_from(len) {
                    Ok(all) if all <= at_once => Found::Rows(join.chunk(0, all)?),
                    _ => Found::Words(Words::$width(words)),
                };
                (found, len)
            }};
        }
        let (found, len) = match &self.index {
            Index::Narrow(index) => looked_up!(index, Narrow),
            Index::Wide(index) => looked_up!(index, Wide),
        };
        Ok(Probe { how, found, len })
    }

    /// Results `first..first + len` of a batch, or fewer if there are no more, ordered by left row, then by right row.
    /// [`NO_ROW`](koel::NO_ROW) replaces the missing right row of a left row without a match.
    ///
    /// Cost: two writes per result; if the batch has more than `at_once` results, also a lookup of the whole batch.
    ///
    /// # Errors
    /// What koel reports. A probe of other right keys returns meaningless rows, or [`koel::Error::WrongIndex`].
    pub fn piece(&self, probe: &Probe, first: u64, len: usize) -> Result<JoinRows> {
        Ok(match (&probe.found, &self.index) {
            (Found::Rows(rows), _) => {
                let of = |rows: &[u32]| {
                    let begin = usize::try_from(first).map_or(rows.len(), |first| first.min(rows.len()));
                    rows[begin..begin + len.min(rows.len() - begin)].to_vec()
                };
                JoinRows { left: of(&rows.left), right: of(&rows.right) }
            }
            (Found::Words(Words::Narrow(words)), Index::Narrow(index)) => {
                index.join(words, probe.how)?.chunk(first, len)?
            }
            (Found::Words(Words::Wide(words)), Index::Wide(index)) => {
                index.join(words, probe.how)?.chunk(first, len)?
            }
            _ => return Err(koel::Error::WrongIndex.into()),
        })
    }
}

/// An index of right keys that finds the first right row of each left key.
///
/// This suffices for semi, anti and mark joins: one of the rows with a key represents all of them.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array};
/// use koel_arrow::{FirstKeys, Keys, NullEquality};
///
/// let right: ArrayRef = Arc::new(Int64Array::from(vec![7, 3, 7]));
/// let keys = FirstKeys::new(&koel::auto().backend, &Keys::of_arrays(&[right])?, NullEquality::NothingEquals)?;
/// assert_eq!(keys.rows()?, [0, 1, 0]);
/// let left: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None, Some(7), Some(1)]));
/// assert_eq!(keys.find(&Keys::of_arrays(&[left])?)?, [1, koel::NO_ROW, 0, koel::NO_ROW]);
/// # Ok::<(), koel_arrow::Error>(())
/// ```
pub struct FirstKeys {
    keys: Keys,
    encoder: Encoder,
    first: First,
}

enum First {
    Narrow(FirstRows<Any, u32>),
    Wide(FirstRows<Any, u64>),
}

impl FirstKeys {
    /// Creates an index of right keys.
    ///
    /// Cost: as [`RightKeys::new`], with 4 bytes per row instead of the lists of rows with equal keys.
    ///
    /// # Errors
    /// As [`RightKeys::new`].
    pub fn new(device: &Any, right: &Keys, nulls: NullEquality) -> Result<Self> {
        let (encoder, words) = Encoder::fit(device, right, nulls, hash_bits())?;
        let first = match &words {
            Words::Narrow(words) => First::Narrow(FirstRows::build(device, words)?),
            Words::Wide(words) => First::Wide(FirstRows::build(device, words)?),
        };
        Ok(FirstKeys { keys: right.clone(), encoder, first })
    }

    /// The first right row with the key of each left row, or [`NO_ROW`](koel::NO_ROW).
    ///
    /// # Errors
    /// As [`RightKeys::join`].
    pub fn find(&self, left: &Keys) -> Result<Vec<u32>> {
        check_types(left, &self.keys)?;
        Ok(match (&self.first, self.encoder.encode(left, &self.keys)?) {
            (First::Narrow(first), Words::Narrow(words)) => first.find(&words)?,
            (First::Wide(first), Words::Wide(words)) => first.find(&words)?,
            _ => return Err(koel::Error::WrongIndex.into()),
        })
    }

    /// Whether the key of each left row is among the right keys.
    ///
    /// # Errors
    /// As [`RightKeys::join`].
    pub fn contains(&self, left: &Keys) -> Result<Vec<bool>> {
        check_types(left, &self.keys)?;
        Ok(match (&self.first, self.encoder.encode(left, &self.keys)?) {
            (First::Narrow(first), Words::Narrow(words)) => first.contains(&words)?,
            (First::Wide(first), Words::Wide(words)) => first.contains(&words)?,
            _ => return Err(koel::Error::WrongIndex.into()),
        })
    }

    /// The first right row with the key of each right row. If nulls are not equal, all rows with a null are treated as
    /// equal here: each has the first row with a null.
    ///
    /// # Errors
    /// What koel reports.
    pub fn rows(&self) -> Result<Vec<u32>> {
        Ok(match &self.first {
            First::Narrow(first) => first.rows()?,
            First::Wide(first) => first.rows()?,
        })
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").field("how", &self.how).field("len", &self.len).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for FirstKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FirstKeys").field("keys", &self.keys).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use koel::{Cpu, NO_ROW};

    use super::*;

    fn keys(values: &[i64], is_text: bool) -> Result<Keys> {
        let column: ArrayRef = match is_text {
            true => Arc::new(values.iter().map(|value| Some(format!("key {value}"))).collect::<StringArray>()),
            false => Arc::new(Int64Array::from(values.to_vec())),
        };
        Keys::of_arrays(&[column])
    }

    #[test]
    fn pieces_of_batches_are_those_of_the_join() -> Result<()> {
        let device = Any::Cpu(Cpu::new());
        let (right, left) = ([5, 7, 5, 9, 5, 7], [7, 1, 5, 9, 5, 2]);
        for is_text in [false, true] {
            let index = RightKeys::new(&device, &keys(&right, is_text)?, NullEquality::NothingEquals)?;
            assert_eq!((index.len(), index.is_empty()), (6, false));
            let left = keys(&left, is_text)?;
            for (how, whole) in [
                (JoinKind::Inner, JoinKind::Inner),
                (JoinKind::Left, JoinKind::Left),
                (JoinKind::Right, JoinKind::Inner),
                (JoinKind::Full, JoinKind::Left),
                (JoinKind::Semi, JoinKind::Semi),
                (JoinKind::Anti, JoinKind::Anti),
            ] {
                let joined = index.join(&left, whole)?;
                for (at_once, len) in [(0, 1), (0, 4), (100, 3), (100, 100)] {
                    let probe = index.probe(&left, how, at_once)?;
                    assert_eq!((probe.len(), probe.is_empty()), (joined.len() as u64, false));
                    let (mut lefts, mut rights, mut first) = (Vec::new(), Vec::new(), 0);
                    while first < probe.len() {
                        let piece = index.piece(&probe, first, len)?;
                        first += piece.left.len() as u64;
                        lefts.extend(piece.left);
                        rights.extend(piece.right);
                    }
                    assert!(index.piece(&probe, first, len)?.left.is_empty());
                    assert_eq!(lefts, joined.left.values().to_vec(), "{how}");
                    let right = joined.right.as_ref().map(|of| of.iter().map(|row| row.unwrap_or(NO_ROW)).collect());
                    assert_eq!(rights, right.unwrap_or_else(Vec::new), "{how}");
                }
            }
            let first_occurrences = FirstKeys::new(&device, &keys(&right, is_text)?, NullEquality::NothingEquals)?;
            assert_eq!(first_occurrences.rows()?, [0, 1, 0, 3, 0, 1]);
            assert_eq!(first_occurrences.find(&left)?, [1, NO_ROW, 0, 3, 0, NO_ROW]);
            assert_eq!(first_occurrences.contains(&left)?, [true, false, true, true, true, false]);
            let other = FirstKeys::new(&device, &keys(&[], is_text)?, NullEquality::NothingEquals)?;
            assert_eq!((other.rows()?, other.find(&left)?), (vec![], vec![NO_ROW; 6]));
        }
        Ok(())
    }
}
