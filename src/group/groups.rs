//! What is asked of groups, and the answers: a column each.

use std::fmt;

use crate::backend::{Accumulated, HashBackend, Relational, Wanted};
use crate::error::{Error, Result};
use crate::scheme::Key;

/// What is wanted of the values of each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Aggregate {
    /// How many rows there are.
    Count,
    /// The sum of their values in 64 bits. It is exact, neither wrapping nor checked: fewer than 2^32 rows of 32 bits
    /// stay below 2^64.
    Sum,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
}

impl Aggregate {
    /// All of them.
    pub const ALL: [Aggregate; 4] = [Aggregate::Count, Aggregate::Sum, Aggregate::Min, Aggregate::Max];

    /// The name on the command line and of the column.
    pub fn name(self) -> &'static str {
        match self {
            Aggregate::Count => "count",
            Aggregate::Sum => "sum",
            Aggregate::Min => "min",
            Aggregate::Max => "max",
        }
    }
}

/// The groups of a column, one to a key, and what was asked of them. Columns that were not asked for are empty; all
/// others are as long as `keys`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Groups<K = u32> {
    /// The key of each group.
    pub keys: Vec<K>,
    /// Rows of each group.
    pub counts: Vec<u32>,
    /// The sum of its values.
    pub sums: Vec<u64>,
    /// Its least value; `u32::MAX` if it has no rows.
    pub mins: Vec<u32>,
    /// Its greatest value; 0 if it has no rows.
    pub maxs: Vec<u32>,
}

impl<K> Groups<K> {
    /// The number of groups.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// [`Groups`] whose columns are buffers on the device that made them.
#[non_exhaustive]
pub struct DeviceGroups<B: HashBackend, K: Key = u32> {
    /// The key of each group.
    pub keys: B::Buffer<K>,
    /// Rows of each group.
    pub counts: B::Buffer<u32>,
    /// The sum of its values.
    pub sums: B::Buffer<u64>,
    /// Its least value; `u32::MAX` if it has no rows.
    pub mins: B::Buffer<u32>,
    /// Its greatest value; 0 if it has no rows.
    pub maxs: B::Buffer<u32>,
}

impl<B: HashBackend, K: Key> DeviceGroups<B, K> {
    /// The columns, read to this machine.
    ///
    /// # Errors
    /// What the device reports.
    pub fn download(&self, backend: &B) -> Result<Groups<K>> {
        Ok(Groups {
            keys: backend.download(&self.keys)?,
            counts: backend.download(&self.counts)?,
            sums: backend.download(&self.sums)?,
            mins: backend.download(&self.mins)?,
            maxs: backend.download(&self.maxs)?,
        })
    }
}

impl<B: HashBackend, K: Key> fmt::Debug for DeviceGroups<B, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceGroups { keys, counts, sums, mins, maxs } = self;
        let mut shown = f.debug_struct("DeviceGroups");
        shown.field("keys", keys).field("counts", counts).field("sums", sums).field("mins", mins).field("maxs", maxs);
        shown.finish()
    }
}

/// The passes' name for what is asked for.
pub(crate) fn wanted(aggregates: &[Aggregate]) -> Wanted {
    let has = |aggregate| aggregates.contains(&aggregate);
    Wanted {
        count: has(Aggregate::Count),
        sum: has(Aggregate::Sum),
        least: has(Aggregate::Min),
        greatest: has(Aggregate::Max),
    }
}

/// Refuses a column of values that has not one for each row. Counts alone need no values, so then there may be none.
pub(crate) fn check_values(values: usize, rows: usize, aggregates: &[Aggregate]) -> Result<()> {
    if values == 0 && !wanted(aggregates).values() {
        return Ok(());
    }
    Error::check_length("values", values, rows)
}

/// The groups with these keys: row `i` belongs to group `ids[i]`, and brings `values[i]`.
pub(crate) fn aggregated<B: Relational, K: Key>(
    backend: &B,
    keys: B::Buffer<K>,
    ids: &B::Buffer<u32>,
    values: &B::Buffer<u32>,
    aggregates: &[Aggregate],
) -> Result<DeviceGroups<B, K>> {
    let wanted = wanted(aggregates);
    let groups = crate::backend::DeviceBuffer::len(&keys);
    let none;
    let values = if wanted.values() {
        values
    } else {
        none = backend.filled(0, 0)?;
        &none
    };
    let Accumulated { counts, sums, least, greatest } = backend.accumulate(ids, values, groups, wanted)?;
    Ok(DeviceGroups { keys, counts, sums, mins: least, maxs: greatest })
}
