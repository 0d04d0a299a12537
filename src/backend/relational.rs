//! The passes over columns that grouping and joining are composed of, in addition to those of [`HashBackend`].
//!
//! ```text
//! bitmaps   mark (ones at given places), heads and tails (where runs of equal elements begin and end), ranks (number of
//!           ones up to a place)
//! runs      spans (the run of each query), offsets (where each begins in a list of all), expand (a piece of that list)
//! keys      key_slots (a slot for each distinct key, with its first row)
//! groups    scatter (writes each element to its place), accumulate and accumulate_wide (count, sum, mean, least, greatest)
//! shards    shards (the shard of each key)
//! images    interleave (cells of 32 bits and values to words of 64)
//! ```
//!
//! A heavy key is one run, or one group. No pass assigns a whole run to one work-item. The rows of a heavy group are
//! first added up in local memory, unless the numbers of two heavy groups agree in their low bits: they then evict each
//! other from one entry.

use super::{HashBackend, Numbers, Word};
use crate::error::Result;
use crate::scheme::Key;
use crate::scheme::shard::ShardOf;

/// The position and length of the run of each query.
#[derive(Debug)]
pub struct Spans<Column> {
    /// The first element of each run.
    pub starts: Column,
    /// The number of elements of each run.
    pub counts: Column,
}

/// A piece of the list of all runs, one after the other.
#[derive(Debug)]
pub struct Expanded<Column> {
    /// The run of each element.
    pub runs: Column,
    /// The position of each element in the column that the runs refer to.
    pub places: Column,
}

/// A slot for each distinct key of a column.
#[derive(Debug)]
pub struct KeySlots<Column> {
    /// For each slot, the least row with its key; `u32::MAX` for a slot without a key.
    pub first_rows: Column,
    /// For each row, the slot of its key.
    pub of_rows: Column,
}

/// The requested aggregates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The number of rows of a group.
    pub count: bool,
    /// The sum of the values of a group.
    pub sum: bool,
    /// The sum divided by the count, for values of 64 bits.
    pub mean: bool,
    /// The least value.
    pub least: bool,
    /// The greatest value.
    pub greatest: bool,
}

impl Wanted {
    /// All aggregates.
    pub const ALL: Wanted = Wanted { count: true, sum: true, mean: true, least: true, greatest: true };

    /// Whether values are needed. The count does not need them.
    pub fn values(self) -> bool {
        self.is_summed() || self.least || self.greatest
    }

    /// Whether values are added up.
    pub(crate) fn is_summed(self) -> bool {
        self.sum || self.mean
    }
}

/// Aggregates of groups, a column each; a column that was not requested has length 0.
#[derive(Debug)]
pub struct Accumulated<B: HashBackend> {
    /// The numbers of rows.
    pub counts: B::Buffer<u32>,
    /// Sums of values. They are exact: fewer than 2^32 values of 32 bits stay below 2^64.
    pub sums: B::Buffer<u64>,
    /// Least values; all ones for a group without rows.
    pub least: B::Buffer<u32>,
    /// Greatest values; 0 for a group without rows.
    pub greatest: B::Buffer<u32>,
}

/// Aggregates of groups of 64-bit values, a column each; a column that was not requested has length 0.
#[derive(Debug)]
pub struct WideAccumulated<B: HashBackend> {
    /// The numbers of rows.
    pub counts: B::Buffer<u32>,
    /// Sums: of integers, modulo 2^64; of doubles exact, as the bits of the nearest double.
    pub sums: B::Buffer<u64>,
    /// The exact sum divided by the count, as the bits of the nearest double; NaN for a group without rows.
    pub means: B::Buffer<u64>,
    /// Least values; the greatest possible value for a group without rows.
    pub least: B::Buffer<u64>,
    /// Greatest values; the least possible value for a group without rows.
    pub greatest: B::Buffer<u64>,
    /// The first group whose sum does not fit in 64 bits.
    pub overflow: Option<u32>,
}

/// Data-parallel passes over columns of one device. The rules of [`HashBackend`] apply. The result of each pass is the
/// same on every device.
///
/// Lengths that contradict each other are [`crate::Error::LengthMismatch`].
pub trait Relational: HashBackend {
    /// A bitmap of `len` places with a one at each of `places`. Places past the end are skipped; duplicates change
    /// nothing.
    fn mark(&self, places: &Self::Buffer<u32>, len: usize) -> Result<Self::Buffer<u32>>;

    /// A bitmap of the places at which an element differs from the previous one; the first element counts as different.
    fn heads<T: Word>(&self, column: &Self::Buffer<T>) -> Result<Self::Buffer<u32>>;

    /// A bitmap of the places at which an element differs from the next one; the last element counts as different.
    fn tails<T: Word>(&self, column: &Self::Buffer<T>) -> Result<Self::Buffer<u32>>;

    /// The number of the shard of each key.
    fn shards<K: Key>(&self, keys: &Self::Buffer<K>, which: &ShardOf) -> Result<Self::Buffer<u32>>;

    /// For each of the first `len` places of a bitmap, the number of ones up to and including it, minus one. Before the
    /// first one, the result has all bits set.
    fn ranks(&self, bits: &Self::Buffer<u32>, len: usize) -> Result<Self::Buffer<u32>>;

    /// `len` zeros, with `values[i]` written at `places[i]`. Places before the end are distinct; those past it are
    /// skipped.
    fn scatter<T: Word>(
        &self,
        values: &Self::Buffer<T>,
        places: &Self::Buffer<u32>,
        len: usize,
    ) -> Result<Self::Buffer<T>>;

    /// Assigns each distinct key one of 2^`bits` + 1 slots: rows have the same slot if and only if they have the same
    /// key. `None` if the keys do not fit: up to 2^(`bits` - 1) distinct keys fit unless they were chosen against the
    /// hash; more may or may not, and more than 2^`bits` + 1 never do. `bits` is 1 to 31.
    ///
    /// `first_rows` has the least row of each key, whatever the schedule. The order of slots is unspecified: unlike the
    /// results of other passes, slots may differ between devices and between calls. Callers sort or mark by first rows.
    fn key_slots<K: Key>(&self, keys: &Self::Buffer<K>, bits: u32) -> Result<Option<KeySlots<Self::Buffer<u32>>>>;

    /// The run of each query: run `ids[i]` goes from `starts[ids[i]]` to `starts[ids[i] + 1]` (there is one more start
    /// than runs), for queries whose bit in `found` is one. For other queries and for invalid run numbers, the run is
    /// empty; or, if `missing` is given, it is the one element at that position.
    fn spans(
        &self,
        starts: &Self::Buffer<u32>,
        ids: &Self::Buffer<u32>,
        found: &Self::Buffer<u32>,
        missing: Option<u32>,
    ) -> Result<Spans<Self::Buffer<u32>>>;

    /// The prefix sums of the counts, from 0, and the total at the end: one element more than counts.
    fn offsets(&self, counts: &Self::Buffer<u32>) -> Result<Self::Buffer<u64>>;

    /// Elements `first..first + len` of the list in which run `r` consists of the elements from `starts[r]` on, and
    /// occupies `offsets[r]..offsets[r + 1]` (ascending; there is one more offset than starts). Past the end of the
    /// list, run and place are 0.
    ///
    /// Cost: a search in the offsets for each tile of the piece, and one step per element, however long its run.
    fn expand(
        &self,
        offsets: &Self::Buffer<u64>,
        starts: &Self::Buffer<u32>,
        first: u64,
        len: usize,
    ) -> Result<Expanded<Self::Buffer<u32>>>;

    /// The requested aggregates of each of `groups` groups: row `i` belongs to group `ids[i]` and has the value
    /// `values[i]`. There are as many values as rows if any aggregate needs them, and otherwise none. Rows with an
    /// invalid group are skipped. Means are not computed.
    fn accumulate(
        &self,
        ids: &Self::Buffer<u32>,
        values: &Self::Buffer<u32>,
        groups: usize,
        wanted: Wanted,
    ) -> Result<Accumulated<Self>>;

    /// As [`accumulate`](Self::accumulate), for values of 64 bits. For doubles, a group with a NaN has NaN as its least
    /// and its greatest value, and -0.0 is less than 0.0; sums and means are exact, rounded once
    /// ([`ExactSum`](crate::ExactSum)). The bits of NaN are 0x7ff8000000000000.
    ///
    /// Cost: one pass. Doubles whose exponents are far below the greatest of the column take a sort in addition, and
    /// are added up by the host.
    fn accumulate_wide(
        &self,
        ids: &Self::Buffer<u32>,
        values: &Self::Buffer<u64>,
        of: Numbers,
        groups: usize,
        wanted: Wanted,
    ) -> Result<WideAccumulated<Self>>;

    /// A word for each element of `lower`: if bit `i` of `bits` is one, its upper half is cell `i` of `cells` (two of
    /// 32 bits per word, the lower half first) and its lower half is `lower[i]`; otherwise the word is `empty`.
    fn interleave(
        &self,
        cells: &Self::Buffer<u64>,
        lower: &Self::Buffer<u32>,
        bits: &Self::Buffer<u32>,
        empty: u64,
    ) -> Result<Self::Buffer<u64>>;
}
