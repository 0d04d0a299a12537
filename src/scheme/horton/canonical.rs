//! The canonical build: deferred acceptance, rather than the order of insertion, decides which keys leave a crowded
//! bucket.
//!
//! ```text
//! group the pairs by home, sort each group by (tag, key)                              (`group.rs`)
//! n <= S keys:  Type A; all stay; S - n slots are free
//! n >  S keys:  Type B; S - 1 stay; n - (S - 1) leave: that many tokens                (`tokens.rs`)
//! propose(token):  for age = 1, 2, ..:  tag, i = step(token, age);  to bucket R_i(home, tag)
//!                    its free slots keep the greatest proposals; it has none if it is Type B or full of its own keys
//!                    accepted: done, or continue with the token that was displaced, one age older
//!                  past the last age:  the entry of its first tag = STASH
//! close:           each accepted proposal: the entry of its tag = i, and the least key of that tag moves there
//!                  entry = STASH:          the least key of that tag moves to its stash bucket
//!                  everything else stays at home
//! ```
//!
//! **The image does not depend on the order.** The groups are sets. A token's proposals are a fixed list of (bucket,
//! word) that depends only on its group, because no two tokens use one entry and the key that leaves with a tag is
//! always the same one. So this is Gale and Shapley's deferred acceptance again: free slots end with the greatest words
//! that were ever offered to them. Ages increase along a list, so a token that was rejected often becomes strong.
//!
//! **Every Type B bucket keeps exactly S - 1 of its own keys:** T leave, by tokens or as surplus, each token with
//! exactly one key whether it is accepted or ends in the stash.
//!
//! In the paper's insertion, in contrast, the arriving key moves, and residents are exchanged only if necessary. If
//! each key tried only its own F buckets, some keys would not find a place from load 0.8 on.
//!
//! Measured with random keys, 2^20 to 2^24 pairs (S = 8 at 0.95: 20 seeds of 2^20 and 3 of 2^24; the others 2 to 4
//! tables of up to 2^22). No attempt failed:
//!
//! | S | load | tokens per key | proposals per key | stash pairs per bucket | buckets read: hit / miss |
//! |---|---|---|---|---|---|
//! | 4 | 0.85 | 0.216 | 0.59 | 0.0028 | 1.216 / 1.035 |
//! | 4 | 0.90 | 0.240 | 0.99 | 0.0060 | 1.240 / 1.041 |
//! | 8 | 0.80 | 0.098 | 0.16 | 0.0002 | 1.098 / 1.030 |
//! | 8 | 0.90 | 0.143 | 0.37 | 0.0013 | 1.143 / 1.049 |
//! | 8 | 0.95 | 0.166 | 0.86 | 0.0049 | 1.166 / 1.060 |
//! | 16 | 0.93 | 0.093 | 0.22 | 0.0012 | 1.093 / 1.066 |
//! | 16 | 0.96 | 0.106 | 0.37 | 0.0030 | 1.107 / 1.078 |
//!
//! The number of tokens that gave up, for 1, 2, 3, 4 cycles: at S = 8, load 0.95, of 173,900 tokens (137,971 buckets),
//! 4,774, 541, 388, 386; at S = 4, load 0.90, of 251,400 tokens, 7,201, 1,312, 1,138, 1,135. The tokens that still give
//! up with four cycles have one or two tags, all of whose buckets are closed.
//!
//! The stash (`stash_buckets`) is a 16th of the buckets for S = 4, a 64th for 8, a 128th for 16, and four more. Its
//! buckets are hit evenly, so with 2^28 buckets the probability that one overflows is 2% (S = 4, 0.85), 2 in 10^4 (S =
//! 8, 0.95), and negligible (S = 16, 0.96). At S = 4 and 0.90 two attempts in three fail for this reason, and fewer
//! than 1% only up to 2^21 buckets, because a stash bucket of four slots is small. No attempt of 4,000 failed in any of
//! 13 sizes from 16 to 3,000 buckets at these loads (1,000 each from 250 buckets on).

use super::Functions;
use super::bucket::{self, range};
use super::group::{Group, Item};
use super::tokens::{self, EMPTY, EMPTY_KEY, GROUP_MAX, NO_PROPOSAL};
use crate::scheme::Placing;

/// The pairs, grouped.
struct Grouped<'a> {
    functions: &'a Functions,
    items: Vec<Item>,
    /// The start of each home's items, and the end of the last.
    starts: Vec<usize>,
    /// The smallest duplicate key, or the sentinel key.
    copy: Option<u32>,
}

impl<'a> Grouped<'a> {
    fn new(functions: &'a Functions, pairs: &[(u32, u32)]) -> Self {
        let legal = pairs.iter().filter(|&&(key, _)| key != EMPTY_KEY);
        let mut items: Vec<_> = legal.map(|&(key, value)| Item::new(functions, tokens::word(key, value))).collect();
        let mut copy = (items.len() < pairs.len()).then_some(EMPTY_KEY);
        items.sort_unstable();
        // Duplicates are adjacent, the greatest value last; that one is kept.
        items.dedup_by(|next, kept| {
            let same = tokens::key(next.word) == tokens::key(kept.word);
            if same {
                kept.word = next.word;
                copy = Some(copy.map_or(EMPTY_KEY, |least| least).min(tokens::key(next.word)));
            }
            same
        });
        let mut starts = vec![0; functions.buckets as usize + 1];
        for item in &items {
            starts[item.home as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Grouped { functions, items, starts, copy }
    }

    fn count(&self, home: u32) -> usize {
        self.starts[home as usize + 1] - self.starts[home as usize]
    }

    fn group(&self, home: u32) -> Group<'_> {
        Group::new(&self.items[self.starts[home as usize]..self.starts[home as usize + 1]], self.functions.slots)
    }

    /// The slots of a bucket that its own keys do not use; empty in a Type B bucket.
    fn free_slots<'i>(&self, image: &'i mut [u64], bucket: u32) -> &'i mut [u64] {
        let count = self.count(bucket).min(self.functions.slots as usize);
        &mut image[range(self.functions, bucket)][count..]
    }

    /// Places one token, and all displaced ones, and returns the token that was rejected at its last age.
    fn settle(&self, image: &mut [u64], home: u32, token: u32) -> Option<(u32, u32)> {
        let (mut home, mut token, mut age) = (home, token, 1);
        while let Some((tag, i)) = self.group(home).step(token, age, self.functions) {
            let mine = tokens::proposal(age, home, token);
            let target = self.functions.remap(home, tag, i);
            if let Some(weakest) = self.free_slots(image, target).iter_mut().min().filter(|weakest| **weakest < mine) {
                let displaced = std::mem::replace(weakest, mine);
                if displaced == NO_PROPOSAL {
                    return None;
                }
                (age, home, token) = tokens::unpacked(displaced);
            }
            age += 1;
        }
        Some((home, token))
    }
}

/// Builds the image of these pairs, whatever it contained before.
pub(crate) fn place(functions: &Functions, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
    let grouped = Grouped::new(functions, pairs);
    // Until the end, the free slots of a bucket contain proposals, and the last word of a Type B bucket its entries,
    // initially none; the other words are not used.
    image.fill(EMPTY);
    for home in 0..functions.buckets {
        if grouped.count(home) > GROUP_MAX as usize {
            return Placing::Unplaced;
        }
        grouped.free_slots(image, home).fill(NO_PROPOSAL);
        if grouped.count(home) > functions.slots as usize {
            let group = grouped.group(home);
            let stash = group.stash_tags();
            let code = functions.stash_code();
            image[entries(functions, home)] = (0..functions.tags)
                .filter(|tag| stash >> tag & 1 == 1)
                .fold(0, |array, tag| tokens::with_entry(array, tag, functions.bits, code));
        }
    }
    for home in 0..functions.buckets {
        if grouped.count(home) <= functions.slots as usize {
            continue;
        }
        let group = grouped.group(home);
        let stash = group.stash_tags();
        // With stash tags each token has one tag, and those of the stash tags do not propose.
        let proposing =
            (0..group.tokens).filter(|&token| stash == 0 || stash >> tokens::nth_bit(group.mask, token) & 1 == 0);
        for token in proposing {
            if let Some((home, token)) = grouped.settle(image, home, token) {
                let tag = tokens::nth_bit(grouped.group(home).mask, token);
                let array = &mut image[entries(functions, home)];
                *array = tokens::with_entry(*array, tag, functions.bits, functions.stash_code());
            }
        }
    }
    close(&grouped, image);
    if stash(&grouped, image) { grouped.copy.map_or(Placing::Placed, Placing::Duplicate) } else { Placing::Unplaced }
}

/// The word of a Type B bucket's remap entries.
fn entries(functions: &Functions, home: u32) -> usize {
    range(functions, home).end - 1
}

/// Converts the accepted proposals to pairs and entries, and the Type A buckets to their final form.
fn close(grouped: &Grouped<'_>, image: &mut [u64]) {
    let functions = grouped.functions;
    let mut pairs = Vec::new();
    for bucket in 0..functions.buckets {
        if grouped.count(bucket) > functions.slots as usize {
            continue;
        }
        pairs.clear();
        pairs.extend(grouped.group(bucket).items.iter().map(|item| item.word));
        let kept: Vec<u64> = grouped.free_slots(image, bucket).to_vec();
        for kept in kept.into_iter().filter(|&kept| kept != NO_PROPOSAL) {
            let (age, home, token) = tokens::unpacked(kept);
            let group = grouped.group(home);
            let Some((tag, i)) = group.step(token, age, functions) else { continue };
            let Some(least) = group.least(tag) else { continue };
            let array = &mut image[entries(functions, home)];
            *array = tokens::with_entry(*array, tag, functions.bits, i);
            pairs.push(least.word);
        }
        bucket::write_a(&mut image[range(functions, bucket)], &pairs);
    }
}

/// Writes the Type B buckets, after all entries are known, and the stash. Returns false if a stash bucket is full.
fn stash(grouped: &Grouped<'_>, image: &mut [u64]) -> bool {
    let functions = grouped.functions;
    let mut pairs = Vec::new();
    for home in 0..functions.buckets {
        if grouped.count(home) <= functions.slots as usize {
            continue;
        }
        let array = image[entries(functions, home)];
        pairs.clear();
        for (item, leaves, code) in grouped.group(home).leaving(array, functions.bits) {
            if !leaves {
                pairs.push(item.word);
            } else if code == functions.stash_code() {
                let at = functions.buckets + functions.stash(tokens::key(item.word));
                let slots = &mut image[range(functions, at)];
                let Some(free) = slots.iter_mut().find(|slot| **slot == EMPTY) else { return false };
                *free = item.word;
                slots.sort_unstable();
            }
        }
        bucket::write_b(&mut image[range(functions, home)], &pairs, array);
    }
    true
}
