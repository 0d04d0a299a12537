//! The result of an audit: counts, or the first invariant that the image violates.

/// What an audit counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Pairs in the image.
    pub pairs: u64,
    /// Tombstones in the image: slots whose pair was removed and that no one takes until the table is compacted.
    pub tombstones: u64,
    /// The greatest age among the pairs.
    pub greatest_age: u32,
}

impl Audit {
    /// The counts of two parts of one image together.
    pub fn join(self, other: Audit) -> Audit {
        Audit {
            pairs: self.pairs + other.pairs,
            tombstones: self.tombstones + other.tombstones,
            greatest_age: self.greatest_age.max(other.greatest_age),
        }
    }
}

/// An invariant that an image breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The image is not as long as its plan says.
    #[error("the image holds {found} words where the plan says {expected}")]
    Length {
        /// Words by the plan.
        expected: u64,
        /// Words there are.
        found: u64,
    },
    /// A word that no pair has.
    #[error("slot {slot} holds {word:#018x}, which is no pair's word")]
    Word {
        /// Where.
        slot: u64,
        /// What.
        word: u64,
    },
    /// A pair in a slot that is not on its key's list.
    #[error("slot {slot} holds key {key}, whose list does not lead there")]
    Misplaced {
        /// Where.
        slot: u64,
        /// Whose.
        key: u64,
    },
    /// A pair that is stored at a later place although an earlier one would have accepted it.
    #[error("slot {slot} holds key {key} at age {age}, but its place at age {earlier} should have kept it")]
    Blocking {
        /// Where.
        slot: u64,
        /// Whose.
        key: u64,
        /// Its age there.
        age: u32,
        /// The earlier age at which it was stronger than what stands there.
        earlier: u32,
    },
    /// One key in two slots.
    #[error("key {key} stands in slot {slot} and in slot {other}")]
    Twice {
        /// The later slot.
        slot: u64,
        /// The slot that a lookup finds.
        other: u64,
        /// Whose.
        key: u64,
    },
    /// Words of a bucket that are not sorted.
    #[error("the words of bucket {bucket} do not stand in order")]
    Unsorted {
        /// Which.
        bucket: u64,
    },
    /// A bucket that contradicts the pairs elsewhere.
    #[error("bucket {bucket}: {reason}")]
    Bucket {
        /// Which.
        bucket: u64,
        /// How.
        reason: &'static str,
    },
    /// Ids of keys that are not 0, 1, .., each once and in its place.
    #[error("{number} is an id, and the table and the list of its keys do not agree on one key that has it")]
    Number {
        /// The least such id.
        number: u32,
    },
    /// The image does not hold as many pairs, or tombstones, as the table says.
    #[error("the table says {expected} {what} and its image holds {found}")]
    Count {
        /// Of what.
        what: &'static str,
        /// By the header.
        expected: u64,
        /// Counted.
        found: u64,
    },
    /// A key in another shard than its own.
    #[error("shard {shard} holds key {key}, which is another's")]
    Stray {
        /// The shard.
        shard: u64,
        /// The key.
        key: u64,
    },
    /// Constants that were not drawn from the keys.
    #[error("the table's salt is not that of its keys")]
    Salt,
    /// A structure of which the table is a part, and that contradicts it.
    #[error("what stands beside the table contradicts it: {reason}")]
    Beside {
        /// How.
        reason: &'static str,
    },
}
