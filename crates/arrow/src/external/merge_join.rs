//! The join of a window: right keys in ascending order, and left keys, one batch at a time.
//!
//! ```text
//! right keys   as they are, if they ascend; otherwise sorted with their rows
//! left key     searched from the position of the previous left key, in steps that double (galloping search)
//! ```
//!
//! If the keys of both sides ascend, this is a merge join. For any other order the result is the same, but searches
//! take longer. A join runs on one thread, so that threads can join different windows at the same time.

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use koel::{JoinKind, NO_ROW};

use super::merge::ROWS;
use super::ranged::KeyRange;
use super::right::bits;
use crate::error::{Error, Result};
use crate::leaf::{Fixed, Leaf, Piece, Values, leaves, with_values};

/// Whether this join supports keys of this type: their values must be integers of at most 64 bits.
pub(super) fn is_supported(of: &DataType) -> bool {
    use DataType::*;
    of.is_integer() || matches!(of, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_))
}

/// The keys of a batch as signed integers in the same order.
pub(super) struct BatchKeys {
    keys: Vec<i64>,
    nulls: Option<NullBuffer>,
}

impl BatchKeys {
    /// The keys of this column of one side, which must be within the range.
    pub(super) fn new(name: &str, column: &ArrayRef, range: Option<KeyRange>, is_left: bool) -> Result<Self> {
        let wrong = || Error::KeyRange { column: name.into(), is_left };
        let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        if nulls.as_ref().map_or(0, NullBuffer::null_count) == column.len() {
            return Ok(BatchKeys { keys: vec![0; column.len()], nulls });
        }
        let (least, greatest) = range.ok_or_else(wrong)?;
        let leaves = leaves(name, column.data_type(), std::slice::from_ref(column))?;
        let [Leaf { pieces, .. }] = &leaves[..] else { return Err(wrong()) };
        let [Piece { values, .. }] = &pieces[..] else { return Err(wrong()) };
        let offset = if matches!(values, Values::U64(_)) { 1 << 63 } else { 0 };
        let is_there = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let (keys, are_within) = with_values!(
            values,
            |values| {
                let is_within = |(row, value): (usize, i128)| !is_there(row) || (least..=greatest).contains(&value);
                let are_within = values.iter().map(|value| value.rank()).enumerate().all(is_within);
                (values.iter().map(|value| (value.rank() - offset) as i64).collect(), are_within)
            },
            |_bytes| (Vec::new(), false)
        );
        if are_within { Ok(BatchKeys { keys, nulls }) } else { Err(wrong()) }
    }
}

/// The right keys of a window in ascending order, without nulls.
pub(super) struct SortedKeys {
    keys: Vec<i64>,
    /// The row of each key; `None` if row i has key i, because the keys ascend and none of them is null.
    rows: Option<Vec<u32>>,
}

impl SortedKeys {
    /// The keys of these batches, whose rows are numbered from 0.
    pub(super) fn of(batches: impl Iterator<Item = BatchKeys>) -> Self {
        let (mut keys, mut rows, mut first) = (Vec::new(), Vec::new(), 0);
        for batch in batches {
            let after = first + batch.keys.len() as u32;
            match batch.nulls {
                None => {
                    rows.extend(first..after);
                    keys.extend(batch.keys);
                }
                Some(nulls) => {
                    let there = nulls.valid_indices();
                    let (own, own_rows): (Vec<i64>, Vec<u32>) =
                        there.map(|row| (batch.keys[row], first + row as u32)).unzip();
                    keys.extend(own);
                    rows.extend(own_rows);
                }
            }
            first = after;
        }
        if keys.is_sorted() {
            let are_all = rows.len() == first as usize;
            return SortedKeys { keys, rows: (!are_all).then_some(rows) };
        }
        let mut pairs: Vec<(i64, u32)> = keys.into_iter().zip(rows).collect();
        pairs.sort_unstable();
        let (keys, rows) = pairs.into_iter().unzip();
        SortedKeys { keys, rows: Some(rows) }
    }

    /// The position of the first key that is not less than `key`. The search begins at `near`, the position that was
    /// found for another key.
    fn position(&self, key: i64, near: usize) -> usize {
        let is_less = |&other: &i64| other < key;
        if near > 0 && !is_less(&self.keys[near - 1]) {
            return self.keys[..near].partition_point(is_less);
        }
        let (rest, mut step) = (&self.keys[near..], 1);
        while rest.get(step - 1).is_some_and(is_less) {
            step *= 2;
        }
        let start = step / 2;
        near + start + rest[start..rest.len().min(step)].partition_point(is_less)
    }

    /// Joins left rows, and calls `take` with the rows of both sides, in order, up to [`ROWS`] at a time. `how` is an
    /// inner, left, semi or anti join; the latter two return left rows only.
    pub(super) fn join<E>(
        &self,
        left: &BatchKeys,
        how: JoinKind,
        mut take: impl FnMut(Vec<u32>, Vec<u32>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let (mut lefts, mut rights, mut at) = (Vec::new(), Vec::new(), 0);
        for (row, &key) in left.keys.iter().enumerate() {
            let is_there = left.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            if is_there {
                at = self.position(key, at);
            }
            let (row, is_found) = (row as u32, is_there && self.keys.get(at) == Some(&key));
            if !how.has_right() {
                lefts.extend((is_found == (how == JoinKind::Semi)).then_some(row));
            } else if is_found {
                let mut next = at;
                while self.keys.get(next) == Some(&key) {
                    lefts.push(row);
                    rights.push(self.rows.as_ref().map_or(next as u32, |rows| rows[next]));
                    next += 1;
                    if lefts.len() == ROWS {
                        take(std::mem::take(&mut lefts), std::mem::take(&mut rights))?;
                    }
                }
            } else if how.keeps_left() {
                lefts.push(row);
                rights.push(NO_ROW);
            }
            if lefts.len() == ROWS {
                take(std::mem::take(&mut lefts), std::mem::take(&mut rights))?;
            }
        }
        if lefts.is_empty() { Ok(()) } else { take(lefts, rights) }
    }

    /// Whether each left key is among the right keys.
    pub(super) fn mark(&self, left: &BatchKeys) -> BooleanArray {
        let mut marks = bits(left.keys.len());
        let marked = self.join(left, JoinKind::Semi, |rows, _| {
            rows.into_iter().for_each(|row| marks.set_bit(row as usize, true));
            Ok::<_, std::convert::Infallible>(())
        });
        let Ok(()) = marked;
        BooleanArray::new(marks.finish(), None)
    }
}
