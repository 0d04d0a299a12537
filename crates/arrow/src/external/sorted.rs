//! Merges groups of morsels whose keys are in ascending order, as in a table that is sorted by its key.
//!
//! ```text
//! rows        the groups of all morsels, one morsel after the other; their keys must ascend
//! repeated    rows with the key of a neighbour, such as the last group of a morsel and the first one of the next: these
//!             few rows are grouped like any other table
//! results     all other rows as they are, and the groups of repeated rows in their places
//! ```
//!
//! No hash table is built, and most rows are not copied. The result is the same, because the groups of a morsel already
//! have the order and the types of the result. Keys are one column of a primitive type, without nulls.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::SchemaRef;
use rayon::prelude::*;

use super::grouping::Grouping;
use super::merge::ROWS;
use super::parts::numbers;
use super::{Side, batch_of, first_number, without_numbers};
use crate::error::Result;
use crate::leaf::{self, Fixed, Leaf, leaves, with_values};
use crate::plain::plain_type;
use crate::take::take_batch;

/// The least number of rows per repeated row. The result is cut at repeated rows, so with more of them its batches
/// would be short.
const ROWS_PER_REPEATED: usize = if cfg!(test) { 2 } else { 1024 };

#[cfg(test)]
thread_local! {
    /// The number of tables that this thread merged here.
    pub(super) static MERGED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// The groups in batches with this schema; `None` unless the keys ascend and few are repeated. The batches have groups
/// of morsels, without row numbers.
pub(super) fn merged(
    grouping: &Grouping<'_>,
    side: &Side,
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> Result<Option<Vec<RecordBatch>>> {
    let &[key] = grouping.by else { return Ok(None) };
    let types = |of: &SchemaRef| of.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
    if types(schema) != types(&side.unnumbered) {
        return Ok(None);
    }
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let Some(repeated) = repeated_rows(key, batches)? else { return Ok(None) };
    if repeated.iter().map(Vec::len).sum::<usize>() > rows / ROWS_PER_REPEATED {
        return Ok(None);
    }
    let (mut taken, mut first) = (Vec::new(), first_number());
    for (batch, rows) in batches.iter().zip(&repeated) {
        if !rows.is_empty() {
            let numbers: ArrayRef = Arc::new(rows.iter().map(|&row| first + u64::from(row)).collect::<UInt64Array>());
            let columns = take_batch(batch, &UInt32Array::from(rows.clone()))?.columns().to_vec();
            taken.push(batch_of(&side.schema, [columns, vec![numbers]].concat(), rows.len())?);
        }
        first += batch.num_rows() as u64;
    }
    let merged = grouping.numbered(side, taken)?;
    let (mut places, merged) = (numbers(&merged).iter().enumerate().peekable(), without_numbers(schema, &merged)?);
    let (mut results, mut first) = (Vec::with_capacity(2 * batches.len()), first_number());
    for (batch, repeated) in batches.iter().zip(&repeated) {
        let (own, mut start) = (batch_of(schema, batch.columns().to_vec(), batch.num_rows())?, 0);
        let pieces =
            |rows: Range<usize>| rows.clone().step_by(ROWS).map(move |start| (start, ROWS.min(rows.end - start)));
        for row in repeated.iter().map(|&row| row as usize) {
            results.extend(pieces(start..row).map(|(start, rows)| own.slice(start, rows)));
            let group = places.next_if(|&(_, &number)| number == first + row as u64);
            results.extend(group.map(|(group, _)| merged.slice(group, 1)));
            start = row + 1;
        }
        results.extend(pieces(start..own.num_rows()).map(|(start, rows)| own.slice(start, rows)));
        first += batch.num_rows() as u64;
    }
    #[cfg(test)]
    MERGED.set(MERGED.get() + 1);
    Ok(Some(results))
}

/// The order of the keys of a batch.
struct Keys {
    least: i128,
    greatest: i128,
    /// The rows with the key of the row before or after.
    repeated: Vec<u32>,
}

/// The rows of each batch that have the key of another row; `None` if the keys do not ascend from row to row.
fn repeated_rows(key: usize, batches: &[RecordBatch]) -> Result<Option<Vec<Vec<u32>>>> {
    let keys = batches.par_iter().map(|batch| match batch.num_rows() {
        0 => Ok(None),
        _ => Ok(Some(keys_of(batch, key)?)),
    });
    let mut keys = keys.collect::<Result<Vec<Option<Option<Keys>>>>>()?;
    let mut before: Option<(&mut Keys, u32)> = None;
    for (keys, batch) in keys.iter_mut().zip(batches) {
        let Some(keys) = keys else { continue };
        let Some(keys) = keys else { return Ok(None) };
        let last_row = batch.num_rows() as u32 - 1;
        if let Some((before, last_row)) = before {
            if before.greatest > keys.least {
                return Ok(None);
            }
            if before.greatest == keys.least {
                if before.repeated.last() != Some(&last_row) {
                    before.repeated.push(last_row);
                }
                if keys.repeated.first() != Some(&0) {
                    keys.repeated.insert(0, 0);
                }
            }
        }
        before = Some((keys, last_row));
    }
    Ok(Some(keys.into_iter().map(|keys| keys.flatten().map_or(Vec::new(), |keys| keys.repeated)).collect()))
}

/// The keys of a batch that has rows, if they are plain values without nulls that ascend.
fn keys_of(batch: &RecordBatch, key: usize) -> Result<Option<Keys>> {
    let (array, schema) = (batch.column(key), batch.schema_ref());
    let name = schema.field(key).name();
    if array.logical_null_count() > 0
        || !plain_type(array.data_type()).is_primitive()
        || leaf::scales(name, array.data_type())?.len() != 1
    {
        return Ok(None);
    }
    let leaves = leaves(name, array.data_type(), std::slice::from_ref(array))?;
    let [Leaf { pieces, .. }] = &leaves[..] else { return Ok(None) };
    let [piece] = &pieces[..] else { return Ok(None) };
    Ok(with_values!(&piece.values, |values| ascending(values), |_bytes| None))
}

/// The order of these values, if they ascend.
fn ascending<T: Fixed>(values: &[T]) -> Option<Keys> {
    let mut repeated = Vec::new();
    for (row, pair) in (0..).zip(values.windows(2)) {
        let (before, after) = (pair[0].rank(), pair[1].rank());
        if before > after {
            return None;
        }
        if before == after {
            if repeated.last() != Some(&row) {
                repeated.push(row);
            }
            repeated.push(row + 1);
        }
    }
    Some(Keys { least: values.first()?.rank(), greatest: values.last()?.rank(), repeated })
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int32Array, StringArray};

    use super::*;

    fn batches(of: impl IntoIterator<Item = ArrayRef>) -> Vec<RecordBatch> {
        let batch = |column| RecordBatch::try_from_iter_with_nullable([("key", column, true)]).expect("a column");
        of.into_iter().map(batch).collect()
    }

    #[test]
    fn rows_with_the_key_of_a_neighbour_are_repeated() -> Result<()> {
        let integers = |of: &[&[i32]]| batches(of.iter().map(|keys| Arc::new(Int32Array::from(keys.to_vec())) as _));
        let found = repeated_rows(0, &integers(&[&[1, 2, 3], &[3], &[], &[3, 5], &[6, 6, 6, 7], &[8], &[]]))?;
        assert_eq!(found, Some(vec![vec![2], vec![0], vec![], vec![0], vec![0, 1, 2], vec![], vec![]]));
        for unordered in [&[&[1, 3, 2][..]][..], &[&[1, 3], &[2]], &[&[1, 3], &[], &[2, 4]]] {
            assert_eq!(repeated_rows(0, &integers(unordered))?, None);
        }
        let floats = Arc::new(Float64Array::from(vec![-1.0, -0.0, 0.0, f64::INFINITY, f64::NAN, -f64::NAN]));
        assert_eq!(repeated_rows(0, &batches([floats as ArrayRef]))?, Some(vec![vec![1, 2, 4, 5]]));
        let nulls = Arc::new(Int32Array::from(vec![Some(1), None]));
        let texts = Arc::new(StringArray::from(vec!["a", "b"]));
        for others in [nulls as ArrayRef, texts as ArrayRef] {
            assert_eq!(repeated_rows(0, &batches([others]))?, None);
        }
        Ok(())
    }
}
