//! The integer functions of a Horton image and of its canonical build. The OpenCL version corresponds line by line.
//!
//! ```text
//! word      = [key:32][value:32];  the key 0xFFFFFFFF marks an empty slot
//! Type B   <=> word 0 > word 1;    its last word is the remap-entry array: entry of tag t in bits t * bits ..
//! proposal  = [age:16][!home:32][!token:16]:  the greater wins: older, then the smaller bucket, then the smaller token
//! token j of T in a bucket whose tags are the bits set in `mask`:
//!   list    = the j-th, (j+T)-th, (j+2T)-th, .. set bit of mask                    (len of them)
//!   age a   : tag = list[(a-1) mod len],  i = (a-1) / len mod F + 1;   ages 1 ..= CYCLES * F * len
//! ```
//!
//! A token represents one key that must leave a crowded bucket, without determining which: it offers the least key of
//! each of its tags in turn. No two tokens of a bucket share a tag, so no two of them compete for one remap entry.

/// The key that marks an empty slot.
pub(crate) const EMPTY_KEY: u32 = u32::MAX;
/// An empty slot. It is greater than every pair's word, so an ascending bucket ends with its empty slots.
pub(crate) const EMPTY: u64 = (EMPTY_KEY as u64) << 32;
/// The maximum number of keys with one home. A bucket of 16 at full load exceeds it once in 10^11 tables of 2^28
/// buckets; otherwise only bad constants exceed it, and then the attempt fails.
pub(crate) const GROUP_MAX: u32 = 64;
/// The number of passes of a token over its list, with every function, before it gives up. At load 0.95, nine times as
/// many tokens end in the stash with one cycle as with two. A third cycle would save another 28%, but a fourth nothing
/// (`canonical.rs`).
pub(crate) const CYCLES: u32 = 2;
/// A proposal slot that has received no proposal.
pub(crate) const NO_PROPOSAL: u64 = 0;

/// A word with this key and value.
#[inline(always)]
pub(crate) fn word(key: u32, value: u32) -> u64 {
    (u64::from(key) << 32) | u64::from(value)
}

/// The key in a word.
#[inline(always)]
pub(crate) fn key(word: u64) -> u32 {
    (word >> 32) as u32
}

/// The value in a word.
#[inline(always)]
pub(crate) fn value(word: u64) -> u32 {
    word as u32
}

/// The pair in a word; `None` if its slot is empty.
#[inline(always)]
pub(crate) fn pair(word: u64) -> Option<(u32, u32)> {
    (key(word) != EMPTY_KEY).then_some((key(word), value(word)))
}

/// Whether the bucket that begins with these two words is Type B: its pairs descend, and ascend in other buckets. A
/// bucket without pairs begins with two equal words, and one with a single pair with that pair and the greater `EMPTY`:
/// both are Type A.
#[inline(always)]
pub(crate) fn is_type_b(first: u64, second: u64) -> bool {
    first > second
}

/// The remap entry of a tag.
#[inline(always)]
pub(crate) fn entry(array: u64, tag: u32, bits: u32) -> u32 {
    ((array >> (tag * bits)) as u32) & ((1 << bits) - 1)
}

/// The array with another entry for a tag.
#[inline(always)]
pub(crate) fn with_entry(array: u64, tag: u32, bits: u32, code: u32) -> u64 {
    let shift = tag * bits;
    let mask = ((1u64 << bits) - 1) << shift;
    (array & !mask) | (u64::from(code) << shift)
}

/// The entry that means "in the stash": all ones (canonical tables).
#[inline(always)]
pub(crate) fn stash_code(bits: u32) -> u32 {
    (1 << bits) - 1
}

/// The word of a token's proposal.
#[inline(always)]
pub(crate) fn proposal(age: u32, home: u32, token: u32) -> u64 {
    (u64::from(age) << 48) | (u64::from(!home) << 16) | u64::from(!token & 0xffff)
}

/// Age, home bucket and token of a proposal.
#[inline(always)]
pub(crate) fn unpacked(proposal: u64) -> (u32, u32, u32) {
    ((proposal >> 48) as u32, !((proposal >> 16) as u32), !(proposal as u32) & 0xffff)
}

/// The number of a group's keys that must leave their home: all but S - 1 if there are more than S.
#[inline(always)]
pub(crate) fn leavers(keys: u32, slots: u32) -> u32 {
    if keys > slots { keys - (slots - 1) } else { 0 }
}

/// The number of tokens of a group: one for each key that must leave, but at most one per tag.
#[inline(always)]
pub(crate) fn token_count(keys: u32, slots: u32, mask: u32) -> u32 {
    leavers(keys, slots).min(mask.count_ones())
}

/// The position of set bit number `n` (from 0) of a mask that has more than `n`.
#[inline(always)]
pub(crate) fn nth_bit(mask: u32, n: u32) -> u32 {
    // Halves the mask, rather than testing bit by bit as in OpenCL, so that processors can overlap several searches.
    let (mut at, mut left) = (0, n);
    for width in [16, 8, 4, 2, 1] {
        let below = (mask >> at & ((1 << width) - 1)).count_ones();
        let is_beyond = below <= left;
        at += if is_beyond { width } else { 0 };
        left -= if is_beyond { below } else { 0 };
    }
    at
}

/// The number of tags of a token.
#[inline(always)]
pub(crate) fn list_length(mask: u32, tokens: u32, token: u32) -> u32 {
    (mask.count_ones() - token).div_ceil(tokens)
}

/// The greatest age of a token with `length` tags, in a table of `functions` secondary functions.
#[inline(always)]
pub(crate) fn last_age(length: u32, functions: u32) -> u32 {
    CYCLES * functions * length
}

/// Tag and function of a token's proposal at an age from 1; `None` past its last one.
#[inline(always)]
pub(crate) fn step(mask: u32, tokens: u32, token: u32, age: u32, functions: u32) -> Option<(u32, u32)> {
    let length = list_length(mask, tokens, token);
    if age > last_age(length, functions) {
        return None;
    }
    let tag = nth_bit(mask, token + (age - 1) % length * tokens);
    Some((tag, (age - 1) / length % functions + 1))
}

/// The least age at which the token of this tag proposes the tag by this function, and that token.
#[inline(always)]
pub(crate) fn age_of(mask: u32, tokens: u32, tag: u32, function: u32) -> (u32, u32) {
    let number = (mask & ((1 << tag) - 1)).count_ones();
    let token = number % tokens;
    (token, (function - 1) * list_length(mask, tokens, token) + number / tokens + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;

    #[test]
    fn proposals_compare_by_age_then_bucket_then_token() {
        assert!(proposal(2, 9, 9) > proposal(1, 0, 0));
        assert!(proposal(1, 3, 9) > proposal(1, 4, 0));
        assert!(proposal(1, 3, 0) > proposal(1, 3, 1));
        assert!(proposal(1, u32::MAX, 0xffff) > NO_PROPOSAL);
    }

    #[test]
    fn tokens_try_all_tags_with_each_function() {
        // Tags 1, 3, 4, 8, 9 and two tokens: token 0 has 1, 4, 9 and token 1 has 3, 8.
        let mask = 0b11_0001_1010;
        let walk = |token: u32| (1..).map_while(|age| step(mask, 2, token, age, 6)).collect::<Vec<_>>();
        assert_eq!(walk(0)[..7], [(1, 1), (4, 1), (9, 1), (1, 2), (4, 2), (9, 2), (1, 3)]);
        assert_eq!(walk(1)[..5], [(3, 1), (8, 1), (3, 2), (8, 2), (3, 3)]);
        assert_eq!(walk(0).len() as u32, CYCLES * 6 * 3);
        assert_eq!(walk(1)[12], (3, 1), "the second cycle begins as the first");
    }

    #[test]
    fn tokens_are_the_leavers_but_no_more_than_tags() {
        assert_eq!([7, 8, 9, 10, 30].map(|keys| leavers(keys, 8)), [0, 0, 2, 3, 23]);
        assert_eq!(token_count(10, 8, 0b1111), 3);
        assert_eq!(token_count(30, 8, 0b1111), 4);
    }

    #[test]
    fn buckets_with_at_most_one_pair_are_type_a() {
        assert!(!is_type_b(EMPTY, EMPTY));
        assert!(!is_type_b(word(EMPTY_KEY - 1, u32::MAX), EMPTY));
        assert!(!is_type_b(word(1, 0), word(2, 0)));
        assert!(is_type_b(word(2, 0), word(1, u32::MAX)));
    }

    #[test]
    fn ages_fit_their_16_bits() {
        assert!(last_age(32, 14) < 1 << 16);
    }

    quickcheck! {
        fn a_proposal_unpacks(age: u16, home: u32, token: u16) -> bool {
            unpacked(proposal(age.into(), home, token.into())) == (age.into(), home, token.into())
        }

        fn an_entry_is_what_was_set_and_the_others_stay(array: u64, tag: u32, code: u32, other: u32) -> bool {
            let (tag, other, code) = (tag % 21, other % 21, code % 8);
            let changed = with_entry(array, tag, 3, code);
            entry(changed, tag, 3) == code && (other == tag || entry(changed, other, 3) == entry(array, other, 3))
        }

        fn each_tag_has_one_token_and_its_first_age_is_reported(mask: u32, tokens: u32) -> bool {
            let mask = mask | 1;
            let tokens = tokens % mask.count_ones() + 1;
            let tags = (0..32).filter(|tag| mask >> tag & 1 == 1);
            tags.flat_map(|tag| (1..=6).map(move |i| (tag, i))).all(|(tag, i)| {
                let (token, age) = age_of(mask, tokens, tag, i);
                token < tokens && step(mask, tokens, token, age, 6) == Some((tag, i))
            })
        }
    }
}
