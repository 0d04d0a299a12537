//! First rows and numbers, compared with plain loops, by all algorithms, on one thread and on several.

use std::collections::HashMap;

use super::hashed::mixed;
use super::*;
use crate::backend::join_rows::NO_ROW;
use crate::scheme::hash::SplitMix64;

const THREADS: [usize; 3] = [1, 2, 8];

/// The first row of each row, and of each query.
fn by_loop<K: Key>(keys: &[K], queries: &[K]) -> (Vec<u32>, Vec<u32>) {
    let mut first = HashMap::new();
    let rows = (0..).zip(keys).map(|(row, &key)| *first.entry(key).or_insert(row)).collect();
    (rows, queries.iter().map(|key| first.get(key).copied().unwrap_or(NO_ROW)).collect())
}

fn check<K: Key>(keys: &[K], strategy: Option<&str>) -> Result<()> {
    let mut stream = SplitMix64::new(9);
    let mut queries: Vec<K> = (0..2000).map(|_| K::low(stream.next_u64())).collect();
    queries.extend([0, 1, u64::MAX, u64::MAX - 1, u64::from(u32::MAX)].map(K::low));
    queries.extend(keys.iter().rev().take(3000).flat_map(|&key| {
        let key: u64 = key.into();
        [K::low(key), K::low(key.wrapping_add(1)), K::low(key.wrapping_sub(1))]
    }));
    let (rows, found) = by_loop(keys, &queries);
    let unique: Vec<K> = (0..).zip(keys).filter(|&(row, _)| rows[row as usize] == row).map(|(_, &key)| key).collect();
    let ids: HashMap<K, u32> = unique.iter().copied().zip(0..).collect();
    let ids: Vec<u32> = keys.iter().map(|key| ids[key]).collect();
    for threads in THREADS {
        let cpu = Cpu::with_threads(threads)?;
        let first_occurrences = cpu.first_occurrences(keys)?;
        let about = format!("{} rows, {threads} threads, {first_occurrences:?}", keys.len());
        assert!(strategy.is_none_or(|strategy| about.contains(strategy)), "{strategy:?}: {about}");
        assert_eq!((first_occurrences.rows(), first_occurrences.distinct()), (keys.len(), unique.len()), "{about}");
        assert!(cpu.found_first_occurrences(&first_occurrences, keys)?.words() == rows, "{about}");
        assert!(cpu.found_first_occurrences(&first_occurrences, &queries)?.words() == found, "{about}");
        let mut flags = vec![true; queries.len()];
        cpu.contains(&first_occurrences, &queries, &mut flags)?;
        assert!(flags.iter().eq(found.iter().map(|row| *row != NO_ROW).collect::<Vec<_>>().iter()), "{about}");
        assert!(cpu.first_seen(keys)?.words() == unique, "{about}");
        let mut numbers = vec![NO_ROW; keys.len()];
        assert!(cpu.write_numbered(keys, &mut numbers)?.words() == unique && numbers == ids, "{about}");
        let first_rows: Vec<u32> = (0..).zip(&rows).filter(|&(row, &first)| row == first).map(|(row, _)| row).collect();
        assert!(cpu.distinct_rows(keys)?.words() == first_rows, "{about}");
        numbers.fill(NO_ROW);
        let expected = unique.len();
        match cpu.run(|| partitioned::numbered(keys, &mut numbers, expected, |row| row as u32)).flatten()? {
            Some(found) => assert!(found.words() == first_rows && numbers == ids, "{about}"),
            None => assert!(strategy.is_none(), "{about}"),
        }
        // The passes for several threads, even if the column is short enough for one.
        let numbering = cpu.run(|| FirstOccurrences::of(&cpu, keys, &Kind::of(keys))?.numbered(keys)).flatten()?;
        numbers.fill(NO_ROW);
        assert!(cpu.run(|| numbering.write(keys, &mut numbers))?);
        assert!(numbering.unique.words() == unique && numbers == ids, "{about}");
    }
    Ok(())
}

/// Checks keys of 64 bits, and of their lower 32 bits.
fn check_both(keys: &[u64], strategy: Option<&str>) -> Result<()> {
    check(keys, strategy)?;
    check(&keys.iter().map(|&key| key as u32).collect::<Vec<_>>(), strategy)
}

fn size(of: usize) -> usize {
    if cfg!(miri) { of / 512 } else { of }
}

/// Keys far apart.
fn scattered(keys: usize) -> impl Iterator<Item = u64> + Clone {
    (0..keys as u64).map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[test]
fn short_columns_and_columns_of_about_a_chunk() -> Result<()> {
    check_both(&[], Some("dense"))?;
    check_both(&[u64::MAX], Some("dense"))?;
    check_both(&[u64::MAX, 0, u64::MAX, 0, 1], Some("hashed"))?;
    check_both(&[0, u64::MAX, u64::MAX - 1, 0], Some("hashed"))?;
    let sizes = [CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 1, ALONE - 1, ALONE, ALONE + 1, ALONE + CHUNK + 1];
    for len in sizes.map(size) {
        check_both(&scattered(len).collect::<Vec<_>>(), None)?;
        check_both(&scattered(len / 3 + 1).cycle().take(len).collect::<Vec<_>>(), None)?;
        check_both(&(0..len as u64).map(|i| 7 + i * i % 1000).collect::<Vec<_>>(), Some("dense"))?;
    }
    Ok(())
}

#[test]
fn heavy_keys_and_equal_ones() -> Result<()> {
    let len = size(300_000);
    check_both(&vec![u64::MAX; len], Some("dense"))?;
    let mut stream = SplitMix64::new(3);
    // Half of the rows have one key, and the key 0 occurs late.
    let mut keys: Vec<u64> =
        (0..len).map(|_| if stream.next_u32().is_multiple_of(2) { 77 } else { stream.next_u64() }).collect();
    keys[len - 5] = 0;
    check_both(&keys, Some("hashed"))?;
    // Few keys, one of which occurs only in the last rows, so that the front of the column lacks it.
    let mut keys: Vec<u64> = scattered(100).cycle().take(len).collect();
    check_both(&keys, None)?;
    keys[len - 1] = 0;
    check_both(&keys, None)?;
    let mut keys: Vec<u64> = (0..len as u64).map(|i| i % 50).collect();
    check_both(&keys, Some("dense"))?;
    keys[len - 2] = 51;
    check_both(&keys, Some("dense"))
}

/// Ten keys with most of the rows, two of which are never merged: their partitions have many of the words that remain,
/// but few of the rows.
#[test]
fn partitions_are_long_by_rows_and_not_by_words() -> Result<()> {
    let recent = |key: u64| brief::hash(key) >> 16 & 0xff;
    let heavy: Vec<u64> = scattered(10).collect();
    let twin = scattered(usize::MAX).skip(10).find(|&key| recent(key) == recent(heavy[0])).expect("one in 256");
    let mut stream = SplitMix64::new(8);
    let key = |row: usize| match row % 100 {
        part @ 0..81 => heavy[part / 9],
        81..90 => twin,
        _ => stream.next_u64(),
    };
    // Neighbouring rows have different parts.
    let keys: Vec<u64> = (0..size(100_000)).map(|row| row * 37).map(key).collect();
    let (rows, _) = by_loop(&keys, &[]);
    let first_rows: Vec<u32> = (0..).zip(&rows).filter(|&(row, &first)| row == first).map(|(row, _)| row).collect();
    let found = partitioned::numbered(&keys, &mut [], first_rows.len(), |row| row as u32)?;
    assert!(found.is_some_and(|found| found.words() == first_rows));
    Ok(())
}

#[test]
fn all_keys_of_a_range_in_descending_order() -> Result<()> {
    let len = size(150_000) as u64;
    check_both(&(0..len).map(|i| u64::MAX - 3 * i).collect::<Vec<_>>(), Some("dense"))?;
    check_both(&(0..len).rev().collect::<Vec<_>>(), Some("dense"))
}

#[test]
fn keys_of_a_range_that_is_too_long_to_be_addressed() -> Result<()> {
    let len = size(60_000) as u64;
    let present = Some("present: true");
    check_both(&(0..len).map(|i| u64::MAX - 40 * i).collect::<Vec<_>>(), present)?;
    check_both(&(0..len * 3).map(|i| 5 + 100 * (i * 7919 % len)).collect::<Vec<_>>(), present)?;
    // A key at the last bit of the longest range, and one after it; for few rows and for many.
    for rows in [len / 4, len] {
        let most = (512 * (rows + 1)).min(1 << 23);
        for (range, is_present) in [(most, true), (most + 1, false)] {
            let keys: Vec<_> = (0..rows).map(|i| i * 139).chain([range - 1]).collect();
            check_both(&keys, Some(if is_present { "present: true" } else { "present: false" }))?;
        }
    }
    check_both(&scattered(len as usize).collect::<Vec<_>>(), Some("present: false"))
}

/// `count` keys whose homes are in the first quarter of the tables of the first `attempts` attempts, repeated to enough
/// rows for all threads.
fn chosen<K: Key>(attempts: usize, count: usize) -> Vec<K> {
    let mut stream = SplitMix64::new(1);
    let close = |key: u64| (1..=attempts as u64).all(|i| mixed(key, mixed(i, 0x6669_7273_7473)) >> 62 == 0);
    let keys = std::iter::repeat_with(|| K::low(stream.next_u64())).filter(|&key| close(key.into())).take(count);
    keys.collect::<Vec<_>>().into_iter().cycle().take(ALONE + 5 * CHUNK).collect()
}

#[test]
#[cfg_attr(miri, ignore = "thousands of keys make no table too full in small")]
fn keys_chosen_against_the_hash() -> Result<()> {
    for attempts in 1..hashed::ATTEMPTS {
        check(&chosen::<u32>(attempts, 20_000), Some("hashed"))?;
        check(&chosen::<u64>(attempts, 20_000), Some("hashed"))?;
    }
    check(&chosen::<u32>(hashed::ATTEMPTS, 60_000), Some("sorted"))?;
    check(&chosen::<u64>(hashed::ATTEMPTS, 60_000), Some("sorted"))
}

/// The column that is sorted in the test above makes every attempt fail, on one thread and on several.
#[test]
#[cfg_attr(miri, ignore = "thousands of keys make no table too full in small")]
fn attempts_with_chosen_keys_terminate() -> Result<()> {
    for threads in THREADS {
        let cpu = Cpu::with_threads(threads)?;
        let keys = chosen::<u64>(hashed::ATTEMPTS, 60_000);
        for attempt in 0..hashed::ATTEMPTS {
            let table = cpu.run(|| Hashed::of(&keys, 60_000, attempt)).flatten()?;
            assert!(table.is_none(), "attempt {attempt}, {threads} threads");
        }
    }
    Ok(())
}

#[test]
fn short_columns_of_colliding_keys_use_the_bounded_strategies() -> Result<()> {
    let share = |key: &u64| brief::home(*key) % brief::SLOTS == 7;
    let keys: Vec<u64> = scattered(usize::MAX).filter(share).take(200).collect();
    assert!(brief::numbered(&keys, &mut [], usize::MAX)?.is_none());
    assert!(brief::numbered(&keys[..50], &mut [], usize::MAX)?.is_some());
    check(&keys, None)?;
    let share = |key: &u64| share(key) && brief::hash(*key) >> 57 == 0;
    let in_one_partition: Vec<u64> = scattered(usize::MAX).filter(share).take(150).collect();
    assert!(partitioned::numbered(&in_one_partition, &mut [], 150, |row| row as u32)?.is_none());
    check(&in_one_partition, None)?;
    // A partition that is too long, although its keys have different homes.
    let share = |key: &u64| brief::hash(*key) >> 57 == 0;
    let in_one_partition: Vec<u64> = scattered(usize::MAX).filter(share).take(600).collect();
    assert!(partitioned::numbered(&in_one_partition, &mut [], 600, |row| row as u32)?.is_none());
    // Keys whose partition and lowest bits depend on each other.
    let apart: Vec<u64> = (0..size(1 << 18) as u64).map(|i| i << 43).collect();
    let first_rows = partitioned::numbered(&apart, &mut [], apart.len(), |row| row as u32)?;
    assert!(first_rows.is_some_and(|rows| rows.words().iter().copied().eq(0..apart.len() as u32)));
    // Few keys, of which the farthest from home occurs many times.
    let mut again = keys[..90].to_vec();
    assert!(brief::numbered(&again, &mut [], usize::MAX)?.is_some());
    again.resize(size(ALONE).max(2000), keys[89]);
    assert!(brief::numbered(&again, &mut [], usize::MAX)?.is_none());
    check(&again, None)?;
    // They follow cheap rows, after which the table has grown.
    let cheap = scattered(1).cycle().take(size(20_000)).chain(keys.iter().copied());
    check_both(&cheap.chain(scattered(600)).collect::<Vec<_>>(), None)
}
