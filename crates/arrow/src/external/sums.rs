//! Counts and sums of groups whose values arrive in pieces.
//!
//! ```text
//! integers, decimals   the sums of the upper and of the lower 64 bits, each of which fits (partial.rs)
//! doubles              exact sums, rounded at the end (koel::SumStates)
//! ```

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field};
use koel::SumStates;

use crate::aggregate::{DIGITS, Function, decimal_mean, scale};
use crate::error::{Error, Result};
use crate::group::NO_GROUP;
use crate::partial::Exact;
use crate::values::{Numbers, Values};

/// Counts or sums of groups, by their ids.
pub(super) struct Sums {
    function: Function,
    counts: Vec<i64>,
    kind: Kind,
}

enum Kind {
    Count,
    Exact(Vec<Exact>),
    Doubles(SumStates),
}

/// The state of the group with this id.
fn of<T: Clone + Default>(all: &mut Vec<T>, id: u32) -> &mut T {
    let at = id as usize;
    if all.len() <= at {
        all.resize(at + 1, T::default());
    }
    &mut all[at]
}

impl Sums {
    /// The state of a count, sum or mean of this column, whose result has this type; `None` for other aggregates.
    pub(super) fn of(function: Function, column: Option<&Field>, result: &DataType) -> Option<Self> {
        let kind = match function {
            // Without a column, rows are counted.
            _ if column.is_none() => Kind::Count,
            Function::Count => Kind::Count,
            Function::Sum if *result == DataType::Float64 => Kind::Doubles(SumStates::default()),
            Function::Mean if column.is_some_and(|column| column.data_type().is_floating()) => {
                Kind::Doubles(SumStates::default())
            }
            Function::Sum | Function::Mean => Kind::Exact(Vec::new()),
            _ => return None,
        };
        Some(Sums { function, counts: Vec::new(), kind })
    }

    /// Counts rows by their ids.
    pub(super) fn count(&mut self, ids: &[u32]) {
        ids.iter().filter(|&&id| id != NO_GROUP).for_each(|&id| *of(&mut self.counts, id) += 1);
    }

    /// Adds values to the sums of their groups.
    pub(super) fn add(&mut self, values: &Values<'_>) -> Result<()> {
        self.count(&values.ids);
        let rows = || values.ids.iter().copied().enumerate().filter(|&(_, id)| id != NO_GROUP);
        let mut exact = |value: &dyn Fn(usize) -> i128| {
            if let Kind::Exact(sums) = &mut self.kind {
                rows().for_each(|(row, id)| of(sums, id).add(value(row)));
            }
        };
        match &values.numbers {
            Numbers::U32(all) => exact(&|row| all[row].into()),
            Numbers::U64(all) => exact(&|row| all[row].into()),
            Numbers::I64(all) => exact(&|row| all[row].into()),
            Numbers::I128(all) => exact(&|row| all[row]),
            Numbers::F64(all) => {
                if let Kind::Doubles(sums) = &mut self.kind {
                    sums.resize(self.counts.len());
                    sums.add(rows().map(|(row, id)| (id as usize, all[row])));
                }
            }
            Numbers::Other => (),
        }
        Ok(())
    }

    /// A value per group, as a column of this type. `first_occurrences` contains the first row of each group.
    pub(super) fn finish(
        mut self,
        column: Option<&Field>,
        result: &DataType,
        first_occurrences: &[u64],
    ) -> Result<ArrayRef> {
        self.counts.resize(first_occurrences.len(), 0);
        let nulls = NullBuffer::from_iter(self.counts.iter().map(|&count| count > 0));
        let nulls = || Some(nulls.clone()).filter(|nulls| nulls.null_count() > 0);
        let from = column.map_or(&DataType::Null, Field::data_type);
        let counts = &self.counts;
        Ok(match self.kind {
            Kind::Count => Arc::new(Int64Array::from(self.counts)),
            Kind::Doubles(mut sums) => {
                sums.resize(counts.len());
                let value = |(group, &count): (usize, &i64)| match self.function {
                    Function::Mean => sums.mean(group, count.unsigned_abs()),
                    _ => sums.sum(group),
                };
                Arc::new(Float64Array::new(counts.iter().enumerate().map(value).collect(), nulls()))
            }
            Kind::Exact(mut sums) => {
                sums.resize(first_occurrences.len(), Exact::default());
                let of_sums = match (self.function, result) {
                    (Function::Mean, _) => DataType::Decimal128(DIGITS, scale(from)),
                    (_, result) => result.clone(),
                };
                let fits = |sum: i128| match &of_sums {
                    _ if self.function == Function::Mean => true,
                    DataType::Int64 => i64::try_from(sum).is_ok(),
                    DataType::UInt64 => u64::try_from(sum).is_ok(),
                    _ => sum.unsigned_abs() < 10_u128.pow(DIGITS.into()),
                };
                let name = column.map_or("", |column| column.name());
                let checked = |(sum, &row): (Exact, &u64)| match sum.sum().filter(|&sum| fits(sum)) {
                    Some(sum) => Ok(sum),
                    None => Err(Error::Overflow { column: name.into(), row: row as usize, sum: of_sums.clone() }),
                };
                let sums = sums.into_iter().zip(first_occurrences).map(checked).collect::<Result<Vec<i128>>>()?;
                match (self.function, result) {
                    (Function::Mean, _) => {
                        let mean = |(sum, &count): (i128, &i64)| decimal_mean(sum, scale(from), count);
                        Arc::new(Float64Array::new(sums.into_iter().zip(counts).map(mean).collect(), nulls()))
                    }
                    (_, DataType::Int64) => {
                        Arc::new(Int64Array::new(sums.into_iter().map(|sum| sum as i64).collect(), nulls()))
                    }
                    (_, DataType::UInt64) => {
                        Arc::new(UInt64Array::new(sums.into_iter().map(|sum| sum as u64).collect(), nulls()))
                    }
                    _ => {
                        let sums = Decimal128Array::new(sums.into(), nulls());
                        Arc::new(sums.with_precision_and_scale(DIGITS, scale(from))?)
                    }
                }
            }
        })
    }
}
