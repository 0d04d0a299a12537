//! Aggregates of groups of 64-bit values, by the ids of rows.
//!
//! ```text
//! few groups    each thread has cells for all of them (`groups.rs`); otherwise:
//! spread        each chunk of rows: ids and values, ordered by partition, which is a range of ids
//! take          each task, the rows of a partition in some chunks: added to cells of its own, which fit in a cache
//! add up        each group: the cells of the tasks of its partition
//! ```
//!
//! Most partitions are one task; one with many rows, such as those of a heavy group, is several. Threads share no
//! cells: atomics on cells that other threads change too would take several times as long.
//!
//! Memory: 4 bytes per row, and the size of a value.

use std::ops::Range;

use super::groups::{Cells, Divided, added_up, window};
use super::primitives::of_rows;
use super::{CHUNK, Cpu, Memory};
use crate::backend::{HashBackend, Numbers, Wanted, WideAccumulated, Word};
use crate::error::Result;
use crate::exact::Window;
use crate::memory;
use crate::parallel::{Per, collect, each_with, threads};

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
        // Without rows no thread has cells, from which groups without rows get their defaults.
        if !ids.is_empty() {
            let look = |rows: Range<usize>, to: &mut [u32]| {
                to.copy_from_slice(&ids[rows]);
                true
            };
            if let Some(all) = self.grouped_ids(ids.len(), groups, values, of, wanted, look)? {
                return Ok(all);
            }
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
    let cells = collect(&tasks[..], 1, |_, task| {
        let Task { partition, chunks: range } = &task[0];
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
    let mut all = memory::reserved(cells.len())?;
    for cells in cells.into_iter().flatten() {
        all.push(cells?);
    }
    Ok(Divided { cells: all, first, shift })
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

/// The tasks, and the number of the first task of each partition and of all tasks. Each partition has a task, and
/// several if it has more than about `most` rows.
fn tasks(chunks: &[Starts], partitions: usize, most: usize) -> Result<(Vec<Task>, Vec<usize>)> {
    let (mut tasks, mut first) = (Vec::new(), memory::reserved(partitions + 1)?);
    for partition in 0..partitions {
        first.push(tasks.len());
        let (mut begin, mut rows) = (0, 0);
        for (number, starts) in (1..).zip(chunks) {
            rows += (starts[partition + 1] - starts[partition]) as usize;
            if rows >= most || number == chunks.len() {
                memory::reserve(&mut tasks, 1)?;
                tasks.push(Task { partition, chunks: begin..number });
                (begin, rows) = (number, 0);
            }
        }
        if chunks.is_empty() {
            memory::reserve(&mut tasks, 1)?;
            tasks.push(Task { partition, chunks: 0..0 });
        }
    }
    first.push(tasks.len());
    Ok((tasks, first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::ExactSum;
    use crate::scheme::hash::SplitMix64;

    /// A heavy group, whose partition is several tasks; groups without rows; and rows without a group.
    #[test]
    fn partitions_are_added_up_to_the_groups_of_a_plain_loop() -> Result<()> {
        let (rows, groups) = if cfg!(miri) { (500, 400) } else { (100_000, 60_000) };
        let mut stream = SplitMix64::new(5);
        let id = |random: u32| if random.is_multiple_of(2) { 77 } else { random / 2 % (groups as u32 + 9) };
        let ids: Vec<u32> = (0..rows).map(|_| id(stream.next_u32())).collect();
        // Their sums are exact, and some are outside of the window.
        let doubles: Vec<f64> =
            (0..rows).map(|row| if row % 99 == 0 { 1e200 } else { row as f64 * 0.5 - 99.0 }).collect();
        let values: Vec<u64> = doubles.iter().map(|value| value.to_bits()).collect();
        let (mut counts, mut sums, mut least) =
            (vec![0; groups], vec![ExactSum::default(); groups], vec![f64::NAN; groups]);
        for (&id, &value) in ids.iter().zip(&doubles).filter(|pair| (*pair.0 as usize) < groups) {
            let id = id as usize;
            counts[id] += 1;
            sums[id].add(value);
            least[id] = least[id].min(value);
        }
        let wanted = Wanted { count: true, sum: true, least: true, ..Wanted::default() };
        for threads in [1, 2, 8] {
            let cpu = Cpu::with_threads(threads)?;
            let found = cpu.run_accumulate_wide(&ids, &values, Numbers::Double, groups, wanted)?;
            assert_eq!(found.counts.words(), counts, "{threads} threads");
            for group in 0..groups {
                let sum = f64::from_bits(found.sums.words()[group]);
                assert_eq!(sum, sums[group].sum(), "group {group}, {threads} threads");
                if counts[group] > 0 {
                    assert_eq!(f64::from_bits(found.least.words()[group]), least[group], "group {group}");
                }
            }
            let none = cpu.run_accumulate_wide(&[], &values[..0], Numbers::Double, groups, wanted)?;
            let unused = found.least.words()[counts.iter().position(|&count| count == 0).expect("rows are few")];
            assert!(none.least.words().iter().all(|&least| least == unused) && none.counts.words() == vec![0; groups]);
        }
        Ok(())
    }
}
