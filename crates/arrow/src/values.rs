//! Converts values for koel's aggregates, and computes the aggregates that koel does not support.

use std::borrow::Cow;

use arrow_array::UInt32Array;
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use rayon::prelude::*;

use crate::group::NO_GROUP;
use crate::keys::Column;
use crate::leaf::{self, Bytes, Fixed, Leaf, leaves, with_values};
use crate::partial::{Exact, by_group};
use crate::written::{mapped, written};

/// The values of a column. Rows with a null have the id [`NO_GROUP`] and an unspecified value. In columns of doubles
/// that value is 0, because the window of bits with which sums of doubles begin is chosen from all values, including
/// those of nulls.
pub(crate) struct Values<'a> {
    /// The group of each row, or [`NO_GROUP`].
    pub(crate) ids: Cow<'a, [u32]>,
    pub(crate) numbers: Numbers,
    pub(crate) has_nulls: bool,
}

/// Values, by the type in which they are added up and compared.
pub(crate) enum Numbers {
    U32(ScalarBuffer<u32>),
    U64(ScalarBuffer<u64>),
    I64(ScalarBuffer<i64>),
    F64(ScalarBuffer<f64>),
    I128(ScalarBuffer<i128>),
    /// Values that are not numbers.
    Other,
}

impl Numbers {
    /// The integer or decimal of a row, without its scale; 0 for other types.
    pub(crate) fn whole(&self, row: usize) -> i128 {
        match self {
            Numbers::U32(all) => all[row].into(),
            Numbers::U64(all) => all[row].into(),
            Numbers::I64(all) => all[row].into(),
            Numbers::I128(all) => all[row],
            Numbers::F64(_) | Numbers::Other => 0,
        }
    }
}

impl<'a> Values<'a> {
    /// The values of a column; `ids` are the groups of its rows.
    pub(crate) fn of(column: &Column, ids: &'a [u32]) -> Self {
        let plain = leaves(column.name(), column.data_type(), column.chunks()).ok().filter(|leaves| leaves.len() == 1);
        let Some([leaf]) = plain.as_deref() else {
            // Types that cannot be keys can still be counted.
            return Values { numbers: Numbers::Other, ..present(column, ids) };
        };
        let (mut numbers, present) = (numbers(column.data_type(), leaf), present(column, ids));
        if let (true, Numbers::F64(values)) = (present.has_nulls, &mut numbers) {
            *values = without_nulls(&present.ids, values);
        }
        Values { numbers, ..present }
    }
}

/// The group of each row, [`NO_GROUP`] for nulls; the values are not converted.
pub(crate) fn present<'a>(column: &Column, ids: &'a [u32]) -> Values<'a> {
    let nulls: Vec<Option<NullBuffer>> = column.chunks().iter().map(|chunk| chunk.logical_nulls()).collect();
    let has_nulls = nulls.iter().flatten().any(|nulls| nulls.null_count() > 0);
    if !has_nulls {
        return Values { ids: Cow::Borrowed(ids), numbers: Numbers::Other, has_nulls };
    }
    let starts = column.starts();
    let there = written(ids.len(), |start, to| {
        for (to, row) in to.iter_mut().zip(start..) {
            let (chunk, place) = starts.place(row as u32);
            let is_null = nulls[chunk].as_ref().is_some_and(|nulls| nulls.is_null(place));
            *to = if is_null { NO_GROUP } else { ids[row] };
        }
    });
    Values { ids: Cow::Owned(there), numbers: Numbers::Other, has_nulls }
}

fn numbers(of: &DataType, leaf: &Leaf) -> Numbers {
    match of {
        DataType::Dictionary(_, values) => numbers(values, leaf),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => Numbers::U32(match whole(leaf) {
            Some(leaf::Values::U32(values)) => values.clone(),
            _ => collected(leaf, |value| value as u32),
        }),
        DataType::UInt64 => Numbers::U64(match whole(leaf) {
            Some(leaf::Values::U64(values)) => values.clone(),
            _ => collected(leaf, |value| value as u64),
        }),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Numbers::F64(match &leaf.pieces[..] {
            [leaf::Piece { values: leaf::Values::F64(values), nulls: None, .. }] => values.clone(),
            _ => doubles(leaf),
        }),
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) => {
            Numbers::I128(match whole(leaf) {
                Some(leaf::Values::I128(values)) => values.clone(),
                _ => collected(leaf, |value| value),
            })
        }
        DataType::Null | DataType::Struct(_) | DataType::Interval(_) => Numbers::Other,
        // False is 0 and true is 1.
        DataType::Boolean => Numbers::I64(collected(leaf, |value| value as i64)),
        of if has_bytes(of) => Numbers::Other,
        _ => Numbers::I64(match whole(leaf) {
            Some(leaf::Values::I64(values)) => values.clone(),
            _ => collected(leaf, |value| value as i64),
        }),
    }
}

/// The values of a column in one piece: they need not be copied if they have the type of the sum.
fn whole(leaf: &Leaf) -> Option<&leaf::Values> {
    match &leaf.pieces[..] {
        [piece] => Some(&piece.values),
        _ => None,
    }
}

/// The values as integers.
fn collected<V: ArrowNativeType>(leaf: &Leaf, to: impl Fn(i128) -> V + Sync) -> ScalarBuffer<V> {
    #[inline]
    fn put<T: Fixed, V>(all: &[T], to: impl Fn(i128) -> V, values: &mut [V]) {
        for (value, own) in values.iter_mut().zip(all) {
            *value = to(T::widen(own.whole()));
        }
    }
    let written = leaf.written(|piece, row, values| {
        with_values!(&leaf.pieces[piece].values, |all| put(&all[row..], &to, values), |_bytes| ());
    });
    written.into()
}

/// The values as doubles, with -0 and NaN unchanged. Nulls are 0, because their values would otherwise affect how sums
/// are computed.
fn doubles(leaf: &Leaf) -> ScalarBuffer<f64> {
    let written = leaf.written(|piece, row, values| {
        let piece = &leaf.pieces[piece];
        match &piece.values {
            leaf::Values::F32(all) => values.iter_mut().zip(&all[row..]).for_each(|(to, &value)| *to = value.into()),
            leaf::Values::F64(all) => values.copy_from_slice(&all[row..row + values.len()]),
            _ => (),
        }
        piece.replace_nulls(row, values, 0.0);
    });
    written.into()
}

/// The values, with 0 for values without a group.
fn without_nulls(ids: &[u32], values: &[f64]) -> ScalarBuffer<f64> {
    let present = written(values.len(), |start, to: &mut [f64]| {
        for (to, row) in to.iter_mut().zip(start..) {
            *to = if ids[row] == NO_GROUP { 0.0 } else { values[row] };
        }
    });
    present.into()
}

/// Whether values of a type are compared as bytes.
fn has_bytes(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => has_bytes(values),
        Boolean | Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => true,
        _ => false,
    }
}

/// The sum of each group, or the first group whose sum has an absolute value greater than `most`, or exceeds 128 bits.
pub(crate) fn exact_sums(ids: &[u32], values: &[i128], groups: usize, most: u128) -> Result<Vec<i128>, usize> {
    let sums = by_group(ids, groups, |sum: &mut Exact, row| sum.add(values[row]), Exact::merge);
    let fits = |sum: Exact| sum.sum().filter(|sum| sum.unsigned_abs() <= most);
    match sums.par_iter().position_first(|&sum| fits(sum).is_none()) {
        Some(group) => Err(group),
        None => Ok(mapped(&sums, |sum| fits(sum).unwrap_or_default())),
    }
}

/// The least or the greatest value of each group; 0 for a group without values.
pub(crate) fn extremes(ids: &[u32], values: &[i128], groups: usize, greatest: bool) -> Vec<i128> {
    let put = |best: &mut Option<i128>, value: i128| {
        *best = Some(best.map_or(value, |best| if greatest { best.max(value) } else { best.min(value) }));
    };
    let merge = |best: &mut Option<i128>, later: Option<i128>| later.into_iter().for_each(|value| put(best, value));
    let best = by_group(ids, groups, |best, row| put(best, values[row]), merge);
    mapped(&best, Option::unwrap_or_default)
}

/// The first row with the minimum or the maximum of each group, null for a group without values. `None` if the values
/// are not text, bytes or booleans.
pub(crate) fn best_rows(column: &Column, ids: &[u32], groups: usize, greatest: bool) -> Option<UInt32Array> {
    if !has_bytes(column.data_type()) {
        return None;
    }
    let leaves = leaves(column.name(), column.data_type(), column.chunks()).ok()?;
    let [leaf] = &leaves[..] else { return None };
    let starts = column.starts();
    let value = |row: u32| -> Option<&[u8]> {
        let (piece, row) = starts.place(row);
        let piece = &leaf.pieces[piece];
        if piece.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        match &piece.values {
            leaf::Values::Bytes(Bytes { strings, keys }) => {
                Some(strings.get(keys.as_ref().map_or(row, |keys| keys[row] as usize)))
            }
            leaf::Values::U8(booleans) => Some(std::slice::from_ref(&booleans[row])),
            _ => None,
        }
    };
    // Of equal values, the first row remains.
    let put = |best: &mut Option<u32>, row: u32| {
        let Some(own) = value(row) else { return };
        let is_better = best.and_then(value).is_none_or(|other| if greatest { own > other } else { own < other });
        if is_better {
            *best = Some(row);
        }
    };
    let merge = |best: &mut Option<u32>, later: Option<u32>| later.into_iter().for_each(|row| put(best, row));
    let best = by_group(ids, groups, |best, row| put(best, row as u32), merge);
    Some(best.into_iter().collect())
}

/// The last row of each group.
pub(crate) fn last_rows(ids: &[u32], groups: usize) -> UInt32Array {
    by_group(ids, groups, |last, row| *last = row as u32, |last, later| *last = later.max(*last)).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array};

    use super::*;

    #[test]
    fn doubles_under_nulls_are_0() {
        let nulls = NullBuffer::from(vec![true, false, true]);
        let array: ArrayRef = Arc::new(Float64Array::new(vec![1.0, 1e300, -0.0].into(), Some(nulls)));
        for chunks in [vec![array.clone()], vec![array.slice(0, 2), array.slice(2, 1)]] {
            let column = Column::of_chunks("v", &DataType::Float64, chunks).expect("a column");
            let values = Values::of(&column, &[4, 4, 5]);
            let Numbers::F64(numbers) = values.numbers else { panic!("not doubles") };
            assert_eq!(
                numbers.iter().map(|value| value.to_bits()).collect::<Vec<_>>(),
                [1.0_f64, 0.0, -0.0].map(f64::to_bits)
            );
            assert_eq!(values.ids.as_ref(), [4, NO_GROUP, 5]);
        }
    }
}
