//! Joins of two columns of keys: the pairs of rows whose keys are equal.
//!
//! ```text
//! index    a multivalue table of the right column: key -> row numbers, ascending, followed by one NO_ROW
//! inner    the run of each left row's key, one after the other
//! left     the same, where a left row without a run has the one element NO_ROW
//! right    the inner join, followed by the right rows whose keys no left row has, ascending
//! full     the left join, followed by the same
//! semi     the left rows that have a run       anti     the left rows that do not
//! ```
//!
//! Rows are ordered by the left row, then by the right row, both ascending, on every device. Threads do not append to a
//! common list: the position of each pair is computed by prefix sums, so the order does not depend on the schedule.
//!
//! Inner and outer joins can be far longer than both columns. A join takes 12 bytes per left row; the result is created
//! in pieces, which may begin anywhere, and a pass over a piece does the same work for every row, whatever the
//! distribution of the keys.
//!
//! This describes [`JoinIndex`], which is canonical and has files. [`ColumnIndex`] returns the same rows for a column
//! that is not saved. On the CPU it consists of first rows (`cpu/joins/`); elsewhere, if the column is short or most
//! keys are distinct, of a table of all rows (`columns/by_table.rs`). Both take less time, and of distinct keys less
//! memory.
//!
//! This is not a merge join of two sorted columns: the left column need not be sorted, and its order is that of the
//! result.

mod builder;
mod column;
mod file;
pub(crate) mod rows;

pub use crate::backend::join_rows::{JoinKind, JoinRows, NO_ROW};
pub use builder::JoinBuilder;
pub use column::{ColumnChunks, ColumnIndex, ColumnJoin, Matched, RightColumn};
pub use rows::{Chunks, Join, JoinRowsOn};

use rows::{Matches, without};

use crate::backend::{DeviceBuffer, HashBackend, Runs};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::multi::{Listing, MultiTable};
use crate::scheme::{Bucketized, Cuckoo, Scheme};
use crate::table::HashTable;

/// An index of a right column of keys, for joins with any number of left columns.
///
/// ```
/// use koel::{Cpu, Cuckoo, JoinIndex, JoinKind, NO_ROW};
///
/// let index = JoinIndex::builder(Cuckoo::default()).build(&Cpu::new(), &[30, 10, 30])?;
/// let inner = index.join(&[10, 20, 30], JoinKind::Inner)?.collect()?;
/// assert_eq!((inner.left, inner.right), (vec![0, 2, 2], vec![1, 0, 2]));
/// let left = index.join(&[10, 20, 30], JoinKind::Left)?.collect()?;
/// assert_eq!((left.left, left.right), (vec![0, 1, 2, 2], vec![1, NO_ROW, 0, 2]));
/// assert_eq!(index.join(&[10, 20, 30], JoinKind::Anti)?.collect()?.left, [1]);
/// # Ok::<(), koel::Error>(())
/// ```
pub struct JoinIndex<B: HashBackend, S: Scheme = Cuckoo> {
    /// The rows of each key, followed by one [`NO_ROW`].
    rows: MultiTable<B, S>,
}

/// Implemented for one backend so that `JoinIndex::builder(..)` needs no type; it builds on any.
impl<S: Scheme<Value = u32>> JoinIndex<Cpu, S> {
    /// Returns a builder of an index with these parameters, for any backend; see [`JoinBuilder`].
    pub fn builder(scheme: S) -> JoinBuilder<S> {
        JoinBuilder::new(scheme)
    }
}

impl<B: Runs<S>, S: Scheme<Value = u32>> JoinIndex<B, S> {
    /// The number of right rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the right column is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of distinct keys of the right column.
    pub fn keys_len(&self) -> usize {
        self.rows.keys_len()
    }

    /// The table of the keys.
    pub fn table(&self) -> &HashTable<B, S> {
        self.rows.table()
    }

    /// The device.
    pub fn backend(&self) -> &B {
        self.rows.backend()
    }

    /// The index of these runs of row numbers.
    fn of_rows(rows: MultiTable<B, S>) -> Result<Self> {
        Ok(JoinIndex { rows: rows.with_spare(NO_ROW)? })
    }

    /// Joins a left column of keys with the indexed column. Computes the length of the result; the rows are created
    /// when they are requested, except in inner joins of distinct keys, whose rows are created at once.
    ///
    /// Cost: a lookup and two adjacent reads per left row, and a prefix sum. Memory on the device: 16 bytes per left
    /// row, 12 of which are kept while the [`Join`] exists (inner joins of distinct keys: 8 bytes per row of the
    /// result; semi and anti: 4; right and full: also up to 28 per right row without a match, 4 of which are kept).
    ///
    /// # Errors
    /// [`Error::TooLarge`] for 2^32 or more rows; [`Error::OutOfMemory`] or what the device reports.
    pub fn join(&self, left: &[S::Key], kind: JoinKind) -> Result<Join<'_, B>> {
        Error::check_rows("left rows of a join", left.len())?;
        let left = self.backend().upload(left)?;
        self.join_on(&left, kind)
    }

    /// [`join`](Self::join) of a column that is already on the index's device.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashBackend, JoinIndex, JoinKind};
    /// let cpu = Cpu::new();
    /// let index = JoinIndex::builder(Cuckoo::default()).build_on(&cpu, &cpu.upload(&[30, 10, 30])?)?;
    /// let join = index.join_on(&cpu.upload(&[30, 30])?, JoinKind::Inner)?;
    /// let piece = join.chunk_on(1, 2)?;
    /// assert_eq!((cpu.download(&piece.left)?, cpu.download(&piece.right)?), (vec![0, 1], vec![2, 0]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or as [`join`](Self::join).
    pub fn join_on(&self, left: &B::Buffer<S::Key>, kind: JoinKind) -> Result<Join<'_, B>> {
        Error::check_rows("left rows of a join", left.len())?;
        match kind {
            JoinKind::Inner if self.keys_len() == self.len() => self.pairs(left),
            // The number of right rows is the position of `NO_ROW`, which follows the right rows.
            JoinKind::Inner | JoinKind::Left | JoinKind::Right | JoinKind::Full => {
                let missing = kind.keeps_left().then_some(self.len() as u32);
                let numbers = self.rows.numbers(left)?;
                let listing = Listing::of(self.backend(), self.rows.spans_of(&numbers, missing)?)?;
                let (starts, right) = (self.rows.starts_on(), self.rows.values_on());
                let alone = kind
                    .keeps_right()
                    .then(|| without(self.backend(), starts, right, &numbers, self.len()))
                    .transpose()?;
                Join::of(self.backend(), Matches::Listed { right, listing }, alone)
            }
            JoinKind::Semi => self.chosen(left, true),
            JoinKind::Anti => self.chosen(left, false),
        }
    }

    /// The first right row with each left key, or [`NO_ROW`].
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, JoinIndex, NO_ROW};
    /// let index = JoinIndex::builder(Cuckoo::default()).build(&Cpu::new(), &[30, 10, 30])?;
    /// assert_eq!(index.first_rows(&[10, 20, 30])?, [1, NO_ROW, 0]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn first_rows(&self, left: &[S::Key]) -> Result<Vec<u32>> {
        Error::check_rows("left rows of a join", left.len())?;
        let backend = self.backend();
        // A key without a run has the element `NO_ROW`, which follows the right rows.
        let spans = self.rows.spans(&backend.upload(left)?, Some(self.len() as u32))?;
        backend.download(&backend.gather(self.rows.values_on(), &spans.starts)?)
    }

    /// The rows of an inner join whose right keys are distinct. The number of a key is then the position of its row.
    fn pairs(&self, left: &B::Buffer<S::Key>) -> Result<Join<'_, B>> {
        let (backend, (numbers, found)) = (self.backend(), self.rows.numbers(left)?);
        let (left, numbers) = backend.select_pairs(&found, true, &backend.iota(left.len())?, &numbers)?;
        let right = backend.gather(self.rows.values_on(), &numbers)?;
        Join::of(backend, Matches::Pairs(JoinRowsOn { left, right }), None)
    }

    /// The left rows whose keys are in the index, or are not.
    fn chosen(&self, left: &B::Buffer<S::Key>, there: bool) -> Result<Join<'_, B>> {
        let (backend, (_, found)) = (self.backend(), self.rows.numbers(left)?);
        Join::chosen(backend, backend.select(&found, there, &backend.iota(left.len())?)?)
    }
}

impl<B: HashBackend, S: Scheme> std::fmt::Debug for JoinIndex<B, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinIndex").field("rows", &self.rows).finish()
    }
}

/// Joins two columns of keys: returns the row numbers of both sides, in the order of left rows, then of right rows.
///
/// Cost: a [`ColumnIndex`] of the right column, a lookup per left row, and 8 bytes per row of the result. Keep a
/// `ColumnIndex` for several left columns, or use its [`ColumnJoin::chunks`] for results that do not fit in memory; a
/// [`JoinIndex`] can be saved.
///
/// ```
/// use koel::{Cpu, JoinKind, join};
/// let rows = join(&Cpu::new(), &[10, 20, 30], &[30, 10, 30], JoinKind::Inner)?;
/// assert_eq!((rows.left, rows.right), (vec![0, 2, 2], vec![1, 0, 2]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// As [`ColumnIndex::build`] and [`ColumnJoin::collect`].
pub fn join<B: Runs<Bucketized>>(backend: &B, left: &[u32], right: &[u32], kind: JoinKind) -> Result<JoinRows> {
    wide::join(backend, left, right, kind)
}

/// Joins of columns of either width. The width follows from the type of a column, so literals need a type.
pub mod wide {
    use super::{ColumnIndex, JoinKind, JoinRows};
    use crate::backend::Runs;
    use crate::error::Result;
    use crate::scheme::Key;

    /// As [`join`](super::join).
    ///
    /// ```
    /// use koel::{Cpu, JoinKind, join};
    /// let (left, right): ([u64; 3], [u64; 3]) = ([1 << 40, 20, u64::MAX], [u64::MAX, 1 << 40, u64::MAX]);
    /// let rows = join::wide::join(&Cpu::new(), &left, &right, JoinKind::Inner)?;
    /// assert_eq!((rows.left, rows.right), (vec![0, 2, 2], vec![1, 0, 2]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`join`](super::join).
    pub fn join<B: Runs<K::Rows>, K: Key>(backend: &B, left: &[K], right: &[K], kind: JoinKind) -> Result<JoinRows> {
        ColumnIndex::build(backend, right)?.join(left, kind)?.collect()
    }
}
