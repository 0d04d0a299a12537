//! A list of concatenated runs. Any piece of it can be produced without the rest.
//!
//! ```text
//! query        0       1     2             3
//! its run      a b c         d e           a b c
//! offsets      0       3     3             5         8        64 bits, because totals may exceed 2^32
//! listing      a b c         d e           a b c
//!                  '----- piece of 4: 2 ----'
//! ```
//!
//! Only the offsets and the start of each run are stored: 12 bytes per query, however long the runs are. A piece takes
//! 8 bytes per element in addition to its value, and is freed before the next piece is created.

use crate::backend::{DeviceBuffer, HashBackend, Relational, Spans, Word};
use crate::error::{Error, Result};

/// The number of elements that are gathered at a time for a whole listing.
const PIECE: usize = 1 << 24;

/// All runs of a list of queries, in the order of the queries.
pub(crate) struct Listing<B: HashBackend> {
    /// The position of each run in the listing, followed by the length of the listing.
    offsets: B::Buffer<u64>,
    /// The position of each run in the column of all runs.
    starts: B::Buffer<u32>,
    len: u64,
}

/// A piece of a listing.
pub(crate) struct Piece<B: HashBackend, V: Word = u32> {
    /// The number of the query of each element.
    pub(crate) runs: B::Buffer<u32>,
    /// The elements.
    pub(crate) values: B::Buffer<V>,
}

impl<B: Relational> Listing<B> {
    pub(crate) fn of(backend: &B, spans: Spans<B::Buffer<u32>>) -> Result<Self> {
        let Spans { starts, counts } = spans;
        let offsets = backend.offsets(&counts)?;
        let mut len = [0];
        backend.read(&offsets, counts.len(), &mut len)?;
        Ok(Listing { offsets, starts, len: len[0] })
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn into_offsets(self) -> B::Buffer<u64> {
        self.offsets
    }

    pub(crate) fn offsets(&self) -> &B::Buffer<u64> {
        &self.offsets
    }

    /// Returns the elements `first..first + len`, or fewer at the end.
    pub(crate) fn piece<V: Word>(
        &self,
        backend: &B,
        values: &B::Buffer<V>,
        first: u64,
        len: usize,
    ) -> Result<Piece<B, V>> {
        let left = self.len.saturating_sub(first);
        let len = usize::try_from(left).map_or(len, |left| left.min(len));
        let expanded = backend.expand(&self.offsets, &self.starts, first, len)?;
        Ok(Piece { values: backend.gather(values, &expanded.places)?, runs: expanded.runs })
    }

    /// Returns all elements, on the device.
    pub(crate) fn all_on<V: Word>(&self, backend: &B, values: &B::Buffer<V>) -> Result<B::Buffer<V>> {
        let len = len_at_once(self.len)?;
        if len <= PIECE {
            return Ok(self.piece::<V>(backend, values, 0, len)?.values);
        }
        let mut all = backend.filled(len, V::zeroed())?;
        for first in (0..len).step_by(PIECE) {
            let piece = self.piece::<V>(backend, values, first as u64, PIECE)?.values;
            backend.copy(&piece, 0, &mut all, first, piece.len())?;
        }
        Ok(all)
    }

    /// Writes all elements to the beginning of `to`, which must be long enough.
    pub(crate) fn read_all<V: Word>(&self, backend: &B, values: &B::Buffer<V>, to: &mut [V]) -> Result<()> {
        for (i, to) in to.chunks_mut(PIECE).enumerate() {
            let piece = self.piece::<V>(backend, values, (i * PIECE) as u64, to.len())?.values;
            if piece.is_empty() {
                break;
            }
            backend.read(&piece, 0, &mut to[..piece.len()])?;
        }
        Ok(())
    }
}

/// The length of a result that must fit in one buffer.
///
/// # Errors
/// [`Error::TooLarge`] for 2^32 elements or more, on every machine: such results must be retrieved in pieces.
pub(crate) fn len_at_once(len: u64) -> Result<usize> {
    let most = u32::MAX.into();
    let what = "rows to hold at once (take them in chunks)";
    usize::try_from(len).ok().filter(|_| len <= most).ok_or(Error::TooLarge { what, requested: len, most })
}

/// Iterates over the pieces of a list.
#[derive(Debug)]
pub(crate) struct Walk {
    next: u64,
    total: u64,
    len: usize,
}

impl Walk {
    /// Iterates over `total` elements, `len` at a time (0 is treated as 1).
    pub(crate) fn new(total: u64, len: usize) -> Self {
        Walk { next: 0, total, len: len.max(1) }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Skips `passed` pieces and returns the next one. After a piece that failed, there are no further pieces.
    pub(crate) fn piece<T>(&mut self, passed: usize, make: impl FnOnce(u64, usize) -> Result<T>) -> Option<Result<T>> {
        let len = self.len as u64;
        let first = self.next.saturating_add(len.saturating_mul(passed as u64));
        self.next = self.total;
        if first >= self.total {
            return None;
        }
        let piece = make(first, self.len);
        if piece.is_ok() {
            self.next = first.saturating_add(len).min(self.total);
        }
        Some(piece)
    }

    /// The number of remaining pieces, as in [`Iterator::size_hint`].
    pub(crate) fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from((self.total - self.next).div_ceil(self.len as u64)).ok();
        // An error ends the iteration early.
        (usize::from(left != Some(0)), left)
    }
}
