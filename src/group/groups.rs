//! The aggregates of groups, and the results: a column for each.

use super::number::{AggregateColumns, Number, Passed};
use crate::backend::{BufferOf, DeviceBuffer, HashBackend, Relational, Runs, Wanted};
use crate::columns::first_seen::ids_by_number;
use crate::columns::{Grouping, Numbered};
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::Key;

/// An aggregate of the values of each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Aggregate {
    /// The number of rows.
    Count,
    /// The sum of the values in 64 bits. The sum of `u32` values always fits. If a sum of `u64` or `i64` values does
    /// not fit in 64 bits, the result is [`Error::SumTooLarge`]. For `f64` values it is the exact sum, rounded once:
    /// see [`group::wide`](super::wide).
    Sum,
    /// The exact sum of the values divided by their count, rounded once, as `f64`.
    Mean,
    /// The least value; for `f64` values NaN if one of them is NaN, and -0.0 is less than 0.0.
    Min,
    /// The greatest value; for `f64` values NaN if one of them is NaN, and 0.0 is greater than -0.0.
    Max,
}

impl Aggregate {
    /// All aggregates.
    pub const ALL: [Aggregate; 5] = [Aggregate::Count, Aggregate::Sum, Aggregate::Mean, Aggregate::Min, Aggregate::Max];

    /// The name on the command line and of the column.
    pub fn name(self) -> &'static str {
        match self {
            Aggregate::Count => "count",
            Aggregate::Sum => "sum",
            Aggregate::Mean => "mean",
            Aggregate::Min => "min",
            Aggregate::Max => "max",
        }
    }
}

/// The groups of a column, one per key, with the requested aggregates. Columns that were not requested are empty; all
/// others are as long as `keys`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Groups<K = u32, V: Number = u32> {
    /// The key of each group.
    pub keys: Vec<K>,
    /// The number of rows of each group.
    pub counts: Vec<u32>,
    /// The sum of the group's values.
    pub sums: Vec<V::Sum>,
    /// The mean of the group's values; NaN if it does not have rows.
    pub means: Vec<f64>,
    /// The least value; if the group does not have rows, the greatest integer, or infinity.
    pub mins: Vec<V>,
    /// The greatest value; if the group does not have rows, the least integer, or minus infinity.
    pub maxs: Vec<V>,
}

impl<K, V: Number> Groups<K, V> {
    /// The number of groups.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// [`Groups`] whose columns are buffers on a device.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeviceGroups<B: HashBackend, K: Key = u32, V: Number = u32> {
    /// The key of each group.
    pub keys: B::Buffer<K>,
    /// The number of rows of each group.
    pub counts: B::Buffer<u32>,
    /// The sum of the group's values; signed numbers and doubles by their bits.
    pub sums: B::Buffer<u64>,
    /// The mean of the group's values, by the bits of an `f64`; NaN if it does not have rows.
    pub means: B::Buffer<u64>,
    /// The least value, by its bits; if the group does not have rows, the greatest integer, or infinity.
    pub mins: BufferOf<B, V::Word>,
    /// The greatest value, by its bits; if the group does not have rows, the least integer, or minus infinity.
    pub maxs: BufferOf<B, V::Word>,
}

impl<B: HashBackend, K: Key, V: Number> DeviceGroups<B, K, V> {
    /// Downloads the columns to the host.
    ///
    /// # Errors
    /// What the device reports.
    pub fn download(&self, backend: &B) -> Result<Groups<K, V>> {
        Ok(Groups {
            keys: backend.download(&self.keys)?,
            counts: backend.download(&self.counts)?,
            sums: numbers(backend, &self.sums)?,
            means: numbers(backend, &self.means)?,
            mins: numbers(backend, &self.mins)?,
            maxs: numbers(backend, &self.maxs)?,
        })
    }
}

/// Reads numbers whose bits are on the device.
fn numbers<B: HashBackend, V: Number>(backend: &B, bits: &B::Buffer<V::Word>) -> Result<Vec<V>> {
    let mut numbers = memory::zeroed(bits.len())?;
    backend.read(bits, 0, bytemuck::cast_slice_mut::<V, V::Word>(&mut numbers))?;
    Ok(numbers)
}

/// Converts the requested aggregates to those of the passes.
pub(crate) fn wanted(aggregates: &[Aggregate]) -> Wanted {
    let has = |aggregate| aggregates.contains(&aggregate);
    Wanted {
        count: has(Aggregate::Count),
        sum: has(Aggregate::Sum),
        mean: has(Aggregate::Mean),
        least: has(Aggregate::Min),
        greatest: has(Aggregate::Max),
    }
}

/// Returns an error unless there is a value for each row. Counts need no values, so there may be none for them.
pub(crate) fn check_values(values: usize, rows: usize, aggregates: &[Aggregate]) -> Result<()> {
    if values == 0 && !wanted(aggregates).values() {
        return Ok(());
    }
    Error::check_length("values", values, rows)
}

/// The groups with these keys: row `i` belongs to group `ids[i]` and has the value `values[i]`.
///
/// # Errors
/// [`Error::SumTooLarge`] with the key of the first group whose sum does not fit.
pub(crate) fn aggregated<B: Relational, K: Key, V: Number>(
    backend: &B,
    keys: B::Buffer<K>,
    ids: &B::Buffer<u32>,
    values: &B::Buffer<V::Word>,
    aggregates: &[Aggregate],
) -> Result<DeviceGroups<B, K, V>> {
    let columns = V::columns(backend, ids, values, keys.len(), wanted(aggregates))?;
    settled(backend, keys, columns)
}

/// As [`aggregated`], for groups in any order, which is applied to the aggregates.
pub(crate) fn aggregated_by<B: Runs<K::Rows>, K: Key, V: Number>(
    backend: &B,
    grouping: Grouping<B, K>,
    values: &B::Buffer<V::Word>,
    aggregates: &[Aggregate],
) -> Result<DeviceGroups<B, K, V>> {
    let Grouping { unique, ids, groups, order, rows } = grouping;
    // A gather of values is faster than a scatter of ids, and rows of one group then follow each other.
    let moved = match rows {
        Some(rows) if !values.is_empty() => Some(backend.gather(values, &rows)?),
        _ => None,
    };
    let values = moved.as_ref().unwrap_or(values);
    let Some(order) = order else { return aggregated(backend, unique, &ids, values, aggregates) };
    let columns = V::columns(backend, &ids, values, groups, wanted(aggregates))?;
    if columns.overflow.is_some() {
        // The error has the key of the first such group in the order of the result.
        let ids = backend.gather(&ids_by_number(backend, &order, groups)?, &ids)?;
        return aggregated(backend, unique, &ids, values, aggregates);
    }
    settled(backend, unique, columns.gathered(backend, &order)?)
}

/// The aggregates of the row numbers of each group, and the id of each row, by the order of the groups.
pub(crate) fn of_row_numbers<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    grouping: Grouping<B, K>,
    aggregates: &[Aggregate],
) -> Result<(DeviceGroups<B, K>, B::Buffer<u32>)> {
    let wanted = wanted(aggregates);
    let none = backend.filled(0, 0)?;
    let all = backend.iota(if wanted.values() && grouping.rows.is_none() { grouping.ids.len() } else { 0 })?;
    let rows = if wanted.values() { grouping.rows.as_ref().unwrap_or(&all) } else { &none };
    let columns = u32::columns(backend, &grouping.ids, rows, grouping.groups, wanted)?;
    let columns = match &grouping.order {
        Some(order) => columns.gathered(backend, order)?,
        None => columns,
    };
    let Numbered { unique, ids } = grouping.numbered(backend)?;
    Ok((settled(backend, unique, columns)?, ids))
}

/// The groups with these keys and aggregates.
///
/// # Errors
/// [`Error::SumTooLarge`] with the key of the first group whose sum does not fit.
pub(crate) fn settled<B: HashBackend, K: Key, V: Number>(
    backend: &B,
    keys: B::Buffer<K>,
    columns: AggregateColumns<B, V::Word>,
) -> Result<DeviceGroups<B, K, V>> {
    let AggregateColumns { counts, sums, means, least, greatest, overflow } = columns;
    if let Some(group) = overflow {
        let mut key = [K::default()];
        backend.read(&keys, group as usize, &mut key)?;
        return Err(Error::SumTooLarge { key: key[0].into() });
    }
    Ok(DeviceGroups { keys, counts, sums, means, mins: least, maxs: greatest })
}
