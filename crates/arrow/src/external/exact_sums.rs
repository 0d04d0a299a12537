//! Exact sums of doubles as a column of bytes, which are merged without rounding.
//!
//! ```text
//! null                no values
//! 8 bytes             a double: the value of a row, or a sum that is a double
//! 18 bytes            a state of koel::SumStates
//! more                such a state, followed by its leftovers
//! ```

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Float64Array, LargeBinaryArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::ArrowError;
use koel::SumStates;
use rayon::prelude::*;

use crate::encode::CHUNK;
use crate::error::{Error, Result};
use crate::group::{Factorized, NO_GROUP};
use crate::keys::Column;
use crate::values::{Numbers, Values};

/// The sums of single rows with these values.
pub(super) fn of_rows(values: &[f64], nulls: Option<NullBuffer>) -> ArrayRef {
    let lengths = OffsetBuffer::from_lengths(std::iter::repeat_n(size_of::<f64>(), values.len()));
    let bytes: Vec<[u8; size_of::<f64>()]> = values.iter().map(|value| value.to_le_bytes()).collect();
    Arc::new(LargeBinaryArray::new(lengths, Buffer::from(bytes.concat()), nulls))
}

/// The sum of the values of each group. `None` if the column does not have doubles.
pub(super) fn of_groups(column: &Column, groups: &Factorized) -> Option<ArrayRef> {
    let values = Values::of(column, groups.codes.values());
    let Numbers::F64(numbers) = &values.numbers else { return None };
    let mut states = States::of(0..groups.len());
    states.sums.add(
        values.ids.iter().zip(&numbers[..]).filter(|row| *row.0 != NO_GROUP).map(|(&id, &value)| (id as usize, value)),
    );
    for &id in values.ids.iter().filter(|&&id| id != NO_GROUP) {
        states.has_value[id as usize] = true;
    }
    Some(column_of(&[states]))
}

/// The sum of the sums of each group.
pub(crate) fn merged(column: &Column, groups: &Factorized) -> Result<ArrayRef> {
    let (ids, threads) = (groups.codes.values(), rayon::current_num_threads());
    let size = if ids.len() < CHUNK { groups.len() } else { groups.len().div_ceil(threads) };
    // Each thread reads all ids, and merges the sums of a range of the groups.
    let starts: Vec<usize> = (0..groups.len()).step_by(size.max(1)).collect();
    let of_range = |start: usize| {
        let mut states = States::of(start..groups.len().min(start + size));
        states.merge(column, ids)?;
        Ok(states)
    };
    Ok(column_of(&starts.into_par_iter().map(of_range).collect::<Result<Vec<States>>>()?))
}

/// The doubles nearest to these sums; divided by counts if there are any.
pub(super) fn rounded(sums: &ArrayRef, counts: Option<&[i64]>) -> Result<ArrayRef> {
    let column = sums.as_binary::<i64>();
    let double = |group: usize| {
        let count = counts.map(|counts| counts[group].unsigned_abs());
        let bytes = column.value(group);
        if let Ok(Some(sum)) = bytes.try_into().map(|sum| Some(f64::from_le_bytes(sum)).filter(|sum| sum.is_finite())) {
            // Counts are below 2^53, so the quotient is rounded once.
            return Ok(count.map_or(sum, |count| sum / count as f64));
        }
        let mut states = States::of(0..1);
        states.put(0, bytes)?;
        Ok(count.map_or_else(|| states.sums.sum(0), |count| states.sums.mean(0, count)))
    };
    let value = |group: usize| if column.is_valid(group) { double(group) } else { Ok(0.0) };
    let values = (0..column.len()).into_par_iter().with_min_len(CHUNK).map(value).collect::<Result<Vec<f64>>>()?;
    Ok(Arc::new(Float64Array::new(values.into(), column.nulls().cloned())))
}

/// The sums of a range of groups.
struct States {
    groups: Range<usize>,
    sums: SumStates,
    has_value: Vec<bool>,
}

impl States {
    fn of(groups: Range<usize>) -> Self {
        let mut sums = SumStates::default();
        sums.resize(groups.len());
        States { sums, has_value: vec![false; groups.len()], groups }
    }

    /// Merges the sums of rows to those of their groups.
    fn merge(&mut self, column: &Column, ids: &[u32]) -> Result<()> {
        let mut first = 0;
        for chunk in column.chunks() {
            let (chunk, own) = (chunk.as_binary::<i64>(), self.groups.clone());
            let ids = &ids[first..first + chunk.len()];
            let is_own = |&(row, group): &(usize, usize)| own.contains(&group) && chunk.is_valid(row);
            let rows = || ids.iter().map(|&id| id as usize).enumerate().filter(is_own);
            let double =
                |(row, group)| Some((group - own.start, f64::from_le_bytes(chunk.value(row).try_into().ok()?)));
            self.sums.add(rows().filter_map(double));
            for (row, group) in rows() {
                self.has_value[group - own.start] = true;
                let bytes = chunk.value(row);
                if bytes.len() != size_of::<f64>() {
                    self.put(group - own.start, bytes)?;
                }
            }
            first += chunk.len();
        }
        Ok(())
    }

    /// Merges a sum to that of a group.
    fn put(&mut self, group: usize, bytes: &[u8]) -> Result<()> {
        if let Ok(double) = bytes.try_into() {
            self.sums.add(std::iter::once((group, f64::from_le_bytes(double))));
            return Ok(());
        }
        let state = bytes.split_first_chunk();
        let merges = |(state, rest): (&[u8; SumStates::BYTES], &[u8])| {
            self.sums.merge(group, state, Some(rest).filter(|rest| !rest.is_empty()))
        };
        match state.is_some_and(merges) {
            true => Ok(()),
            false => Err(Error::Arrow(ArrowError::InvalidArgumentError("not the state of an exact sum".into()))),
        }
    }
}

/// The sums of successive ranges of groups.
fn column_of(ranges: &[States]) -> ArrayRef {
    let groups = ranges.iter().map(|states| states.groups.len()).sum();
    let mut column = LargeBinaryBuilder::with_capacity(groups, groups * size_of::<f64>());
    for States { sums, has_value, .. } in ranges {
        for (group, &has_value) in has_value.iter().enumerate() {
            if !has_value {
                column.append_null();
            } else if let Some(double) = sums.exact(group) {
                column.append_value(double.to_le_bytes());
            } else {
                let leftovers = sums.leftovers(group).unwrap_or_default();
                column.append_value([&sums.state(group)[..], &leftovers].concat());
            }
        }
    }
    Arc::new(column.finish())
}
