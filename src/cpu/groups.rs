//! Aggregates of the groups of a column, without the ids of its rows.
//!
//! ```text
//! each thread     separate cells for every group
//!   each chunk    the ids of its rows, in the first-level cache;  for each aggregate: row by row, to the id's cell
//! in the end      the cells of all threads are added up, group by group
//! ```
//!
//! No ids are written to memory, and threads share no cells. This is used for columns with few groups: at most
//! [`CHUNK`], or so few that each group has at least [`ROWS_A_CELL`] rows per thread. For other columns the ids are
//! stored, and rows are aggregated by them (`aggregate.rs`).

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::chunk_queue::ChunkQueue;
use super::first_occurrences::{ByPartition, Kind, Numbered, Numbering};
use super::memory::prefetch;
use super::primitives::of_rows;
use super::sums::Totals;
use super::{BLOCK, CHUNK, Cpu, Memory};
use crate::backend::{HashBackend, Numbers, Wanted, WideAccumulated, Word};
use crate::error::Result;
use crate::exact::{ExactSum, Leftovers, Window};
use crate::memory;
use crate::parallel::{each, threads};
use crate::scheme::Key;

/// The least number of rows per group and thread, if there are more than [`CHUNK`] groups.
const ROWS_A_CELL: usize = 4;
/// The most groups for which each thread has an [`ExactSum`]: 2.2 MiB, about a second-level cache. Up to this number,
/// adding to an `ExactSum` is several times as fast as sorting the leftovers.
const FEW: usize = 1 << 12;
/// The number of groups above which cells are prefetched.
const CACHED: usize = 1 << 14;

/// The result of a grouping.
pub(crate) enum Grouped<K: Key> {
    /// The groups.
    Whole(Memory<K>, WideAccumulated<Cpu>),
    /// Only the distinct keys and each row's number, because aggregating by ids is faster.
    ById(Memory<K>, Memory<u32>),
}

/// The cells of some groups in one thread or task; a column that was not requested is empty.
pub(super) struct Cells {
    /// The first group.
    first: u32,
    counts: Vec<u32>,
    sums: Vec<i128>,
    least: Vec<u64>,
    greatest: Vec<u64>,
    outside: Outside,
}

/// Doubles outside of the column's window.
enum Outside {
    /// A sum per group if there are few groups; empty if there are no doubles outside of the window.
    Sums(Vec<ExactSum>),
    Rows(Leftovers),
}

impl Outside {
    #[inline]
    fn push(&mut self, id: u32, bits: u64, first: u32, groups: usize) -> Result<()> {
        match self {
            Outside::Rows(leftovers) => leftovers.push(first + id, bits),
            Outside::Sums(sums) => {
                if sums.is_empty() {
                    memory::reserve(sums, groups)?;
                    sums.resize_with(groups, ExactSum::default);
                }
                sums[id as usize].add(f64::from_bits(bits));
                Ok(())
            }
        }
    }
}

/// The window of a column of doubles that are summed; any window for other columns.
pub(super) fn window<V: Word>(numbers: Numbers, values: &[V], wanted: Wanted) -> Window {
    match numbers {
        Numbers::Double if wanted.is_summed() => Window::of(bytemuck::cast_slice(values)),
        _ => Window::of(&[]),
    }
}

impl Cells {
    /// Those of all groups.
    fn of(groups: usize, wanted: Wanted) -> Result<Self> {
        let cells = Cells::of_range(0..groups, wanted)?;
        let outside = if groups <= FEW { Outside::Sums(Vec::new()) } else { cells.outside };
        Ok(Cells { outside, ..cells })
    }

    /// Those of a range of groups.
    pub(super) fn of_range(groups: Range<usize>, wanted: Wanted) -> Result<Self> {
        let many = |wanted: bool| if wanted { groups.len() } else { 0 };
        let mut least = memory::reserved(many(wanted.least))?;
        least.resize(many(wanted.least), u64::MAX);
        Ok(Cells {
            first: groups.start as u32,
            counts: memory::zeroed(many(wanted.count || wanted.mean))?,
            sums: memory::zeroed(many(wanted.is_summed()))?,
            least,
            greatest: memory::zeroed(many(wanted.greatest))?,
            outside: Outside::Rows(Leftovers::default()),
        })
    }

    /// Adds rows with these values. Ids are those from the first group on.
    ///
    /// Each type of number has its own loop, from which the compiler eliminates the branches on the type.
    pub(super) fn take_any<V: Word>(
        &mut self,
        ids: &[u32],
        values: &[V],
        numbers: Numbers,
        window: Window,
    ) -> Result<()> {
        match numbers {
            Numbers::Unsigned => self.take(ids, values, Numbers::Unsigned, window),
            Numbers::Signed => self.take(ids, values, Numbers::Signed, window),
            Numbers::Double => self.take(ids, values, Numbers::Double, window),
        }
    }

    #[inline(always)]
    fn take<V: Word>(&mut self, ids: &[u32], values: &[V], numbers: Numbers, window: Window) -> Result<()> {
        let (mut memory, first, groups) = (Ok(()), self.first, self.sums.len());
        visit(&mut self.counts, ids, |count, _| *count += 1);
        visit(&mut self.sums, ids, |sum, row| match numbers.integer(values[row].into(), window) {
            Some(integer) => *sum += integer,
            None if memory.is_ok() => memory = self.outside.push(ids[row], values[row].into(), first, groups),
            None => (),
        });
        visit(&mut self.least, ids, |least, row| *least = numbers.low_code(values[row].into()).min(*least));
        visit(&mut self.greatest, ids, |most, row| *most = numbers.high_code(values[row].into()).max(*most));
        memory
    }
}

/// Calls `then` with the cell of each row.
#[inline(always)]
fn visit<T>(cells: &mut [T], ids: &[u32], mut then: impl FnMut(&mut T, usize)) {
    if cells.is_empty() {
        return;
    }
    let ahead = cells.len() > CACHED;
    for (row, &id) in ids.iter().enumerate() {
        if ahead && let Some(&next) = ids.get(row + BLOCK / 4) {
            prefetch(cells, next as usize);
        }
        if let Some(cell) = cells.get_mut(id as usize) {
            then(cell, row);
        }
    }
}

impl Cpu {
    /// The distinct keys of a column in order of first occurrence, and the requested aggregates of their groups; least
    /// and greatest values are returned as 64-bit values. Returns the ids of rows instead of aggregates if aggregating
    /// by them is faster.
    pub(crate) fn grouped<K: Key, V: Word>(
        &self,
        keys: &[K],
        values: &[V],
        numbers: Numbers,
        wanted: Wanted,
    ) -> Result<Grouped<K>> {
        if let Some(front) = self.front(keys)?
            && let Some(all) = self.grouped_by(&front, keys, values, numbers, wanted)?
        {
            return Ok(Grouped::Whole(front.unique, all));
        }
        let kind = self.run(|| Kind::of(keys))?;
        let of_wanted = if wanted.values() { values } else { &[] };
        if let Some(rows) = self.by_partition(keys, of_wanted, &kind)? {
            self.ledger().kernel("group", keys.len());
            return self.grouped_by_partition(rows, window(numbers, of_wanted, wanted), numbers, wanted);
        }
        let mut ids = self.unwritten(keys.len())?;
        let numbering = match self.numbering(keys, ids.words_mut()?, &kind)? {
            Numbered::ById(unique) => {
                self.ledger().kernel("ids", keys.len());
                return Ok(Grouped::ById(unique, ids));
            }
            Numbered::ByKey(numbering) => numbering,
        };
        match self.grouped_by(&numbering, keys, values, numbers, wanted)? {
            Some(all) => Ok(Grouped::Whole(numbering.unique, all)),
            None => {
                self.ledger().kernel("ids", keys.len());
                let to = ids.words_mut()?;
                self.run(|| numbering.write(keys, to))?;
                Ok(Grouped::ById(numbering.unique, ids))
            }
        }
    }

    /// `None` if aggregating by ids is faster, or if a key is unknown.
    fn grouped_by<K: Key, V: Word>(
        &self,
        numbering: &Numbering<K>,
        keys: &[K],
        values: &[V],
        numbers: Numbers,
        wanted: Wanted,
    ) -> Result<Option<WideAccumulated<Cpu>>> {
        let ids = |rows: Range<usize>, ids: &mut [u32]| numbering.look(rows.start, &keys[rows], ids);
        self.grouped_ids(keys.len(), numbering.unique.words().len(), values, numbers, wanted, ids)
    }

    /// The requested aggregates of groups of one row each.
    pub(super) fn of_single_rows<V: Word>(
        &self,
        rows: usize,
        values: &[V],
        of: Numbers,
        wanted: Wanted,
    ) -> Result<WideAccumulated<Cpu>> {
        self.ledger().kernel("group", rows);
        let many = |wanted: bool| if wanted { rows } else { 0 };
        let value = |row: usize| values[row].into();
        self.run(|| {
            Ok(WideAccumulated {
                counts: of_rows(many(wanted.count), |_| 1)?,
                sums: of_rows(many(wanted.sum), |row| of.sum_of_one(value(row)))?,
                means: of_rows(many(wanted.mean), |row| of.mean_of_one(value(row)))?,
                least: of_rows(many(wanted.least), |row| of.of_low_code(of.low_code(value(row))))?,
                greatest: of_rows(many(wanted.greatest), |row| of.of_high_code(of.high_code(value(row))))?,
                overflow: None,
            })
        })?
    }

    /// The groups of rows by partition, each partition by one thread.
    fn grouped_by_partition<K: Key, V: Word>(
        &self,
        rows: ByPartition<K, V>,
        window: Window,
        of: Numbers,
        wanted: Wanted,
    ) -> Result<Grouped<K>> {
        let begin = |codes| Cells::of_range(codes, wanted);
        let take = |cells: &mut Cells, ids: &[u32], values: &[V]| cells.take_any(ids, values, of, window);
        let mut cells = self.run(|| rows.each_partition(begin, take))??;
        if cells.iter().any(|cells| matches!(&cells.outside, Outside::Rows(rows) if rows.len() > 0)) {
            let group = rows.groups_of_codes()?;
            for cells in &mut cells {
                if let Outside::Rows(leftovers) = &mut cells.outside {
                    leftovers.renumber(&group);
                }
            }
        }
        let ByPartition { unique, codes, shift, .. } = rows;
        let (groups, first) = (unique.words().len(), (0..=cells.len()).collect());
        let all = Divided { cells, first, shift, codes: Some(codes) };
        Ok(Grouped::Whole(unique, added_up(self, all, groups, of, wanted, window)?))
    }

    /// The requested aggregates of groups. `look` writes the ids of a few rows at a time, or returns that it does not
    /// know all of them. Rows whose id is not below `groups` are skipped.
    ///
    /// `None` if aggregating by stored ids is faster, or if an id is unknown.
    pub(crate) fn grouped_ids<V: Word>(
        &self,
        rows: usize,
        groups: usize,
        values: &[V],
        numbers: Numbers,
        wanted: Wanted,
        look: impl Fn(Range<usize>, &mut [u32]) -> bool + Sync,
    ) -> Result<Option<WideAccumulated<Cpu>>> {
        let threads = self.run(threads)?;
        if groups > CHUNK && groups.saturating_mul(threads * ROWS_A_CELL) > rows {
            return Ok(None);
        }
        self.ledger().kernel("group", rows);
        let values = if wanted.values() { values } else { &[] };
        let window = window(numbers, values, wanted);
        let unknown = AtomicBool::new(false);
        let job = |chunk_queue: &ChunkQueue| {
            let mut cells = Cells::of(groups, wanted)?;
            let mut ids = [0; CHUNK];
            while let Some(rows) = chunk_queue.take() {
                let ids = &mut ids[..rows.len()];
                if !look(rows.clone(), ids) {
                    unknown.store(true, Relaxed);
                }
                if unknown.load(Relaxed) {
                    break;
                }
                let values = values.get(rows).unwrap_or(&[]);
                cells.take_any(ids, values, numbers, window)?;
            }
            let mut all = memory::reserved(1)?;
            all.push(cells);
            Ok(all)
        };
        let join = |a: Result<Vec<Cells>>, b: Result<Vec<Cells>>| {
            let (mut a, mut b) = (a?, b?);
            memory::reserve(&mut a, b.len())?;
            a.append(&mut b);
            Ok(a)
        };
        let all = self.run(|| ChunkQueue::new(rows).run(job, join).transpose())??.unwrap_or_default();
        if unknown.into_inner() {
            return Ok(None);
        }
        let all = Divided { first: vec![0, all.len()], cells: all, shift: u32::BITS, codes: None };
        added_up(self, all, groups, numbers, wanted, window).map(Some)
    }
}

/// The cells of all groups: partitions are ranges of groups, and each has the cells of one or more threads or tasks.
pub(super) struct Divided {
    pub(super) cells: Vec<Cells>,
    /// The first cells of each partition, and the number of cells.
    pub(super) first: Vec<usize>,
    /// The base-2 logarithm of the number of groups of a partition.
    pub(super) shift: u32,
    /// The partition of each group and its number there, if they are not those of the group's number.
    pub(super) codes: Option<Memory<u32>>,
}

impl Divided {
    /// What `column` contains for a group in each of the cells of its partition.
    #[inline(always)]
    fn of_group<'a, C: Copy + 'a>(
        &'a self,
        group: usize,
        column: impl Fn(&'a Cells) -> &'a Vec<C>,
    ) -> impl Iterator<Item = C> {
        let place = |code: u32| ((u64::from(code) >> self.shift) as usize, code & ((1_u64 << self.shift) - 1) as u32);
        let cells = |partition: usize| &self.cells[self.first[partition]..self.first[partition + 1]];
        let code = match &self.codes {
            None => group as u32,
            Some(codes) => {
                if let Some(&next) = codes.words().get(group + BLOCK / 4) {
                    let (partition, at) = place(next);
                    cells(partition).iter().for_each(|cells| prefetch(column(cells), at as usize));
                }
                codes.words()[group]
            }
        };
        let (partition, at) = place(code);
        cells(partition).iter().filter_map(move |cells| column(cells).get(at as usize).copied())
    }
}

/// Adds up cells, group by group.
pub(super) fn added_up(
    cpu: &Cpu,
    mut all: Divided,
    groups: usize,
    of: Numbers,
    wanted: Wanted,
    window: Window,
) -> Result<WideAccumulated<Cpu>> {
    let cells = |wanted: bool| if wanted { groups } else { 0 };
    let mut to = WideAccumulated::<Cpu> {
        counts: Memory::zeroed(cells(wanted.count))?,
        sums: Memory::zeroed(cells(wanted.sum))?,
        means: Memory::zeroed(cells(wanted.mean))?,
        least: Memory::zeroed(cells(wanted.least))?,
        greatest: Memory::zeroed(cells(wanted.greatest))?,
        overflow: None,
    };
    let (mut leftovers, mut exact) = (Leftovers::default(), Vec::new());
    for cells in &mut all.cells {
        match std::mem::replace(&mut cells.outside, Outside::Sums(Vec::new())) {
            Outside::Rows(rows) => leftovers = leftovers.and(rows)?,
            Outside::Sums(sums) if exact.is_empty() => exact = sums,
            Outside::Sums(sums) => exact.iter_mut().zip(&sums).for_each(|(to, sum): (&mut ExactSum, _)| to.merge(sum)),
        }
    }
    let all = &all;
    let (counts, least, greatest) = (to.counts.words_mut()?, to.least.words_mut()?, to.greatest.words_mut()?);
    cpu.run(|| {
        of_groups(counts, |group| all.of_group(group, |cells| &cells.counts).sum());
        of_groups(least, |group| of.of_low_code(all.of_group(group, |cells| &cells.least).min().unwrap_or(u64::MAX)));
        of_groups(greatest, |group| of.of_high_code(all.of_group(group, |cells| &cells.greatest).max().unwrap_or(0)));
    })?;
    let totals = Totals {
        sum: |group: usize| all.of_group(group, |cells| &cells.sums).sum(),
        count: |group: usize| all.of_group(group, |cells| &cells.counts).sum(),
        window,
        leftovers,
        exact,
    };
    cpu.finish_sums(&mut to, of, totals)?;
    Ok(to)
}

/// Writes the result of each group.
fn of_groups<T: Send>(to: &mut [T], of_group: impl Fn(usize) -> T + Sync) {
    each((0..to.len(), to), CHUNK, |_, (groups, to): (Range<usize>, &mut [T])| {
        groups.zip(to).for_each(|(group, to)| *to = of_group(group));
    });
}

#[cfg(test)]
mod tests;
