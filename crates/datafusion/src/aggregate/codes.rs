//! Conversions of a column's values to integers of 64 bits, and back. They preserve the order, except for floats.
//!
//! Floats are converted by their bits, except that -0 becomes 0. NaNs with different bits are different values, as in
//! DataFusion's groups.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, make_array};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use datafusion::arrow::datatypes::{ArrowNativeType, ArrowPrimitiveType, DataType, Float16Type, IntervalUnit};
use datafusion::error::{DataFusionError, Result};

/// Whether a type is supported. Wide decimals are supported if all values of a column fit 64 bits.
pub(super) fn takes(of: &DataType) -> bool {
    use DataType::*;
    match of {
        Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Float16 | Float32 | Float64 => true,
        Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => true,
        Decimal32(..) | Decimal64(..) | Decimal128(..) => true,
        Interval(unit) => *unit == IntervalUnit::YearMonth,
        _ => false,
    }
}

/// Writes the number of each row to `numbers`, replacing its contents; unspecified for nulls. Returns false if a value
/// does not have a number.
pub(super) fn number(column: &ArrayRef, numbers: &mut Vec<u64>) -> bool {
    use DataType::*;
    numbers.clear();
    match column.data_type() {
        Boolean => numbers.extend(column.as_boolean().values().iter().map(u64::from)),
        Int8 => put(column, numbers, |value: i8| signed(value.into())),
        Int16 => put(column, numbers, |value: i16| signed(value.into())),
        Int32 | Date32 | Time32(_) | Decimal32(..) | Interval(_) => put(column, numbers, |v: i32| signed(v.into())),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => put(column, numbers, signed),
        UInt8 => put(column, numbers, |value: u8| value.into()),
        UInt16 => put(column, numbers, |value: u16| value.into()),
        UInt32 => put(column, numbers, |value: u32| value.into()),
        UInt64 => put(column, numbers, |value: u64| value),
        Float16 => put(column, numbers, |value: Half| without_sign_of_zero(value.to_bits().into(), 16)),
        Float32 => put(column, numbers, |value: f32| without_sign_of_zero(value.to_bits().into(), 32)),
        Float64 => put(column, numbers, |value: f64| without_sign_of_zero(value.to_bits(), 64)),
        Decimal128(..) => {
            put(column, numbers, |value: i128| signed(value as i64));
            return fit(column);
        }
        _ => return false,
    }
    true
}

type Half = <Float16Type as ArrowPrimitiveType>::Native;

fn put<T: ArrowNativeType>(column: &ArrayRef, numbers: &mut Vec<u64>, number: impl Fn(T) -> u64) {
    let data = column.to_data();
    numbers.extend(data.buffer::<T>(0)[..column.len()].iter().map(|&value| number(value)));
}

fn signed(value: i64) -> u64 {
    value as u64 ^ 1 << 63
}

fn without_sign_of_zero(bits: u64, width: u32) -> u64 {
    if bits == 1 << (width - 1) { 0 } else { bits }
}

/// Whether all values of 128 bits fit 64.
fn fit(column: &ArrayRef) -> bool {
    let data = column.to_data();
    let values = &data.buffer::<i128>(0)[..column.len()];
    let fits = |value: i128| i128::from(value as i64) == value;
    // Without a branch per value, because almost always all values fit. The value of a null is unspecified.
    values.iter().fold(true, |all, &value| all & fits(value))
        || column.nulls().is_some_and(|nulls| nulls.valid_indices().all(|row| fits(values[row])))
}

/// The least and the greatest number of the rows that are not null.
pub(super) fn ends(column: &ArrayRef, numbers: &[u64]) -> Option<(u64, u64)> {
    let wider = |ends: (u64, u64), number: u64| (ends.0.min(number), ends.1.max(number));
    let none = (u64::MAX, 0);
    let ends = match column.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => numbers.iter().fold(none, |ends, &number| wider(ends, number)),
        Some(nulls) => nulls.valid_indices().fold(none, |ends, row| wider(ends, numbers[row])),
    };
    (ends.0 <= ends.1).then_some(ends)
}

/// Converts numbers back to a column of values.
pub(super) fn restored(of: &DataType, numbers: &[u64], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    use DataType::*;
    let all = Restored { of, numbers, nulls };
    match of {
        Boolean => {
            let values = BooleanBuffer::collect_bool(numbers.len(), |row| numbers[row] == 1);
            Ok(Arc::new(BooleanArray::new(values, all.nulls)))
        }
        Int8 => all.by(|number| with_sign(number) as i8),
        Int16 => all.by(|number| with_sign(number) as i16),
        Int32 | Date32 | Time32(_) | Decimal32(..) | Interval(_) => all.by(|number| with_sign(number) as i32),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => all.by(with_sign),
        UInt8 => all.by(|number| number as u8),
        UInt16 => all.by(|number| number as u16),
        UInt32 => all.by(|number| number as u32),
        UInt64 => all.by(|number| number),
        Float16 => all.by(|number| Half::from_bits(number as u16)),
        Float32 => all.by(|number| f32::from_bits(number as u32)),
        Float64 => all.by(f64::from_bits),
        Decimal128(..) => all.by(|number| i128::from(with_sign(number))),
        other => Err(DataFusionError::Internal(format!("koel: values of {other} have no numbers"))),
    }
}

struct Restored<'a> {
    of: &'a DataType,
    numbers: &'a [u64],
    nulls: Option<NullBuffer>,
}

impl Restored<'_> {
    fn by<T: ArrowNativeType>(self, value: impl Fn(u64) -> T) -> Result<ArrayRef> {
        let values: Vec<T> = self.numbers.iter().map(|&number| value(number)).collect();
        let data = ArrayData::builder(self.of.clone()).len(values.len()).add_buffer(Buffer::from_vec(values));
        Ok(make_array(data.nulls(self.nulls).build()?))
    }
}

fn with_sign(number: u64) -> i64 {
    (number ^ 1 << 63) as i64
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Decimal128Array, Float64Array, Int32Array};
    use datafusion::arrow::datatypes::Float64Type;

    use super::*;

    #[test]
    fn numbers_are_in_the_order_of_values() {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![Some(-5), None, Some(i32::MIN), Some(7)]));
        let mut numbers = vec![1];
        assert!(number(&column, &mut numbers));
        assert!(numbers[2] < numbers[0] && numbers[0] < numbers[3]);
        assert_eq!(ends(&column, &numbers), Some((numbers[2], numbers[3])));
        let sliced = column.slice(1, 2);
        assert!(number(&sliced, &mut numbers) && numbers.len() == 2);
        assert_eq!(ends(&sliced, &numbers), Some((numbers[1], numbers[1])));
        assert_eq!(ends(&column.slice(1, 1), &numbers[..1]), None);
    }

    #[test]
    fn wide_decimals_are_reported() {
        let column = |last: Option<i128>| -> ArrayRef { Arc::new(Decimal128Array::from(vec![Some(-1), None, last])) };
        let mut numbers = vec![];
        assert!(number(&column(Some(i64::MAX.into())), &mut numbers));
        assert!(!number(&column(Some(1 << 63)), &mut numbers));
    }

    #[test]
    fn zeros_have_no_sign_and_nans_keep_their_bits() {
        let odd = f64::from_bits(0xFFF8_0000_0000_0123);
        let column: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 0.0, odd, f64::NAN, -1.5]));
        let mut numbers = vec![];
        assert!(number(&column, &mut numbers));
        assert!(numbers[0] == numbers[1] && numbers[2] != numbers[3]);
        let bits = |column: &ArrayRef| -> Vec<u64> {
            column.as_primitive::<Float64Type>().values().iter().map(|value| value.to_bits()).collect()
        };
        let restored = restored(column.data_type(), &numbers, None).expect("floats");
        assert_eq!(bits(&restored), [0.0, 0.0, odd, f64::NAN, -1.5].map(f64::to_bits));
    }
}
