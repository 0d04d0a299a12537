//! What became of a batch: the counts that the kernels of all schemes leave, and what they mean. The other side of
//! cl/tally.clh.

use crate::backend::{HashBackend, Placed, Removed, Word};
use crate::error::Result;
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::cuckoo::classic;

/// The counts of a batch and where each stands in the kernels' status buffer, and in what a group counts in local
/// memory. All start at 0, and 0 means none.
#[derive(Clone, Copy)]
enum Status {
    Unplaced,
    Copies,
    /// The complement of the least key with copies.
    Least,
    /// Pairs taken out.
    Removed,
    /// How many pairs came with the key that cannot stand in the image.
    OutsideCount,
    /// The greatest of their values.
    OutsideValue,
    /// Pairs that left their part, in builds part by part.
    Escaped,
    /// Pairs that those displaced, and for which there was no room (cl/bucketized_wide.cl).
    Moved,
}
const STATUS_WORDS: usize = Status::Moved as usize + 1;

/// The names that cl/ has for them.
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
    /// Zeros: one fill.
    pub(in crate::opencl) fn new(device: &OpenCl) -> Result<Tally> {
        device.filled(STATUS_WORDS, 0).map(Tally)
    }

    /// What kernels take as `status`.
    pub(in crate::opencl) fn status(&self) -> &Buffer<u64> {
        &self.0
    }

    /// What was placed by the kernels that counted here, in a table with or without a pair beside its image.
    pub(in crate::opencl) fn placed(&self, device: &OpenCl, outside: Option<(u32, u32)>) -> Result<Placed> {
        self.built(device, outside).map(|(placed, _)| placed)
    }

    /// The same of a build part by part, and how many pairs left their part.
    pub(in crate::opencl) fn built(&self, device: &OpenCl, outside: Option<(u32, u32)>) -> Result<(Placed, u64)> {
        let counts = self.read(device)?;
        let count = |status: Status| counts[status as usize];
        let came_outside = count(Status::OutsideCount);
        // Of the pairs with the key that stands beside the image one is no copy: the one there already, or one that
        // came.
        let copies_outside = (came_outside + u64::from(outside.is_some())).saturating_sub(1);
        let least = (count(Status::Copies) > 0).then(|| !(count(Status::Least) as u32));
        let least_outside = (copies_outside > 0).then_some(classic::EMPTY_KEY);
        let placed = Placed {
            unplaced: count(Status::Unplaced),
            copies: count(Status::Copies) + copies_outside,
            least_copy: least.into_iter().chain(least_outside).min(),
            outside: (came_outside > 0).then(|| count(Status::OutsideValue) as u32),
            stash: 0,
        };
        Ok((placed, count(Status::Escaped)))
    }

    /// The same of a batch of 64-bit keys or values (cl/tally_wide.clh), where no pair stands beside the image.
    pub(in crate::opencl) fn placed_wide<K: Word, V>(&self, device: &OpenCl) -> Result<Placed<K, V>> {
        self.built_wide(device, 0).map(|(placed, _)| placed)
    }

    /// The same of a table with a stash, whose keys are counted as pairs that left their part; and whether a list with room for
    /// so many held them all, and nothing else was in the way.
    pub(in crate::opencl) fn placed_with_stash<K: Word, V>(
        &self,
        device: &OpenCl,
        room: u64,
    ) -> Result<(Placed<K, V>, bool)> {
        let stash = self.read(device)?[Status::Escaped as usize];
        let (placed, held_all) = self.built_wide(device, room)?;
        Ok((Placed { stash, ..placed }, held_all))
    }

    /// The same of a build part by part, and whether its list, with room for so many pairs, held all that left their part.
    pub(in crate::opencl) fn built_wide<K: Word, V>(&self, device: &OpenCl, room: u64) -> Result<(Placed<K, V>, bool)> {
        let counts = self.read(device)?;
        let count = |status: Status| counts[status as usize];
        let least_copy = (count(Status::Copies) > 0).then(|| K::low(!count(Status::Least)));
        let (unplaced, copies) = (count(Status::Unplaced), count(Status::Copies));
        let held_all = count(Status::Escaped) <= room && count(Status::Moved) == 0;
        Ok((Placed { unplaced, copies, least_copy, outside: None, stash: 0 }, held_all))
    }

    /// What was taken out by the kernels that counted here.
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
