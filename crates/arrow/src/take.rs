//! Gathers rows of a column by number, from no more of its pieces than necessary.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array,
    downcast_primitive_array, make_array, new_null_array,
};
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType};
use rayon::prelude::*;

use crate::concat::concat;
use crate::plain::has_dictionaries;
use crate::starts::Starts;
use crate::written::mapped;

type Result<T> = std::result::Result<T, ArrowError>;

/// The least number of rows for which threads share the work.
const LARGE: usize = 1 << 18;
/// The number of rows that a thread gathers at a time.
const PART: usize = 1 << 16;

/// Returns the rows of an array with these numbers; null if a number is null. Arrow's `take` returns too few rows of
/// `FixedSizeBinary(0)`, of `FixedSizeList(0)` and of types that contain them; this function returns all rows.
///
/// # Errors
/// [`ArrowError`] if a number is too large, or if the values are longer than their type can address.
//
// On one thread, because callers may hold locks: a thread that waits for others may run another task that needs the
// locks.
pub fn take(array: &dyn Array, rows: &dyn Array) -> Result<ArrayRef> {
    if !may_have_no_bytes(array.data_type()) {
        return arrow_select::take::take(array, rows, None);
    }
    // Converts row numbers of any type to one type.
    let all = UInt64Array::from_iter_values(0..array.len() as u64);
    let rows = arrow_select::take::take(&all, rows, None)?;
    let places = rows.as_primitive::<UInt64Type>().iter().map(|row| row.map(|row| (0, row as usize)));
    gathered(&[array], places)
}

/// As [`take`], but all threads gather rows if there are many.
fn take_shared(array: &ArrayRef, rows: &UInt32Array) -> Result<ArrayRef> {
    if rows.len() < LARGE || !array.data_type().is_primitive() {
        return take(array, rows);
    }
    if array.null_count() == 0 && rows.null_count() == 0 {
        return downcast_primitive_array!(
            array => Ok(taken(array, rows)),
            _ => take(array, rows)
        );
    }
    let part = |start| take(array, &rows.slice(start, PART.min(rows.len() - start)));
    let parts = (0..rows.len()).into_par_iter().step_by(PART).map(part).collect::<Result<Vec<_>>>()?;
    concat(&parts)
}

/// The rows of an array without nulls.
fn taken<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, rows: &UInt32Array) -> ArrayRef {
    let values = &array.values()[..];
    let taken = PrimitiveArray::<T>::new(mapped(rows.values(), |row| values[row as usize]).into(), None);
    Arc::new(taken.with_data_type(array.data_type().clone()))
}

/// The rows of a batch with these numbers.
pub(crate) fn take_batch(batch: &RecordBatch, rows: &UInt32Array) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| take(column, rows)).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

/// Whether values of a type may take no bytes.
fn may_have_no_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeBinary(0) | DataType::FixedSizeList(_, 0) => true,
        DataType::FixedSizeList(of, _)
        | DataType::List(of)
        | DataType::LargeList(of)
        | DataType::ListView(of)
        | DataType::LargeListView(of)
        | DataType::RunEndEncoded(_, of)
        | DataType::Map(of, _) => may_have_no_bytes(of.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| may_have_no_bytes(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| may_have_no_bytes(field.data_type())),
        _ => false,
    }
}

/// Copies rows one by one, given their pieces and their positions in the pieces.
fn gathered(pieces: &[&dyn Array], places: impl ExactSizeIterator<Item = Option<(usize, usize)>>) -> Result<ArrayRef> {
    let pieces: Vec<ArrayData> = pieces.iter().map(|piece| piece.to_data()).collect();
    let mut rows = MutableArrayData::new(pieces.iter().collect(), true, places.len());
    for place in places {
        match place {
            Some((piece, row)) => rows.try_extend(piece, row, row + 1)?,
            None => rows.try_extend_nulls(1)?,
        }
    }
    Ok(make_array(rows.freeze()))
}

/// Nulls of this type, with the dictionaries of an array of that type, if there is one with rows: formats may require
/// that all parts of a column have the same dictionary.
pub(crate) fn nulls_like(data_type: &DataType, like: Option<&ArrayRef>, rows: usize) -> Result<ArrayRef> {
    match like {
        Some(like) if !like.is_empty() && has_dictionaries(data_type) => take(like, &UInt32Array::new_null(rows)),
        _ => Ok(new_null_array(data_type, rows)),
    }
}

/// Gathers the rows with these numbers, which must be valid, from a column in pieces; null if a number is null.
pub(crate) fn take_chunks(
    data_type: &DataType,
    chunks: &[ArrayRef],
    starts: &Starts,
    rows: &UInt32Array,
) -> Result<ArrayRef> {
    let Some((least, greatest)) = ends(rows) else {
        return nulls_like(data_type, chunks.first(), rows.len());
    };
    // Only the pieces from the least to the greatest row are used.
    let (first, last) = (starts.place(least).0, starts.place(greatest).0);
    let (chunks, start) = (&chunks[first..=last], starts.start(first));
    if is_run(rows) {
        return slice_chunks(chunks, (least - start) as usize, rows.len());
    }
    if let [one] = chunks {
        return match start {
            0 => take_shared(one, rows),
            // The value under a null is unspecified.
            start => take_shared(one, &rows.unary::<_, UInt32Type>(|row| row.wrapping_sub(start))),
        };
    }
    // Ascending rows, such as the left rows of a join, are a run in each piece. The runs of numbers are copied once
    // more, which takes less time than writing the position of each row.
    if rows.null_count() == 0 && data_type.is_primitive() && rows.values().is_sorted() {
        return take_runs(chunks, start, rows);
    }
    // An additional piece contains the null row, with the dictionaries of the first piece.
    let none = match rows.null_count() {
        0 => None,
        _ => Some(take(&chunks[0], &UInt32Array::from(vec![None]))?),
    };
    let pieces: Vec<&dyn Array> = chunks.iter().chain(&none).map(AsRef::as_ref).collect();
    let place = |row| {
        let (piece, row) = starts.place(row);
        (piece - first, row)
    };
    let places: Vec<_> = rows.iter().map(|row| row.map_or((chunks.len(), 0), place)).collect();
    interleave(&pieces, &places)
}

/// Gathers rows, given their pieces and their positions in the pieces. Unlike Arrow's function, it supports values
/// without bytes.
///
/// # Errors
/// [`ArrowError`] if the values are longer than their type can address.
pub(crate) fn interleave(pieces: &[&dyn Array], places: &[(usize, usize)]) -> Result<ArrayRef> {
    match pieces.first() {
        Some(first) if may_have_no_bytes(first.data_type()) => {
            gathered(pieces, places.iter().map(|&place| Some(place)))
        }
        _ => arrow_select::interleave::interleave(pieces, places),
    }
}

/// The least and the greatest row; `None` if there are no rows.
pub(crate) fn ends(rows: &UInt32Array) -> Option<(u32, u32)> {
    let both = |a: (u32, u32), b: (u32, u32)| (a.0.min(b.0), a.1.max(b.1));
    match rows.null_count() {
        0 => rows.values().iter().map(|&row| (row, row)).reduce(both),
        _ => rows.iter().flatten().map(|row| (row, row)).reduce(both),
    }
}

/// Whether row numbers are consecutive, as for the left side of a join in which each left row has one match.
fn is_run(rows: &UInt32Array) -> bool {
    let numbers = rows.values();
    rows.null_count() == 0
        && numbers.iter().zip(numbers.iter().skip(1)).all(|(&row, &next)| next == row.wrapping_add(1))
}

/// Rows `skip..skip + rows`; they are not copied if they are in one piece.
fn slice_chunks(chunks: &[ArrayRef], mut skip: usize, mut rows: usize) -> Result<ArrayRef> {
    let mut slices = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let part = rows.min(chunk.len() - skip);
        slices.push(chunk.slice(skip, part));
        (skip, rows) = (0, rows - part);
    }
    match &slices[..] {
        [one] => Ok(Arc::clone(one)),
        several => concat(several),
    }
}

/// Gathers ascending rows from pieces, the first of which begins with row `start`.
fn take_runs(chunks: &[ArrayRef], mut start: u32, rows: &UInt32Array) -> Result<ArrayRef> {
    let mut rest = &rows.values()[..];
    let mut taken = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        // This does not overflow, because all pieces together have fewer than 2^32 rows.
        let end = start + chunk.len() as u32;
        let (run, behind) = rest.split_at(rest.partition_point(|&row| row < end));
        if !run.is_empty() {
            let run: UInt32Array = run.iter().map(|row| row - start).collect::<Vec<_>>().into();
            taken.push(take(chunk, &run)?);
        }
        (start, rest) = (end, behind);
    }
    concat(&taken)
}

#[cfg(test)]
pub(crate) mod tests {
    use arrow_array::{
        FixedSizeBinaryArray, FixedSizeListArray, Int32Array, ListArray, ListViewArray, RunArray, StructArray,
        UnionArray,
    };
    use arrow_buffer::{NullBuffer, OffsetBuffer};
    use arrow_schema::Field;

    use super::*;

    /// Columns of seven rows whose values have no bytes, or contain such values.
    pub(crate) fn without_bytes() -> Vec<ArrayRef> {
        let nulls = || NullBuffer::from(vec![true, false, true, true, false, true, true]);
        let binary = |rows, nulls| -> ArrayRef {
            let array = FixedSizeBinaryArray::try_new_with_len(0, Vec::<u8>::new().into(), nulls, rows);
            Arc::new(array.expect("values of no bytes"))
        };
        let field = |of: &ArrayRef| Arc::new(Field::new("f", of.data_type().clone(), true));
        let fixed = |of: ArrayRef, length, nulls| -> ArrayRef {
            let lists = FixedSizeListArray::try_new_with_length(field(&of), length, of, nulls, 7);
            Arc::new(lists.expect("lists of one length"))
        };
        let lengths = OffsetBuffer::from_lengths([1, 0, 2, 3, 0, 1, 0]);
        let of = binary(7, None);
        vec![
            binary(7, None),
            binary(7, Some(nulls())),
            fixed(Arc::new(UInt32Array::from(Vec::<u32>::new())), 0, None),
            fixed(Arc::new(UInt32Array::from(Vec::<u32>::new())), 0, Some(nulls())),
            fixed(binary(14, None), 2, None),
            Arc::new(StructArray::new(vec![field(&of)].into(), vec![of.clone()], Some(nulls()))),
            Arc::new(ListArray::new(field(&of), lengths, of, None)),
        ]
    }

    /// Runs, views of lists and unions without bytes, which cannot be keys.
    fn containers_without_bytes() -> Vec<ArrayRef> {
        let of: ArrayRef = without_bytes().swap_remove(0);
        let field = Arc::new(Field::new("f", of.data_type().clone(), true));
        let runs = RunArray::try_new(&Int32Array::from(vec![1, 3, 4, 5, 6, 7, 8]).slice(0, 6), &of.slice(0, 6));
        let (starts, lengths) = (vec![0, 3, 1, 0, 2, 2, 6], vec![1, 0, 2, 3, 0, 1, 1]);
        let views = ListViewArray::new(Arc::clone(&field), starts.into(), lengths.into(), Arc::clone(&of), None);
        let number = Arc::new(Field::new("n", DataType::Int32, true));
        let fields = arrow_schema::UnionFields::try_new([0, 1], [field, number]).expect("two types");
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..7));
        let union = UnionArray::try_new(fields, vec![0, 1, 1, 0, 1, 0, 1].into(), None, vec![of, numbers]);
        vec![Arc::new(runs.expect("runs")), Arc::new(views), Arc::new(union.expect("a union"))]
    }

    /// Arrow's `take` returns no rows of the first, and fails on others.
    #[test]
    fn values_without_bytes_keep_their_rows() {
        for array in without_bytes().into_iter().chain(containers_without_bytes()) {
            let pieces = [array.slice(0, 3), array.slice(3, 4)];
            let row = |row: &Option<u32>| match *row {
                Some(row) => array.slice(row as usize, 1),
                None => new_null_array(array.data_type(), 1),
            };
            for rows in [
                vec![Some(4), Some(1), Some(1), Some(6)],
                vec![Some(2), None, Some(5)],
                vec![Some(6), Some(3)],
                vec![Some(0), Some(0), Some(4)],
                vec![None],
            ] {
                let expected: Vec<ArrayRef> = rows.iter().map(row).collect();
                let expected = concat(&expected).expect("one type");
                assert_eq!(expected.len(), rows.len());
                let numbers = UInt32Array::from(rows);
                assert_eq!(&take(&array, &numbers).expect("rows"), &expected, "{}", array.data_type());
                let found = take_chunks(array.data_type(), &pieces, &Starts::of(&pieces), &numbers).expect("rows");
                assert_eq!(&found, &expected, "{}", array.data_type());
            }
        }
    }

    #[test]
    fn many_numbers_are_those_that_arrow_takes() {
        let values: ArrayRef = Arc::new(UInt32Array::from_iter((0..1000).map(|row| (row % 9 > 0).then_some(row * 7))));
        let rows = (0..LARGE as u32 + 5).map(|row| (row % 11 > 0).then_some(row.wrapping_mul(0x9e37_79b9) % 1000));
        let rows = UInt32Array::from_iter(rows);
        let expected = arrow_select::take::take(&values, &rows, None).expect("rows");
        let pieces = [Arc::clone(&values)];
        let found = take_chunks(values.data_type(), &pieces, &Starts::of(&pieces), &rows).expect("rows");
        assert_eq!(&found, &expected);
    }
}
