//! Joins in windows return the rows of the join in memory, in its order.

use std::ops::Range;

use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{
    ArrayRef, Int8Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array, UInt64Array,
};
use koel::JoinKind;

use super::tests::{device, expected, whole};
use super::windows::{Extent, JOINED, Window, plan};
use super::*;
use crate::encode::NullEquality;
use crate::take::take_batch;

fn extents(of: &[(i128, i128)]) -> Vec<Extent> {
    of.iter().map(|&keys| Extent { keys: (keys.0 <= keys.1).then_some(keys), bytes: 100 }).collect()
}

fn window(left: Range<usize>, right: Range<usize>, skipped: Range<usize>) -> Window {
    Window { left, right, skipped }
}

#[test]
fn windows_have_all_right_morsels_that_overlap() {
    let left = extents(&[(0, 9), (10, 19), (15, 12), (20, 29), (30, 39)]);
    // The third right morsel has no keys.
    let right = extents(&[(0, 9), (10, 14), (0, -1), (15, 19), (23, 24), (25, 35), (36, 39), (40, 90), (91, 92)]);
    let windows = plan(&left, &right, 2, u64::MAX).expect("windows");
    assert_eq!(
        windows,
        [
            window(0..1, 0..1, 0..0),
            window(1..2, 1..4, 1..1),
            window(2..3, 4..4, 4..4),
            window(3..4, 4..6, 4..4),
            window(4..5, 5..7, 6..6),
            window(5..5, 7..7, 7..9),
        ]
    );
    // Right morsels before and between those that overlap are skipped.
    let sparse = extents(&[(12, 13), (24, 24)]);
    let windows = plan(&sparse, &right, 2, u64::MAX).expect("windows");
    assert_eq!(windows, [window(0..1, 1..3, 0..1), window(1..2, 4..5, 3..4), window(2..2, 5..5, 5..9)]);
}

#[test]
fn there_are_no_windows_where_they_do_not_pay() {
    let ascending = |count: i128, width: i128| -> Vec<Extent> {
        extents(&(0..count).map(|i| (i * width, i * width + width - 1)).collect::<Vec<_>>())
    };
    assert!(plan(&ascending(8, 10), &ascending(8, 10), 8, 200).is_some());
    // Too few windows, too large ones, right or left ranges that descend, left ranges that all overlap everything.
    assert!(plan(&ascending(8, 10), &ascending(8, 10), 9, 200).is_none());
    assert!(plan(&ascending(8, 10), &ascending(8, 10), 8, 199).is_none());
    assert!(plan(&ascending(8, 10), &extents(&[(50, 60), (40, 70), (71, 80)]), 2, 10_000).is_none());
    assert!(plan(&extents(&[(70, 79), (50, 59), (30, 39), (10, 19)]), &ascending(8, 10), 2, 10_000).is_none());
    assert!(plan(&extents(&[(0, 79); 8]), &ascending(8, 10), 2, 10_000).is_none());
    // A left range that occurs again: right rows would have to be kept until then.
    let twice: Vec<Extent> = [ascending(40, 10), ascending(1, 10)].concat();
    assert!(plan(&twice[..40], &ascending(40, 10), 2, 10_000).is_some());
    assert!(plan(&twice, &ascending(40, 10), 2, 10_000).is_none());
    // Right morsels in no window do not count.
    assert!(plan(&ascending(30, 1), &ascending(1000, 10), 2, 10_000).is_none());
    assert!(plan(&ascending(1, 80), &ascending(8, 10), 1, 10_000).is_none());
    assert!(plan(&[], &[], 1, 10_000).is_none());
    // Windows of two left morsels, because each right morsel overlaps two of them; not of more.
    let windows = plan(&ascending(64, 10), &ascending(32, 20), 4, 10_000).expect("windows");
    assert_eq!(windows.len() - 1, 32);
    assert_eq!(windows[1], window(2..4, 1..2, 1..1));
    assert!(plan(&ascending(64, 5), &ascending(8, 40), 4, 10_000).is_none());
}

/// A table of rows `k`, `id` and `text`, with this column of keys.
fn table(keys: ArrayRef) -> RecordBatch {
    let id: Int64Array = (0..keys.len() as i64).collect();
    let text: StringArray = (0..keys.len()).map(|row| (row % 5 > 0).then(|| format!("text {row}"))).collect();
    let columns: [(&str, ArrayRef); 3] = [("k", keys), ("id", Arc::new(id)), ("text", Arc::new(text))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).expect("a table")
}

/// Keys as integers.
fn integers(of: &ArrayRef) -> Vec<Option<i128>> {
    use arrow_array::cast::AsArray;
    match of.as_primitive_opt::<UInt64Type>() {
        Some(keys) => keys.iter().map(|key| key.map(i128::from)).collect(),
        None => {
            let keys = arrow_cast::cast(of, &arrow_schema::DataType::Int64).expect("integers");
            keys.as_primitive::<Int64Type>().iter().map(|key| key.map(i128::from)).collect()
        }
    }
}

/// The table in morsels of two batches each, with the ranges of their keys, which are `wrong` for the last one.
fn ranged(of: &RecordBatch, rows: usize, wrong: i128) -> Batches<'static, Error> {
    let starts = (0..of.num_rows()).step_by(rows);
    let morsels = starts.map(|start| {
        let part = of.slice(start, rows.min(of.num_rows() - start));
        let keys = integers(part.column(0));
        let keys = keys.iter().flatten();
        let is_last = start + rows >= of.num_rows();
        let greatest = keys.clone().max().map(|&greatest| greatest - if is_last { wrong } else { 0 });
        RangedMorsel {
            keys: keys.min().copied().zip(greatest),
            rows: part.num_rows() as u64,
            bytes: 10 * part.num_rows() as u64,
            read: Arc::new(move |take| {
                let half = part.num_rows() / 2;
                take(part.slice(0, half))?;
                take(part.slice(half, part.num_rows() - half))
            }),
        }
    });
    Batches::of_ranges(of.schema(), 0, morsels)
}

fn joined(join: &Join<'_>, left: Batches<'_, Error>, right: Batches<'_, Error>) -> Result<(RecordBatch, JoinedRows)> {
    let (mut found, schema) = (Vec::new(), join.schema(left.schema(), right.schema())?);
    let rows = join.run(left, right, |batch| {
        found.push(batch);
        Ok::<_, Error>(())
    })?;
    Ok((whole(&schema, &found), rows))
}

/// Whether the join was done in windows. Checks its rows.
fn check(
    left: &RecordBatch,
    right: &RecordBatch,
    how: JoinKind,
    nulls: NullEquality,
    rows: [usize; 2],
) -> Result<bool> {
    let (device, limit) = (device(), Limit::new(u64::MAX));
    let mut columns = vec![Output::Left(0), Output::Left(1), Output::Left(2)];
    if how.has_right() {
        columns.extend([Output::Right(1), Output::Right(2), Output::Right(0)]);
    }
    let devices = std::slice::from_ref(&device);
    let join = Join { devices, on: &[(0, 0)], how, nulls, columns: &columns, limit: &limit, watch: &|_| () };
    let before = JOINED.get();
    let (found, sizes) = joined(&join, ranged(left, rows[0], 0), ranged(right, rows[1], 0))?;
    let is_in_windows = JOINED.get() > before;
    assert_eq!(found.columns(), expected(left, right, &join)?, "{how}");
    let all = (left.num_rows() as u64, right.num_rows() as u64, found.num_rows() as u64, 0);
    assert_eq!((sizes.left, sizes.right, sizes.joined, sizes.spilled), all);
    if is_in_windows {
        // Bounds that are too narrow are found on either side.
        for wrong in [[1, 0], [0, 1]] {
            let tables = (ranged(left, rows[0], wrong[0]), ranged(right, rows[1], wrong[1]));
            let error = joined(&join, tables.0, tables.1).expect_err("a key outside its range");
            let is_wrong = |is_left: bool| is_left == (wrong[0] > 0);
            assert!(matches!(error, Error::KeyRange { column, is_left } if column == "k" && is_wrong(is_left)));
        }
    }
    Ok(is_in_windows)
}

/// Rows in a random order within each run of `within` rows.
fn shuffled(of: &RecordBatch, within: usize) -> Result<RecordBatch> {
    let mut rows: Vec<u32> = (0..of.num_rows() as u32).collect();
    rows.chunks_mut(within).for_each(|rows| rows.sort_by_key(|&row| row.wrapping_mul(0x9e37_79b9) >> 7));
    Ok(take_batch(of, &UInt32Array::from(rows))?)
}

#[test]
fn joins_in_windows_equal_joins_in_memory() -> Result<()> {
    let threads = rayon::current_num_threads();
    let count = 3000 * threads as i64;
    let part = count as usize / (20 * threads);
    // Left keys with gaps and duplicates, and right keys with others.
    let left = table(Arc::new((0..count).map(|i| (i % 7 > 0).then_some(i / 2 * 3 - 500)).collect::<Int64Array>()));
    let right = table(Arc::new((0..2 * count).map(|i| (i % 11 > 0).then_some(i / 5 * 4)).collect::<Int64Array>()));
    for how in [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti] {
        for (left, right, rows) in [(&left, &right, [part, part]), (&right, &left, [4 * part, part])] {
            assert!(check(left, right, how, NullEquality::NothingEquals, rows)?);
            assert!(check(left, right, how, NullEquality::NothingEquals, [3 * rows[0] / 2, rows[1]])?);
            let (left, right) = (shuffled(left, part)?, shuffled(right, part)?);
            assert!(check(&left, &right, how, NullEquality::NothingEquals, rows)?);
            assert!(!check(&left, &right, how, NullEquality::NullEquals, rows)?);
        }
    }
    for how in [JoinKind::Right, JoinKind::Full] {
        assert!(!check(&left, &right, how, NullEquality::NothingEquals, [part, part])?);
    }
    let unsorted = shuffled(&right, right.num_rows())?;
    assert!(!check(&left, &unsorted, JoinKind::Inner, NullEquality::NothingEquals, [part, part])?);
    Ok(())
}

#[test]
fn keys_of_other_types_are_joined_in_windows() -> Result<()> {
    let count = 2000 * rayon::current_num_threads() as u64;
    let large = |i: u64| (i / 2).wrapping_mul(u64::MAX / count * 2);
    let unsigned = table(Arc::new((0..count).map(large).collect::<UInt64Array>()));
    let times = TimestampMillisecondArray::from_iter_values((0..count as i64).map(|i| i * 40 - 7000));
    let times = table(Arc::new(times));
    let texts: StringArray = (0..count).map(|i| Some(format!("{i:08}"))).collect();
    let bytes = table(Arc::new((0..count).map(|i| (i * 256 / count) as i8 ^ -128).collect::<Int8Array>()));
    for (keys, rows) in [(&unsigned, [200, 300]), (&times, [200, 300]), (&bytes, [400, 50])] {
        assert!(check(keys, keys, JoinKind::Semi, NullEquality::NothingEquals, rows)?);
    }
    // Ranges of a column of text are not used.
    let (device, limit) = (device(), Limit::new(u64::MAX));
    let (devices, columns) = (std::slice::from_ref(&device), [Output::Left(0)]);
    let (how, nulls) = (JoinKind::Inner, NullEquality::NothingEquals);
    let join = Join { devices, on: &[(2, 2)], how, nulls, columns: &columns, limit: &limit, watch: &|_| () };
    let table = table(Arc::new(texts));
    let (found, _) = joined(&join, ranged_as(&table, 2), ranged_as(&table, 2))?;
    assert_eq!(found.num_rows(), table.num_rows() - table.column(2).null_count());
    Ok(())
}

/// Morsels of 200 rows that claim this column as their key.
fn ranged_as(of: &RecordBatch, key: usize) -> Batches<'static, Error> {
    let morsels = (0..of.num_rows()).step_by(200).map(|start| {
        let part = of.slice(start, 200.min(of.num_rows() - start));
        let keys = Some((start as i128, start as i128 + 199));
        RangedMorsel { keys, rows: part.num_rows() as u64, bytes: 0, read: Arc::new(move |take| take(part.clone())) }
    });
    Batches::of_ranges(of.schema(), key, morsels)
}
