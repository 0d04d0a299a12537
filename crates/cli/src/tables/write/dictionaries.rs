//! Decides which columns of a Parquet row group are written without a dictionary.
//!
//! Parquet's encoder begins each column of a row group with a dictionary, looks up every value in it, and abandons it
//! when it exceeds 1 MiB. For columns with mostly distinct values, that work is wasted and files become larger. So a
//! column is written without a dictionary if nearly all values of a sample differ (every n-th row, about 2^12 rows),
//! and if runs of equal values are short, as in the keys of a joined table.
//!
//! zstd compresses short runs better than a dictionary does: runs of 2 to 32 random or ascending numbers took 0.3 to
//! 0.8 of its bytes, and 0.4 to 0.7 of its time. The choice depends only on the rows of the group, so files are equal
//! for any number of threads.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, OffsetBuffer};
use arrow_schema::DataType;

/// The approximate number of rows in a sample.
const SAMPLE: usize = 1 << 12;
/// The greatest average length of short runs.
const RUN: usize = 32;
/// The percentage of distinct values in a sample that is exceeded if a column has at least some 70,000 equally frequent
/// values.
const DISTINCT: usize = 97;

/// Whether the column of a row group, given in pieces, has too many distinct values for a dictionary.
pub(super) fn is_distinct(pieces: &[&ArrayRef]) -> bool {
    let rows: usize = pieces.iter().map(|piece| piece.len()).sum();
    // Odd, because runs of equal values often have a power of two as their length.
    let step = (rows / SAMPLE) | 1;
    let mut distinct = HashSet::with_capacity(SAMPLE);
    let (mut sampled, mut changes, mut start) = (0, 0, 0);
    for piece in pieces {
        let Some(values) = Values::of(piece) else { return false };
        let mut row = start;
        while row < piece.len() {
            if piece.is_valid(row) {
                let value = values.get(row);
                distinct.insert(value);
                sampled += 1;
                changes += usize::from(row + 1 == piece.len() || values.get(row + 1) != value);
            }
            row += step;
        }
        start = row - piece.len();
    }
    changes * RUN > sampled && distinct.len() * 100 >= sampled * DISTINCT
}

/// The bytes of an array's values.
enum Values<'a> {
    Fixed { bytes: &'a [u8], width: usize },
    Short { bytes: &'a [u8], offsets: &'a OffsetBuffer<i32> },
    Long { bytes: &'a [u8], offsets: &'a OffsetBuffer<i64> },
}

impl<'a> Values<'a> {
    /// `None` for types without a simple layout.
    fn of(array: &'a ArrayRef) -> Option<Self> {
        use DataType::*;
        let (bytes, offsets) = match array.data_type() {
            Utf8 => (array.as_string::<i32>().value_data(), array.as_string::<i32>().offsets()),
            Binary => (array.as_binary::<i32>().value_data(), array.as_binary::<i32>().offsets()),
            LargeUtf8 => {
                let array = array.as_string::<i64>();
                return Some(Values::Long { bytes: array.value_data(), offsets: array.offsets() });
            }
            LargeBinary => {
                let array = array.as_binary::<i64>();
                return Some(Values::Long { bytes: array.value_data(), offsets: array.offsets() });
            }
            of => {
                let width = of.primitive_width()?;
                let bytes = arrow_array::downcast_primitive_array!(
                    array => array.values().inner().as_slice(),
                    _ => return None
                );
                return Some(Values::Fixed { bytes, width });
            }
        };
        Some(Values::Short { bytes, offsets })
    }

    fn get(&self, row: usize) -> &'a [u8] {
        fn part<'a, O: ArrowNativeType>(bytes: &'a [u8], offsets: &OffsetBuffer<O>, row: usize) -> &'a [u8] {
            &bytes[offsets[row].as_usize()..offsets[row + 1].as_usize()]
        }
        match self {
            Values::Fixed { bytes, width } => &bytes[row * width..(row + 1) * width],
            Values::Short { bytes, offsets } => part(bytes, offsets, row),
            Values::Long { bytes, offsets } => part(bytes, offsets, row),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray};

    use super::*;

    const ROWS: usize = 1 << 19;

    fn of_numbers(value: fn(usize) -> usize) -> bool {
        let all: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| value(row) as i64)));
        let pieces: [ArrayRef; 3] = [all.slice(0, 1000), all.slice(1000, 77_777), all.slice(78_777, ROWS - 78_777)];
        let found = is_distinct(&pieces.each_ref());
        assert_eq!(found, is_distinct(&[&all]), "whatever the pieces are");
        found
    }

    fn random(row: usize) -> usize {
        row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
    }

    #[test]
    fn columns_of_distinct_values_have_no_dictionary() {
        assert!(of_numbers(|row| row), "ascending");
        assert!(of_numbers(random), "in random order");
        assert!(of_numbers(|row| row / 2) && of_numbers(|row| random(row / 16)), "short runs");
        assert!(!of_numbers(|row| row / 64) && !of_numbers(|row| random(row / 1024)), "long runs");
        assert!(!of_numbers(|row| random(row) % 5000), "few values");
        assert!(!of_numbers(|_| 7), "one value");
        let texts = |rows: usize| -> ArrayRef {
            Arc::new(StringArray::from_iter((0..rows).map(|row| (row % 5 > 0).then(|| format!("{:030}", random(row))))))
        };
        assert!(is_distinct(&[&texts(ROWS / 4)]));
        assert!(is_distinct(&[&texts(1000)]));
        assert!(!is_distinct(&[]) && !is_distinct(&[&texts(0)]));
    }
}
