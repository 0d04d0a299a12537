//! A right column made ready for joins at hand: on the CPU first rows and runs, elsewhere a [`JoinIndex`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Join, JoinIndex, JoinKind, JoinRows, NO_ROW};
use crate::backend::{BufferOf, DeviceBuffer, Runs, bitmap_words};
use crate::cpu::Cpu;
use crate::cpu::joins::{Probed, Right, results_at_once};
use crate::error::{Error, Result};
use crate::memory;
use crate::multi::{Walk, len_at_once};
use crate::scheme::{Key, Kind, Scheme};

/// A right column of keys, made ready to be joined with any number of left ones in this run of the program.
///
/// It gives the rows that a [`JoinIndex`] gives, in the same order, on every device; but it has no file, no digest and no
/// parameters, and on the CPU it is made in less time, of what is fastest there. Elsewhere a `JoinIndex` with
/// default parameters is inside.
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
/// A left side that comes batch by batch is joined by [`probe`](Self::probe), from any number of threads.
pub struct ColumnIndex<B: Runs<K::Rows>, K: Key = u32> {
    backend: B,
    way: Way<B, K>,
    /// Its number in this run of the program, by which it knows its [`Matched`].
    id: u64,
}

/// The indices that have been made.
static MADE: AtomicU64 = AtomicU64::new(0);

enum Way<B: Runs<K::Rows>, K: Key> {
    Here(Right<K>),
    Index(JoinIndex<B, K::Rows>),
}

impl<B: Runs<K::Rows>, K: Key> ColumnIndex<B, K> {
    /// Makes a right column ready.
    ///
    /// Cost on the CPU: the costs of [`FirstRows::build`](crate::group::FirstRows::build); if keys come more than once, a lookup of
    /// every row and three short passes besides. Memory: as is said there, without the 4 bytes a row, so that what stays is
    /// at worst 1 MiB, or 16 bytes (`u32`) or 27 (`u64`) a row; if keys come more than once, 8 bytes a row more, and 4 while
    /// it is made. Elsewhere: as [`JoinBuilder::build`](super::JoinBuilder::build).
    ///
    /// # Errors
    /// [`Error::TooLarge`] from 2^32 rows on; [`Error::OutOfMemory`], or what the device reports.
    pub fn build(backend: &B, right: &[K]) -> Result<Self> {
        Error::check_rows("right rows of a join", right.len())?;
        let way = match backend.host() {
            Some(cpu) => Way::Here(Right::of(cpu, right)?),
            None => Way::Index(JoinIndex::builder(K::Rows::of_kind(Kind::Canonical)).build(backend, right)?),
        };
        Ok(Self::of(backend, way))
    }

    fn of(backend: &B, way: Way<B, K>) -> Self {
        ColumnIndex { backend: backend.clone(), way, id: MADE.fetch_add(1, Relaxed) }
    }

    /// [`build`](Self::build) from a buffer that is on the device already; nothing is transferred.
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`Error::WrongDevice`].
    pub fn build_on(backend: &B, right: &BufferOf<B, K>) -> Result<Self> {
        Error::check_rows("right rows of a join", right.len())?;
        if backend.host().is_some() {
            return Self::build(backend, backend.host_words(right)?);
        }
        let index = JoinIndex::builder(K::Rows::of_kind(Kind::Canonical)).build_on(backend, right)?;
        Ok(Self::of(backend, Way::Index(index)))
    }

    /// The number of right rows.
    pub fn len(&self) -> usize {
        match &self.way {
            Way::Here(right) => right.len(),
            Way::Index(index) => index.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of distinct keys among them.
    pub fn keys_len(&self) -> usize {
        match &self.way {
            Way::Here(right) => right.keys_len(),
            Way::Index(index) => index.keys_len(),
        }
    }

    /// The device.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Joins a left column of keys with this one. How long the result is is known then; its rows are made when they are
    /// asked for.
    ///
    /// Cost on the CPU: a lookup a left row; where right keys come more than once, also a read of where their rows are.
    /// Memory: 4 bytes a left row, as long as the [`ColumnJoin`] is there (right and full: also 4 a right row without a
    /// partner). Elsewhere: as [`JoinIndex::join`].
    ///
    /// # Errors
    /// [`Error::TooLarge`] from 2^32 rows on; [`Error::OutOfMemory`] or what the device reports.
    pub fn join(&self, left: &[K], kind: JoinKind) -> Result<ColumnJoin<'_, B, K>> {
        Error::check_rows("left rows of a join", left.len())?;
        let rows = match (&self.way, self.backend.host()) {
            (Way::Here(right), Some(cpu)) => Rows::Here { cpu, right, found: right.join(cpu, left, kind)? },
            (Way::Here(_), None) => return Err(Error::WrongDevice),
            (Way::Index(index), _) => Rows::Index(index.join(left, kind)?),
        };
        Ok(ColumnJoin { rows, kind })
    }

    /// Nothing matched yet: what [`probe`](Self::probe) writes to.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where there is no room for a bit a right row.
    pub fn matched(&self) -> Result<Matched> {
        Ok(Matched { index: self.id, bits: memory::zeroed(bitmap_words(self.len()))? })
    }

    /// Joins a batch of left rows, which are counted from 0, and adds what is found of right rows to `matched`, which
    /// [`JoinKind::Right`] and [`JoinKind::Full`] need: their right rows without a partner come in the end, from
    /// [`unmatched`](Self::unmatched). Other kinds leave it as it is, and so does a batch that fails.
    ///
    /// The results of batches one behind the other are those of the whole column.
    ///
    /// Cost on the CPU: as [`join`](Self::join), by the thread that calls; several may, each with a `matched` of its own.
    /// Memory: 8 bytes a row of the result, which is returned, and 4 a left row while it works.
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
    /// [`Error::WrongIndex`] for a `matched` of another index; [`Error::TooLarge`] for a batch of 2^32 left rows, or as
    /// many results; [`Error::OutOfMemory`] or what the device reports.
    pub fn probe(&self, left: &[K], kind: JoinKind, matched: &mut Matched) -> Result<JoinRows> {
        Error::check_rows("left rows of a join", left.len())?;
        matched.check(self.id)?;
        match &self.way {
            Way::Here(right) => {
                let bits = if kind.keeps_right() { &mut matched.bits[..] } else { &mut [] };
                right.batch(left, kind, bits)
            }
            Way::Index(index) => {
                let listed = match kind {
                    JoinKind::Right => JoinKind::Inner,
                    JoinKind::Full => JoinKind::Left,
                    other => other,
                };
                let found = index.join(left, listed)?;
                results_at_once(found.len())?;
                let rows = found.collect()?;
                if kind.keeps_right() {
                    matched.add(&rows.right);
                }
                Ok(rows)
            }
        }
    }

    /// The right rows without a partner in any batch, ascending.
    ///
    /// # Errors
    /// [`Error::WrongIndex`] for a `matched` of another index; [`Error::OutOfMemory`].
    pub fn unmatched(&self, matched: &Matched) -> Result<Vec<u32>> {
        matched.check(self.id)?;
        let bits = &matched.bits[..];
        match (&self.way, self.backend.host()) {
            (Way::Here(right), Some(cpu)) => right.unmatched(cpu, bits),
            _ => {
                let alone = (0..self.len()).filter(|row| bits[row / 32] >> (row % 32) & 1 == 0);
                let mut rows = memory::reserved(alone.clone().count())?;
                rows.extend(alone.map(|row| row as u32));
                Ok(rows)
            }
        }
    }
}

impl<B: Runs<K::Rows>, K: Key> std::fmt::Debug for ColumnIndex<B, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ColumnIndex");
        match &self.way {
            Way::Here(right) => shown.field("right", right),
            Way::Index(index) => shown.field("index", index),
        };
        shown.finish()
    }
}

/// Which right rows of a [`ColumnIndex`] have found partners, over any number of batches: a bit a right row.
#[derive(Debug)]
pub struct Matched {
    /// The number of the index that made it.
    index: u64,
    /// On the CPU the bits of the first rows of keys, and elsewhere of all rows.
    bits: Vec<u32>,
}

impl Matched {
    /// Adds what another has, such as another thread's.
    ///
    /// # Errors
    /// [`Error::WrongIndex`] for one of another index.
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

/// A join with a [`ColumnIndex`] that has been worked out and not been written down: it knows how many rows it has, and
/// makes those that are asked for.
pub struct ColumnJoin<'a, B: Runs<K::Rows>, K: Key = u32> {
    rows: Rows<'a, B, K>,
    kind: JoinKind,
}

enum Rows<'a, B: Runs<K::Rows>, K: Key> {
    Here { cpu: &'a Cpu, right: &'a Right<K>, found: Probed },
    Index(Join<'a, B, K::Rows>),
}

impl<B: Runs<K::Rows>, K: Key> ColumnJoin<'_, B, K> {
    /// Rows of the result; known before any is made. It may be far above 2^32.
    pub fn len(&self) -> u64 {
        match &self.rows {
            Rows::Here { found, .. } => found.len(),
            Rows::Index(join) => join.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All rows.
    ///
    /// # Errors
    /// As [`Join::collect`].
    pub fn collect(&self) -> Result<JoinRows> {
        match &self.rows {
            Rows::Here { .. } => self.chunk(0, len_at_once(self.len())?),
            Rows::Index(join) => join.collect(),
        }
    }

    /// Rows `first..first + len` of the result, as many of them as there are.
    ///
    /// Cost: a search, and up to three writes a row, wherever the piece begins. Memory: 8 bytes a row, which are returned;
    /// elsewhere than on the CPU 12 to 16 on the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what the device reports.
    pub fn chunk(&self, first: u64, len: usize) -> Result<JoinRows> {
        match &self.rows {
            Rows::Here { cpu, right, found } => {
                let left = self.len().saturating_sub(first);
                let len = usize::try_from(left).map_or(len, |left| left.min(len));
                let of_right = if self.kind.has_right() { len } else { 0 };
                let mut rows = JoinRows { left: memory::zeroed(len)?, right: memory::zeroed(of_right)? };
                found.write(cpu, right, first, &mut rows.left, &mut rows.right)?;
                Ok(rows)
            }
            Rows::Index(join) => {
                let piece = join.chunk_on(first, len)?;
                let backend = join.backend();
                Ok(JoinRows { left: backend.download(&piece.left)?, right: backend.download(&piece.right)? })
            }
        }
    }

    /// The result in pieces of so many rows (the last may be shorter; 0 counts as 1), in order.
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
    /// An item is an error for the reasons of [`chunk`](Self::chunk), and is then the last one. Pieces that are passed over
    /// by `skip` or `nth` are not made.
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
