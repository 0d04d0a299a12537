//! Compares `Relational` with plain loops on the host, for the tests of every device.

use std::collections::HashMap;
use std::hash::Hash;

use super::{DeviceBuffer, KeySlots, Relational, Wanted, bitmap_words};
use crate::error::{Error, Result};
use crate::file::MOST_SHARDS;
use crate::scheme::Key;
use crate::scheme::hash::{SplitMix64, reduce};
use crate::scheme::shard::ShardOf;
use crate::workload::keys_of_every_sort;

fn noise(seed: u64, len: usize) -> Vec<u32> {
    let mut stream = SplitMix64::new(seed);
    (0..len).map(|_| stream.next_u32()).collect()
}

pub(super) fn below(most: usize, seed: u64, len: usize) -> Vec<u32> {
    noise(seed, len).iter().map(|&x| reduce(x, most as u32)).collect()
}

fn is_one(bits: &[u32], i: usize) -> bool {
    bits[i / 32] >> (i % 32) & 1 == 1
}

fn bitmap(ones: impl IntoIterator<Item = usize>, len: usize) -> Vec<u32> {
    let mut bits = vec![0; bitmap_words(len)];
    ones.into_iter().for_each(|i| bits[i / 32] |= 1 << (i % 32));
    bits
}

/// The shards of keys of both widths.
pub(crate) fn shards<B: Relational>(backend: &B, sizes: &[usize]) -> Result<()> {
    for (&len, shards) in sizes.iter().zip([1, 2, 7, 255, MOST_SHARDS].into_iter().cycle()) {
        let which = ShardOf::new(shards, len as u64)?;
        let narrow = noise(11, len);
        let wide: Vec<u64> = narrow.iter().map(|&key| u64::from(key) << 31 | 5).collect();
        let expected: Vec<u32> = narrow.iter().map(|&key| which.of(key) as u32).collect();
        assert!(backend.download(&backend.shards(&backend.upload(&narrow)?, &which)?)? == expected, "{len}: {shards}");
        let expected: Vec<u32> = wide.iter().map(|&key| which.of(key) as u32).collect();
        assert!(backend.download(&backend.shards(&backend.upload(&wide)?, &which)?)? == expected, "{len}: {shards}");
    }
    Ok(())
}

/// Slots of the keys of columns of these lengths.
pub(crate) fn key_slots<B: Relational>(backend: &B, sizes: &[usize]) -> Result<()> {
    for &len in sizes {
        for (name, column) in keys_of_every_sort(len) {
            slots_of(backend, &column, name)?;
            // Keys that differ in the upper half only; and keys with one lower half and several upper halves.
            let upper: Vec<u64> = column.iter().map(|&key| u64::from(key) << 32).collect();
            let both: Vec<u64> = (0..).zip(&column).map(|(row, &key)| ((row % 3) << 32) | u64::from(key)).collect();
            slots_of(backend, &upper, name)?;
            slots_of(backend, &both, name)?;
        }
    }
    let many = backend.upload(&(0..100).collect::<Vec<u32>>())?;
    assert!(backend.key_slots(&many, 3)?.is_none());
    Ok(())
}

fn slots_of<B: Relational, K: Key + Hash>(backend: &B, column: &[K], name: &str) -> Result<()> {
    // If all keys differ, up to half of the slots are used.
    let bits = (2 * column.len().max(1)).next_power_of_two().ilog2();
    let Some(KeySlots { first_rows, of_rows }) = backend.key_slots(&backend.upload(column)?, bits)? else {
        panic!("{name}: there are enough slots")
    };
    let (first_rows, of_rows) = (backend.download(&first_rows)?, backend.download(&of_rows)?);
    assert_eq!((first_rows.len(), of_rows.len()), ((1 << bits) + 1, column.len()), "{name}");
    let mut first_of = HashMap::new();
    for (row, &key) in (0..).zip(column) {
        let first = *first_of.entry(key).or_insert(row);
        assert_eq!(first_rows[of_rows[row as usize] as usize], first, "{name}, row {row}");
    }
    let used = first_rows.iter().filter(|&&row| row != u32::MAX).count();
    assert_eq!(used, first_of.len(), "{name}");
    Ok(())
}

/// A name and a column, or two.
pub(super) type Named<T> = Vec<(&'static str, T)>;

/// Marks, heads, tails and ranks of columns of these lengths.
pub(crate) fn bitmaps<B: Relational>(backend: &B, sizes: &[usize]) -> Result<()> {
    for &len in sizes {
        let once: Vec<u32> = (0..len as u32).rev().step_by(3).collect();
        let again = below(len / 2 + 1, 1, len);
        let past = below(2 * len + 40, 2, len);
        for places in [once, again, past, vec![len as u32 / 2; len], vec![u32::MAX; 3], Vec::new()] {
            let ones = places.iter().map(|&place| place as usize).filter(|&place| place < len);
            let marked = backend.mark(&backend.upload(&places)?, len)?;
            assert!(backend.download(&marked)? == bitmap(ones, len), "marks of {len}: {places:?}");
        }
        for (name, column) in keys_of_every_sort(len) {
            let begin = (0..len).filter(|&i| i == 0 || column[i] != column[i - 1]);
            let heads = backend.heads(&backend.upload(&column)?)?;
            assert!(backend.download(&heads)? == bitmap(begin, len), "heads of {len}, {name}");
            let end = (0..len).filter(|&i| i + 1 == len || column[i] != column[i + 1]);
            let tails = backend.tails(&backend.upload(&column)?)?;
            assert!(backend.download(&tails)? == bitmap(end, len), "tails of {len}, {name}");
        }
        let some = (0..len).filter(|&i| noise(5, 1)[0].rotate_left(i as u32) & 5 == 0);
        for ones in [(0..len).collect(), Vec::new(), some.collect(), vec![len.saturating_sub(1); len.min(1)]] {
            let bits = bitmap(ones, len);
            let mut rank = u32::MAX;
            let expected = (0..len).map(|i| {
                rank = rank.wrapping_add(is_one(&bits, i).into());
                rank
            });
            let ranks = backend.ranks(&backend.upload(&bits)?, len)?;
            assert!(expected.eq(backend.download(&ranks)?), "ranks of {len}");
        }
    }
    Ok(())
}

/// The runs of queries.
pub(crate) fn spans<B: Relational>(backend: &B, sizes: &[usize]) -> Result<()> {
    for &len in sizes {
        // Empty runs, long ones, and the greatest numbers.
        for starts in [vec![], vec![9], vec![0, 0, 7, 7, 5_000_000, u32::MAX], (0..=len as u32).collect()] {
            let mut ids = below(starts.len() + 2, 3, len);
            ids.iter_mut().step_by(7).for_each(|id| *id = u32::MAX);
            let found = bitmap((0..len).filter(|i| i % 5 != 2), len);
            let columns = (backend.upload(&starts)?, backend.upload(&ids)?, backend.upload(&found)?);
            for missing in [None, Some(0), Some(u32::MAX)] {
                let of = |i: usize| match ids[i] as usize {
                    id if is_one(&found, i) && id + 1 < starts.len() => (starts[id], starts[id + 1] - starts[id]),
                    _ => (missing.unwrap_or(0), u32::from(missing.is_some())),
                };
                let spans = backend.spans(&columns.0, &columns.1, &columns.2, missing)?;
                let (starts, counts) = (backend.download(&spans.starts)?, backend.download(&spans.counts)?);
                assert!((0..len).map(of).eq(starts.into_iter().zip(counts)), "spans of {len}, {missing:?}");
            }
        }
    }
    Ok(())
}

/// Counts of runs, one of which may have `heaviest` elements.
fn counts_of_every_sort(runs: usize, heaviest: u32) -> Named<Vec<u32>> {
    let heavy = |at: usize| {
        let mut counts = vec![0; runs];
        counts.iter_mut().skip(at).take(1).for_each(|count| *count = heaviest);
        counts
    };
    vec![
        ("ones", vec![1; runs]),
        ("few", below(5, 4, runs)),
        ("nearly all empty", noise(5, runs).iter().map(|x| u32::from(x % 1000 == 0) * (x >> 20)).collect()),
        ("empty", vec![0; runs]),
        ("the first is all", heavy(0)),
        ("one of them is all", heavy(runs / 2)),
        ("the last is all", heavy(runs.saturating_sub(1))),
    ]
}

/// Prefix sums and expansions of runs, one of which may have `heaviest` elements.
pub(crate) fn lists<B: Relational>(backend: &B, sizes: &[usize], heaviest: u32) -> Result<()> {
    for &runs in sizes {
        for (name, counts) in counts_of_every_sort(runs, heaviest) {
            let mut sum = 0;
            let mut expected = vec![0];
            for &count in &counts {
                sum += u64::from(count);
                expected.push(sum);
            }
            let offsets = backend.offsets(&backend.upload(&counts)?)?;
            assert!(backend.download(&offsets)? == expected, "offsets of {runs} runs, {name}");
            let starts = noise(6, runs);
            let list: Vec<(u32, u32)> = counts
                .iter()
                .zip(&starts)
                .zip(0..)
                .flat_map(|((&count, &start), run)| (0..count).map(move |i| (run, start.wrapping_add(i))))
                .collect();
            let on_device = backend.upload(&starts)?;
            let all = list.len();
            for (first, len) in [(0, all), (0, all + 3), (all / 3, all / 2), (all / 2, 1), (all, 40), (usize::MAX, 2)] {
                let expanded = backend.expand(&offsets, &on_device, first as u64, len)?;
                let found = backend.download(&expanded.runs)?.into_iter().zip(backend.download(&expanded.places)?);
                let piece = list.iter().skip(first).copied().chain(std::iter::repeat((0, 0))).take(len);
                assert!(piece.eq(found), "{len} of {all} elements from {first} on, {runs} runs, {name}");
            }
        }
    }
    Ok(())
}

/// Tests lists of more elements than fit in any memory.
pub(crate) fn long_lists<B: Relational>(backend: &B) -> Result<()> {
    let counts = vec![u32::MAX; 5000];
    let offsets = backend.download(&backend.offsets(&backend.upload(&counts)?)?)?;
    assert!(offsets.into_iter().eq((0..=counts.len() as u64).map(|i| i * u64::from(u32::MAX))));

    let offsets = [0, 1 << 33, 1 << 33, (1 << 33) + 5, 1 << 40, u64::MAX];
    let starts = [7, 1, 100, u32::MAX, 50];
    let columns = (backend.upload(&offsets)?, backend.upload(&starts)?);
    for first in [0, 1 << 32, (1 << 33) - 3, (1 << 33) + 2, (1 << 40) - 1, u64::MAX - 5, u64::MAX] {
        let expanded = backend.expand(&columns.0, &columns.1, first, 9)?;
        let found = backend.download(&expanded.runs)?.into_iter().zip(backend.download(&expanded.places)?);
        let expected = (0..9).map(|i| {
            let Some(at) = first.checked_add(i).filter(|&at| at < u64::MAX) else { return (0, 0) };
            let run = offsets.iter().rposition(|&offset| offset <= at).expect("the first begins at 0");
            (run as u32, starts[run].wrapping_add((at - offsets[run]) as u32))
        });
        assert!(expected.eq(found), "from {first} on");
    }
    Ok(())
}

/// The group of each row, and the number of groups.
pub(super) fn groups_of_every_sort(rows: usize) -> Named<(Vec<u32>, usize)> {
    let some = below(1000, 7, rows);
    let half = |x: u32| if x & 1 == 0 { 77 } else { x >> 1 };
    vec![
        ("few", (below(3, 8, rows), 3)),
        ("a thousand", (some.clone(), 1000)),
        ("as many as rows", (below(rows + 1, 9, rows), rows + 1)),
        ("in order", ((0..rows as u32).collect(), rows)),
        ("in order, three rows each", ((0..rows as u32).map(|row| row / 3).collect(), rows)),
        ("one", (vec![4; rows], 5)),
        ("half one", (some.iter().map(|&x| half(x)).collect(), 500)),
        // All of these share one entry in every table whose size is a power of two.
        ("congruent", (some.iter().map(|&x| x % 4 * 65_536).collect(), 3 * 65_536 + 1)),
        ("past the end", (some.iter().map(|&x| if x % 3 == 0 { u32::MAX - x } else { x }).collect(), 300)),
        ("none", (some, 0)),
    ]
}

/// Aggregates of columns of these lengths.
pub(crate) fn aggregates<B: Relational>(backend: &B, sizes: &[usize]) -> Result<()> {
    for &rows in sizes {
        for (name, (ids, groups)) in groups_of_every_sort(rows) {
            for values in [noise(10, rows), vec![u32::MAX; rows], vec![0; rows]] {
                agrees(backend, &ids, &values, groups, Wanted::ALL, name)?;
            }
        }
        let (ids, values) = (below(40, 11, rows), noise(12, rows));
        for which in 0..16 {
            let is = |bit: u32| which >> bit & 1 == 1;
            let wanted = Wanted { count: is(0), sum: is(1), least: is(2), greatest: is(3), mean: false };
            agrees(backend, &ids, if wanted.values() { &values } else { &[] }, 41, wanted, "some columns")?;
        }
    }
    Ok(())
}

fn agrees<B: Relational>(
    backend: &B,
    ids: &[u32],
    values: &[u32],
    groups: usize,
    wanted: Wanted,
    name: &str,
) -> Result<()> {
    let of = |wanted: bool| if wanted { groups } else { 0 };
    let (mut counts, mut sums) = (vec![0; of(wanted.count)], vec![0; of(wanted.sum)]);
    let (mut least, mut greatest) = (vec![u32::MAX; of(wanted.least)], vec![0; of(wanted.greatest)]);
    for (row, &id) in ids.iter().enumerate() {
        let (id, value) = (id as usize, values.get(row).copied().unwrap_or(0));
        counts.iter_mut().skip(id).take(1).for_each(|count| *count += 1);
        sums.iter_mut().skip(id).take(1).for_each(|sum| *sum += u64::from(value));
        least.iter_mut().skip(id).take(1).for_each(|least| *least = value.min(*least));
        greatest.iter_mut().skip(id).take(1).for_each(|greatest| *greatest = value.max(*greatest));
    }
    let found = backend.accumulate(&backend.upload(ids)?, &backend.upload(values)?, groups, wanted)?;
    let said = format!("of {} rows, {name}, {wanted:?}", ids.len());
    assert!(backend.download(&found.counts)? == counts, "counts {said}");
    assert!(backend.download(&found.sums)? == sums, "sums {said}");
    assert!(backend.download(&found.least)? == least, "least {said}");
    assert!(backend.download(&found.greatest)? == greatest, "greatest {said}");
    Ok(())
}

/// Scattered columns, and images of two columns.
pub(crate) fn moves<B: Relational>(backend: &B, sizes: &[usize]) -> Result<()> {
    for &len in sizes {
        let values = noise(13, len);
        // Every other place, in descending order.
        let places: Vec<u32> = (0..len as u32).rev().map(|i| 2 * i + 1).collect();
        for to in [0, len, 2 * len + 1] {
            let mut expected = vec![0; to];
            for (&place, &value) in places.iter().zip(&values).filter(|&(&place, _)| (place as usize) < to) {
                expected[place as usize] = value;
            }
            let moved = backend.scatter(&backend.upload(&values)?, &backend.upload(&places)?, to)?;
            assert!(backend.download(&moved)? == expected, "{len} values to {to} places");
        }
        let halves = noise(14, 2 * len.div_ceil(2));
        let cells: Vec<u64> = halves.chunks_exact(2).map(|two| u64::from(two[1]) << 32 | u64::from(two[0])).collect();
        let bits = bitmap((0..len).filter(|i| i % 3 != 1), len);
        let columns = (backend.upload(&cells)?, backend.upload(&values)?, backend.upload(&bits)?);
        let words = backend.interleave(&columns.0, &columns.1, &columns.2, 0x1234_5678_9abc_def0)?;
        let expected = (0..len).map(|i| match (is_one(&bits, i), cells[i / 2] >> (32 * (i % 2)) & 0xffff_ffff) {
            (true, cell) => cell << 32 | u64::from(values[i]),
            (false, _) => 0x1234_5678_9abc_def0,
        });
        assert!(expected.eq(backend.download(&words)?), "words of {len} cells");
    }
    Ok(())
}

/// Lengths that contradict each other.
pub(crate) fn refusals<B: Relational>(backend: &B) -> Result<()> {
    fn refused<T>(result: Result<T>) {
        assert!(matches!(result.err(), Some(Error::LengthMismatch { .. })));
    }
    let (none, three, wide) = (backend.filled(0, 0u32)?, backend.filled(3, 0u32)?, backend.filled(3, 0u64)?);
    refused(backend.ranks(&three, 97));
    refused(backend.ranks(&three, 64));
    refused(backend.scatter(&three, &none, 9));
    refused(backend.spans(&three, &three, &three, None));
    refused(backend.expand(&wide, &three, 0, 1));
    refused(backend.accumulate(&three, &none, 1, Wanted::ALL));
    refused(backend.accumulate(&three, &three, 1, Wanted { count: true, ..Wanted::default() }));
    refused(backend.interleave(&wide, &three, &backend.filled(1, 0)?, 0));
    refused(backend.interleave(&backend.filled(2, 0)?, &three, &none, 0));
    let nothing = backend.accumulate(&none, &none, 0, Wanted::ALL)?;
    assert_eq!((nothing.counts.len(), nothing.sums.len()), (0, 0));
    Ok(())
}
