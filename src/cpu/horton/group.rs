//! The record of a crowded home: the group of `scheme/horton/group.rs` in the form for this build.
//!
//! ```text
//! tags      of all keys, eight at a time
//! leasts    the least pair of each tag; all other pairs are the others
//! record    [entries, by rank][leasts, by tag][others]
//! surplus   the first of the others, if there are fewer tags than keys that must leave: their tags get the entry STASH
//! ```
//!
//! Duplicates of a key have the same tag. So two of them meet as leasts, or are adjacent among the sorted others. Only
//! if there is a surplus must the others be in the order of the rule, by tag and key.

use wide::u32x8;

use crate::backend::Placed;
use crate::cpu::network::sort;
use crate::scheme::horton::Functions;
use crate::scheme::horton::tokens::{self, EMPTY, EMPTY_KEY, GROUP_MAX};

/// The most keys of a home that is not overfull.
pub(super) const MOST: usize = GROUP_MAX as usize;
/// The most tags.
const TAGS: usize = 32;
/// The most others that are sorted by a network.
const FEW: usize = 8;

/// The keys of one home in order of arrival, followed by leftovers of the previous home.
pub(super) struct Group {
    pub(super) pairs: [u64; MOST],
    others: [u64; MOST],
}

impl Default for Group {
    fn default() -> Self {
        Group { pairs: [EMPTY; MOST], others: [EMPTY; MOST] }
    }
}

/// Counts equal keys that are adjacent.
#[cold]
pub(super) fn count_duplicates(words: &[u64], placed: &mut Placed) {
    for two in words.windows(2).filter(|two| tokens::key(two[0]) == tokens::key(two[1])) {
        let key = tokens::key(two[0]);
        if key != EMPTY_KEY {
            placed.duplicates += 1;
            placed.least_duplicate = Some(placed.least_duplicate.map_or(key, |least| least.min(key)));
        }
    }
}

/// Whether some of these sorted words have equal keys, except for empty ones.
#[inline(always)]
pub(super) fn has_duplicates(words: &[u64]) -> bool {
    // Without a branch between them, because there are almost never any.
    let equal = |two: &[u64]| (tokens::key(two[0]) == tokens::key(two[1])) & (tokens::key(two[0]) != EMPTY_KEY);
    words.windows(2).fold(false, |any, two| any | equal(two))
}

impl Group {
    /// Writes the record of this many keys, and counts duplicates. Returns the tags.
    #[inline(always)]
    pub(super) fn record<const S: usize>(
        &mut self,
        functions: &Functions,
        keys: usize,
        record: &mut [u64],
        placed: &mut Placed,
    ) -> u32 {
        let (mut leasts, others) = ([EMPTY; TAGS], &mut self.others);
        others[..FEW].fill(EMPTY);
        let (mut rest, mut mask, mut met) = (0, 0u32, false);
        for (lane, pairs) in self.pairs.as_chunks::<8>().0.iter().enumerate().take(keys.div_ceil(8)) {
            let tags = functions.mixed_home(u32x8::new(pairs.map(tokens::key))).1.to_array();
            for i in 0..(keys - 8 * lane).min(8) {
                let (tag, pair) = (tags[i] as usize % TAGS, pairs[i]);
                let there = leasts[tag];
                met |= tokens::key(there) == tokens::key(pair);
                leasts[tag] = there.min(pair);
                others[rest % MOST] = there.max(pair);
                rest += usize::from(there != EMPTY);
                mask |= 1 << tag;
            }
        }
        match others.first_chunk_mut::<FEW>() {
            Some(few) if rest <= FEW => sort(few),
            _ => others[..rest].sort_unstable(),
        }
        let others = &mut others[..rest];
        if met | has_duplicates(others) {
            let mut sorted = self.pairs;
            sorted[..keys].sort_unstable();
            count_duplicates(&sorted[..keys], placed);
        }
        let tokens = tokens::token_count(keys as u32, S as u32, mask);
        let surplus = tokens::leavers(keys as u32, S as u32) - tokens;
        record[0] = if surplus == 0 { 0 } else { entries_of_surplus(functions, mask, others, surplus as usize) };
        let (to_leasts, to_others) = record[1..].split_at_mut(keys - rest);
        let mut tags = mask;
        for to in to_leasts {
            *to = leasts[tags.trailing_zeros() as usize % TAGS];
            tags &= tags.wrapping_sub(1);
        }
        to_others.copy_from_slice(others);
        mask
    }
}

/// Sorts the others by tag and key, and sets the entries, by rank, of the surplus.
#[cold]
fn entries_of_surplus(functions: &Functions, mask: u32, others: &mut [u64], surplus: usize) -> u64 {
    let tag_of = |word: u64| functions.mixed_home(tokens::key(word)).1;
    others.sort_unstable_by_key(|&word| (tag_of(word), word));
    others.iter().take(surplus).fold(0, |entries, &word| {
        let rank = (mask & ((1 << tag_of(word)) - 1)).count_ones();
        tokens::with_entry(entries, rank, functions.bits, functions.stash_code())
    })
}
