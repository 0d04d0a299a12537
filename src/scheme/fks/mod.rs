//! Two-level tables (Alcantara et al. 2009, the poster; Sahu 2015): keys are split into buckets of at most 512, and
//! each bucket is a cuckoo table of its own, small enough for the fast memory of a processor.
//!
//! ```text
//! image       bucket 0, bucket 1, .., bucket B - 1;  then the buckets' seed numbers, eight of 8 bits to a word
//! bucket      three sub-tables of 192 slots: 576 slots for at most 512 pairs, 409 on average
//! a key       its bucket by the first-level function;  one slot in each sub-table by function i under the seed number
//! find(key)   these three slots, one after the other
//! build       count the keys of each bucket; exclusive scan; shuffle pairs to their buckets; each bucket for itself
//! canonical   deferred acceptance within the bucket; its seed number is the least that seats all    (`canonical.rs`)
//! classic     the poster's rounds, in which all pairs of a bucket write at once; mixers, or Sahu's    (`classic.rs`)
//! ```
//!
//! An attempt fails if a bucket has more than 512 keys; the next attempt has another first-level function. If the
//! functions of a bucket cannot place all of its pairs, only this bucket tries its next seed number.
//!
//! `params.rs` has the parameters, `plan.rs` the stored integers and `functions.rs` the hash functions. `scheme.rs`
//! implements the scheme. `crowd.rs` explains why no attempt succeeded.
//!
//! These tables are not made for batches: the seed number of a bucket depends on all of its keys, so every change
//! rebuilds the table.

pub mod canonical;
pub mod classic;
mod crowd;
mod functions;
mod params;
mod plan;
mod scheme;
#[cfg(test)]
pub(crate) mod tests;

pub use functions::{Functions, SAHU_PRIME, SAHU_SEEDS, SAHU_XORS, Standing, turn, tweak};
pub use params::{DEFAULT_ITERATIONS, Fks, FksFamily, MAX_ITERATIONS};
pub use plan::FksPlan;

/// Sub-tables of a bucket: the reads of a lookup.
pub const SUBTABLES: u32 = 3;
/// Slots of a sub-table.
pub const SUBTABLE_SLOTS: u32 = 192;
/// Slots of a bucket.
pub const BUCKET_SLOTS: u32 = SUBTABLES * SUBTABLE_SLOTS;
/// The most pairs of a bucket.
pub const BUCKET_PAIRS: u32 = 512;
/// Seed numbers that a bucket can have, which 8 bits hold.
pub const SEEDS: u32 = 256;
/// Seed numbers in a word of the image.
pub const SEEDS_OF_WORD: u32 = 8;
/// The most buckets: words are counted in 32 bits.
pub const MAX_BUCKETS: u32 = u32::MAX / (BUCKET_SLOTS + 1);

/// The pairs of each bucket, in their order.
fn dealt(functions: &Functions, pairs: impl IntoIterator<Item = (u32, u32)>) -> Vec<Vec<(u32, u32)>> {
    let mut buckets = vec![Vec::new(); functions.buckets as usize];
    pairs.into_iter().for_each(|(key, value)| buckets[functions.bucket(key) as usize].push((key, value)));
    buckets
}
