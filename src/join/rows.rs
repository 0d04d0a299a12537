//! The rows of a join: their number, all of them, or any piece.

use crate::backend::join_rows::{JoinRows, NO_ROW};
use crate::backend::{DeviceBuffer, HashBackend, Runs};
use crate::error::Result;
use crate::memory;
use crate::multi::{Listing, MultiTable, Piece, Walk, len_at_once};
use crate::scheme::Scheme;

/// The number of rows on the device at a time when all rows are collected.
const PIECE: usize = 1 << 24;

/// A join whose number of rows is known, and whose rows are created when they are requested.
pub struct Join<'a, B: Runs<S>, S: Scheme<Value = u32>> {
    right: &'a MultiTable<B, S>,
    rows: Rows<B>,
}

enum Rows<B: HashBackend> {
    /// Inner and outer joins: the run of each left row, and the right rows that follow.
    Listed { listing: Listing<B>, alone: B::Buffer<u32> },
    /// Inner joins with distinct right keys, on a device: the rows themselves.
    Pairs { left: B::Buffer<u32>, right: B::Buffer<u32> },
    /// Semi and anti joins: the left rows themselves.
    Chosen(B::Buffer<u32>),
}

/// [`JoinRows`] on a device.
pub struct JoinRowsOn<B: HashBackend> {
    /// The left row of each row of the result, or [`NO_ROW`](super::NO_ROW).
    pub left: B::Buffer<u32>,
    /// The right row, or [`NO_ROW`](super::NO_ROW). Empty in semi and anti joins.
    pub right: B::Buffer<u32>,
}

impl<B: HashBackend> std::fmt::Debug for JoinRowsOn<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinRowsOn").field("left", &self.left).field("right", &self.right).finish()
    }
}

impl<'a, B: Runs<S>, S: Scheme<Value = u32>> Join<'a, B, S> {
    pub(super) fn listed(right: &'a MultiTable<B, S>, listing: Listing<B>, alone: B::Buffer<u32>) -> Self {
        Join { right, rows: Rows::Listed { listing, alone } }
    }

    pub(super) fn pairs(table: &'a MultiTable<B, S>, left: B::Buffer<u32>, right: B::Buffer<u32>) -> Self {
        Join { right: table, rows: Rows::Pairs { left, right } }
    }

    pub(super) fn chosen(right: &'a MultiTable<B, S>, rows: B::Buffer<u32>) -> Self {
        Join { right, rows: Rows::Chosen(rows) }
    }

    /// The number of rows of the result, which is known before any row is created. It may be far above 2^32.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, JoinIndex, JoinKind};
    /// let index = JoinIndex::builder(Cuckoo::default()).build(&Cpu::new(), &[7; 70_000])?;
    /// assert_eq!(index.join(&[7; 70_000], JoinKind::Inner)?.len(), 4_900_000_000);
    /// # Ok::<(), koel::Error>(())
    /// ```
    pub fn len(&self) -> u64 {
        match &self.rows {
            Rows::Listed { listing, alone } => listing.len() + alone.len() as u64,
            Rows::Pairs { left: rows, .. } | Rows::Chosen(rows) => rows.len() as u64,
        }
    }

    /// Whether the result is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Creates all rows.
    ///
    /// Cost: a read and two writes per row, and the transfer of 8 bytes per row (semi and anti: 4) from the device.
    /// Memory on the device: pieces of the result, at most 192 MiB (right and full: 256 MiB).
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`] for 2^32 or more rows, on every machine: use [`chunks`](Self::chunks) instead;
    /// [`crate::Error::OutOfMemory`] or what the device reports.
    pub fn collect(&self) -> Result<JoinRows> {
        let len = len_at_once(self.len())?;
        let mut all = JoinRows { left: memory::zeroed(len)?, right: memory::zeroed(self.right_rows(len))? };
        for first in (0..len).step_by(PIECE) {
            let piece = self.chunk_on(first as u64, PIECE)?;
            let backend = self.right.backend();
            backend.read(&piece.left, 0, &mut all.left[first..first + piece.left.len()])?;
            if !piece.right.is_empty() {
                backend.read(&piece.right, 0, &mut all.right[first..first + piece.right.len()])?;
            }
        }
        Ok(all)
    }

    /// Iterates over the result in pieces of `rows` rows (the last may be shorter; 0 counts as 1), in order.
    ///
    /// Memory on the device: 12 bytes per left row, which the join holds, and 12 bytes per row of a piece.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, JoinIndex, JoinKind};
    /// let index = JoinIndex::builder(Cuckoo::default()).build(&Cpu::new(), &[1, 1, 2])?;
    /// let join = index.join(&[2, 1, 1], JoinKind::Inner)?;
    /// for rows in join.chunks(2) {
    ///     let rows = rows?;
    ///     for (left, right) in rows.left.iter().zip(&rows.right) {
    ///         println!("{left} {right}");
    ///     }
    /// }
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// The reasons for errors are those of [`chunk_on`](Self::chunk_on); an error is the last item.
    pub fn chunks(&self, rows: usize) -> Chunks<'_, 'a, B, S> {
        Chunks { join: self, walk: Walk::new(self.len(), rows) }
    }

    /// Creates rows `first..first + len` of the result, or fewer if it ends before, in buffers on the device.
    ///
    /// Cost: a search, and a read and two writes per row, wherever the piece begins. Memory: 12 bytes per row, of which
    /// 8 are returned; 16 if the piece includes right rows without a match.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or what the device reports.
    pub fn chunk_on(&self, first: u64, len: usize) -> Result<JoinRowsOn<B>> {
        let backend = self.right.backend();
        match &self.rows {
            Rows::Listed { listing, alone } => {
                let Piece { runs, values } = listing.piece(backend, self.right.values_on(), first, len)?;
                if runs.len() == len || alone.is_empty() {
                    return Ok(JoinRowsOn { left: runs, right: values });
                }
                let behind = piece_of(backend, alone, first.saturating_sub(listing.len()), len - runs.len())?;
                let left = backend.concat(&runs, &backend.filled(behind.len(), NO_ROW)?)?;
                Ok(JoinRowsOn { left, right: backend.concat(&values, &behind)? })
            }
            Rows::Pairs { left, right } => Ok(JoinRowsOn {
                left: piece_of(backend, left, first, len)?,
                right: piece_of(backend, right, first, len)?,
            }),
            Rows::Chosen(rows) => {
                Ok(JoinRowsOn { left: piece_of(backend, rows, first, len)?, right: backend.filled(0, 0)? })
            }
        }
    }

    pub(super) fn backend(&self) -> &B {
        self.right.backend()
    }

    /// The number of right row numbers in this number of rows of the result.
    fn right_rows(&self, rows: usize) -> usize {
        match self.rows {
            Rows::Listed { .. } | Rows::Pairs { .. } => rows,
            Rows::Chosen(_) => 0,
        }
    }
}

/// Elements `first..first + len` of a column, or fewer if it ends before.
fn piece_of<B: HashBackend>(backend: &B, column: &B::Buffer<u32>, first: u64, len: usize) -> Result<B::Buffer<u32>> {
    let first = usize::try_from(first).unwrap_or(usize::MAX).min(column.len());
    let mut piece = backend.filled(len.min(column.len() - first), 0)?;
    let len = piece.len();
    backend.copy(column, first, &mut piece, 0, len)?;
    Ok(piece)
}

impl<B: Runs<S>, S: Scheme<Value = u32>> std::fmt::Debug for Join<'_, B, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Join").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// The pieces of [`Join::chunks`].
pub struct Chunks<'j, 'a, B: Runs<S>, S: Scheme<Value = u32>> {
    join: &'j Join<'a, B, S>,
    walk: Walk,
}

impl<B: Runs<S>, S: Scheme<Value = u32>> Iterator for Chunks<'_, '_, B, S> {
    type Item = Result<JoinRows>;

    fn next(&mut self) -> Option<Self::Item> {
        self.nth(0)
    }

    /// Skipped pieces, also those that `skip` skips, are not created.
    fn nth(&mut self, passed: usize) -> Option<Self::Item> {
        let join = self.join;
        let backend = join.right.backend();
        self.walk.piece(passed, |first, len| {
            let piece = join.chunk_on(first, len)?;
            Ok(JoinRows { left: backend.download(&piece.left)?, right: backend.download(&piece.right)? })
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.walk.size_hint()
    }
}

impl<B: Runs<S>, S: Scheme<Value = u32>> std::fmt::Debug for Chunks<'_, '_, B, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunks").field("join", &self.join).field("walk", &self.walk).finish()
    }
}
