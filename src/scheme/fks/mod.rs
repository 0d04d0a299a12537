//! Two-level tables (Alcantara et al. 2009, the poster; Sahu 2015): keys are partitioned into buckets of at most 512,
//! and each bucket is a separate cuckoo table, small enough for the fast memory of a processor.
//!
//! ```text
//! image       bucket 0, bucket 1, .., bucket B - 1;  then the buckets' seed numbers, eight of 8 bits per word
//! bucket      three sub-tables of 192 slots: 576 slots for at most 512 pairs, 409 on average
//! a key       its bucket by the first-level function;  one slot in each sub-table by function i under the seed number
//! find(key)   reads these three slots in order
//! build       count the keys of each bucket; exclusive scan; move pairs to their buckets; place each bucket separately
//! canonical   deferred acceptance within the bucket; its seed number is the least that places all    (`canonical.rs`)
//! classic     the poster's rounds, in which all pairs of a bucket write at once; mixers, or Sahu's    (`classic.rs`)
//! ```
//!
//! An attempt fails if a bucket has more than 512 keys; the next attempt has another first-level function. If the
//! functions of a bucket cannot place all of its pairs, only this bucket tries its next seed number.
//!
//! `params.rs` has the parameters, `plan.rs` the stored integers and `functions.rs` the hash functions. `scheme.rs`
//! implements the scheme. `crowd.rs` explains why no attempt succeeded.
//!
//! These tables are not suited to batches: the seed number of a bucket depends on all of its keys, so every change
//! rebuilds the table.

#[doc(hidden)]
pub mod canonical;
pub(crate) mod classic;
mod crowd;
pub(crate) mod functions;
mod params;
mod plan;
mod scheme;
#[cfg(test)]
pub(crate) mod tests;

pub use functions::{Functions, Position, SAHU_PRIME, SAHU_SEEDS};
pub(crate) use functions::{turn, tweak};
pub(crate) use params::MAX_ITERATIONS;
pub use params::{Fks, FksFamily};
pub use plan::FksPlan;

/// Sub-tables of a bucket, which is the number of reads of a lookup.
pub(crate) const SUBTABLES: u32 = 3;
/// Slots of a sub-table.
pub(crate) const SUBTABLE_SLOTS: u32 = 192;
/// Slots of a bucket.
pub const BUCKET_SLOTS: u32 = SUBTABLES * SUBTABLE_SLOTS;
/// The maximum number of pairs of a bucket.
pub(crate) const BUCKET_PAIRS: u32 = 512;
/// The number of seed numbers of a bucket, which fit 8 bits.
pub const SEEDS: u32 = 256;
/// Seed numbers in a word of the image.
pub(crate) const SEEDS_OF_WORD: u32 = 8;
/// The maximum number of buckets, so that word positions fit 32 bits.
pub(crate) const MAX_BUCKETS: u32 = u32::MAX / (BUCKET_SLOTS + 1);

/// The pairs of each bucket, in input order.
fn partitioned(functions: &Functions, pairs: impl IntoIterator<Item = (u32, u32)>) -> Vec<Vec<(u32, u32)>> {
    let mut buckets = vec![Vec::new(); functions.buckets as usize];
    pairs.into_iter().for_each(|(key, value)| buckets[functions.bucket(key) as usize].push((key, value)));
    buckets
}
