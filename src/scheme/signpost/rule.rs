//! The rule as a simple reference implementation: groups, offers, lines, stash, one after the other.
//!
//! ```text
//! group the pairs by home; of duplicates the greatest value is kept
//! for each token of each home:     offer = (home, token, position 0)
//!     loop:  the guest bucket of the offer has S - natives free slots, which keep the greatest offers ever made:
//!                [position][!home][!token]
//!            rejected, or displaced: continue with the next position of that token's list; past the last: the stash
//! entries: R for the tag of each accepted offer, 14 for the first tag of a token that was accepted nowhere and for the tags
//!          of the surplus
//! lines: natives and guests in descending order of their words, then the entries
//! stash: a canonical bucketized table (`bucketized/wide/canonical.rs`) of the remaining pairs
//! ```
//!
//! **The bytes are a function of the set of pairs.** The keys that leave a home depend on that home's keys only. The
//! offers that are made are the least set with: every token's offer at position 0 is in the set; if an offer in the set
//! is not among the greatest in the set for its bucket, the next offer of its token is in the set. The loop makes
//! exactly these, in whatever order: a bucket that has rejected an offer contains only greater ones from then on, so
//! every rejection is final, and a token makes its next offer only after a rejection. Two offers are never equal: those
//! of one token differ by position.
//!
//! This implementation is not optimized. `cpu/signpost/` and `cl/signpost*.cl` are, and place one partition at a time.

use super::functions::SignpostFunctions;
use super::group::Leavers;
use super::post::{self, Posts};
use super::{STASH, SignpostPlan};
use crate::scheme::bucketized::wide::{Layout, Line, canonical, lines_mut, pair, put, sort_words};
use crate::scheme::slot::EMPTY;
use crate::scheme::{Placing, Plan};

/// A pair with its home.
#[derive(Clone, Copy, Debug)]
struct Item<L: Layout> {
    home: u32,
    remainder: L::Key,
    value: L::Value,
}

/// The order of offers: position, then the lesser home, then the lesser token. The greatest is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Offer {
    position: u32,
    home: std::cmp::Reverse<u32>,
    token: std::cmp::Reverse<u32>,
}

/// The place of the least key of a tag.
#[derive(Clone, Copy)]
enum Place {
    Guest { bucket: u32, age: u32 },
    Stash,
}

/// The contents of a table of some pairs, before it is written.
pub(crate) struct Settled<L: Layout> {
    /// The pairs of each bucket as words without entries, in no order.
    buckets: Vec<Vec<(u64, L::Value)>>,
    /// The entries of each bucket, 4 bits each.
    entries: Vec<u128>,
    /// The pairs of the stash.
    pub stash: Vec<(L::Key, L::Value)>,
    /// The smallest duplicate key.
    pub copy: Option<L::Key>,
}

/// Sorted pairs by home.
struct Grouped<L: Layout> {
    groups: Vec<Vec<Item<L>>>,
    copy: Option<L::Key>,
}

fn grouped<L: Layout>(functions: &SignpostFunctions<L::Key>, pairs: &[(L::Key, L::Value)]) -> Grouped<L> {
    let mut groups: Vec<Vec<Item<L>>> = vec![Vec::new(); functions.buckets as usize];
    for &(key, value) in pairs {
        let (home, remainder) = functions.home(key);
        groups[home as usize].push(Item { home, remainder, value });
    }
    let mut copy: Option<L::Key> = None;
    for group in &mut groups {
        group.sort_unstable_by_key(|item| (item.remainder, item.value));
        group.dedup_by(|next, kept| {
            let same = next.remainder == kept.remainder;
            if same {
                kept.value = next.value;
                let key = functions.key_of(next.home, next.remainder);
                copy = Some(copy.map_or(key, |least| least.min(key)));
            }
            same
        });
    }
    Grouped { groups, copy }
}

/// The place of each pair.
pub(crate) fn settled<L: Layout>(functions: &SignpostFunctions<L::Key>, pairs: &[(L::Key, L::Value)]) -> Settled<L> {
    let Grouped { groups, copy } = grouped::<L>(functions, pairs);
    let tag = |item: &Item<L>| functions.fields.tag(item.remainder);
    let leavers: Vec<Leavers> = groups.iter().map(|group| Leavers::of(group.iter().map(tag), L::SLOTS)).collect();
    let mut rooms: Vec<Vec<Offer>> = vec![Vec::new(); groups.len()];
    let mut exhausted = Vec::new();
    for home in 0..functions.buckets {
        let of_home = leavers[home as usize];
        for token in (0..of_home.tokens).filter(|&token| of_home.offers(token)) {
            let first = Offer { position: 0, home: std::cmp::Reverse(home), token: std::cmp::Reverse(token) };
            exhausted.extend(follow::<L>(functions, &groups, &leavers, &mut rooms, first));
        }
    }
    let mut entries = vec![0u128; groups.len()];
    let mut set = |home: u32, tag: u32, entry: u32| entries[home as usize] |= u128::from(entry) << (4 * tag);
    // For each home the tags whose least key has left.
    let mut gone: Vec<Vec<(u32, Place)>> = vec![Vec::new(); groups.len()];
    for (bucket, offers) in rooms.iter().enumerate() {
        for offer in offers {
            let (home, token) = (offer.home.0, offer.token.0);
            let Some((tag, function)) = leavers[home as usize].offer(token, offer.position) else { continue };
            set(home, tag, function);
            gone[home as usize].push((tag, Place::Guest { bucket: bucket as u32, age: function + 1 }));
        }
    }
    for (home, token) in exhausted {
        let tag = leavers[home as usize].tag(token, 0);
        set(home, tag, STASH);
        gone[home as usize].push((tag, Place::Stash));
    }
    for (home, leavers) in leavers.iter().enumerate() {
        for tag in (0..32).filter(|tag| leavers.stashed >> tag & 1 == 1) {
            set(home as u32, tag, STASH);
            gone[home].push((tag, Place::Stash));
        }
    }
    let mut settled = Settled { buckets: vec![Vec::new(); groups.len()], entries, stash: Vec::new(), copy };
    for (home, group) in groups.iter().enumerate() {
        let mut surplus = leavers[home].surplus;
        for (i, item) in group.iter().enumerate() {
            let is_least = i == 0 || tag(&group[i - 1]) != tag(item);
            let is_surplus = !is_least && surplus > 0;
            surplus -= u32::from(is_surplus);
            let leaves = gone[home].iter().find(|(of, _)| is_least && *of == tag(item));
            match (leaves, is_surplus) {
                (Some(&(_, Place::Guest { bucket, age })), _) => {
                    settled.buckets[bucket as usize].push((functions.fields.word(age, item.remainder), item.value));
                }
                (Some(_), _) | (None, true) => {
                    settled.stash.push((functions.key_of(item.home, item.remainder), item.value));
                }
                (None, false) => settled.buckets[home].push((functions.fields.word(1, item.remainder), item.value)),
            }
        }
    }
    settled
}

/// Places one token, and all displaced ones. Returns home and token of the one that was rejected at its last position.
fn follow<L: Layout>(
    functions: &SignpostFunctions<L::Key>,
    groups: &[Vec<Item<L>>],
    leavers: &[Leavers],
    rooms: &mut [Vec<Offer>],
    mut offer: Offer,
) -> Option<(u32, u32)> {
    loop {
        let (home, token) = (offer.home.0, offer.token.0);
        let Some((tag, function)) = leavers[home as usize].offer(token, offer.position) else {
            return Some((home, token));
        };
        // A home that is alone in its part has no guest bucket.
        let bucket = functions.guest(home, tag, function).unwrap_or(home) as usize;
        let free = L::SLOTS.saturating_sub(groups[bucket].len());
        let kept = &mut rooms[bucket];
        if kept.len() < free {
            kept.push(offer);
            return None;
        }
        if let Some(least) = kept.iter_mut().min().filter(|least| **least < offer) {
            std::mem::swap(least, &mut offer);
        }
        offer.position += 1;
    }
}

/// The number of these keys that go to the stash.
pub(crate) fn stashed<L: Layout>(plan: &SignpostPlan<L>, pairs: &[(L::Key, L::Value)]) -> u64 {
    settled::<L>(&plan.functions(), pairs).stash.len() as u64
}

/// Writes the image of these pairs; the plan has the stash that they need.
pub(crate) fn place<L: Layout>(
    plan: &SignpostPlan<L>,
    image: &mut [u64],
    pairs: &[(L::Key, L::Value)],
) -> Placing<L::Key> {
    let functions = plan.functions();
    let settled = settled::<L>(&functions, pairs);
    if plan.with_stash(settled.stash.len() as u64) != *plan || image.len() as u64 != plan.words() {
        return Placing::Unplaced;
    }
    image.fill(EMPTY);
    let (stash, behind) = plan.sections();
    for (bucket, (line, pairs)) in lines_mut(&mut image[..stash]).iter_mut().zip(&settled.buckets).enumerate() {
        pairs.iter().enumerate().for_each(|(i, &pair)| put::<L>(line, i, pair));
        sort_words::<L>(line);
        write_entries::<L>(functions.posts, line, settled.entries[bucket]);
    }
    if functions.posts == Posts::Behind {
        write_behind::<L>(&mut image[behind..], &settled.entries);
    }
    let image = &mut image[stash..behind];
    for &(key, value) in &settled.stash {
        if canonical::place::<L>(&functions.stash, image, key, value) == Placing::Unplaced {
            return Placing::Unplaced;
        }
    }
    canonical::sort::<L>(image);
    settled.copy.map_or(Placing::Placed, Placing::Duplicate)
}

/// Writes the entries of a bucket to its line, whose words have none.
pub(crate) fn write_entries<L: Layout>(posts: Posts, line: &mut Line, entries: u128) {
    match posts {
        Posts::Within if entries != 0 => {
            let (_, shift) = post::within::<L::Key>(0);
            for i in 0..L::SLOTS {
                let word = pair::<L>(line, i).0;
                L::put_word(line, i, word | ((entries >> (8 * i)) as u64 & 0xff) << shift);
            }
        }
        Posts::Spare => L::put_spare(line, entries as u32),
        _ => {}
    }
}

/// Writes the entries of all buckets after the lines, to words that are 0.
pub(crate) fn write_behind<L: Layout>(words: &mut [u64], entries: &[u128]) {
    for (bucket, &entries) in entries.iter().enumerate() {
        for tag in 0..2 * L::SLOTS as u32 {
            let (word, shift) = post::behind::<L>(bucket as u32, tag);
            words[word] |= ((entries >> (4 * tag)) as u64 & 15) << shift;
        }
    }
}
