//! The first row of each key of a column, and lookups of other keys.

use super::ColumnOf;
use super::numbering::looked_up;
use crate::backend::queries::set_flags;
use crate::backend::{BufferOf, DeviceBuffer, Kernels, Runs};
use crate::cpu::Cpu;
use crate::cpu::first_occurrences::FirstOccurrences;
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::Key;
use crate::table::distinct::Positions;

/// For each row of a column, the first row with the same key; for any other key, the first row that has it.
///
/// Both depend only on the column, so they are the same on every device. Numbering, grouping and joining are based on
/// them: [`factorize`](crate::group::factorize) also assigns ids, and [`ColumnIndex`](crate::ColumnIndex) also finds
/// all rows of a key.
///
/// ```
/// use koel::group::FirstRows;
/// use koel::{Cpu, NO_ROW};
///
/// let first = FirstRows::build(&Cpu::new(), &[30_u64, 10, 30, 20, 10])?;
/// assert_eq!(first.rows()?, [0, 1, 0, 3, 1]);
/// assert_eq!(first.distinct_len(), 3);
/// assert_eq!(first.find(&[20, 25, 30])?, [3, NO_ROW, 0]);
/// assert_eq!(first.contains(&[20, 25, 30])?, [true, false, true]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Algorithm
///
/// On the CPU, if the range of the keys is at most 65,536 or four times the number of rows, keys are addressed
/// directly. Otherwise, a table of the distinct keys is used, or a sort if an attacker chose the keys against its hash.
/// On other devices, it is the table of [`factorize`](crate::group::factorize).
pub struct FirstRows<B: Runs<K::Rows>, K: Key = u32> {
    backend: B,
    strategy: Strategy<B, K>,
    rows: B::Buffer<u32>,
    distinct: usize,
}

enum Strategy<B: Runs<K::Rows>, K: Key> {
    /// The data of a CPU, whose memory is that of the backend.
    Host(Cpu, FirstOccurrences<K>),
    /// A table with `!row` for each key.
    Table(Positions<B, K>),
}

impl<B: Runs<K::Rows>, K: Key> FirstRows<B, K> {
    /// Finds the first row with the key of each row.
    ///
    /// Cost on the CPU: about two random accesses per row. The structure keeps 4 bytes per row, and also:
    ///
    /// - for a short range, 4 bytes per key of the range: at most 16 per row, or 256 KiB if that is more;
    /// - otherwise, per distinct key, 14 bytes (`u32`) or 27 (`u64`), or 256 bytes for up to 4,096 keys; and 4 KiB;
    /// - at worst, if keys were chosen against the hash or against the estimate of the number of distinct keys, 14 or
    ///   27 bytes per row; or 8 or 12 per distinct key, after a sort that needs 24 to 32 (`u32`) or 40 to 56 (`u64`)
    ///   bytes per row.
    ///
    /// On other devices: as [`factorize`](crate::group::factorize).
    ///
    /// # Errors
    /// As [`unique`](crate::group::unique).
    pub fn build(backend: &B, keys: &[K]) -> Result<Self> {
        Error::check_rows("rows", keys.len())?;
        backend.first_rows(ColumnOf::Host(keys))
    }

    /// [`build`](Self::build) from a buffer that is already on the device; nothing is transferred.
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`Error::WrongDevice`].
    pub fn build_on(backend: &B, keys: &BufferOf<B, K>) -> Result<Self> {
        Error::check_rows("rows", keys.len())?;
        backend.first_rows(ColumnOf::Device(keys))
    }

    /// Those of a column on `cpu`, which is the CPU of `backend`.
    pub(super) fn on_host(backend: &B, cpu: &Cpu, found: FirstOccurrences<K>, rows: B::Buffer<u32>) -> Self {
        let distinct = found.distinct();
        FirstRows { backend: backend.clone(), strategy: Strategy::Host(cpu.clone(), found), rows, distinct }
    }

    /// Those in a table of a column.
    pub(super) fn by_table(backend: &B, table: Positions<B, K>, rows: B::Buffer<u32>, distinct: usize) -> Self {
        FirstRows { backend: backend.clone(), strategy: Strategy::Table(table), rows, distinct }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the column is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of distinct keys.
    pub fn distinct_len(&self) -> usize {
        self.distinct
    }

    /// For each row, the first row with its key. At the first occurrence of a key, this is the row itself.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what the device reports.
    pub fn rows(&self) -> Result<Vec<u32>> {
        self.backend.download(&self.rows)
    }

    /// As [`rows`](Self::rows), on the device.
    pub fn rows_on(&self) -> &BufferOf<B, u32> {
        &self.rows
    }

    /// The first row with each of these keys, or [`NO_ROW`](crate::NO_ROW).
    ///
    /// Cost: about one random access per query.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more than `u32::MAX` queries; [`Error::OutOfMemory`] or what the device reports.
    pub fn find(&self, queries: &[K]) -> Result<Vec<u32>> {
        Error::check_rows("queries", queries.len())?;
        match &self.strategy {
            Strategy::Host(cpu, first_occurrences) => {
                let mut rows = memory::zeroed(queries.len())?;
                cpu.find_first_occurrences(first_occurrences, queries, &mut rows)?;
                Ok(rows)
            }
            Strategy::Table(_) => self.backend.download(&self.find_on(&self.backend.upload(queries)?)?),
        }
    }

    /// Whether the column has each of these keys. Cost: as [`find`](Self::find).
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn contains(&self, queries: &[K]) -> Result<Vec<bool>> {
        Error::check_rows("queries", queries.len())?;
        let mut found = memory::zeroed(queries.len())?;
        match &self.strategy {
            Strategy::Host(cpu, first_occurrences) => cpu.contains(first_occurrences, queries, &mut found)?,
            Strategy::Table(table) => {
                let queries = self.backend.upload(queries)?;
                let bits = Kernels::<K::Rows>::contains(&self.backend, &table.plan, &table.image, &queries)?;
                set_flags(&self.backend.download(&bits)?, &mut found);
            }
        }
        Ok(found)
    }

    /// [`find`](Self::find) of queries on the device; nothing is transferred.
    ///
    /// # Errors
    /// As [`find`](Self::find), and [`Error::WrongDevice`].
    pub fn find_on(&self, queries: &BufferOf<B, K>) -> Result<BufferOf<B, u32>> {
        Error::check_rows("queries", queries.len())?;
        match &self.strategy {
            Strategy::Host(cpu, first_occurrences) => {
                let queries = ColumnOf::<B, K>::Device(queries).words(&self.backend)?;
                self.backend.of_host(cpu.found_first_occurrences(first_occurrences, queries)?)
            }
            Strategy::Table(table) => Ok(looked_up(&self.backend, table, queries)?.0),
        }
    }
}

impl<B: Runs<K::Rows>, K: Key> std::fmt::Debug for FirstRows<B, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("FirstRows");
        if let Strategy::Host(_, first_occurrences) = &self.strategy {
            shown.field("firsts", first_occurrences);
        }
        shown.field("rows", &self.rows).field("distinct", &self.distinct).finish()
    }
}
