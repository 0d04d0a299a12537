//! The number of rows of each key of a column, in little memory: for columns that fill most of the memory.
//!
//! ```text
//! splitters = keys of a sample, so that about the same number of rows is between one and the next
//! for each range of keys between splitters:
//!     FirstSeen    groups = group_by(the keys of the range, with their rows: count, least row)
//!                  counts[least row] = count; rows that are not the first of their key keep a zero
//!     Ascending    remove the keys of the range from the column
//!                  append group_by(these keys: count) to the result
//! FirstSeen:   remove the rows with a zero from the column, in place
//! ```
//!
//! Column and result together take at most 4 bytes per row more than the column, plus the memory of `group_by` for the
//! largest range. A range cannot split a key, so a key with half of the rows makes its range that large.
//!
//! In contrast, `group_by` needs 30 bytes per row, and reads the column on the device once instead of once per range.

use super::wide::group_by_on;
use super::{Aggregate, Groups, IdOrder};
use crate::backend::Runs;
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::Key;

/// The most ranges, and the least number of rows per range.
const RANGES: usize = 16;
const RANGE_ROWS: usize = 1 << 19;

/// The rows of the sample per range.
const SAMPLED: usize = 64;

/// The distinct keys of a column that occur at least `least` times, and how often each occurs, as `value_counts` of
/// pandas.
///
/// The column is in host memory, and its memory is reused for the result. In addition, 4 bytes per row are needed, and
/// the memory of [`group_by`](super::group_by) for a sixteenth of the rows (more if a key has more rows than that). For
/// columns on a device, and other aggregates: [`group_by_on`](super::group_by_on).
///
/// Cost: that of [`group_by`](super::group_by) with counts, and up to sixteen reads of the column.
///
/// ```
/// use koel::{Cpu, IdOrder, group};
/// let kmers: Vec<u64> = vec![9 << 40, 2, 9 << 40, 5];
/// let counts = group::value_counts(&Cpu::new(), kmers.clone(), 1, IdOrder::FirstSeen)?;
/// assert_eq!(counts, (vec![9 << 40, 2, 5], vec![2, 1, 1]));
/// assert_eq!(group::value_counts(&Cpu::new(), kmers, 2, IdOrder::FirstSeen)?, (vec![9 << 40], vec![2]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// [`Error::TooLarge`] for more than `u32::MAX` rows; [`Error::OutOfMemory`], or what the device reports.
pub fn value_counts<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    column: Vec<K>,
    least: u32,
    order: IdOrder,
) -> Result<(Vec<K>, Vec<u32>)> {
    Error::check_rows("rows", column.len())?;
    let ranges = (column.len() / RANGE_ROWS).clamp(1, RANGES);
    let splitters = splitters(&column_sample(&column, ranges), ranges);
    by_ranges(backend, column, least, order, &splitters)
}

/// Keys at equal distances in the column.
fn column_sample<K: Key>(column: &[K], ranges: usize) -> Vec<K> {
    let wanted = ranges * SAMPLED;
    let mut sample: Vec<K> = column.iter().step_by((column.len() / wanted).max(1)).take(wanted).copied().collect();
    sample.sort_unstable();
    sample
}

/// The first keys of all ranges except the first, ascending.
fn splitters<K: Key>(sample: &[K], ranges: usize) -> Vec<K> {
    let mut splitters: Vec<K> = (1..ranges).filter_map(|i| sample.get(i * sample.len() / ranges)).copied().collect();
    splitters.dedup();
    splitters
}

fn by_ranges<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    column: Vec<K>,
    least: u32,
    order: IdOrder,
    splitters: &[K],
) -> Result<(Vec<K>, Vec<u32>)> {
    let bounds = (0..=splitters.len()).map(|i| (i.checked_sub(1).map(|i| splitters[i]), splitters.get(i).copied()));
    let ranges =
        bounds.map(|(from, to)| move |key: K| from.is_none_or(|from| key >= from) & to.is_none_or(|to| key < to));
    match order {
        IdOrder::FirstSeen => first_seen(backend, column, least, ranges),
        IdOrder::Ascending => ascending(backend, column, least, ranges),
    }
}

fn first_seen<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    mut column: Vec<K>,
    least: u32,
    ranges: impl Iterator<Item = impl Fn(K) -> bool>,
) -> Result<(Vec<K>, Vec<u32>)> {
    let mut counts = memory::zeroed::<u32>(column.len())?;
    for is_there in ranges {
        let len = column.iter().filter(|&&key| is_there(key)).count();
        let (mut keys, mut rows) = (memory::reserved(len)?, memory::reserved(len)?);
        column.iter().zip(0..).filter(|&(&key, _)| is_there(key)).for_each(|(&key, row)| {
            keys.push(key);
            rows.push(row);
        });
        let groups = groups_of(backend, keys, rows, &[Aggregate::Count, Aggregate::Min], IdOrder::FirstSeen)?;
        for (&row, &count) in groups.mins.iter().zip(&groups.counts) {
            counts[row as usize] = count;
        }
    }
    let least = least.max(1);
    let mut stays = counts.iter().map(|&count| count >= least);
    column.retain(|_| stays.next().unwrap_or(false));
    counts.retain(|&count| count >= least);
    Ok((column, counts))
}

fn ascending<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    mut column: Vec<K>,
    least: u32,
    ranges: impl Iterator<Item = impl Fn(K) -> bool>,
) -> Result<(Vec<K>, Vec<u32>)> {
    let (mut all, mut counts) = (Vec::new(), Vec::new());
    for is_there in ranges {
        let mut keys = memory::reserved(column.iter().filter(|&&key| is_there(key)).count())?;
        column.retain(|&key| {
            let leaves = is_there(key);
            if leaves {
                keys.push(key);
            }
            !leaves
        });
        column.shrink_to_fit();
        let groups = groups_of(backend, keys, vec![], &[Aggregate::Count], IdOrder::Ascending)?;
        memory::reserve(&mut all, groups.len())?;
        memory::reserve(&mut counts, groups.len())?;
        for (key, count) in groups.keys.into_iter().zip(groups.counts).filter(|&(_, count)| count >= least) {
            all.push(key);
            counts.push(count);
        }
    }
    Ok((all, counts))
}

/// The groups of a range.
fn groups_of<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: Vec<K>,
    rows: Vec<u32>,
    wanted: &[Aggregate],
    order: IdOrder,
) -> Result<Groups<K, u32>> {
    let (keys_there, rows_there) = (backend.upload(&keys)?, backend.upload(&rows)?);
    // On the CPU, the device's columns are copies.
    drop((keys, rows));
    let groups = group_by_on::<B, K, u32>(backend, &keys_there, &rows_there, wanted, order)?;
    drop((keys_there, rows_there));
    groups.download(backend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::wide::group_by;
    use crate::{Cpu, Result};
    use quickcheck::QuickCheck;

    fn by_groups<K: Key>(column: &[K], least: u32, order: IdOrder) -> Result<(Vec<K>, Vec<u32>)>
    where
        Cpu: Runs<K::Rows>,
    {
        let groups = group_by::<_, K, u32>(&Cpu::new(), column, &[], &[Aggregate::Count], order)?;
        let often = groups.keys.into_iter().zip(groups.counts).filter(|&(_, count)| count >= least);
        Ok(often.unzip())
    }

    #[test]
    fn ranges_change_no_answer() {
        fn answers<K: Key>(column: Vec<K>, mut splitters: Vec<K>, least: u32) -> bool
        where
            Cpu: Runs<K::Rows>,
        {
            splitters.sort_unstable();
            IdOrder::ALL.iter().all(|&order| {
                let expected = by_groups(&column, least, order).expect("groups");
                let found = by_ranges(&Cpu::new(), column.clone(), least, order, &splitters).expect("counts");
                found == expected
            })
        }
        fn of_narrow(column: Vec<u8>, splitters: Vec<u8>, least: u8) -> bool {
            let wide = |keys: Vec<u8>| keys.into_iter().map(u32::from).collect();
            answers::<u32>(wide(column), wide(splitters), u32::from(least % 4))
        }
        fn of_wide(column: Vec<u8>, splitters: Vec<u8>, least: u8) -> bool {
            let wide = |keys: Vec<u8>| keys.into_iter().map(|key| u64::from(key).wrapping_sub(7) << 40 | 9).collect();
            answers::<u64>(wide(column), wide(splitters), u32::from(least % 4))
        }
        QuickCheck::new().quickcheck(of_narrow as fn(_, _, _) -> _);
        QuickCheck::new().quickcheck(of_wide as fn(_, _, _) -> _);
    }

    #[test]
    fn large_columns_are_counted_in_ranges() {
        let column: Vec<u64> =
            (0..3 * RANGE_ROWS as u64).map(|i| (i % 700_001).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let sample = column_sample(&column, 3);
        assert_eq!((sample.len(), splitters(&sample, 3).len()), (3 * SAMPLED, 2));
        for order in IdOrder::ALL {
            let found = value_counts(&Cpu::new(), column.clone(), 2, order).expect("counts");
            assert!(found == by_groups(&column, 2, order).expect("groups"), "{order:?}");
        }
    }

    #[test]
    fn a_key_with_all_rows_makes_one_range() {
        let sample = column_sample(&vec![7_u32; 5000], 4);
        assert_eq!(splitters(&sample, 4), [7]);
        assert_eq!(splitters::<u32>(&[], 4), []);
    }
}
