//! Joins compared with a map of vectors: every kind, at once, in pieces and in batches.

use std::collections::{HashMap, HashSet};

use super::*;
use crate::backend::join_rows::JoinRows;
use crate::error::Error;
use crate::scheme::hash::SplitMix64;

fn by_map(left: &[u64], right: &[u64], kind: JoinKind) -> JoinRows {
    let mut partners: HashMap<u64, Vec<u32>> = HashMap::new();
    (0..).zip(right).for_each(|(row, &key)| partners.entry(key).or_default().push(row));
    let mut rows = JoinRows::default();
    for (row, key) in (0..).zip(left) {
        match (kind, partners.get(key)) {
            (JoinKind::Semi, Some(_)) | (JoinKind::Anti, None) => rows.left.push(row),
            (JoinKind::Semi | JoinKind::Anti, _) => {}
            (_, Some(there)) => {
                rows.left.extend(there.iter().map(|_| row));
                rows.right.extend(there);
            }
            (_, None) if kind.keeps_left() => {
                rows.left.push(row);
                rows.right.push(NO_ROW);
            }
            _ => {}
        }
    }
    if kind.keeps_right() {
        let left: HashSet<&u64> = left.iter().collect();
        for (row, _) in (0..).zip(right).filter(|(_, key)| !left.contains(key)) {
            rows.left.push(NO_ROW);
            rows.right.push(row);
        }
    }
    rows
}

fn piece(cpu: &Cpu, right: &Right<u64>, found: &Probed, kind: JoinKind, first: u64, len: usize) -> Result<JoinRows> {
    let of_right = if kind.has_right() { len } else { 0 };
    let mut rows = JoinRows { left: vec![7; len], right: vec![7; of_right] };
    found.write(cpu, right, first, &mut rows.left, &mut rows.right)?;
    Ok(rows)
}

fn check(left: &[u64], right: &[u64]) -> Result<()> {
    for threads in [1, 2, 8] {
        let cpu = Cpu::with_threads(threads)?;
        let index = Right::of(&cpu, right)?;
        for kind in JoinKind::ALL {
            let about = format!("{kind}, {} x {}, {threads} threads, {index:?}", left.len(), right.len());
            let expected = by_map(left, right, kind);
            let found = index.join(&cpu, left, kind)?;
            let len = expected.left.len();
            assert_eq!(found.len(), len as u64, "{about}");
            assert!(piece(&cpu, &index, &found, kind, 0, len)? == expected, "{about}");
            let step = (len / 7).max(1);
            for first in (0..len).step_by(step) {
                let len = step.min(len - first);
                let rows = piece(&cpu, &index, &found, kind, first as u64, len)?;
                assert_eq!(rows.left, expected.left[first..first + len], "{about}, from {first}");
                assert!(!kind.has_right() || rows.right == expected.right[first..first + len], "{about}, from {first}");
            }
            let (mut rows, mut bits) = (JoinRows::default(), vec![0; bitmap_words(right.len())]);
            for (left, first) in left.chunks(5000).zip((0..).step_by(5000)) {
                let batch = index.batch(left, kind, &mut bits)?;
                rows.left.extend(batch.left.iter().map(|row| first + row));
                rows.right.extend(batch.right);
            }
            if kind.keeps_right() {
                let alone = index.unmatched(&cpu, &bits)?;
                rows.left.extend(alone.iter().map(|_| NO_ROW));
                rows.right.extend(alone);
            }
            assert!(rows == expected, "{about}, batch by batch");
        }
    }
    Ok(())
}

fn size(of: usize) -> usize {
    if cfg!(miri) { of / 512 } else { of }
}

#[test]
fn empty_and_short_columns() -> Result<()> {
    for (left, right) in
        [(&[][..], &[][..]), (&[1], &[]), (&[], &[1]), (&[u64::MAX, 0], &[0, u64::MAX, 0]), (&[3], &[3])]
    {
        check(left, right)?;
    }
    Ok(())
}

#[test]
fn random_columns() -> Result<()> {
    let mut stream = SplitMix64::new(2);
    for (left, right, keys, apart) in [
        (70_000, 9_000, 9_000, 1),
        (9_000, 70_000, 40_000, 1 << 40),
        (4097, 4096, 1 << 30, 0x9e37_79b9),
        (100_000, 3, 5, 1),
    ] {
        let mut column = |len| (0..size(len)).map(|_| stream.next_u64() % keys * apart).collect::<Vec<u64>>();
        check(&column(left), &column(right))?;
    }
    Ok(())
}

#[test]
fn distinct_right_keys_dense_and_sparse() -> Result<()> {
    let len = size(80_000) as u64;
    for apart in [1, 0x9e37_79b9_7f4a_7c15_u64] {
        let right: Vec<u64> = (0..len).rev().map(|i| i.wrapping_mul(apart)).collect();
        let left: Vec<u64> = (0..len).map(|i| (i * 7 % (2 * len)).wrapping_mul(apart)).collect();
        check(&left, &right)?;
    }
    Ok(())
}

#[test]
fn heavy_keys_on_both_sides() -> Result<()> {
    let len = size(70_000) as u64;
    let right: Vec<u64> = (0..len).map(|i| if i % 40 == 0 { 1 << 50 } else { i }).collect();
    let left: Vec<u64> = (0..len / 8).map(|i| if i < 30 || i == len / 16 { 1 << 50 } else { i * 9 }).collect();
    check(&left, &right)
}

/// All rows have one key: many results for many left rows, and more results for one left row than a thread writes at a
/// time.
#[test]
fn columns_of_one_key() -> Result<()> {
    check(&vec![5; size(750)], &vec![5; size(1500)])?;
    check(&[5; 3], &vec![5; size(PIECE + 5000)])
}

/// A batch has fewer than 2^32 results; one with more fails, and marks no rows.
#[test]
#[cfg_attr(miri, ignore = "a result too long to be held has many rows")]
fn a_batch_with_too_many_results_marks_no_rows() -> Result<()> {
    let cpu = Cpu::with_threads(1)?;
    let right = Right::of(&cpu, &[7_u32; 70_000])?;
    let mut bits = vec![0; bitmap_words(70_000)];
    for kind in [JoinKind::Inner, JoinKind::Right, JoinKind::Full] {
        let found = right.batch(&[7; 70_000], kind, &mut bits);
        assert!(matches!(found, Err(Error::TooLarge { requested: 4_900_000_000, .. })), "{kind}");
        assert!(bits.iter().all(|&word| word == 0), "{kind}");
    }
    assert_eq!(right.batch(&[7; 70_000], JoinKind::Semi, &mut bits)?.left.len(), 70_000);
    Ok(())
}

/// Uses the longest possible bitmap (512 MiB), of which only the ends are touched.
#[test]
#[cfg(target_pointer_width = "64")]
#[cfg_attr(miri, ignore = "there all of it is memory")]
fn queries_without_a_match_mark_no_row() -> Result<()> {
    let mut bits: Vec<u32> = memory::zeroed(bitmap_words(u32::MAX as usize))?;
    mark(&[5, NO_ROW, u32::MAX - 1, NO_ROW], atomic_u32(&mut bits));
    assert_eq!((bits[0], bits.last()), (1 << 5, Some(&(1 << 30))));
    Ok(())
}

/// A left column whose last row has the greatest possible number: counting stops there without overflow.
#[test]
fn the_greatest_row_number_does_not_overflow() -> Result<()> {
    let cpu = Cpu::with_threads(1)?;
    for right in [&[3_u64, 8][..], &[3, 3, 8]] {
        let index = Right::of(&cpu, right)?;
        let left = [8, 1, 3];
        let mut first_occurrences = [0; 3];
        for kind in JoinKind::ALL {
            let results = index.probe(&left, kind, &mut first_occurrences) as usize;
            let of_right = if kind.has_right() { results } else { 0 };
            let mut rows = JoinRows { left: vec![7; results], right: vec![7; of_right] };
            let row = u32::MAX - left.len() as u32;
            // More capacity than results, so that every left row is visited to its end.
            rows.left.push(7);
            rows.right.resize(if kind.has_right() { results + 1 } else { 0 }, 7);
            assert_eq!(
                index.write(kind, row, &first_occurrences, 0, &mut rows.left, &mut rows.right),
                results,
                "{kind}"
            );
            rows.left.truncate(results);
            rows.left.iter_mut().for_each(|left| *left -= row);
            rows.right.truncate(of_right);
            let mut expected = by_map(&left, right, kind);
            expected.left.truncate(results);
            expected.right.truncate(of_right);
            assert!(rows == expected, "{kind}");
        }
    }
    Ok(())
}
