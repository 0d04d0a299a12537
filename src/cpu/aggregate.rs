//! Aggregates of groups, by the ids of rows.
//!
//! ```text
//! single rows   if the id of each row is the row: its value; otherwise:
//! few groups    each thread has cells for all of them (`groups.rs`); otherwise:
//! spread        each chunk of rows: ids and values, ordered by partition, which is a range of ids
//! take          each task, the rows of a partition in some chunks: added to cells of its own, which fit in a cache if
//!               there are at most about 2^23 groups
//! add up        each group: the cells of the tasks of its partition
//! ```
//!
//! Most partitions are one task; one with many rows, such as those of a heavy group, is several. Threads share no
//! cells: atomics on cells that other threads change too would take several times as long.
//!
//! Memory: 4 bytes per row and the size of a value, 4 bytes per chunk and partition, and up to 36 bytes per group of
//! each task.

use std::ops::Range;

use super::groups::{Cells, Divided, added_up, window};
use super::primitives::of_rows;
use super::{CHUNK, Cpu, Memory};
use crate::backend::{HashBackend, Numbers, Wanted, WideAccumulated, Word};
use crate::error::Result;
use crate::exact::Window;
use crate::memory;
use crate::parallel::{Per, any, collect, each_with, threads};

/// The least base-2 logarithm of the number of groups of a partition, and the greatest number of partitions.
const GROUPS: u32 = if cfg!(test) { 6 } else { 12 };
const MOST: usize = 1 << 11;
/// The least and the greatest number of rows per chunk.
const ROWS: [usize; 2] = [CHUNK, 1 << 16];

/// The first row of each partition of a chunk, and the number of rows.
type Starts = Vec<u32>;

/// The rows of a partition in some chunks.
struct Task {
    partition: usize,
    chunks: Range<usize>,
}

impl Cpu {
    /// The requested aggregates of groups; rows whose id is not below `groups` are skipped. The caller has checked the
    /// lengths.
    pub(crate) fn run_accumulate_wide<V: Word>(
        &self,
        ids: &[u32],
        values: &[V],
        of: Numbers,
        groups: usize,
        wanted: Wanted,
    ) -> Result<WideAccumulated<Cpu>> {
        // Words of 32 bits are widened by zeros.
        debug_assert!(size_of::<V>() == 8 || of == Numbers::Unsigned);
        let values = if wanted.values() { values } else { &[] };
        let is_other = |(row, &id): (usize, &u32)| row != id as usize;
        let others = |number, ids: &[u32]| (number * CHUNK..).zip(ids).any(is_other);
        if groups == ids.len() && !self.run(|| any(ids, CHUNK, others))? {
            return self.of_single_rows(groups, values, of, wanted);
        }
        let look = |rows: Range<usize>, to: &mut [u32]| {
            to.copy_from_slice(&ids[rows]);
            true
        };
        if let Some(all) = self.grouped_ids(ids.len(), groups, values, of, wanted, look)? {
            return Ok(all);
        }
        self.ledger().kernel("accumulate", ids.len());
        let window = window(of, values, wanted);
        let divided = self.run(|| by_partition(ids, values, of, groups, wanted, window))??;
        added_up(self, divided, groups, of, wanted, window)
    }

    /// The lower bits of words.
    pub(crate) fn low<W: Word>(&self, wide: &Memory<u64>) -> Result<Memory<W>> {
        let wide = wide.words();
        self.run(|| of_rows(wide.len(), |row| W::low(wide[row]))).flatten()
    }
}

/// Adds all rows to the cells of tasks.
fn by_partition<V: Word>(
    ids: &[u32],
    values: &[V],
    of: Numbers,
    groups: usize,
    wanted: Wanted,
    window: Window,
) -> Result<Divided> {
    let shift = GROUPS.max(groups.div_ceil(MOST).next_power_of_two().ilog2());
    let partitions = groups.div_ceil(1 << shift).max(1);
    let size = (ids.len() / (4 * threads())).next_power_of_two().clamp(ROWS[0], ROWS[1]);
    let mut chunks: Vec<Starts> = memory::reserved(ids.len().div_ceil(size))?;
    for _ in 0..ids.len().div_ceil(size) {
        chunks.push(memory::zeroed(partitions + 1)?);
    }
    let (mut spread_ids, mut spread_values) = (Memory::zeroed(ids.len())?, Memory::zeroed(values.len())?);
    let columns = (ids, values, spread_ids.words_mut()?, spread_values.words_mut()?, Per(size, &mut chunks[..]));
    let counts = || [0; MOST];
    each_with(columns, size, counts, |counts, _, (ids, values, to_ids, to_values, Per(_, starts))| {
        spread((ids, values), (to_ids, to_values), shift, counts, &mut starts[0]);
    });
    let (spread_ids, spread_values) = (spread_ids.words(), spread_values.words());
    let (tasks, first) = tasks(&chunks, partitions, (ids.len() / (4 * threads())).max(size))?;
    let order = distributed(tasks.len(), 16 * threads())?;
    let found = collect(&order[..], 1, |_, task| {
        let Task { partition, chunks: range } = &tasks[task[0]];
        let base = partition << shift;
        Some(Cells::of_range(base..groups.min(base + (1 << shift)), wanted).and_then(|mut cells| {
            for (number, starts) in range.clone().zip(&chunks[range.clone()]) {
                let rows = number * size + starts[*partition] as usize..number * size + starts[partition + 1] as usize;
                let values = spread_values.get(rows.clone()).unwrap_or(&[]);
                cells.take_any(&spread_ids[rows], values, of, window)?;
            }
            Ok(cells)
        }))
    })?;
    let mut by_task = memory::reserved(tasks.len())?;
    by_task.resize_with(tasks.len(), || None);
    order.into_iter().zip(found).for_each(|(task, cells)| by_task[task] = cells);
    let mut cells = memory::reserved(tasks.len())?;
    for found in by_task.into_iter().flatten() {
        cells.push(found?);
    }
    Ok(Divided { cells, first, shift, codes: None })
}

/// Writes the rows of a chunk, ordered by partition, with ids from the first one of the partition on.
fn spread<V: Word>(
    (ids, values): (&[u32], &[V]),
    (to_ids, to_values): (&mut [u32], &mut [V]),
    shift: u32,
    counts: &mut [u32; MOST],
    starts: &mut [u32],
) {
    // Rows with greater ids are in the last partition, and skipped there.
    let last = starts.len() - 2;
    let partition = |id: u32| (id >> shift) as usize;
    counts.fill(0);
    for &id in ids {
        counts[partition(id).min(last) % MOST] += 1;
    }
    let mut sum = 0;
    for (start, count) in starts.iter_mut().zip(counts.iter_mut().chain([&mut 0])) {
        *start = sum;
        sum += std::mem::replace(count, sum);
    }
    for (row, &id) in ids.iter().enumerate() {
        let partition = partition(id).min(last);
        let place = &mut counts[partition % MOST];
        to_ids[*place as usize] = id - ((partition as u32) << shift);
        if let Some(&value) = values.get(row) {
            to_values[*place as usize] = value;
        }
        *place += 1;
    }
}

/// The tasks, and the number of the first task of each partition and of all tasks. A partition has several tasks if it
/// has more than `most` rows, and none if it has no rows.
fn tasks(chunks: &[Starts], partitions: usize, most: usize) -> Result<(Vec<Task>, Vec<usize>)> {
    let mut lengths = memory::zeroed::<usize>(partitions)?;
    for starts in chunks {
        for (length, range) in lengths.iter_mut().zip(starts.windows(2)) {
            *length += (range[1] - range[0]) as usize;
        }
    }
    let (mut tasks, mut first) = (Vec::new(), memory::reserved(partitions + 1)?);
    for (partition, mut left) in lengths.into_iter().enumerate() {
        first.push(tasks.len());
        let mut begin = 0;
        while left > 0 {
            let (mut end, mut rows) = (begin, 0);
            if left <= most {
                (end, rows) = (chunks.len(), left);
            }
            while rows < left.min(most) {
                rows += (chunks[end][partition + 1] - chunks[end][partition]) as usize;
                end += 1;
            }
            memory::reserve(&mut tasks, 1)?;
            tasks.push(Task { partition, chunks: begin..end });
            (begin, left) = (end, left - rows);
        }
    }
    first.push(tasks.len());
    Ok((tasks, first))
}

/// The numbers below `len`, in an order that keeps neighbours far apart: the tasks of a heavy partition are neighbours,
/// and a thread takes about `1 / pieces` of the tasks at a time.
fn distributed(len: usize, pieces: usize) -> Result<Vec<usize>> {
    let mut order = memory::reserved(len)?;
    (0..pieces.min(len)).for_each(|first| order.extend((first..len).step_by(pieces)));
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::ExactSum;
    use crate::scheme::hash::SplitMix64;

    /// A heavy group, whose partition is several tasks; groups and partitions without rows; and rows without a group.
    #[test]
    fn partitions_are_added_up_to_the_groups_of_a_plain_loop() -> Result<()> {
        let rows = if cfg!(miri) { 500 } else { 100_000 };
        for groups in if cfg!(miri) { [400, 401, 402] } else { [60_000, MOST << GROUPS, (MOST << GROUPS) + 1] } {
            let mut stream = SplitMix64::new(5);
            let last = groups as u32 - 1;
            let id = |random: u32| match random % 8 {
                0..4 => 77,
                4 => [last, last + 1, u32::MAX][random as usize / 8 % 3],
                _ => random / 8 % last / 2,
            };
            let ids: Vec<u32> = (0..rows).map(|_| id(stream.next_u32())).collect();
            // The smallest values are outside of the window, and change the rounded sums.
            let double = |row: i32| if row % 99 == 0 { 2_f64.powi(-30) } else { f64::from(row) * 0.5 - 99.0 };
            let doubles: Vec<f64> = (0..rows).map(double).collect();
            let values: Vec<u64> = doubles.iter().map(|value| value.to_bits()).collect();
            let mut expected = vec![(0_u32, ExactSum::default(), f64::INFINITY, f64::NEG_INFINITY); groups];
            for (&id, &value) in ids.iter().zip(&doubles) {
                if let Some((count, sum, least, greatest)) = expected.get_mut(id as usize) {
                    *count += 1;
                    sum.add(value);
                    (*least, *greatest) = (least.min(value), greatest.max(value));
                }
            }
            let counted = Wanted { count: true, ..Wanted::default() };
            let all = Wanted { sum: true, mean: true, least: true, greatest: true, ..counted };
            for threads in [1, 2, 8] {
                let cpu = Cpu::with_threads(threads)?;
                let about = format!("{groups} groups, {threads} threads");
                let found = cpu.run_accumulate_wide(&ids, &values, Numbers::Double, groups, all)?;
                let double = |column: &Memory<u64>, group: usize| f64::from_bits(column.words()[group]);
                for (group, (count, sum, least, greatest)) in expected.iter().enumerate() {
                    assert_eq!(found.counts.words()[group], *count, "group {group}, {about}");
                    assert_eq!(double(&found.sums, group), sum.sum(), "group {group}, {about}");
                    if *count > 0 {
                        assert_eq!(double(&found.means, group), sum.mean((*count).into()), "group {group}, {about}");
                        assert_eq!(double(&found.least, group), *least, "group {group}, {about}");
                        assert_eq!(double(&found.greatest, group), *greatest, "group {group}, {about}");
                    }
                }
                let none = cpu.run_accumulate_wide(&[], &values[..0], Numbers::Double, groups, all)?;
                let without = expected.iter().position(|group| group.0 == 0).expect("half of the groups have no rows");
                let is_default = |column: &Memory<u64>, of: &Memory<u64>| {
                    column.words().iter().all(|&word| word == of.words()[without])
                };
                assert!(
                    is_default(&none.least, &found.least) && is_default(&none.greatest, &found.greatest),
                    "{about}"
                );
                assert!(none.counts.words().iter().all(|&count| count == 0), "{about}");
                let counts = cpu.run_accumulate_wide::<u64>(&ids, &[], Numbers::Unsigned, groups, counted)?.counts;
                assert!(counts.words() == found.counts.words(), "{about}");
                let short: Vec<u32> = (0..rows as u32).collect();
                let wide: Vec<u64> = short.iter().map(|&value| value.into()).collect();
                let [short, wide] = [
                    cpu.run_accumulate_wide(&ids, &short, Numbers::Unsigned, groups, all)?,
                    cpu.run_accumulate_wide(&ids, &wide, Numbers::Unsigned, groups, all)?,
                ];
                assert!(
                    short.sums.words() == wide.sums.words() && short.least.words() == wide.least.words(),
                    "{about}"
                );
                let past = vec![groups as u32; ids.len()];
                let found = cpu.run_accumulate_wide(&past, &values, Numbers::Double, groups, all)?;
                assert!(found.counts.words().iter().all(|&count| count == 0), "{about}");
            }
        }
        Ok(())
    }

    #[test]
    fn neighbours_are_in_different_pieces() -> Result<()> {
        for (len, pieces) in [(0, 4), (3, 4), (4, 4), (2101, 64)] {
            let mut order = distributed(len, pieces)?;
            assert!(order.windows(2).all(|pair| pair[0] + 1 != pair[1]) || len <= pieces, "{len}, {pieces}");
            order.sort_unstable();
            assert!(order.into_iter().eq(0..len), "{len}, {pieces}");
        }
        Ok(())
    }
}
