//! A temporary index of a right column: first rows and runs on the CPU; elsewhere a table of all rows, or a
//! [`JoinIndex`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Join, JoinIndex, JoinKind, JoinRows, JoinRowsOn, NO_ROW};
use crate::backend::{BufferOf, DeviceBuffer, HashBackend, Runs, bitmap_words};
use crate::columns::{ByTable, ColumnOf};
use crate::cpu::Cpu;
use crate::cpu::joins::{Probed, Right, results_at_once};
use crate::error::{Error, Result};
use crate::memory;
use crate::multi::{Walk, len_at_once};
use crate::scheme::Key;

/// An index of a right column of keys, for joins with any number of left columns within one process.
///
/// It returns the same rows as a [`JoinIndex`], in the same order, on every device; but it does not have a file, a
/// digest or parameters. On the CPU it is built in less time, with the fastest algorithm there. On other devices it is
/// a table of all rows if keys are distinct or there are few rows, and otherwise a `JoinIndex` with default parameters;
/// without 64-bit atomics always the latter.
///
/// ```
/// use koel::{ColumnIndex, Cpu, JoinKind, NO_ROW};
///
/// let index = ColumnIndex::build(&Cpu::new(), &[30_u64, 10, 30])?;
/// let inner = index.join(&[10, 20, 30], JoinKind::Inner)?.collect()?;
/// assert_eq!((inner.left, inner.right), (vec![0, 2, 2], vec![1, 0, 2]));
/// let left = index.join(&[10, 20, 30], JoinKind::Left)?.collect()?;
/// assert_eq!((left.left, left.right), (vec![0, 1, 2, 2], vec![1, NO_ROW, 0, 2]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Use [`probe`](Self::probe), from any number of threads, if the left side arrives in batches.
pub struct ColumnIndex<B: Runs<K::Rows>, K: Key = u32> {
    backend: B,
    right: RightColumn<B, K>,
    /// The number of this index in this process, which identifies its [`Matched`].
    id: u64,
}

/// The number of indices that were created.
static MADE: AtomicU64 = AtomicU64::new(0);

/// The data of an index, which depends on the device and the column.
#[doc(hidden)]
pub enum RightColumn<B: Runs<K::Rows>, K: Key> {
    /// First rows and runs of a CPU, whose memory is that of the backend.
    Host(Cpu, Right<K>),
    /// A table of all rows.
    Table(ByTable<B, K>),
    /// A table of runs of rows.
    Index(JoinIndex<B, K::Rows>),
}

impl<B: Runs<K::Rows>, K: Key> ColumnIndex<B, K> {
    /// Indexes a right column.
    ///
    /// Cost on the CPU: that of [`FirstRows::build`](crate::group::FirstRows::build); with duplicate keys, also a
    /// lookup of every row and three short passes. Memory: as documented there, but without the 4 bytes per row, so at
    /// most 1 MiB, or 16 bytes (`u32`) or 27 (`u64`) per row; with duplicate keys, 8 bytes per row more, and another 4
    /// during the build.
    ///
    /// On other devices: the build of a table of all rows, which has 10 bytes (`u32`) or 16 (`u64`) per row. With
    /// duplicates among fewer than 2^21 rows, also a lookup of every row and a sort of row numbers, in up to 100 MB;
    /// with duplicates among more rows, as [`JoinBuilder::build`](super::JoinBuilder::build), after a sample or, if it
    /// finds few, after the table.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for 2^32 or more rows; [`Error::OutOfMemory`], or what the device reports.
    pub fn build(backend: &B, right: &[K]) -> Result<Self> {
        Error::check_rows("right rows of a join", right.len())?;
        Ok(Self::of(backend, backend.right(ColumnOf::Host(right))?))
    }

    /// The [`JoinIndex`] that this index was created from, or contains. An index that was built contains none on the
    /// CPU; elsewhere this depends on the device, the number of rows and a sample.
    pub fn as_join_index(&self) -> Option<&JoinIndex<B, K::Rows>> {
        match &self.right {
            RightColumn::Host(..) | RightColumn::Table(_) => None,
            RightColumn::Index(index) => Some(index),
        }
    }

    fn of(backend: &B, right: RightColumn<B, K>) -> Self {
        ColumnIndex { backend: backend.clone(), right, id: MADE.fetch_add(1, Relaxed) }
    }

    /// [`build`](Self::build) from a buffer that is already on the device; nothing is transferred.
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`Error::WrongDevice`].
    pub fn build_on(backend: &B, right: &BufferOf<B, K>) -> Result<Self> {
        Error::check_rows("right rows of a join", right.len())?;
        Ok(Self::of(backend, backend.right(ColumnOf::Device(right))?))
    }

    /// The number of right rows.
    pub fn len(&self) -> usize {
        match &self.right {
            RightColumn::Host(_, right) => right.len(),
            RightColumn::Table(table) => table.len(),
            RightColumn::Index(index) => index.len(),
        }
    }

    /// Whether the right column is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of distinct keys of the right column.
    pub fn keys_len(&self) -> usize {
        match &self.right {
            RightColumn::Host(_, right) => right.keys_len(),
            RightColumn::Table(table) => table.keys_len(),
            RightColumn::Index(index) => index.keys_len(),
        }
    }

    /// The device.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Joins a left column of keys with the indexed column. Computes the length of the result; the rows are created
    /// when they are requested.
    ///
    /// Cost on the CPU: a lookup per left row; with duplicate right keys, also a read of the position of their rows.
    /// Memory: 4 bytes per left row while the [`ColumnJoin`] exists (right and full: also 4 per right row without a
    /// match). On other devices: as [`JoinIndex::join`].
    ///
    /// # Errors
    /// [`Error::TooLarge`] for 2^32 or more rows; [`Error::OutOfMemory`] or what the device reports.
    pub fn join(&self, left: &[K], kind: JoinKind) -> Result<ColumnJoin<'_, B, K>> {
        Error::check_rows("left rows of a join", left.len())?;
        match &self.right {
            RightColumn::Host(cpu, right) => {
                let rows = Rows::Host { cpu, right, found: right.join(cpu, left, kind)? };
                Ok(ColumnJoin { backend: &self.backend, rows, kind })
            }
            RightColumn::Table(_) | RightColumn::Index(_) => self.join_on(&self.backend.upload(left)?, kind),
        }
    }

    /// [`join`](Self::join) of a column that is already on the index's device; nothing is transferred.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or as [`join`](Self::join).
    pub fn join_on(&self, left: &BufferOf<B, K>, kind: JoinKind) -> Result<ColumnJoin<'_, B, K>> {
        Error::check_rows("left rows of a join", left.len())?;
        let rows = match &self.right {
            RightColumn::Host(..) => return self.join(ColumnOf::<B, K>::Device(left).words(&self.backend)?, kind),
            RightColumn::Table(table) => Rows::Device(table.join(&self.backend, left, kind)?),
            RightColumn::Index(index) => Rows::Device(index.join_on(left, kind)?),
        };
        Ok(ColumnJoin { backend: &self.backend, rows, kind })
    }

    /// Creates an empty [`Matched`], to which [`probe`](Self::probe) adds the rows that match.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if there is no memory for one bit per right row.
    pub fn matched(&self) -> Result<Matched> {
        Ok(Matched { index: self.id, bits: memory::zeroed(bitmap_words(self.len()))? })
    }

    /// Joins a batch of left rows, numbered from 0, and marks the right rows with a match in `matched`.
    /// [`JoinKind::Right`] and [`JoinKind::Full`] need it: [`unmatched`](Self::unmatched) returns their right rows
    /// without a match at the end. Other kinds leave it unchanged, as does a batch that fails.
    ///
    /// The results of successive batches, one after the other, are those of the whole column.
    ///
    /// Cost on the CPU: as [`join`](Self::join), on the calling thread; several threads may call it, each with its own
    /// `matched`. Memory: 8 bytes per row of the result, which is returned, and 4 per left row during the call.
    ///
    /// ```
    /// use koel::{ColumnIndex, Cpu, JoinKind};
    ///
    /// let index = ColumnIndex::build(&Cpu::new(), &[30_u32, 10, 30, 7])?;
    /// let (mut matched, mut pairs) = (index.matched()?, Vec::new());
    /// for (batch, first) in [[10, 20], [30, 40]].iter().zip([0, 2]) {
    ///     let rows = index.probe(batch, JoinKind::Right, &mut matched)?;
    ///     pairs.extend(rows.left.iter().map(|row| first + row).zip(rows.right));
    /// }
    /// assert_eq!(pairs, [(0, 1), (2, 0), (2, 2)]);
    /// assert_eq!(index.unmatched(&matched)?, [3]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongIndex`] if `matched` belongs to another index; [`Error::TooLarge`] for a batch of 2^32 or more
    /// left rows or results; [`Error::OutOfMemory`] or what the device reports.
    pub fn probe(&self, left: &[K], kind: JoinKind, matched: &mut Matched) -> Result<JoinRows> {
        Error::check_rows("left rows of a join", left.len())?;
        matched.check(self.id)?;
        match &self.right {
            RightColumn::Host(_, right) => {
                let bits = if kind.keeps_right() { &mut matched.bits[..] } else { &mut [] };
                right.batch(left, kind, bits)
            }
            RightColumn::Table(_) | RightColumn::Index(_) => {
                let listed = match kind {
                    JoinKind::Right => JoinKind::Inner,
                    JoinKind::Full => JoinKind::Left,
                    other => other,
                };
                let found = self.join(left, listed)?;
                results_at_once(found.len())?;
                let rows = found.collect()?;
                if kind.keeps_right() {
                    matched.add(&rows.right);
                }
                Ok(rows)
            }
        }
    }

    /// The right rows without a match in any batch, ascending.
    ///
    /// # Errors
    /// [`Error::WrongIndex`] if `matched` belongs to another index; [`Error::OutOfMemory`].
    pub fn unmatched(&self, matched: &Matched) -> Result<Vec<u32>> {
        matched.check(self.id)?;
        let bits = &matched.bits[..];
        match &self.right {
            RightColumn::Host(cpu, right) => right.unmatched(cpu, bits),
            RightColumn::Table(_) | RightColumn::Index(_) => {
                let alone = (0..self.len()).filter(|row| bits[row / 32] >> (row % 32) & 1 == 0);
                let mut rows = memory::reserved(alone.clone().count())?;
                rows.extend(alone.map(|row| row as u32));
                Ok(rows)
            }
        }
    }
}

/// Converts an index that can be saved, or was opened from a file, of bucketized tables ([`Key::Rows`]).
impl<B: Runs<K::Rows>, K: Key> From<JoinIndex<B, K::Rows>> for ColumnIndex<B, K> {
    fn from(index: JoinIndex<B, K::Rows>) -> Self {
        let backend = index.backend().clone();
        Self::of(&backend, RightColumn::Index(index))
    }
}

impl<B: Runs<K::Rows>, K: Key> std::fmt::Debug for ColumnIndex<B, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ColumnIndex");
        match &self.right {
            RightColumn::Host(_, right) => shown.field("right", right),
            RightColumn::Table(table) => shown.field("rows", &table.len()).field("keys", &table.keys_len()),
            RightColumn::Index(index) => shown.field("index", index),
        };
        shown.finish()
    }
}

/// The right rows of a [`ColumnIndex`] that have a match in any of several batches: one bit per right row.
#[derive(Debug)]
pub struct Matched {
    /// The number of the index that created it.
    index: u64,
    /// On the CPU, bits for the first row of each key; on other devices, for all rows.
    bits: Vec<u32>,
}

impl Matched {
    /// Adds the matches of another one, for example from another thread.
    ///
    /// # Errors
    /// [`Error::WrongIndex`] if `other` belongs to another index.
    pub fn merge(&mut self, other: &Matched) -> Result<()> {
        other.check(self.index)?;
        self.bits.iter_mut().zip(&other.bits).for_each(|(to, from)| *to |= from);
        Ok(())
    }

    fn check(&self, index: u64) -> Result<()> {
        if self.index == index { Ok(()) } else { Err(Error::WrongIndex) }
    }

    fn add(&mut self, rows: &[u32]) {
        for &row in rows.iter().filter(|&&row| row != NO_ROW) {
            if let Some(word) = self.bits.get_mut(row as usize / 32) {
                *word |= 1 << (row % 32);
            }
        }
    }
}

/// A join with a [`ColumnIndex`] whose number of rows is known, and whose rows are created when they are requested.
pub struct ColumnJoin<'a, B: Runs<K::Rows>, K: Key = u32> {
    backend: &'a B,
    rows: Rows<'a, B, K>,
    kind: JoinKind,
}

enum Rows<'a, B: Runs<K::Rows>, K: Key> {
    Host { cpu: &'a Cpu, right: &'a Right<K>, found: Probed },
    Device(Join<'a, B>),
}

impl<B: Runs<K::Rows>, K: Key> ColumnJoin<'_, B, K> {
    /// The number of rows of the result, which is known before any row is created. It may be far above 2^32.
    pub fn len(&self) -> u64 {
        match &self.rows {
            Rows::Host { found, .. } => found.len(),
            Rows::Device(join) => join.len(),
        }
    }

    /// Whether the result is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All rows.
    ///
    /// # Errors
    /// As [`Join::collect`].
    pub fn collect(&self) -> Result<JoinRows> {
        match &self.rows {
            Rows::Host { .. } => self.chunk(0, len_at_once(self.len())?),
            Rows::Device(join) => join.collect(),
        }
    }

    /// All rows, on the index's device. Nothing is transferred.
    ///
    /// # Errors
    /// As [`Join::collect_on`].
    pub fn collect_on(self) -> Result<JoinRowsOn<B>> {
        match self.rows {
            Rows::Host { cpu, right: index, found } => {
                let len = len_at_once(found.len())?;
                let (mut left, mut right) =
                    (cpu.unwritten(len)?, cpu.unwritten(if self.kind.has_right() { len } else { 0 })?);
                found.write(cpu, index, 0, left.words_mut()?, right.words_mut()?)?;
                Ok(JoinRowsOn { left: self.backend.of_host(left)?, right: self.backend.of_host(right)? })
            }
            Rows::Device(join) => join.collect_on(),
        }
    }

    /// Creates rows `first..first + len` of the result, or fewer if it ends before.
    ///
    /// Cost: a search, and up to three writes per row, wherever the piece begins. Memory: 8 bytes per row, which are
    /// returned; on devices other than the CPU, also 12 to 16 on the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what the device reports.
    pub fn chunk(&self, first: u64, len: usize) -> Result<JoinRows> {
        match &self.rows {
            Rows::Host { cpu, right, found } => {
                let left = self.len().saturating_sub(first);
                let len = usize::try_from(left).map_or(len, |left| left.min(len));
                let of_right = if self.kind.has_right() { len } else { 0 };
                let mut rows = JoinRows { left: memory::zeroed(len)?, right: memory::zeroed(of_right)? };
                found.write(cpu, right, first, &mut rows.left, &mut rows.right)?;
                Ok(rows)
            }
            Rows::Device(join) => {
                let (backend, piece) = (self.backend, join.chunk_on(first, len)?);
                Ok(JoinRows { left: backend.download(&piece.left)?, right: backend.download(&piece.right)? })
            }
        }
    }

    /// Iterates over the result in pieces of `rows` rows (the last may be shorter; 0 counts as 1), in order.
    ///
    /// ```
    /// use koel::{ColumnIndex, Cpu, JoinKind};
    /// let index = ColumnIndex::build(&Cpu::new(), &[1_u32, 1, 2])?;
    /// let join = index.join(&[2, 1, 1], JoinKind::Inner)?;
    /// let pieces: Vec<usize> = join.chunks(2).map(|rows| Ok(rows?.left.len())).collect::<koel::Result<_>>()?;
    /// assert_eq!(pieces, [2, 2, 1]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// The reasons for errors are those of [`chunk`](Self::chunk); an error is the last item. Pieces that `skip` or
    /// `nth` skip are not created.
    pub fn chunks(&self, rows: usize) -> ColumnChunks<'_, '_, B, K> {
        ColumnChunks { join: self, walk: Walk::new(self.len(), rows) }
    }
}

impl<B: Runs<K::Rows>, K: Key> std::fmt::Debug for ColumnJoin<'_, B, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColumnJoin").field("len", &self.len()).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The pieces of [`ColumnJoin::chunks`].
pub struct ColumnChunks<'j, 'a, B: Runs<K::Rows>, K: Key = u32> {
    join: &'j ColumnJoin<'a, B, K>,
    walk: Walk,
}

impl<B: Runs<K::Rows>, K: Key> Iterator for ColumnChunks<'_, '_, B, K> {
    type Item = Result<JoinRows>;

    fn next(&mut self) -> Option<Self::Item> {
        self.nth(0)
    }

    fn nth(&mut self, passed: usize) -> Option<Self::Item> {
        let join = self.join;
        self.walk.piece(passed, |first, len| join.chunk(first, len))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.walk.size_hint()
    }
}

impl<B: Runs<K::Rows>, K: Key> std::fmt::Debug for ColumnChunks<'_, '_, B, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColumnChunks").field("join", &self.join).field("walk", &self.walk).finish()
    }
}
