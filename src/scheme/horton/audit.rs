//! Checks of whole buckets, and of a home's keys against their rule.
//!
//! ```text
//! any bucket      sorted; each pair is at home, or where its home's entry for its tag leads; no duplicates
//! Type B          S - 1 pairs, all at home; each entry that is set leads at least one pair away
//! canonical B     more than S keys in all; the keys that left are those of the rule; a token's entry is at the end of its
//!                 list, or no earlier bucket in it would have accepted the token
//! canonical A     at most S keys, which follows from having no entries
//! classic         (see the rules in `classic.rs`)
//! ```
//!
//! Earlier proposals are checked by bounds, because an entry contains tag and function, but not the cycle through the
//! list. A token certainly made the proposals of its first cycle before the accepted one, so those are checked. A pair
//! that may have been accepted in a later cycle is assumed to be as strong as possible, unless a bucket in its list has
//! an empty slot, which would have accepted it in the first cycle. So no valid image is rejected, and a bucket with an
//! empty slot is always checked.

use std::ops::Range;

use super::Functions;
use super::bucket::{self, stashed};
use super::group::{Group, Item};
use super::tokens::{self, EMPTY};
use crate::scheme::{Audit, Violation};

/// The audit of a canonical image.
pub(super) fn canonical(functions: &Functions, image: &[u64], words: Range<u64>) -> Result<Audit, Violation> {
    let check = Check { functions, image, stash: stashed(functions, image) };
    each(functions, image, words, |home| check.home(home))
}

/// The audit of a classic image.
pub(super) fn classic(functions: &Functions, image: &[u64], words: Range<u64>) -> Result<Audit, Violation> {
    let check = Check { functions, image, stash: Vec::new() };
    each(functions, image, words, |home| check.crowded(home).map(drop))
}

/// The checks that need only the bucket, then those of its home, for each bucket of a range of words.
fn each(
    functions: &Functions,
    image: &[u64],
    words: Range<u64>,
    home: impl Fn(u32) -> Result<(), Violation>,
) -> Result<Audit, Violation> {
    let mut audit = Audit::default();
    let slots = u64::from(functions.slots);
    let last = (u64::from(functions.buckets) + u64::from(functions.stash_buckets)).min(words.end.div_ceil(slots));
    for bucket in words.start / slots..last {
        let bucket = bucket as u32;
        let greatest_age = bucket::audit(functions, image, bucket)?;
        if bucket::is_type_b(functions, image, bucket) {
            home(bucket)?;
        }
        let pairs = bucket::pairs(functions, image, bucket).iter().filter(|&&word| word != EMPTY).count() as u64;
        audit = audit.join(Audit { pairs, tombstones: 0, greatest_age });
    }
    Ok(audit)
}

struct Check<'a> {
    functions: &'a Functions,
    image: &'a [u64],
    stash: Vec<(u32, u32, u64)>,
}

impl Check<'_> {
    /// All pairs with this home, sorted by tag and key.
    fn items(&self, home: u32) -> Vec<Item> {
        let here = bucket::pairs(self.functions, self.image, home).iter().filter(|&&word| word != EMPTY);
        let mut items: Vec<_> =
            here.map(|&word| Item::new(self.functions, word)).filter(|item| item.home == home).collect();
        for tag in 0..self.functions.tags {
            let away = bucket::led_away(self.functions, self.image, home, tag, &self.stash);
            items.extend(away.map(|word| Item { home, tag, word }));
        }
        items.sort_unstable();
        items
    }

    /// Checks a Type B bucket of either kind: its pairs are at home, and each of its entries leads at least one pair
    /// away.
    fn entries(&self, home: u32) -> Result<(), Violation> {
        let broken = |reason| Err(Violation::Bucket { bucket: home.into(), reason });
        let Check { functions, image, stash } = self;
        let here = bucket::pairs(functions, image, home);
        if here.iter().any(|&word| functions.home(tokens::key(word)).0 != home) {
            return broken("it is Type B and holds a secondary item");
        }
        let array = bucket::array(functions, image, home);
        for tag in 0..functions.tags {
            let is_set = tokens::entry(array, tag, functions.bits) != 0;
            if is_set && bucket::led_away(functions, image, home, tag, stash).next().is_none() {
                return broken("a remap entry leads to no item");
            }
        }
        Ok(())
    }

    /// As [`entries`](Self::entries), and checks that its home has more keys than a Type A bucket can store; returns
    /// these.
    fn crowded(&self, home: u32) -> Result<Vec<Item>, Violation> {
        self.entries(home)?;
        let items = self.items(home);
        if items.len() <= self.functions.slots as usize {
            let reason = "it is Type B, but its keys fit a Type A bucket";
            return Err(Violation::Bucket { bucket: home.into(), reason });
        }
        Ok(items)
    }

    /// Checks a Type B bucket of a canonical image.
    fn home(&self, home: u32) -> Result<(), Violation> {
        let items = self.crowded(home)?;
        let broken = |reason| Err(Violation::Bucket { bucket: home.into(), reason });
        let Functions { slots, bits, .. } = *self.functions;
        let group = Group::new(&items, slots);
        let array = bucket::array(self.functions, self.image, home);
        let stays = |item: &Item| {
            let key = tokens::key(item.word);
            bucket::slot_of(self.functions, self.image, home, key).is_some()
        };
        for (item, leaves, code) in group.leaving(array, bits) {
            if leaves == stays(&item) {
                return broken("a key other than the least of its tag was moved away");
            }
            if leaves && code != self.functions.stash_code() && group.stash_tags() >> item.tag & 1 == 1 {
                return broken("a tag of its surplus keys does not lead to the stash");
            }
        }
        for token in 0..group.tokens {
            self.token(home, &group, array, token)?;
        }
        Ok(())
    }

    /// Checks one token of a home: one of its tags is set, and no earlier place would have accepted it.
    fn token(&self, home: u32, group: &Group<'_>, array: u64, token: u32) -> Result<(), Violation> {
        let functions = self.functions;
        let broken = |reason| Err(Violation::Bucket { bucket: home.into(), reason });
        let length = tokens::list_length(group.mask, group.tokens, token);
        let tag_of = |at: u32| tokens::nth_bit(group.mask, token + at * group.tokens);
        let code_of = |tag: u32| tokens::entry(array, tag, functions.bits);
        let mut set = (0..length).map(tag_of).filter(|&tag| code_of(tag) != 0);
        let (Some(tag), None) = (set.next(), set.next()) else {
            return broken("a token's tags have no entry, or several");
        };
        if group.stash_tags() >> tag & 1 == 1 {
            return Ok(());
        }
        let code = code_of(tag);
        let stashed = code == functions.stash_code();
        if stashed && tag != tag_of(0) {
            return broken("an exhausted token is in the stash with a tag other than its first");
        }
        let age =
            if stashed { functions.count * length + 1 } else { tokens::age_of(group.mask, group.tokens, tag, code).1 };
        for earlier in 1..age {
            let Some((at, i)) = group.step(token, earlier, functions) else { break };
            let target = functions.remap(home, at, i);
            if !self.refuses(target, tokens::proposal(earlier, home, token)) {
                let key = group.least(tag).map_or(0, |item| tokens::key(item.word));
                let slot = bucket::search(functions, self.image, key).1.unwrap_or(0) as u64;
                return Err(Violation::Blocking { slot, key: key.into(), age, earlier });
            }
        }
        Ok(())
    }

    /// Whether all proposals that a bucket has accepted may be stronger than this one.
    fn refuses(&self, target: u32, proposal: u64) -> bool {
        let here = bucket::pairs(self.functions, self.image, target);
        if bucket::is_type_b(self.functions, self.image, target) {
            return true;
        }
        here.iter().all(|&word| match tokens::pair(word) {
            None => false,
            Some((key, _)) => {
                let (home, tag) = self.functions.home(key);
                home == target || self.may_beat(home, tag, proposal)
            }
        })
    }

    /// Whether the proposal of an entry may have been stronger than this one.
    fn may_beat(&self, home: u32, tag: u32, proposal: u64) -> bool {
        let functions = self.functions;
        let items = self.items(home);
        let group = Group::new(&items, functions.slots);
        let code = tokens::entry(bucket::array(functions, self.image, home), tag, functions.bits);
        if group.tokens == 0 || code == 0 || code > functions.count || group.mask >> tag & 1 == 0 {
            return true;
        }
        let (token, first) = tokens::age_of(group.mask, group.tokens, tag, code);
        let cycle = functions.count * tokens::list_length(group.mask, group.tokens, token);
        if tokens::proposal(first, home, token) > proposal {
            return true;
        }
        let last = first + (tokens::CYCLES - 1) * cycle;
        let has_free_slot =
            |(tag, i)| bucket::pairs(functions, self.image, functions.remap(home, tag, i)).contains(&EMPTY);
        // The proposal of a later cycle, unless the first cycle would have ended at a bucket with a free slot.
        tokens::proposal(last, home, token) > proposal
            && !(1..=cycle).filter_map(|age| group.step(token, age, functions)).any(has_free_slot)
    }
}
