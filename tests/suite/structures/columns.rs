//! First rows and joins of columns, of both widths, on every device, compared with maps.

use std::collections::HashMap;

use crate::common::{devices, size};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::group::FirstRows;
use koel::scheme::Key;
use koel::{ColumnIndex, Error, JoinIndex, JoinKind, JoinRows, NO_ROW, join};

/// A 32-bit column, and a 64-bit one with as many distinct keys.
fn widened(column: &[u32]) -> Vec<u64> {
    column.iter().map(|&key| u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

/// Pairs of columns: dense, scattered, few keys, skewed keys.
fn columns() -> Vec<(&'static str, Vec<u32>, Vec<u32>)> {
    let n = size(6000, 300);
    let scattered = |n: u32, salt: u32| (0..n).map(move |i| i.wrapping_mul(0x9e37_79b1) ^ salt);
    vec![
        ("nothing", vec![], vec![]),
        ("nothing on the left", vec![], vec![1, 2, 1]),
        ("nothing on the right", vec![1, 2, 1], vec![]),
        ("the extremes", vec![u32::MAX, 0, 5, u32::MAX], vec![0, u32::MAX, 0, 7]),
        ("dense and distinct", (0..n).map(|i| i * 3 % (n + 50)).collect(), (0..n).rev().collect()),
        ("scattered and distinct", scattered(n, 3).chain(scattered(n / 2, 4)).collect(), scattered(n, 3).collect()),
        ("scattered twice", scattered(n, 3).collect(), scattered(n / 2, 3).chain(scattered(n, 3)).collect()),
        ("few keys", (0..n).map(|i| i % 50).collect(), (0..90).map(|i| i % 60).collect()),
        ("a heavy key", scattered(200, 9).collect(), (0..n).map(|i| if i % 2 == 0 { 9 } else { i << 9 }).collect()),
        ("one key", vec![7; 60], vec![7; n as usize / 3]),
    ]
}

macro_rules! first_rows_are_those_of_a_map {
    ($device:expr, $column:expr, $queries:expr, $at:expr) => {{
        let (device, column, queries): (&Any, &[_], &[_]) = ($device, $column, $queries);
        let mut map = HashMap::new();
        let expected: Vec<u32> = (0..).zip(column).map(|(row, &key)| *map.entry(key).or_insert(row)).collect();
        let found: Vec<u32> = queries.iter().map(|key| map.get(key).copied().unwrap_or(NO_ROW)).collect();
        let there = device.upload(column).unwrap();
        for first in [FirstRows::build(device, column).unwrap(), FirstRows::build_on(device, &there).unwrap()] {
            assert_eq!((first.len(), first.distinct_len()), (column.len(), map.len()), "{}", $at);
            assert_eq!(first.is_empty(), column.is_empty());
            assert_eq!(first.rows().unwrap(), expected, "{}", $at);
            assert_eq!(device.download(first.rows_on()).unwrap(), expected, "{}", $at);
            assert_eq!(first.find(queries).unwrap(), found, "{}", $at);
            let is_there: Vec<bool> = found.iter().map(|&row| row != NO_ROW).collect();
            assert_eq!(first.contains(queries).unwrap(), is_there, "{}", $at);
            let on_device = first.find_on(&device.upload(queries).unwrap()).unwrap();
            assert_eq!(device.download(&on_device).unwrap(), found, "{}", $at);
        }
    }};
}

#[test]
fn first_rows_are_the_same_on_every_device() {
    for device in devices() {
        for (what, queries, column) in columns() {
            let at = format!("{what}, {}", device.info().id);
            first_rows_are_those_of_a_map!(&device, &column, &queries, at);
            first_rows_are_those_of_a_map!(&device, &widened(&column), &widened(&queries), at);
        }
    }
}

/// The scheme of an index of this column.
fn rows_of<K: Key>(_: &[K]) -> K::Rows {
    K::Rows::default()
}

/// An index of a column returns the same results as a [`JoinIndex`] on the CPU.
macro_rules! joins_as {
    ($device:expr, $left:expr, $right:expr, $expected:expr, $kind:expr, $at:expr) => {{
        let (device, left, right, expected): (&Any, &[_], &[_], &JoinRows) = ($device, $left, $right, $expected);
        let (kind, at): (JoinKind, &str) = ($kind, $at);
        let there = device.upload(right).unwrap();
        let saved = JoinIndex::builder(rows_of($right)).build(device, right).unwrap();
        let built = [ColumnIndex::build(device, right).unwrap(), ColumnIndex::build_on(device, &there).unwrap()];
        for index in built.into_iter().chain([ColumnIndex::from(saved)]) {
            assert_eq!((index.len(), index.is_empty()), (right.len(), right.is_empty()), "{at}");
            let found = index.join(left, kind).unwrap();
            let len = expected.left.len();
            assert_eq!((found.len(), found.is_empty()), (len as u64, len == 0), "{at}");
            assert!(found.collect().unwrap() == *expected, "{at}: collect");
            for step in [len / 3 + 1, usize::MAX] {
                let mut all = JoinRows::default();
                for piece in found.chunks(step) {
                    let piece = piece.unwrap();
                    all.left.extend(piece.left);
                    all.right.extend(piece.right);
                }
                assert!(all == *expected, "{at}: chunks of {step}");
            }
            assert_eq!(
                found.chunks(2).nth(1).map(|piece| piece.unwrap().left.len()),
                match len {
                    0..=2 => None,
                    3 => Some(1),
                    _ => Some(2),
                }
            );
            assert!(found.chunk(u64::MAX, 3).unwrap().left.is_empty(), "{at}");
            let found = index.join_on(&device.upload(left).unwrap(), kind).unwrap();
            let rows = found.collect_on().unwrap();
            let rows =
                JoinRows { left: device.download(&rows.left).unwrap(), right: device.download(&rows.right).unwrap() };
            assert!(rows == *expected, "{at}: on the device");
            let (mut all, mut first) = (JoinRows::default(), 0);
            let (mut one, mut two) = (index.matched().unwrap(), index.matched().unwrap());
            for (i, batch) in left.chunks(left.len() / 4 + 1).enumerate() {
                let matched = if i % 2 == 0 { &mut one } else { &mut two };
                let rows = index.probe(batch, kind, matched).unwrap();
                all.left.extend(rows.left.iter().map(|row| first + row));
                all.right.extend(rows.right);
                first += batch.len() as u32;
            }
            one.merge(&two).unwrap();
            if kind.keeps_right() {
                let alone = index.unmatched(&one).unwrap();
                all.left.extend(alone.iter().map(|_| NO_ROW));
                all.right.extend(alone);
            }
            assert!(all == *expected, "{at}: batches");
        }
        assert!(join::wide::join(device, left, right, kind).unwrap() == *expected, "{at}: join");
    }};
}

#[test]
fn column_indices_and_join_indices_agree() {
    for (what, left, right) in columns() {
        let index = JoinIndex::builder(koel::Cuckoo::default()).build(&koel::Cpu::new(), &right).unwrap();
        for kind in JoinKind::ALL {
            let expected = index.join(&left, kind).unwrap().collect().unwrap();
            for device in devices() {
                let at = format!("{what}, {kind}, {}", device.info().id);
                joins_as!(&device, &left, &right, &expected, kind, &at);
                joins_as!(&device, &widened(&left), &widened(&right), &expected, kind, &at);
            }
        }
    }
}

#[test]
fn mismatched_columns_are_refused() {
    for device in devices() {
        let index = ColumnIndex::build(&device, &[1_u32; 100]).unwrap();
        // Other columns than the index was built from; one has as many rows.
        for other in [&[1_u32][..], &[2; 100]] {
            let other = ColumnIndex::build(&device, other).unwrap();
            let (mut matched, mine) = (other.matched().unwrap(), index.matched().unwrap());
            for kind in JoinKind::ALL {
                assert!(matches!(index.probe(&[1], kind, &mut matched), Err(Error::WrongIndex)));
            }
            assert!(matches!(index.unmatched(&matched), Err(Error::WrongIndex)));
            assert!(matches!(matched.merge(&mine), Err(Error::WrongIndex)));
            assert_eq!(other.unmatched(&matched).unwrap().len(), other.len());
        }
        assert_eq!(index.keys_len(), 1);
        // A result that is too long for memory is detected.
        let index = ColumnIndex::build(&device, &[7_u64; 70_000]).unwrap();
        let found = index.join(&[7; 70_000], JoinKind::Inner).unwrap();
        assert_eq!(found.len(), 4_900_000_000);
        assert!(matches!(found.collect(), Err(Error::TooLarge { .. })));
        let mut matched = index.matched().unwrap();
        for kind in [JoinKind::Inner, JoinKind::Right, JoinKind::Full] {
            let rows = index.probe(&[7; 70_000], kind, &mut matched);
            assert!(matches!(rows, Err(Error::TooLarge { requested: 4_900_000_000, .. })), "{kind}");
        }
        assert_eq!(index.unmatched(&matched).unwrap().len(), 70_000);
        let piece = found.chunk(4_900_000_000 - 70_001, 2).unwrap();
        assert_eq!((piece.left, piece.right), (vec![69_998, 69_999], vec![69_999, 0]));
    }
}
