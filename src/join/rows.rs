//! The rows of a join: their number, all of them, or any piece.

use crate::backend::join_rows::{JoinRows, NO_ROW};
use crate::backend::{DeviceBuffer, HashBackend, Relational, bitmap_words};
use crate::error::Result;
use crate::memory;
use crate::multi::{Listing, Numbers, Piece, Walk, len_at_once};

/// The number of rows on the device at a time when all rows are collected.
const PIECE: usize = 1 << 24;

/// A join whose number of rows is known, and whose rows are created when they are requested.
pub struct Join<'a, B: Relational> {
    backend: &'a B,
    matches: Matches<'a, B>,
    /// The right rows without a match, which follow in right and full joins.
    alone: B::Buffer<u32>,
}

/// The rows of a join that have a left row.
pub(crate) enum Matches<'a, B: Relational> {
    /// The run of each left row in a list of right rows.
    Listed { right: &'a B::Buffer<u32>, listing: Listing<B> },
    /// The rows themselves, if no left row has more than one match.
    Pairs(JoinRowsOn<B>),
}

/// [`JoinRows`] on a device.
#[derive(Debug)]
pub struct JoinRowsOn<B: HashBackend> {
    /// The left row of each row of the result, or [`NO_ROW`](super::NO_ROW).
    pub left: B::Buffer<u32>,
    /// The right row, or [`NO_ROW`](super::NO_ROW). Empty in semi and anti joins.
    pub right: B::Buffer<u32>,
}

impl<'a, B: Relational> Join<'a, B> {
    pub(crate) fn of(backend: &'a B, matches: Matches<'a, B>, alone: Option<B::Buffer<u32>>) -> Result<Self> {
        let alone = alone.map_or_else(|| backend.filled(0, 0), Ok)?;
        Ok(Join { backend, matches, alone })
    }

    /// A join whose result has left rows only.
    pub(crate) fn chosen(backend: &'a B, left: B::Buffer<u32>) -> Result<Self> {
        let right = backend.filled(0, 0)?;
        Self::of(backend, Matches::Pairs(JoinRowsOn { left, right }), None)
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
        self.matches.len() + self.alone.len() as u64
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
            let backend = self.backend;
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
    pub fn chunks(&self, rows: usize) -> Chunks<'_, 'a, B> {
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
        let (backend, matches) = (self.backend, &self.matches);
        let JoinRowsOn::<B> { left, right } = match matches {
            Matches::Listed { right, listing } => {
                let Piece { runs, values } = listing.piece(backend, right, first, len)?;
                JoinRowsOn { left: runs, right: values }
            }
            Matches::Pairs(rows) => JoinRowsOn {
                left: piece_of(backend, &rows.left, first, len)?,
                right: piece_of(backend, &rows.right, first, len)?,
            },
        };
        if left.len() == len || self.alone.is_empty() {
            return Ok(JoinRowsOn { left, right });
        }
        let unmatched = piece_of(backend, &self.alone, first.saturating_sub(matches.len()), len - left.len())?;
        let left = backend.concat(&left, &backend.filled(unmatched.len(), NO_ROW)?)?;
        Ok(JoinRowsOn { left, right: backend.concat(&right, &unmatched)? })
    }

    /// Creates all rows, in buffers on the device.
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`] for 2^32 or more rows; otherwise as [`chunk_on`](Self::chunk_on).
    pub fn collect_on(self) -> Result<JoinRowsOn<B>> {
        let len = len_at_once(self.len())?;
        match self.matches {
            Matches::Pairs(rows) if self.alone.is_empty() => Ok(rows),
            _ => self.chunk_on(0, len),
        }
    }

    /// The number of right row numbers in this number of rows of the result.
    fn right_rows(&self, rows: usize) -> usize {
        match &self.matches {
            Matches::Pairs(pairs) if pairs.right.is_empty() && self.alone.is_empty() => 0,
            _ => rows,
        }
    }
}

impl<B: Relational> Matches<'_, B> {
    fn len(&self) -> u64 {
        match self {
            Matches::Listed { listing, .. } => listing.len(),
            Matches::Pairs(rows) => rows.left.len() as u64,
        }
    }
}

/// The rows of all runs except those with these numbers, ascending. Run `i` is `rows[starts[i]..starts[i + 1]]`, and
/// all rows are below `len`.
pub(crate) fn without<B: Relational>(
    backend: &B,
    starts: &B::Buffer<u32>,
    rows: &B::Buffer<u32>,
    (runs, found): &Numbers<B>,
    len: usize,
) -> Result<B::Buffer<u32>> {
    let all = starts.len() - 1;
    let matched = backend.mark(&backend.select(found, true, runs)?, all)?;
    let others = backend.select(&matched, false, &backend.iota(all)?)?;
    let every = backend.filled(bitmap_words(others.len()), u32::MAX)?;
    let others = Listing::of(backend, backend.spans(starts, &others, &every, None)?)?.all_on(backend, rows)?;
    backend.select(&backend.mark(&others, len)?, true, &backend.iota(len)?)
}

/// Elements `first..first + len` of a column, or fewer if it ends before.
fn piece_of<B: HashBackend>(backend: &B, column: &B::Buffer<u32>, first: u64, len: usize) -> Result<B::Buffer<u32>> {
    let first = usize::try_from(first).unwrap_or(usize::MAX).min(column.len());
    let mut piece = backend.filled(len.min(column.len() - first), 0)?;
    let len = piece.len();
    backend.copy(column, first, &mut piece, 0, len)?;
    Ok(piece)
}

impl<B: Relational> std::fmt::Debug for Join<'_, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Join").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// The pieces of [`Join::chunks`].
pub struct Chunks<'j, 'a, B: Relational> {
    join: &'j Join<'a, B>,
    walk: Walk,
}

impl<B: Relational> Iterator for Chunks<'_, '_, B> {
    type Item = Result<JoinRows>;

    fn next(&mut self) -> Option<Self::Item> {
        self.nth(0)
    }

    /// Skipped pieces, also those that `skip` skips, are not created.
    fn nth(&mut self, passed: usize) -> Option<Self::Item> {
        let join = self.join;
        let backend = join.backend;
        self.walk.piece(passed, |first, len| {
            let piece = join.chunk_on(first, len)?;
            Ok(JoinRows { left: backend.download(&piece.left)?, right: backend.download(&piece.right)? })
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.walk.size_hint()
    }
}

impl<B: Relational> std::fmt::Debug for Chunks<'_, '_, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunks").field("join", &self.join).field("walk", &self.walk).finish()
    }
}
