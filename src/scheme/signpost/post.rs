//! The word of a slot, and the layout of a bucket's entries (the signposts).
//!
//! ```text
//! word     [age 4][entries 8][remainder]      entries within the words: from 4,096 buckets on, lines without spare bytes
//!          [age 4][remainder]                 otherwise
//! age      0 empty, 1 native: stored in its home bucket; R + 1 guest: stored by function R, 1 to 13
//! tag      the highest bits of the remainder: natives in the order of remainders are in the order of tags
//! entry    4 bits per tag:  0 no key of this tag left, R its least key left by function R, 14 keys of it are stashed
//! where    entry t of a bucket:  within the words       nibble t mod 2 of the 8 bits of slot t / 2
//!                                in the spare bytes     nibble t of the 32 bits
//!                                after all lines        nibble t of the S bytes of this bucket
//! ```
//!
//! **Why these bits are free.** The bucket determines log2(buckets) bits of a mixed key, so the low half of the product
//! that gave bucket and remainder has that many redundant bits: for one bucket the low halves of different keys are at
//! least `buckets` apart. Four of them store the age (`scheme/slot.rs`); from 4,096 buckets on, eight more store
//! entries.
//!
//! Entries belong to the place, not to the pair. They are 0 except in buckets whose slots all contain natives. Words
//! are compared and sorted without them, and the word of an empty slot is 0.

use crate::scheme::bucketized::wide::{LINE_WORDS, Layout, Line, SlotKey};
use crate::scheme::slot::AGE_BITS;

/// Bits of an entry.
pub(crate) const ENTRY_BITS: u32 = 4;
/// The functions by which keys leave their homes, from 1.
pub(crate) const FUNCTIONS: u32 = 13;
/// The entry of a tag with keys in the stash.
pub(crate) const STASH: u32 = FUNCTIONS + 1;
/// Bits of a word for entries, if words contain them.
const POST_BITS: u32 = 2 * ENTRY_BITS;
/// The fewest buckets for which words can contain entries without losing a bit of a key.
pub(crate) const MIN_BUCKETS_WITHIN: u32 = 1 << (AGE_BITS + POST_BITS);

/// The place of a table's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posts {
    /// Within the words.
    Within,
    /// In the bytes of a line that do not belong to a slot.
    Spare,
    /// In an array after all lines, including those of the stash.
    Behind,
}

impl Posts {
    /// The place of the entries of a table with this many buckets.
    pub fn of<L: Layout>(buckets: u32) -> Posts {
        match L::SPARE {
            Some(_) => Posts::Spare,
            None if buckets >= MIN_BUCKETS_WITHIN => Posts::Within,
            None => Posts::Behind,
        }
    }
}

/// The base-2 logarithm of the number of a bucket's tags: two per slot, or as many as fit in the spare bytes.
pub(crate) fn tag_bits<L: Layout>() -> u32 {
    let tags = if L::SPARE.is_some() { u32::BITS / ENTRY_BITS } else { 2 * L::SLOTS as u32 };
    tags.ilog2()
}

/// The bit fields of a table's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Bits of the entries between age and remainder: 8 or 0.
    pub post_bits: u32,
    /// The base-2 logarithm of the tags.
    pub tag_bits: u32,
}

impl Fields {
    /// The bit fields of a table of this many buckets.
    pub fn of<L: Layout>(buckets: u32) -> Fields {
        let post_bits = if Posts::of::<L>(buckets) == Posts::Within { POST_BITS } else { 0 };
        Fields { post_bits, tag_bits: tag_bits::<L>() }
    }

    /// Bits of the remainder.
    pub fn remainder_bits<K: SlotKey>(self) -> u32 {
        K::BITS - AGE_BITS - self.post_bits
    }

    /// The word of a pair, without entries.
    #[inline(always)]
    pub fn word<K: SlotKey>(self, age: u32, remainder: K) -> u64 {
        u64::from(age) << (K::BITS - AGE_BITS) | remainder.into()
    }

    /// The age in a word; 0 for an empty slot.
    #[inline(always)]
    pub fn age<K: SlotKey>(self, word: u64) -> u32 {
        (word >> (K::BITS - AGE_BITS)) as u32
    }

    /// The remainder in a word.
    #[inline(always)]
    pub fn remainder<K: SlotKey>(self, word: u64) -> K {
        K::low(word & !(u64::MAX << self.remainder_bits::<K>()))
    }

    /// The bits of a word that belong to the pair: all but the entries.
    #[inline(always)]
    pub fn of_pair<K: SlotKey>(self) -> u64 {
        let low = |bits| u64::MAX >> (u64::BITS - bits);
        low(K::BITS) & !low(K::BITS - AGE_BITS) | low(self.remainder_bits::<K>())
    }

    /// Whether a word contains a pair.
    #[inline(always)]
    pub fn is_pair<K: SlotKey>(self, word: u64) -> bool {
        (1..=FUNCTIONS + 1).contains(&self.age::<K>(word))
    }

    /// The tag of a remainder.
    #[inline(always)]
    pub fn tag<K: SlotKey>(self, remainder: K) -> u32 {
        (remainder.into() >> (self.remainder_bits::<K>() - self.tag_bits)) as u32
    }
}

/// The number of 64-bit words after all lines that contain the entries of this many buckets; whole lines.
pub(crate) fn words_behind<L: Layout>(buckets: u32) -> u64 {
    match Posts::of::<L>(buckets) {
        Posts::Behind => (u64::from(buckets) * L::SLOTS as u64).div_ceil(8 * LINE_WORDS as u64) * LINE_WORDS as u64,
        _ => 0,
    }
}

/// Word and shift of entry `tag` of a bucket in the array after the lines.
#[inline(always)]
pub(crate) fn behind<L: Layout>(bucket: u32, tag: u32) -> (usize, u32) {
    let nibble = bucket as usize * 2 * L::SLOTS + tag as usize;
    (nibble / 16, nibble as u32 % 16 * ENTRY_BITS)
}

/// Slot of a line and shift of entry `tag` within its word.
#[inline(always)]
pub(crate) fn within<K: SlotKey>(tag: u32) -> (usize, u32) {
    (tag as usize / 2, K::BITS - AGE_BITS - POST_BITS + tag % 2 * ENTRY_BITS)
}

/// Entry `tag` of a line that contains its entries.
#[inline(always)]
pub(crate) fn entry_in<L: Layout>(posts: Posts, line: &Line, tag: u32) -> u32 {
    let bits = match posts {
        Posts::Within => {
            let (slot, shift) = within::<L::Key>(tag);
            L::word(line, slot) >> shift
        }
        Posts::Spare => u64::from(L::spare(line)) >> (tag * ENTRY_BITS),
        Posts::Behind => 0,
    };
    bits as u32 & 0xf
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Word;

    fn fields_are_apart<L: Layout>() {
        for buckets in [16, 4095, 4096, 1 << 20] {
            let fields = Fields::of::<L>(buckets);
            let greatest = L::Key::low(u64::MAX >> (64 - fields.remainder_bits::<L::Key>()));
            let word = fields.word(FUNCTIONS + 1, greatest);
            assert_eq!((fields.age::<L::Key>(word), fields.remainder::<L::Key>(word)), (FUNCTIONS + 1, greatest));
            assert_eq!(fields.tag(greatest), (1 << fields.tag_bits) - 1);
            assert_eq!(fields.of_pair::<L::Key>(), word | 15 << (L::Key::BITS - AGE_BITS));
            assert!(fields.is_pair::<L::Key>(word) && !fields.is_pair::<L::Key>(0));
            // Each entry has separate bits, which do not belong to a pair.
            if Posts::of::<L>(buckets) == Posts::Within {
                let mut taken = [0; 16];
                for tag in 0..1 << fields.tag_bits {
                    let (slot, shift) = within::<L::Key>(tag);
                    let bits = 15u64 << shift;
                    assert!(slot < L::SLOTS && (taken[slot] | fields.of_pair::<L::Key>()) & bits == 0, "{tag}");
                    taken[slot] |= bits;
                }
            }
        }
    }

    #[test]
    fn ages_entries_and_remainders_do_not_overlap() {
        fields_are_apart::<(u64, u64)>();
        fields_are_apart::<(u64, u32)>();
        fields_are_apart::<(u32, u64)>();
        fields_are_apart::<(u64, ())>();
        fields_are_apart::<super::super::Narrow>();
        fields_are_apart::<super::super::NarrowSet>();
    }
}
