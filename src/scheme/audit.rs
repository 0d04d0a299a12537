//! The result of an audit: counts, or the first invariant that the image violates.

/// The counts of an audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Pairs in the image.
    pub pairs: u64,
    /// Tombstones in the image: slots whose pair was removed, unusable until the table is compacted.
    pub tombstones: u64,
    /// The greatest age among the pairs.
    pub greatest_age: u32,
}

impl Audit {
    /// The sum of the counts of two parts of one image.
    pub fn join(self, other: Audit) -> Audit {
        Audit {
            pairs: self.pairs + other.pairs,
            tombstones: self.tombstones + other.tombstones,
            greatest_age: self.greatest_age.max(other.greatest_age),
        }
    }
}

/// An invariant that an image violates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The length of the image does not match its plan.
    #[error("the image has {found} words, but its plan requires {expected}")]
    Length {
        /// Words according to the plan.
        expected: u64,
        /// Words of the image.
        found: u64,
    },
    /// A word that does not encode a pair.
    #[error("slot {slot} holds {word:#018x}, which does not encode a pair")]
    Word {
        /// The slot.
        slot: u64,
        /// The word.
        word: u64,
    },
    /// A pair in a slot that is not on its key's list.
    #[error("slot {slot} holds key {key}, whose list does not lead there")]
    Misplaced {
        /// The slot.
        slot: u64,
        /// The key.
        key: u64,
    },
    /// A pair that is stored at a later place although an earlier one would have accepted it.
    #[error("slot {slot} holds key {key} at age {age}, but its place at age {earlier} should have kept it")]
    Blocking {
        /// The slot.
        slot: u64,
        /// The key.
        key: u64,
        /// The age of the pair.
        age: u32,
        /// The earlier age, at which it was stronger than the pair stored there.
        earlier: u32,
    },
    /// One key in two slots.
    #[error("key {key} is in slot {slot} and in slot {other}")]
    Twice {
        /// The later slot.
        slot: u64,
        /// The slot that a lookup finds.
        other: u64,
        /// The key.
        key: u64,
    },
    /// Words of a bucket that are not sorted.
    #[error("the words of bucket {bucket} are not sorted")]
    Unsorted {
        /// The bucket.
        bucket: u64,
    },
    /// A bucket that contradicts the pairs elsewhere.
    #[error("bucket {bucket}: {reason}")]
    Bucket {
        /// The bucket.
        bucket: u64,
        /// The contradiction.
        reason: &'static str,
    },
    /// Key numbers that are not 0, 1, .., each once and in its place.
    #[error("the table and the list of its keys disagree about the key with id {number}")]
    Number {
        /// The smallest such number.
        number: u32,
    },
    /// The number of pairs, or tombstones, differs from the one that the table states.
    #[error("the table states {expected} {what}, but its image has {found}")]
    Count {
        /// The name of what was counted.
        what: &'static str,
        /// The number in the header.
        expected: u64,
        /// The number in the image.
        found: u64,
    },
    /// A key in the wrong shard.
    #[error("shard {shard} has key {key}, which belongs to another shard")]
    Stray {
        /// The shard.
        shard: u64,
        /// The key.
        key: u64,
    },
    /// Constants that were not derived from the keys.
    #[error("the table's salt does not match its keys")]
    Salt,
    /// The structure that contains the table contradicts it.
    #[error("the table and the data stored with it contradict each other: {reason}")]
    Contradiction {
        /// The contradiction.
        reason: &'static str,
    },
}
