//! Keys in order of first occurrence on a device: three strategies with one result.
//!
//! ```text
//! Table    (nearly all keys differ)   a table of all rows: key -> first row, later key -> id, which answers all rows
//! Sort     (pairs, triples)           (sorted, rows) = sort_pairs(keys, 0, 1, ..), which is stable, so the row at the
//!                                     start of each run is the first row of its key
//! Slots    (many duplicates)          key_slots(keys): a slot for each key, with its first row, in one pass; a sort if
//!                                     there are more keys than slots, or if slots would take more memory than a sort
//!
//! ids      first = a bitmap with a one at each first row;  unique = select(first, keys)
//!          rows are aggregated by slot or run; the order of groups is applied to the aggregates, which are fewer
//! ```
//!
//! A sample estimates the size of an average row's group, and from it the number of groups. It only affects speed: ids
//! and keys are in order of first occurrence with every strategy.

#[cfg(test)]
pub(crate) mod tests;

use super::numbering::{FirstSeen, Numbered, of_sorted};
use crate::backend::{DeviceBuffer, HashBackend, Kernels, KeySlots, Relational, Runs, bitmap_words};
use crate::error::Result;
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Key, Scheme};

/// Below this number of rows, launches cost more than the work, and a table takes the fewest launches.
const SORT_ROWS: usize = 1 << 19;
/// Below this number of rows, a sample costs more than the better strategy saves, and a sort is never much slower.
const LEAST_ROWS: usize = 1 << 21;
/// The sample has this number of rows per unit of the square root of all rows, so about 32 pairs of its rows are the
/// same row drawn twice.
const SAMPLE: usize = 8;
/// From this many quarters of a row in an average row's group, a sort is faster than a table. If all keys differ, there
/// are four quarters, plus or minus one because the sample is random.
const SORT_FROM: u64 = 7;
/// From this many rows in an average row's group, slots are faster than a sort.
const SLOTS_FROM: u64 = 4;
/// Slots per group, by the estimated number of groups.
const SLOTS_EACH: u64 = 2;
/// There is at least one slot per this number of rows, because the estimate is too low if groups differ in size.
const ROWS_PER_SLOT: u64 = 32;
/// The maximum base-2 logarithm of the number of slots for aggregates. Those of more slots are outside of the cache,
/// and a sort is faster.
const AGGREGATED_BITS: u32 = 21;
/// There is at most one slot per this number of rows: aggregates take up to 44 bytes per slot, used or not.
const LEAST_ROWS_PER_SLOT: u64 = 2;
/// With at least this number of rows per slot, ascending groups are found by slots.
const ASCENDING_ROWS_PER_SLOT: usize = 8;
/// Up to this number of groups, rows are aggregated by the ids of groups instead of their slots. The slots of large
/// groups may share an entry of a tile's table; ids this small rarely do.
const FEW: usize = 1 << 13;
const SEED: u64 = 0x0066_6972_7374_7365;

/// The algorithm that finds rows with equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    Table,
    /// With this base-2 logarithm of the number of slots.
    Slots(u32),
    Sort,
}

/// The distinct keys of a column in order, by default that of first occurrence, and the groups of rows, with arbitrary
/// numbers.
pub struct Grouping<B: HashBackend, K: Key> {
    pub(crate) unique: B::Buffer<K>,
    /// The number of each row's group.
    pub(crate) ids: B::Buffer<u32>,
    /// An upper bound of the numbers of groups, exclusive.
    pub(crate) groups: usize,
    /// The number of each distinct key's group; `None` if groups are numbered in order.
    pub(crate) order: Option<B::Buffer<u32>>,
    /// The rows to which `ids` belong; `None` if these are all rows in their order.
    pub(crate) rows: Option<B::Buffer<u32>>,
}

/// The distinct keys of a column in order of first appearance.
pub(super) fn distinct<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<B::Buffer<K>> {
    distinct_by(backend, keys, Strategy::of(backend, keys)?)
}

/// The distinct keys in order of first appearance, and the id of each row.
pub(super) fn numbered<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<Numbered<B, K>> {
    Grouping::by(backend, keys, Strategy::of(backend, keys)?)?.numbered(backend)
}

/// The distinct keys in order of first appearance, and the groups of rows to aggregate.
pub(super) fn grouped<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<Grouping<B, K>> {
    Grouping::by(backend, keys, Strategy::of(backend, keys)?.for_aggregates())
}

/// The distinct keys in ascending order, and the groups of rows to aggregate; `None` if a sort of all rows is faster
/// than slots and a sort of the distinct keys.
pub(super) fn ascending<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<Option<Grouping<B, K>>> {
    match slots_for_ascending(backend, keys, Strategy::for_aggregates)? {
        Some(slots) => Grouping::by_slots(backend, keys, slots)?.ascending(backend).map(Some),
        None => Ok(None),
    }
}

/// The distinct keys in ascending order, and the groups of rows.
pub(super) fn ascending_groups<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<Grouping<B, K>> {
    match slots_for_ascending(backend, keys, |strategy| strategy)? {
        Some(slots) => Grouping::by_slots(backend, keys, slots)?.ascending(backend),
        None => Grouping::ascending_by_sort(backend, keys),
    }
}

/// The distinct keys in ascending order; `None` as in [`ascending`].
pub(super) fn distinct_ascending<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
) -> Result<Option<B::Buffer<K>>> {
    let Some(slots) = slots_for_ascending(backend, keys, |strategy| strategy)? else { return Ok(None) };
    let distinct = backend.select(&backend.mark(&slots.first_rows, keys.len())?, true, keys)?;
    backend.sort(&distinct).map(Some)
}

fn slots_for_ascending<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
    changed: impl Fn(Strategy) -> Strategy,
) -> Result<Option<KeySlots<B::Buffer<u32>>>> {
    match changed(Strategy::of(backend, keys)?) {
        Strategy::Slots(bits) if (1 << bits) <= keys.len() / ASCENDING_ROWS_PER_SLOT => backend.key_slots(keys, bits),
        _ => Ok(None),
    }
}

/// Whether a column has fewer rows than are worth a sample.
pub(crate) fn is_short(keys: &impl DeviceBuffer) -> bool {
    keys.len() < LEAST_ROWS
}

/// Whether a sample of a column that is not short has few duplicates, and the device builds tables.
pub(crate) fn are_mostly_distinct<B: Relational, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<bool> {
    Ok(Strategy::of(backend, keys)? == Strategy::Table)
}

impl Strategy {
    /// The fastest strategy for a column, estimated by a sample of its rows.
    fn of<B: Relational, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<Strategy> {
        if backend.builder().is_some() {
            // Tables are built by the CPU and uploaded, so they are not an option.
            return Ok(Strategy::Sort);
        }
        if keys.len() < LEAST_ROWS {
            return Ok(if keys.len() < SORT_ROWS { Strategy::Table } else { Strategy::Sort });
        }
        let (all, rows) = (keys.len() as u64, SAMPLE * keys.len().isqrt());
        let mut random = SplitMix64::new(SEED);
        // Below 2^32, because a column has fewer rows.
        let sample: Vec<u32> = (0..rows).map(|_| ((u64::from(random.next_u32()) * all) >> u32::BITS) as u32).collect();
        let keys = backend.gather(keys, &backend.upload(&sample)?)?;
        let Some(slots) = backend.key_slots(&keys, bits_for(2 * rows as u64))? else { return Ok(Strategy::Sort) };
        let distinct = backend.select(&backend.mark(&slots.first_rows, rows)?, true, &keys)?.len();
        Ok(Strategy::by_sample(all, rows as u64, distinct as u64))
    }

    /// The fastest strategy if rows are aggregated as well.
    fn for_aggregates(self) -> Strategy {
        match self {
            Strategy::Slots(bits) if bits > AGGREGATED_BITS => Strategy::Sort,
            other => other,
        }
    }

    /// The strategy for `all` rows, if a sample of `rows` rows has `distinct` keys.
    ///
    /// Two random rows have equal keys with probability `g / all`, if a random row's group has `g` rows. So about
    /// `rows^2 g / (2 all)` of `rows` random rows are duplicates, if these are few. If they are many, the estimate is
    /// too high, by a factor of two at most.
    fn by_sample(all: u64, rows: u64, distinct: u64) -> Strategy {
        // g = duplicates / scale
        let duplicates = u128::from(2 * (rows - distinct)) * u128::from(all);
        let scale = u128::from(rows) * u128::from(distinct);
        if 4 * duplicates < u128::from(SORT_FROM) * scale {
            return Strategy::Table;
        }
        if duplicates < u128::from(SLOTS_FROM) * scale {
            return Strategy::Sort;
        }
        let slots = u128::from(SLOTS_EACH * all) * scale / duplicates.max(1);
        let bits = bits_for((slots as u64).max(all / ROWS_PER_SLOT));
        if 1 << bits > all / LEAST_ROWS_PER_SLOT { Strategy::Sort } else { Strategy::Slots(bits) }
    }
}

/// The base-2 logarithm of a power of two that is at least this number.
fn bits_for(slots: u64) -> u32 {
    slots.next_power_of_two().ilog2()
}

pub(crate) fn distinct_by<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
    strategy: Strategy,
) -> Result<B::Buffer<K>> {
    let first = match strategy {
        Strategy::Table => match FirstSeen::of(backend, keys)? {
            Some(seen) => return seen.unique(backend, keys),
            None => return backend.clone_buffer(keys),
        },
        Strategy::Slots(bits) if let Some(slots) = backend.key_slots(keys, bits)? => {
            backend.mark(&slots.first_rows, keys.len())?
        }
        _ => SortedRows::of(backend, keys)?.first,
    };
    backend.select(&first, true, keys)
}

/// The rows of a column by key.
struct SortedRows<B: HashBackend> {
    rows: B::Buffer<u32>,
    /// A bitmap with a one at each start of a run of equal keys.
    begins: B::Buffer<u32>,
    /// The first row of each run.
    first_rows: B::Buffer<u32>,
    /// A bitmap of the column with a one at each first row.
    first: B::Buffer<u32>,
}

impl<B: Relational> SortedRows<B> {
    fn of<K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<Self> {
        let (sorted, rows) = backend.sort_pairs(keys, &backend.iota(keys.len())?)?;
        let begins = backend.heads(&sorted)?;
        drop(sorted);
        // The sort is stable.
        let first_rows = backend.select(&begins, true, &rows)?;
        let first = backend.mark(&first_rows, keys.len())?;
        Ok(SortedRows { rows, begins, first_rows, first })
    }
}

impl<B: Runs<K::Rows>, K: Key> From<Numbered<B, K>> for Grouping<B, K> {
    fn from(Numbered { unique, ids }: Numbered<B, K>) -> Self {
        Grouping { groups: unique.len(), unique, ids, order: None, rows: None }
    }
}

impl<B: Runs<K::Rows>, K: Key> Grouping<B, K> {
    pub(crate) fn by(backend: &B, keys: &B::Buffer<K>, strategy: Strategy) -> Result<Self> {
        match strategy {
            Strategy::Table => Self::by_table(backend, keys),
            Strategy::Sort => Self::by_sort(backend, keys),
            Strategy::Slots(bits) => match backend.key_slots(keys, bits)? {
                Some(slots) => Self::by_slots(backend, keys, slots),
                None => Self::by_sort(backend, keys),
            },
        }
    }

    fn by_table(backend: &B, keys: &B::Buffer<K>) -> Result<Self> {
        let numbered = match FirstSeen::of(backend, keys)? {
            Some(seen) => seen.table(backend, keys)?.numbered(backend, keys)?,
            None => Numbered { unique: backend.clone_buffer(keys)?, ids: backend.iota(keys.len())? },
        };
        Ok(numbered.into())
    }

    fn by_slots(backend: &B, keys: &B::Buffer<K>, slots: KeySlots<B::Buffer<u32>>) -> Result<Self> {
        let KeySlots { first_rows, of_rows } = slots;
        let first = backend.mark(&first_rows, keys.len())?;
        let (unique, order) = (backend.select(&first, true, keys)?, backend.select(&first, true, &of_rows)?);
        let found = unique.len();
        let by_slot = Grouping { unique, ids: of_rows, groups: first_rows.len(), order: Some(order), rows: None };
        if found > FEW {
            return Ok(by_slot);
        }
        Ok(by_slot.numbered(backend)?.into())
    }

    fn by_sort(backend: &B, keys: &B::Buffer<K>) -> Result<Self> {
        let len = keys.len();
        let SortedRows { rows, begins, first_rows, first } = SortedRows::of(backend, keys)?;
        let unique = backend.select(&first, true, keys)?;
        let (groups, ids) = (unique.len(), backend.gather(&backend.ranks(&first, len)?, &first_rows)?);
        // Maps each id to its run: the inverse of `ids`.
        let order = backend.scatter(&backend.iota(groups)?, &ids, groups)?;
        let runs = backend.ranks(&begins, len)?;
        Ok(Grouping { unique, ids: runs, groups, order: Some(order), rows: Some(rows) })
    }

    /// The keys in ascending order, and the rows of each, by a sort of all rows.
    pub(super) fn ascending_by_sort(backend: &B, keys: &B::Buffer<K>) -> Result<Self> {
        let (sorted, rows) = backend.sort_pairs(keys, &backend.iota(keys.len())?)?;
        Ok(Grouping { rows: Some(rows), ..of_sorted::<B, K>(backend, &sorted)?.into() })
    }

    /// The same groups in ascending order of keys.
    pub(crate) fn ascending(self, backend: &B) -> Result<Self> {
        let order = match self.order {
            Some(order) => order,
            None => backend.iota(self.groups)?,
        };
        let (unique, order) = backend.sort_pairs(&self.unique, &order)?;
        Ok(Grouping { unique, order: Some(order), ..self })
    }

    /// The ids of all rows in their order, by the order of the groups.
    pub(crate) fn numbered(self, backend: &B) -> Result<Numbered<B, K>> {
        let Grouping { unique, mut ids, groups, order, rows } = self;
        if let Some(order) = order {
            ids = backend.gather(&ids_by_number(backend, &order, groups)?, &ids)?;
        }
        if let Some(rows) = rows {
            ids = backend.scatter(&ids, &rows, rows.len())?;
        }
        Ok(Numbered { unique, ids })
    }
}

/// The inverse of `order`: the id of each group's number.
pub(crate) fn ids_by_number<B: Relational>(
    backend: &B,
    order: &B::Buffer<u32>,
    groups: usize,
) -> Result<B::Buffer<u32>> {
    backend.scatter(&backend.iota(order.len())?, order, groups)
}

/// A table of the ids of keys.
pub(super) struct Ids<B: Kernels<K::Rows>, K: Key> {
    pub(super) unique: B::Buffer<K>,
    pub(super) plan: <K::Rows as Scheme>::Plan,
    pub(super) image: B::Buffer<u64>,
}

impl<B: Runs<K::Rows>, K: Key> Ids<B, K> {
    /// The ids of `keys`, which are all in the table.
    fn numbered(self, backend: &B, keys: &B::Buffer<K>) -> Result<Numbered<B, K>> {
        let mut ids = backend.unwritten(keys.len())?;
        let mut found = backend.unwritten(bitmap_words(keys.len()))?;
        Kernels::<K::Rows>::lookup(backend, &self.plan, &self.image, keys, &mut ids, &mut found)?;
        Ok(Numbered { unique: self.unique, ids })
    }
}
