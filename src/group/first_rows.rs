//! The first row of each key of a column, and where other columns find it.

use super::numbering::first_positions;
use crate::backend::join_rows::NO_ROW;
use crate::backend::{BufferOf, DeviceBuffer, Kernels, Runs, bitmap_words};
use crate::cpu::firsts::Firsts;
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::Key;
use crate::table::distinct::Positions;

/// For each row of a column the first row with the same key; and for any other key the first row that has it.
///
/// Both follow from the column alone, so they are the same on every device. It is what numbering, grouping and joining are
/// made of: [`factorize`](super::factorize) gives ids, which this does not, and [`ColumnIndex`](crate::ColumnIndex) all
/// rows of a key.
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
/// # How
///
/// On the CPU keys whose range is short, at most 65,536 or four times the rows, are addressed directly. Others are told
/// apart by a table of the distinct keys; and keys that were chosen against its hash by a sort. Elsewhere it is the table
/// by which [`factorize`](super::factorize) tells keys apart there.
pub struct FirstRows<B: Runs<K::Rows>, K: Key = u32> {
    backend: B,
    way: Way<B, K>,
    rows: B::Buffer<u32>,
    distinct: usize,
}

enum Way<B: Runs<K::Rows>, K: Key> {
    Here(Firsts<K>),
    /// `!row` of each key.
    Table(Positions<B, K>),
}

impl<B: Runs<K::Rows>, K: Key> FirstRows<B, K> {
    /// Finds the first row of each row of a column.
    ///
    /// Cost on the CPU: about two random accesses a row, to memory that stays, with 4 bytes a row besides:
    ///
    /// - of a short range 4 bytes a key of it: at most 16 a row, or 256 KiB if that is more;
    /// - otherwise 14 bytes (`u32`) or 27 (`u64`) a distinct key; of up to 4,096 keys 256 bytes each; and 4 KiB;
    /// - at worst, if keys were chosen against the hash or against the estimate of how many are distinct, 14 or 27 bytes a
    ///   row; or 8 or 12 a distinct key, after a sort that takes 24 to 32 (`u32`) or 40 to 56 (`u64`) bytes a row.
    ///
    /// Elsewhere: as [`factorize`](super::factorize).
    ///
    /// # Errors
    /// As [`unique`](super::unique).
    pub fn build(backend: &B, keys: &[K]) -> Result<Self> {
        Error::check_rows("rows", keys.len())?;
        match backend.host() {
            Some(_) => Self::here(backend, keys),
            None => Self::by_table(backend, &backend.upload(keys)?),
        }
    }

    /// [`build`](Self::build) from a buffer that is on the device already; nothing is transferred.
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`Error::WrongDevice`].
    pub fn build_on(backend: &B, keys: &BufferOf<B, K>) -> Result<Self> {
        Error::check_rows("rows", keys.len())?;
        match backend.host() {
            Some(_) => Self::here(backend, backend.host_words(keys)?),
            None => Self::by_table(backend, keys),
        }
    }

    fn here(backend: &B, keys: &[K]) -> Result<Self> {
        let cpu = backend.host().ok_or(Error::WrongDevice)?;
        let firsts = cpu.firsts(keys)?;
        let rows = if firsts.all_distinct() {
            backend.iota(keys.len())?
        } else {
            backend.of_host(cpu.found_firsts(&firsts, keys)?)?
        };
        let distinct = firsts.distinct();
        Ok(FirstRows { backend: backend.clone(), way: Way::Here(firsts), rows, distinct })
    }

    fn by_table(backend: &B, keys: &B::Buffer<K>) -> Result<Self> {
        let table = first_positions::<B, K>(backend, keys)?;
        let rows = looked_up(backend, &table, keys)?;
        let distinct = match table.least_copy {
            None => keys.len(),
            Some(_) => {
                let bits = backend.mark(&rows, keys.len())?;
                backend.select(&bits, true, &rows)?.len()
            }
        };
        Ok(FirstRows { backend: backend.clone(), way: Way::Table(table), rows, distinct })
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of distinct keys.
    pub fn distinct_len(&self) -> usize {
        self.distinct
    }

    /// The first row of each row: its own, where the key has not come before.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what the device reports.
    pub fn rows(&self) -> Result<Vec<u32>> {
        self.backend.download(&self.rows)
    }

    /// The same on the device.
    pub fn rows_on(&self) -> &BufferOf<B, u32> {
        &self.rows
    }

    /// The first row that has each of these keys, or [`NO_ROW`] where none has.
    ///
    /// Cost: about a random access a query.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more than `u32::MAX` queries; [`Error::OutOfMemory`] or what the device reports.
    pub fn find(&self, queries: &[K]) -> Result<Vec<u32>> {
        Error::check_rows("queries", queries.len())?;
        match (&self.way, self.backend.host()) {
            (Way::Here(firsts), Some(cpu)) => {
                let mut rows = memory::zeroed(queries.len())?;
                cpu.find_firsts(firsts, queries, &mut rows)?;
                Ok(rows)
            }
            _ => self.backend.download(&self.find_on(&self.backend.upload(queries)?)?),
        }
    }

    /// [`find`](Self::find) of queries on the device; nothing is transferred.
    ///
    /// # Errors
    /// As [`find`](Self::find), and [`Error::WrongDevice`].
    pub fn find_on(&self, queries: &BufferOf<B, K>) -> Result<BufferOf<B, u32>> {
        Error::check_rows("queries", queries.len())?;
        match &self.way {
            Way::Here(firsts) => {
                let cpu = self.backend.host().ok_or(Error::WrongDevice)?;
                self.backend.of_host(cpu.found_firsts(firsts, self.backend.host_words(queries)?)?)
            }
            Way::Table(table) => looked_up(&self.backend, table, queries),
        }
    }
}

/// What a table of complemented rows answers, with [`NO_ROW`] for a key that is not there.
fn looked_up<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    table: &Positions<B, K>,
    queries: &B::Buffer<K>,
) -> Result<B::Buffer<u32>> {
    let mut rows = backend.unwritten(queries.len())?;
    let mut found = backend.unwritten(bitmap_words(queries.len()))?;
    // What is not there answers 0, whose complement is `NO_ROW`.
    const { assert!(NO_ROW == !0) }
    Kernels::<K::Rows>::lookup(backend, &table.plan, &table.image, queries, &mut rows, &mut found)?;
    backend.complement(&mut rows)?;
    Ok(rows)
}

impl<B: Runs<K::Rows>, K: Key> std::fmt::Debug for FirstRows<B, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("FirstRows");
        if let Way::Here(firsts) = &self.way {
            shown.field("firsts", firsts);
        }
        shown.field("rows", &self.rows).field("distinct", &self.distinct).finish()
    }
}
