//! The result of a batch: the counts that the kernels of all schemes write, and their meaning. The host side of
//! cl/tally.clh.

use crate::backend::{HashBackend, Placed, Removed, Word};
use crate::error::Result;
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::cuckoo::classic;

/// The counts of a batch, by their position in the kernels' status buffer and in a group's counts in local memory. All
/// counts start at 0.
#[derive(Clone, Copy)]
enum Status {
    Unplaced,
    Copies,
    /// The complement of the least duplicate key.
    Least,
    /// Pairs removed.
    Removed,
    /// The number of pairs with the sentinel key.
    OutsideCount,
    /// The greatest value of these pairs.
    OutsideValue,
    /// Pairs that left their part, in builds one partition at a time.
    Escaped,
    /// Pairs that were displaced by escaped pairs, and for which the list had no space (cl/bucketized_wide.cl).
    Moved,
}
const STATUS_WORDS: usize = Status::Moved as usize + 1;

/// The names of the counts in cl/.
pub(in crate::opencl) const NUMBERS: [(&str, u32); 9] = [
    ("UNPLACED", Status::Unplaced as u32),
    ("COPIES", Status::Copies as u32),
    ("LEAST", Status::Least as u32),
    ("REMOVED", Status::Removed as u32),
    ("OUTSIDE_COUNT", Status::OutsideCount as u32),
    ("OUTSIDE_VALUE", Status::OutsideValue as u32),
    ("ESCAPED", Status::Escaped as u32),
    ("MOVED", Status::Moved as u32),
    ("TALLY", STATUS_WORDS as u32),
];

/// The counts of one batch, on the device.
pub(in crate::opencl) struct Tally(Buffer<u64>);

impl Tally {
    /// Allocates the counts and fills them with zeros.
    pub(in crate::opencl) fn new(device: &OpenCl) -> Result<Tally> {
        device.filled(STATUS_WORDS, 0).map(Tally)
    }

    /// The argument `status` of kernels.
    pub(in crate::opencl) fn status(&self) -> &Buffer<u64> {
        &self.0
    }

    /// The result of placing by the kernels that counted here, in a table with or without a sentinel pair.
    pub(in crate::opencl) fn placed(&self, device: &OpenCl, outside: Option<(u32, u32)>) -> Result<Placed> {
        self.built(device, outside).map(|(placed, _)| placed)
    }

    /// As [`placed`](Self::placed), for a build one partition at a time; also returns the pairs that left their part.
    pub(in crate::opencl) fn built(&self, device: &OpenCl, outside: Option<(u32, u32)>) -> Result<(Placed, u64)> {
        let counts = self.read(device)?;
        let count = |status: Status| counts[status as usize];
        let came_outside = count(Status::OutsideCount);
        // One of the pairs with the sentinel key is not a duplicate: the one in the table, or otherwise the first one
        // of the batch.
        let copies_outside = (came_outside + u64::from(outside.is_some())).saturating_sub(1);
        let least = (count(Status::Copies) > 0).then(|| !(count(Status::Least) as u32));
        let least_outside = (copies_outside > 0).then_some(classic::EMPTY_KEY);
        let placed = Placed {
            unplaced: count(Status::Unplaced),
            duplicates: count(Status::Copies) + copies_outside,
            least_duplicate: least.into_iter().chain(least_outside).min(),
            outside: (came_outside > 0).then(|| count(Status::OutsideValue) as u32),
            stash: 0,
        };
        Ok((placed, count(Status::Escaped)))
    }

    /// As [`placed`](Self::placed), for a batch of 64-bit keys or values (cl/tally_wide.clh). Such batches have no
    /// sentinel pair.
    pub(in crate::opencl) fn placed_wide<K: Word, V>(&self, device: &OpenCl) -> Result<Placed<K, V>> {
        self.built_wide(device, 0).map(|(placed, _)| placed)
    }

    /// As [`placed_wide`](Self::placed_wide), for a table with a stash, whose keys are counted as pairs that left their
    /// part. Also returns whether a list of this capacity had space for all of them, and nothing else failed.
    pub(in crate::opencl) fn placed_with_stash<K: Word, V>(
        &self,
        device: &OpenCl,
        capacity: u64,
    ) -> Result<(Placed<K, V>, bool)> {
        let stash = self.read(device)?[Status::Escaped as usize];
        let (placed, all_fit) = self.built_wide(device, capacity)?;
        Ok((Placed { stash, ..placed }, all_fit))
    }

    /// As [`placed_wide`](Self::placed_wide), for a build one partition at a time. Also returns whether its list of
    /// this capacity had space for all pairs that left their part.
    pub(in crate::opencl) fn built_wide<K: Word, V>(
        &self,
        device: &OpenCl,
        capacity: u64,
    ) -> Result<(Placed<K, V>, bool)> {
        let counts = self.read(device)?;
        let count = |status: Status| counts[status as usize];
        let least_duplicate = (count(Status::Copies) > 0).then(|| K::low(!count(Status::Least)));
        let (unplaced, duplicates) = (count(Status::Unplaced), count(Status::Copies));
        let all_fit = count(Status::Escaped) <= capacity && count(Status::Moved) == 0;
        Ok((Placed { unplaced, duplicates, least_duplicate, outside: None, stash: 0 }, all_fit))
    }

    /// The result of removing by the kernels that counted here.
    pub(in crate::opencl) fn removed(&self, device: &OpenCl) -> Result<Removed> {
        let counts = self.read(device)?;
        let count = |status: Status| counts[status as usize];
        Ok(Removed { pairs: count(Status::Removed), outside: count(Status::OutsideCount) > 0 })
    }

    fn read(&self, device: &OpenCl) -> Result<[u64; STATUS_WORDS]> {
        let mut counts = [0; STATUS_WORDS];
        device.read(&self.0, 0, &mut counts)?;
        Ok(counts)
    }
}
