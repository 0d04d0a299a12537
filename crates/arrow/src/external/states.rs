//! The states of aggregates, for single rows and for the groups of a batch.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Decimal128Array, Int64Array, RecordBatch, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Schema};

use super::exact_sums;
use crate::aggregate::DIGITS;
use crate::error::Result;
use crate::group::{Factorized, NO_GROUP};
use crate::keys::Column;
use crate::partial::by_group;
use crate::values::{Numbers, Values, exact_sums};

/// The greatest decimal of 38 digits.
const MOST: u128 = 10_u128.pow(DIGITS as u32) - 1;

/// The state of an aggregate. Columns are given by their index in the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    /// The number of rows.
    Rows,
    /// The number of values.
    Values(usize),
    /// The exact sum of integers, or of decimals of this scale.
    Sum(usize, i8),
    /// The number of values that are true.
    True(usize),
    /// The exact sum of doubles (exact_sums.rs).
    Doubles(usize),
    /// A value of the column: the minimum, the maximum, the first or the last one.
    Value(usize),
    /// The position of a row: the number of its morsel, and its number within the morsel.
    Place,
}

impl State {
    pub(super) fn data_type(&self, table: &Schema) -> Option<DataType> {
        Some(match self {
            State::Rows | State::Values(_) | State::True(_) => DataType::Int64,
            State::Sum(_, scale) => DataType::Decimal128(DIGITS, *scale),
            State::Doubles(_) => DataType::LargeBinary,
            State::Value(column) => table.fields().get(*column)?.data_type().clone(),
            State::Place => DataType::UInt64,
        })
    }

    /// The name of its column, for messages.
    pub(super) fn name<'a>(&self, table: &'a Schema) -> &'a str {
        match self {
            State::Value(column) => table.fields().get(*column).map_or("", |field| field.name()),
            _ => "",
        }
    }

    /// The states of single rows. The first row is at this position.
    pub(super) fn of_rows(&self, batch: &RecordBatch, place: u64) -> Result<ArrayRef> {
        let rows = batch.num_rows();
        let column = |at: usize| batch.column(at);
        Ok(match *self {
            State::Rows => Arc::new(Int64Array::from(vec![1; rows])),
            State::Values(at) | State::True(at) => {
                let nulls = column(at).logical_nulls();
                let is_there = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                match self {
                    State::True(_) => {
                        let values = column(at).as_boolean();
                        let is_true = |row| is_there(row).then(|| i64::from(values.value(row)));
                        Arc::new((0..rows).map(is_true).collect::<Int64Array>())
                    }
                    _ => Arc::new(Int64Array::from_iter_values((0..rows).map(|row| i64::from(is_there(row))))),
                }
            }
            State::Sum(at, scale) => {
                let values = expanded(column(at), Numbers::whole);
                let sums = Decimal128Array::new(values.into(), column(at).logical_nulls());
                Arc::new(sums.with_precision_and_scale(DIGITS, scale)?)
            }
            State::Doubles(at) => {
                let values = expanded(column(at), |numbers, at| match numbers {
                    Numbers::F64(all) => all[at],
                    _ => 0.0,
                });
                exact_sums::of_rows(&values, column(at).logical_nulls())
            }
            State::Value(at) => Arc::clone(column(at)),
            State::Place => Arc::new(UInt64Array::from_iter_values(place..place + rows as u64)),
        })
    }
}

/// The values of a column, with a default in place of nulls.
fn expanded<T: Clone + Default>(column: &ArrayRef, value: impl Fn(&Numbers, usize) -> T) -> Vec<T> {
    let rows: Vec<u32> = (0..column.len() as u32).collect();
    let column = Column::new("", Arc::clone(column));
    let values = Values::of(&column, &rows);
    let mut all = vec![T::default(); rows.len()];
    for (row, _) in values.ids.iter().enumerate().filter(|&(_, &row)| row != NO_GROUP) {
        all[row] = value(&values.numbers, row);
    }
    all
}

/// The sum of the integers or decimals of each group; null for a group without values. `None` for other values, or if
/// decimals exceed their type and their sum is too large.
pub(super) fn sums(column: &Column, groups: &Factorized) -> Option<Decimal128Array> {
    let values = Values::of(column, groups.codes.values());
    let sums = match &values.numbers {
        Numbers::U32(all) => added(&values.ids, all, groups.len()),
        Numbers::U64(all) => added(&values.ids, all, groups.len()),
        Numbers::I64(all) => added(&values.ids, all, groups.len()),
        Numbers::I128(all) => exact_sums(&values.ids, all, groups.len(), MOST).ok()?,
        Numbers::F64(_) | Numbers::Other => return None,
    };
    Some(Decimal128Array::new(sums.into(), has_value(&values, groups.len())))
}

/// The sum of each group, which fits in 128 bits.
fn added<T: Copy + Into<i128> + Sync>(ids: &[u32], values: &[T], groups: usize) -> Vec<i128> {
    by_group(ids, groups, |sum: &mut i128, row| *sum += values[row].into(), |sum, later| *sum += later)
}

/// Which groups have a value; `None` if all have.
fn has_value(values: &Values<'_>, groups: usize) -> Option<NullBuffer> {
    // Without nulls, each group has a value, because it has a row.
    if !values.has_nulls {
        return None;
    }
    let mut has_value = vec![false; groups];
    values.ids.iter().filter(|&&id| id != NO_GROUP).for_each(|&id| has_value[id as usize] = true);
    Some(NullBuffer::from(has_value)).filter(|nulls| nulls.null_count() > 0)
}
