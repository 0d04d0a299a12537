//! One bucket of an image, with the operations that both kinds share: looking up a key, and decoding a word.
//!
//! ```text
//! Type A   [pair] [pair] .. [EMPTY] [EMPTY]       ascending; primary and secondary items
//! Type B   [pair] [pair] .. [pair]  [entries]     S - 1 pairs descending, all primary
//! find:    home, tag = functions of key;  the pair in home?  found
//!          home is Type A, or its entry for tag is 0:  absent                               (one bucket read)
//!          the pair in the bucket the entry leads to?  found, otherwise absent              (two)
//! ```
//!
//! A bucket's type does not take a bit of a pair's word (in the paper it takes one from a value): it is encoded in the
//! order of the first two words. That takes two pairs, and a Type B bucket has them, because it contains exactly S - 1
//! items, which is at least 3. In a canonical table that many of its own keys stay. In a classic table a removal moves
//! one of its items home at once, or makes the bucket Type A if there are few enough. Buckets with at most one pair are
//! Type A.
//!
//! No function here trusts the image: every index comes from the functions of the plan, and a missing slice is treated
//! as empty.

use std::ops::Range;

use super::Functions;
use super::tokens::{self, EMPTY};
use crate::scheme::Violation;

/// The words of a bucket (those of the stash follow the table's); empty if the image has none.
#[inline(always)]
pub(crate) fn words<'a>(functions: &Functions, image: &'a [u64], bucket: u32) -> &'a [u64] {
    image.get(range(functions, bucket)).unwrap_or(&[])
}

/// The range of a bucket's words in the image.
#[inline(always)]
pub(crate) fn range(functions: &Functions, bucket: u32) -> Range<usize> {
    let slots = functions.slots as usize;
    let from = bucket as usize * slots;
    from..from + slots
}

/// The first word of a bucket in the image.
#[inline(always)]
pub(crate) fn first_slot(functions: &Functions, bucket: u32) -> u64 {
    u64::from(bucket) * u64::from(functions.slots)
}

/// Whether a bucket is Type B. Stash buckets never are, whatever they contain.
#[inline(always)]
pub(crate) fn is_type_b(functions: &Functions, image: &[u64], bucket: u32) -> bool {
    bucket < functions.buckets && type_b(words(functions, image, bucket))
}

/// Whether these words of a table's bucket are Type B's.
#[inline(always)]
pub(crate) fn type_b(words: &[u64]) -> bool {
    words.len() > 1 && tokens::is_type_b(words[0], words[1])
}

/// The remap-entry array of a bucket; 0, which means no entries, if it is Type A.
#[inline(always)]
pub(crate) fn array(functions: &Functions, image: &[u64], bucket: u32) -> u64 {
    if !is_type_b(functions, image, bucket) {
        return 0;
    }
    words(functions, image, bucket).last().copied().unwrap_or(0)
}

/// The words of a bucket that are pairs or empty: all, or all but the last.
#[inline(always)]
pub(crate) fn pairs<'a>(functions: &Functions, image: &'a [u64], bucket: u32) -> &'a [u64] {
    let words = words(functions, image, bucket);
    if is_type_b(functions, image, bucket) { &words[..words.len() - 1] } else { words }
}

/// The slot (from 0) of a key in a bucket.
#[inline(always)]
pub(crate) fn slot_of(functions: &Functions, image: &[u64], bucket: u32, key: u32) -> Option<usize> {
    pairs(functions, image, bucket).iter().position(|&word| tokens::key(word) == key)
}

/// The bucket to which the remap entry of this home and tag leads a key, if the entry is set.
#[inline(always)]
pub(crate) fn second_bucket(functions: &Functions, image: &[u64], key: u32, home: u32, tag: u32) -> Option<u32> {
    functions.led(key, home, tag, tokens::entry(array(functions, image, home), tag, functions.bits))
}

/// The number of reads of a lookup, and the position of the key's word. The key must not be the sentinel key.
pub(crate) fn search(functions: &Functions, image: &[u64], key: u32) -> (u32, Option<usize>) {
    let (home, tag) = functions.home(key);
    let word = |bucket: u32, slot: usize| range(functions, bucket).start + slot;
    if let Some(slot) = slot_of(functions, image, home, key) {
        return (1, Some(word(home, slot)));
    }
    let Some(other) = second_bucket(functions, image, key, home, tag) else { return (1, None) };
    (2, slot_of(functions, image, other, key).map(|slot| word(other, slot)))
}

/// The bucket of a word of the image, and the pair there.
pub(crate) fn pair_at(functions: &Functions, image: &[u64], at: u64) -> Option<(u32, (u32, u32))> {
    let word = *image.get(usize::try_from(at).ok()?)?;
    let bucket = u32::try_from(at / u64::from(functions.slots)).ok()?;
    let last = at % u64::from(functions.slots) + 1 == u64::from(functions.slots);
    if last && is_type_b(functions, image, bucket) {
        return None;
    }
    tokens::pair(word).map(|pair| (bucket, pair))
}

/// The age of a pair in a bucket: 1 at home, 1 + the entry that leads there (the stash's entry is the greatest), 0 if
/// no entry leads there.
pub(crate) fn age(functions: &Functions, image: &[u64], bucket: u32, key: u32) -> u32 {
    let (home, tag) = functions.home(key);
    if home == bucket {
        return 1;
    }
    let code = tokens::entry(array(functions, image, home), tag, functions.bits);
    if functions.led(key, home, tag, code) == Some(bucket) { 1 + code } else { 0 }
}

/// Writes a Type A bucket, or one of the stash: its pairs ascending, then empty slots.
pub(crate) fn write_a(words: &mut [u64], pairs: &[u64]) {
    let count = pairs.len().min(words.len());
    words[..count].copy_from_slice(&pairs[..count]);
    words[count..].fill(EMPTY);
    words.sort_unstable();
}

/// Writes a Type B bucket: its S - 1 pairs descending, then the remap entries.
pub(crate) fn write_b(words: &mut [u64], pairs: &[u64], array: u64) {
    let Some((last, slots)) = words.split_last_mut() else { return };
    let count = pairs.len().min(slots.len());
    slots[..count].copy_from_slice(&pairs[..count]);
    slots[count..].fill(EMPTY);
    slots.sort_unstable_by(|a, b| b.cmp(a));
    *last = array;
}

/// The invariants of every bucket of either kind, alone and with the one other bucket of each of its keys.
///
/// # Errors
/// The first violation.
pub(crate) fn audit(functions: &Functions, image: &[u64], bucket: u32) -> Result<u32, Violation> {
    let first = first_slot(functions, bucket);
    let words_here = words(functions, image, bucket);
    let type_b = is_type_b(functions, image, bucket);
    let pairs_here = pairs(functions, image, bucket);
    let mut greatest = 0;
    for (at, &word) in pairs_here.iter().enumerate() {
        let slot = first + at as u64;
        let Some((key, _)) = tokens::pair(word) else {
            if word != EMPTY || type_b {
                return Err(Violation::Word { slot, word });
            }
            continue;
        };
        if pairs_here.get(at + 1).is_some_and(|&next| tokens::key(next) == key) {
            return Err(Violation::Twice { slot: slot + 1, other: slot, key: key.into() });
        }
        let (home, tag) = functions.home(key);
        let other = second_bucket(functions, image, key, home, tag);
        if home != bucket && other != Some(bucket) {
            return Err(Violation::Misplaced { slot, key: key.into() });
        }
        // The other place where a lookup may find it.
        let twin = if home == bucket { other } else { Some(home) };
        if let Some((twin, there)) = twin.and_then(|b| slot_of(functions, image, b, key).map(|s| (b, s))) {
            return Err(Violation::Twice { slot, other: first_slot(functions, twin) + there as u64, key: key.into() });
        }
        greatest = greatest.max(age(functions, image, bucket, key));
    }
    let in_order = |two: &[u64]| if type_b { two[0] > two[1] } else { two[0] <= two[1] };
    if !pairs_here.windows(2).all(in_order) {
        return Err(Violation::Unsorted { bucket: bucket.into() });
    }
    if type_b {
        let array = words_here.last().copied().unwrap_or(0);
        let used = functions.tags * functions.bits;
        if used < 64 && array >> used != 0 {
            return Err(Violation::Word { slot: first + words_here.len() as u64 - 1, word: array });
        }
    }
    Ok(greatest)
}

/// The pairs that the remap entry of one tag leads away from their home, as words. Those in the stash are in different
/// buckets, so they are found in `stash`, a sorted list of its contents (`stashed`).
pub(crate) fn led_away(
    functions: &Functions,
    image: &[u64],
    home: u32,
    tag: u32,
    stash: &[(u32, u32, u64)],
) -> impl Iterator<Item = u64> {
    let code = tokens::entry(array(functions, image, home), tag, functions.bits);
    let stashed = if code == functions.stash_code() {
        let from = stash.partition_point(|&(h, t, _)| (h, t) < (home, tag));
        let until = stash.partition_point(|&(h, t, _)| (h, t) <= (home, tag));
        &stash[from..until]
    } else {
        &[]
    };
    let is_function = (1..=functions.count).contains(&code);
    let there = if is_function { pairs(functions, image, functions.remap(home, tag, code)) } else { &[] };
    let mine = move |word: &u64| tokens::pair(*word).is_some_and(|(key, _)| functions.home(key) == (home, tag));
    there.iter().copied().filter(mine).chain(stashed.iter().map(|&(_, _, word)| word))
}

/// Home, tag and word of every pair in the stash, sorted.
pub(crate) fn stashed(functions: &Functions, image: &[u64]) -> Vec<(u32, u32, u64)> {
    let all = (0..functions.stash_buckets).flat_map(|at| words(functions, image, functions.buckets + at));
    let mut stashed: Vec<_> = all
        .filter_map(|&word| {
            let (home, tag) = functions.home(tokens::pair(word)?.0);
            Some((home, tag, word))
        })
        .collect();
    stashed.sort_unstable();
    stashed
}
