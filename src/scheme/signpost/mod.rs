//! Signpost tables: a bucket says where the keys went that it has no room for. koel's own scheme.
//!
//! ```text
//! bucket     a line of 64 bytes: the pairs whose home it is, and guests in what is left
//! signposts  4 bits for each of 8, 16 or 32 tags, in bits of the line that say nothing else: by which function the tag's
//!            least key has left
//! lookup     the home line; one more only if the key is not there and the signpost of its tag says so
//! ```
//!
//! ```text
//! post.rs        a slot's word, and where a bucket's signposts stand
//! functions.rs   where keys go
//! group.rs       the keys of one home, and who of them leaves
//! rule.rs        the rule, and the reference that builds by it
//! reading.rs     search, audit
//! plan.rs        the integers that fix an image
//! ```
//!
//! It takes from Horton tables (Breslow 2016) that a full bucket leads its surplus keys away by tags, so that most lookups
//! read one line and none more than two. There the signposts take the place of a pair; here they stand in bits that a
//! quotient has to spare, so all slots hold pairs. And all that a home's keys do happens in one part of the table.
//!
//! What it is not: a table that changes in place. Who leaves a bucket depends on all its keys, so every batch and every
//! removal makes the table again; whoever inserts often takes a bucketized one.

pub mod functions;
pub mod group;
mod plan;
pub mod post;
pub mod reading;
pub mod rule;
#[cfg(test)]
mod tests;

pub use functions::SignpostFunctions;
pub use plan::SignpostPlan;
pub use post::STASH;

use crate::scheme::bucketized::wide::Layout;

/// The scheme's number in files.
const NUMBER: u32 = 10;

/// Lines of `u32` keys and values: 8 x `[word 4][value 4]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Narrow;

/// Lines of `u32` keys alone: 16 x `[word 4]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NarrowSet;

impl Layout for Narrow {
    type Key = u32;
    type Value = u32;
    const SLOTS: usize = 8;
    const WORD_STRIDE: usize = 2;
    const VALUES: Option<(usize, usize)> = Some((1, 2));
    const SPARE: Option<usize> = None;
    const PART_BITS: u32 = 9;
    const CODE: u32 = 0x00;
}

impl Layout for NarrowSet {
    type Key = u32;
    type Value = u32;
    const SLOTS: usize = 16;
    const WORD_STRIDE: usize = 1;
    const VALUES: Option<(usize, usize)> = None;
    const SPARE: Option<usize> = None;
    const PART_BITS: u32 = 8;
    const CODE: u32 = 0x20;
}

/// What keys and values are, and how a line holds them.
pub trait Posted {
    /// The layout of a line.
    type Layout: Layout;
}

impl Posted for (u32, u32) {
    type Layout = Narrow;
}
impl Posted for (u32, ()) {
    type Layout = NarrowSet;
}
impl Posted for (u64, u64) {
    type Layout = (u64, u64);
}
impl Posted for (u64, u32) {
    type Layout = (u64, u32);
}
impl Posted for (u32, u64) {
    type Layout = (u32, u64);
}
impl Posted for (u64, ()) {
    type Layout = (u64, ());
}
