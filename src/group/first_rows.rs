//! The first row of each key of a column, and lookups of other keys.

use super::numbering::{first_positions, looked_up};
use crate::backend::{BufferOf, DeviceBuffer, Runs};
use crate::cpu::Cpu;
use crate::cpu::first_occurrences::FirstOccurrences;
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::Key;
use crate::table::distinct::Positions;

/// For each row of a column, the first row with the same key; for any other key, the first row that has it.
///
/// Both depend only on the column, so they are the same on every device. Numbering, grouping and joining are based on
/// them: [`factorize`](super::factorize) also assigns ids, and [`ColumnIndex`](crate::ColumnIndex) also finds all rows
/// of a key.
///
/// ```
/// use koel::group::FirstRows;
/// use koel::{Cpu, NO_ROW};
///
/// let first = FirstRows::build(&Cpu::new(), &[30_u64, 10, 30, 20, 10])?;
/// assert_eq!(first.rows()?, [0, 1, 0, 3, 1]);
/// assert_eq!(first.distinct_len(), 3);
/// assert_eq!(first.find(&[20, 25, 30])?, [3, NO_ROW, 0]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Algorithm
///
/// On the CPU, if the range of the keys is at most 65,536 or four times the number of rows, keys are addressed
/// directly. Otherwise, a table of the distinct keys is used, or a sort if an attacker chose the keys against its hash.
/// On other devices, it is the table of [`factorize`](super::factorize).
pub struct FirstRows<B: Runs<K::Rows>, K: Key = u32> {
    backend: B,
    strategy: Strategy<B, K>,
    rows: B::Buffer<u32>,
    distinct: usize,
}

enum Strategy<B: Runs<K::Rows>, K: Key> {
    /// On the CPU that [`host`](crate::backend::HashBackend::host) of the backend returns. It is stored here too, so
    /// that methods need not handle a backend without one.
    Here(Cpu, FirstOccurrences<K>),
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
    /// On other devices: as [`factorize`](super::factorize).
    ///
    /// # Errors
    /// As [`unique`](super::unique).
    pub fn build(backend: &B, keys: &[K]) -> Result<Self> {
        Error::check_rows("rows", keys.len())?;
        match backend.host() {
            Some(cpu) => Self::here(backend, cpu, keys),
            None => Self::by_table(backend, &backend.upload(keys)?),
        }
    }

    /// [`build`](Self::build) from a buffer that is already on the device; nothing is transferred.
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`Error::WrongDevice`].
    pub fn build_on(backend: &B, keys: &BufferOf<B, K>) -> Result<Self> {
        Error::check_rows("rows", keys.len())?;
        match backend.host() {
            Some(cpu) => Self::here(backend, cpu, backend.host_words(keys)?),
            None => Self::by_table(backend, keys),
        }
    }

    fn here(backend: &B, cpu: &Cpu, keys: &[K]) -> Result<Self> {
        let first_occurrences = cpu.first_occurrences(keys)?;
        let rows = if first_occurrences.all_distinct() {
            backend.iota(keys.len())?
        } else {
            backend.of_host(cpu.found_first_occurrences(&first_occurrences, keys)?)?
        };
        let distinct = first_occurrences.distinct();
        let strategy = Strategy::Here(cpu.clone(), first_occurrences);
        Ok(FirstRows { backend: backend.clone(), strategy, rows, distinct })
    }

    fn by_table(backend: &B, keys: &B::Buffer<K>) -> Result<Self> {
        let table = first_positions::<B, K>(backend, keys)?;
        let (rows, _) = looked_up(backend, &table, keys)?;
        let distinct = match table.least_duplicate {
            None => keys.len(),
            Some(_) => {
                let bits = backend.mark(&rows, keys.len())?;
                backend.select(&bits, true, &rows)?.len()
            }
        };
        Ok(FirstRows { backend: backend.clone(), strategy: Strategy::Table(table), rows, distinct })
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
            Strategy::Here(cpu, first_occurrences) => {
                let mut rows = memory::zeroed(queries.len())?;
                cpu.find_first_occurrences(first_occurrences, queries, &mut rows)?;
                Ok(rows)
            }
            Strategy::Table(_) => self.backend.download(&self.find_on(&self.backend.upload(queries)?)?),
        }
    }

    /// [`find`](Self::find) of queries on the device; nothing is transferred.
    ///
    /// # Errors
    /// As [`find`](Self::find), and [`Error::WrongDevice`].
    pub fn find_on(&self, queries: &BufferOf<B, K>) -> Result<BufferOf<B, u32>> {
        Error::check_rows("queries", queries.len())?;
        match &self.strategy {
            Strategy::Here(cpu, first_occurrences) => {
                self.backend.of_host(cpu.found_first_occurrences(first_occurrences, self.backend.host_words(queries)?)?)
            }
            Strategy::Table(table) => Ok(looked_up(&self.backend, table, queries)?.0),
        }
    }
}

impl<B: Runs<K::Rows>, K: Key> std::fmt::Debug for FirstRows<B, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("FirstRows");
        if let Strategy::Here(_, first_occurrences) = &self.strategy {
            shown.field("firsts", first_occurrences);
        }
        shown.field("rows", &self.rows).field("distinct", &self.distinct).finish()
    }
}
