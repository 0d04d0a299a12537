//! Aggregates of the values of each group.
//!
//! ```text
//! values    the rows whose value is not null, as 32 or 64 bits, and the groups of these rows (values.rs)
//! device    counts, sums, minima and maxima, computed by koel's passes
//! host      128 bits: sums, minima and maxima of decimals, sums for means of integers; text: the row of its minimum or maximum
//! ```
//! Sums of integers and decimals are exact or an error. Those of floats, and all means, are exact and rounded once
//! ([`koel::group::wide`]), so they do not depend on the order of rows or on the device.

use std::cell::OnceCell;
use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, PrimitiveArray, RecordBatch, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use koel::{Aggregate, Any, IdOrder, group};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::external::merged;
use crate::group::{Factorized, NullKeys, distinct};
use crate::groups::{GroupColumn, Groups};
use crate::keys::{Column, Keys};
use crate::values::{Numbers, Values, best_rows, exact_sums, extremes, last_rows, present};
use crate::written::mapped;

/// The number of digits of the widest 128-bit decimal.
pub(crate) const DIGITS: u8 = 38;

/// An aggregate of the values of a group. Nulls are ignored; the result for a group without values is null, or 0 for
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Function {
    /// The number of values, as Int64.
    Count,
    /// The sum of the values: Int64 for signed integers, UInt64 for unsigned integers, Decimal128 with 38 digits for
    /// decimals. For floats, the exact sum, rounded once to Float64; for booleans, the number of true values, as Int64.
    Sum,
    /// The least value. For floats NaN if one of them is NaN; text is compared by its bytes.
    Min,
    /// The greatest value. For floats NaN if one of them is NaN; text is compared by its bytes.
    Max,
    /// The exact sum of the values divided by their count and rounded once, as Float64.
    Mean,
    /// The number of distinct values, as Int64.
    DistinctCount,
    /// The value of the first row, which may be null.
    First,
    /// The value of the last row, which may be null.
    Last,
    /// The sum of exact sums, which is an exact sum too (`external/exact_sums.rs`).
    #[doc(hidden)]
    ExactSum,
}

impl Function {
    /// All functions.
    pub const ALL: [Function; 8] = [
        Function::Count,
        Function::Sum,
        Function::Min,
        Function::Max,
        Function::Mean,
        Function::DistinctCount,
        Function::First,
        Function::Last,
    ];

    /// The name in messages, on the command line and of columns.
    pub fn name(self) -> &'static str {
        match self {
            Function::Count => "count",
            Function::Sum => "sum",
            Function::Min => "min",
            Function::Max => "max",
            Function::Mean => "mean",
            Function::DistinctCount => "nunique",
            Function::First => "first",
            Function::Last => "last",
            Function::ExactSum => "exact sum",
        }
    }
}

/// An aggregate and its column.
#[derive(Clone, Debug)]
pub struct Aggregation {
    function: Function,
    column: Option<Column>,
    name: String,
}

impl Aggregation {
    /// The number of rows of each group, as a column `count`.
    pub fn rows() -> Self {
        Aggregation { function: Function::Count, column: None, name: "count".into() }
    }

    /// The number of the first row of each group, as a UInt32 column `row`.
    pub fn first_rows() -> Self {
        Aggregation { function: Function::First, column: None, name: "row".into() }
    }

    /// An aggregate of a column, in a column that is named after both: `price_sum`.
    pub fn new(function: Function, column: Column) -> Self {
        let name = format!("{}_{}", column.name(), function.name());
        Aggregation { function, column: Some(column), name }
    }

    /// Sets the name of the resulting column.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    pub(crate) fn is_count_of_rows(&self) -> bool {
        self.column.is_none() && self.function == Function::Count
    }

    /// Whether only the first row of each group is needed.
    pub(crate) fn is_first(&self) -> bool {
        self.function == Function::First
    }

    pub(crate) fn column(&self) -> Option<&Column> {
        self.column.as_ref()
    }

    /// The name of the resulting column.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Aggregates by key: returns a row per group, with the columns of its key and one column per aggregate.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, StringArray};
/// use koel_arrow::{Aggregation, Column, Function, IdOrder, Keys, NullKeys, group_by};
///
/// let city: ArrayRef = Arc::new(StringArray::from(vec!["Oslo", "Bern", "Oslo"]));
/// let sold: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), Some(1), None]));
/// let keys = Keys::new(vec![Column::new("city", city)])?;
/// let wanted = [Aggregation::rows(), Aggregation::new(Function::Sum, Column::new("sold", sold))];
/// let sums = group_by(&koel::auto().backend, &keys, &wanted, IdOrder::FirstSeen, NullKeys::Group)?;
/// assert_eq!(sums.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["city", "count", "sold_sum"]);
/// assert_eq!(sums.column(2).as_ref(), &Int64Array::from(vec![5, 1]));
/// # Ok::<(), koel_arrow::Error>(())
/// ```
///
/// Columns of keys and values have the types of their input columns, or wider types ([`Column::take_wide`]) if the
/// groups have more than 2 GiB of text.
///
/// # Errors
/// [`Error::UnsupportedKey`], [`Error::UnsupportedValue`], [`Error::Uneven`], [`Error::Overflow`], or what koel
/// reports.
pub fn group_by(
    device: &Any,
    keys: &Keys,
    aggregations: &[Aggregation],
    order: IdOrder,
    nulls: NullKeys,
) -> Result<RecordBatch> {
    Groups::of(device, keys, aggregations, order, nulls)?.batch(Column::take_wide)
}

/// An aggregate of each group. `rows` receives the number of rows of each group, if it is requested.
pub(crate) fn aggregated(
    device: &Any,
    groups: &Factorized,
    aggregation: &Aggregation,
    rows: Option<&OnceCell<Vec<u32>>>,
) -> Result<GroupColumn> {
    let ids = groups.codes.values();
    let Some(column) = &aggregation.column else {
        if !aggregation.is_count_of_rows() {
            return Ok(GroupColumn::of(groups.rows.clone()));
        }
        let counts = match rows.and_then(OnceCell::get) {
            Some(counts) => mapped(counts, i64::from),
            None => counts(device, ids, groups.len())?,
        };
        return Ok(GroupColumn::of(Int64Array::from(counts)));
    };
    match aggregation.function {
        Function::Count => {
            let there = present(column, ids).ids;
            return Ok(GroupColumn::of(Int64Array::from(counts(device, &there, groups.len())?)));
        }
        Function::First => return Ok(GroupColumn::rows(column, groups.rows.clone())),
        Function::Last => return Ok(GroupColumn::rows(column, last_rows(ids, groups.len()))),
        Function::ExactSum => return Ok(GroupColumn::Values(merged(column, groups)?)),
        Function::DistinctCount => {
            let pairs = Keys::new(vec![Column::new("", Arc::new(groups.codes.clone())), column.clone()])?;
            // A struct that contains a null counts as a value; a null struct does not.
            let rows = distinct(device, &pairs, IdOrder::FirstSeen, NullKeys::Group)?;
            let is_there = column.is_there();
            let there = rows.values().iter().filter(|&&row| is_there(row));
            let ids: Vec<u32> = there.map(|&row| ids[row as usize]).collect();
            return Ok(GroupColumn::of(Int64Array::from(counts(device, &ids, groups.len())?)));
        }
        _ => (),
    }
    let values = Values::of(column, ids);
    // If there are nulls, the pass over the values does not count all rows.
    let rows = rows.filter(|rows| !values.has_nulls && rows.get().is_none());
    Job { device, groups, column, function: aggregation.function, rows }.run(values)
}

struct Job<'a> {
    device: &'a Any,
    groups: &'a Factorized,
    column: &'a Column,
    function: Function,
    /// Receives the number of rows of each group, if it is requested.
    rows: Option<&'a OnceCell<Vec<u32>>>,
}

impl Job<'_> {
    fn run(&self, values: Values<'_>) -> Result<GroupColumn> {
        let ids = &values.ids[..];
        // The means of decimals are computed on the host, and need the counts.
        let is_counted =
            values.has_nulls || self.function == Function::Mean && matches!(values.numbers, Numbers::I128(_));
        let counts = is_counted.then(|| counts(self.device, ids, self.groups.len())).transpose()?;
        // A group that has only nulls has no value, so its result is null.
        let nulls = counts.as_ref().map(|counts| NullBuffer::from_iter(counts.iter().map(|&count| count > 0)));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let values = match (self.function, &values.numbers) {
            (Function::Sum, numbers) if self.may_be_added() => self.sum(ids, numbers, nulls)?,
            (Function::Mean, numbers) if self.may_be_added() => {
                let means = self.means(ids, numbers, counts.as_deref().unwrap_or(&[]))?;
                Arc::new(Float64Array::new(means.into(), nulls))
            }
            (Function::Min | Function::Max, numbers) if self.is_boolean() || matches!(numbers, Numbers::Other) => {
                let greatest = self.function == Function::Max;
                return match best_rows(self.column, self.groups.codes.values(), self.groups.len(), greatest) {
                    Some(rows) => Ok(GroupColumn::rows(self.column, rows)),
                    None => Err(self.unsupported("cast it to a type of numbers or text")),
                };
            }
            (Function::Min | Function::Max, numbers) => self.extreme(ids, numbers, nulls)?,
            _ => return Err(self.unsupported("cast it to Int64, Decimal128 or Float64")),
        };
        Ok(GroupColumn::Values(values))
    }

    fn unsupported(&self, advice: &'static str) -> Error {
        let (function, column) = (self.function.name(), self.column.name().to_string());
        Error::UnsupportedValue { function, column, found: self.plain_type().clone(), advice }
    }

    /// The type of the values. For a dictionary, it is the type of the dictionary's values.
    fn plain_type(&self) -> &DataType {
        match self.column.data_type() {
            DataType::Dictionary(_, values) => values,
            other => other,
        }
    }

    /// Whether sums and means are supported: for numbers except 256-bit decimals, and for booleans, whose true values
    /// are counted.
    fn may_be_added(&self) -> bool {
        let is_number = self.plain_type().is_numeric() && !matches!(self.plain_type(), DataType::Decimal256(..));
        is_number || self.is_boolean()
    }

    fn is_boolean(&self) -> bool {
        *self.plain_type() == DataType::Boolean
    }

    fn of<V: group::Number>(&self, ids: &[u32], values: &[V], of: Aggregate) -> Result<group::Groups<u32, V>> {
        let both = [of, Aggregate::Count];
        let wanted = &both[..1 + usize::from(self.rows.is_some())];
        let mut found = group::wide::aggregate(self.device, ids, self.groups.len(), values, wanted).map_err(
            |error| match error {
                koel::Error::SumTooLarge { key } => {
                    let signed = self.plain_type().is_signed_integer();
                    self.overflow(key as usize, if signed { DataType::Int64 } else { DataType::UInt64 })
                }
                other => other.into(),
            },
        )?;
        if let Some(rows) = self.rows {
            let _ = rows.set(std::mem::take(&mut found.counts));
        }
        Ok(found)
    }

    fn overflow(&self, group: usize, sum: DataType) -> Error {
        let row = self.groups.rows.values().get(group).map_or(0, |&row| row as usize);
        Error::Overflow { column: self.column.name().into(), row, sum }
    }

    fn sum(&self, ids: &[u32], numbers: &Numbers, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        Ok(match numbers {
            Numbers::U32(values) => {
                Arc::new(UInt64Array::new(self.of(ids, values, Aggregate::Sum)?.sums.into(), nulls))
            }
            Numbers::U64(values) => {
                Arc::new(UInt64Array::new(self.of(ids, values, Aggregate::Sum)?.sums.into(), nulls))
            }
            Numbers::I64(values) => Arc::new(Int64Array::new(self.of(ids, values, Aggregate::Sum)?.sums.into(), nulls)),
            Numbers::F64(values) => {
                Arc::new(Float64Array::new(self.of(ids, values, Aggregate::Sum)?.sums.into(), nulls))
            }
            Numbers::I128(values) => {
                let scale = scale(self.plain_type());
                let of_sums = DataType::Decimal128(DIGITS, scale);
                let most = 10_u128.pow(DIGITS.into()) - 1;
                let sums =
                    exact_sums(ids, values, self.groups.len(), most).map_err(|group| self.overflow(group, of_sums))?;
                Arc::new(Decimal128Array::new(sums.into(), nulls).with_precision_and_scale(DIGITS, scale)?)
            }
            Numbers::Other => return Err(self.unsupported("cast it to Int64, Decimal128 or Float64")),
        })
    }

    fn means(&self, ids: &[u32], numbers: &Numbers, counts: &[i64]) -> Result<Vec<f64>> {
        Ok(match numbers {
            Numbers::U32(values) => self.of(ids, values, Aggregate::Mean)?.means,
            Numbers::U64(values) => self.of(ids, values, Aggregate::Mean)?.means,
            Numbers::I64(values) => self.of(ids, values, Aggregate::Mean)?.means,
            Numbers::F64(values) => self.of(ids, values, Aggregate::Mean)?.means,
            Numbers::I128(values) => {
                let scale = scale(self.plain_type());
                let sums = exact_sums(ids, values, self.groups.len(), u128::MAX)
                    .map_err(|group| self.overflow(group, DataType::Decimal128(DIGITS, scale)))?;
                sums.into_par_iter().zip(counts).map(|(sum, &count)| decimal_mean(sum, scale, count)).collect()
            }
            Numbers::Other => Vec::new(),
        })
    }

    fn extreme(&self, ids: &[u32], numbers: &Numbers, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let greatest = self.function == Function::Max;
        let of = if greatest { Aggregate::Max } else { Aggregate::Min };
        fn either<K, V: group::Number>(groups: group::Groups<K, V>, greatest: bool) -> Vec<V> {
            if greatest { groups.maxs } else { groups.mins }
        }
        let to = self.plain_type();
        let wide: Vec<i128> = match numbers {
            Numbers::U32(values) => mapped(&either(self.of(ids, values, of)?, greatest), i128::from),
            Numbers::U64(values) => mapped(&either(self.of(ids, values, of)?, greatest), i128::from),
            Numbers::I64(values) => mapped(&either(self.of(ids, values, of)?, greatest), i128::from),
            Numbers::I128(values) => extremes(ids, values, self.groups.len(), greatest),
            Numbers::F64(values) => {
                let values = either(self.of(ids, values, of)?, greatest);
                return Ok(match to {
                    DataType::Float64 => Arc::new(Float64Array::new(values.into(), nulls)),
                    DataType::Float32 => {
                        let values = values.into_iter().map(|value| value as f32).collect();
                        Arc::new(PrimitiveArray::<Float32Type>::new(values, nulls))
                    }
                    _ => {
                        let half = |value| <Float16Type as ArrowPrimitiveType>::Native::from_f64(value);
                        Arc::new(PrimitiveArray::<Float16Type>::new(values.into_iter().map(half).collect(), nulls))
                    }
                });
            }
            Numbers::Other => Vec::new(),
        };
        narrowed(to, wide, nulls).ok_or_else(|| self.unsupported("cast it to a type of numbers or text"))
    }
}

/// The number of rows with each group id.
fn counts(device: &Any, ids: &[u32], groups: usize) -> Result<Vec<i64>> {
    let counted = group::wide::aggregate::<_, u32>(device, ids, groups, &[], &[Aggregate::Count])?;
    Ok(mapped(&counted.counts, i64::from))
}

/// The number of decimal places of a decimal; 0 for integers.
pub(crate) fn scale(of: &DataType) -> i8 {
    match of {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// The sum of decimals of this scale divided by their count and rounded once; NaN if the count is 0.
pub(crate) fn decimal_mean(sum: i128, scale: i8, count: i64) -> f64 {
    /// The number of digits of the greatest power of 10 in 64 bits.
    const MOST: u32 = 19;
    let digits = u32::from(scale.unsigned_abs());
    let power = [MOST.min(digits), digits.saturating_sub(MOST)].map(|digits| 10_u64.pow(digits.min(MOST)));
    match (count.unsigned_abs(), scale) {
        (0, _) => f64::NAN,
        (count, 0..) => koel::exact_ratio(sum, &[], &[power[0], power[1], count]),
        (count, _) => koel::exact_ratio(sum, &power, &[count]),
    }
}

/// Converts values back to the type of their column; `None` for types whose values are not such integers.
fn narrowed(to: &DataType, values: Vec<i128>, nulls: Option<NullBuffer>) -> Option<ArrayRef> {
    macro_rules! as_type {
        ($($pattern:pat => $arrow:ty),* $(,)?) => {
            match to {
                $($pattern => {
                    // The value of a group without values may not fit, but is null.
                    let values = mapped(&values, |value| value as <$arrow as ArrowPrimitiveType>::Native);
                    Arc::new(PrimitiveArray::<$arrow>::new(values.into(), nulls).with_data_type(to.clone()))
                })*
                _ => return None,
            }
        };
    }
    Some(as_type! {
        DataType::Int8 => Int8Type,
        DataType::Int16 => Int16Type,
        DataType::Int32 => Int32Type,
        DataType::Int64 => Int64Type,
        DataType::UInt8 => UInt8Type,
        DataType::UInt16 => UInt16Type,
        DataType::UInt32 => UInt32Type,
        DataType::UInt64 => UInt64Type,
        DataType::Date32 => Date32Type,
        DataType::Date64 => Date64Type,
        DataType::Time32(TimeUnit::Second) => Time32SecondType,
        DataType::Time32(_) => Time32MillisecondType,
        DataType::Time64(TimeUnit::Microsecond) => Time64MicrosecondType,
        DataType::Time64(_) => Time64NanosecondType,
        DataType::Timestamp(TimeUnit::Second, _) => TimestampSecondType,
        DataType::Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType,
        DataType::Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
        DataType::Duration(TimeUnit::Second) => DurationSecondType,
        DataType::Duration(TimeUnit::Millisecond) => DurationMillisecondType,
        DataType::Duration(TimeUnit::Microsecond) => DurationMicrosecondType,
        DataType::Duration(TimeUnit::Nanosecond) => DurationNanosecondType,
        DataType::Decimal32(..) => Decimal32Type,
        DataType::Decimal64(..) => Decimal64Type,
        DataType::Decimal128(..) => Decimal128Type,
    })
}
