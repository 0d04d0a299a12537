//! The homes of a part that have more keys than slots.
//!
//! ```text
//! gather     sorts the keys of a home, those in its line and the late ones, by remainder; of duplicates the greatest
//!            value is kept.  The least key of each tag may leave; `group.rs` determines how many do
//! leave      a key is accepted elsewhere: its word becomes 0, and the entry of its tag becomes the function
//! natives    the remaining words fill the line
//! ```

use super::offers::{MOST_TAGS, Offer};
use crate::backend::Word;
use crate::scheme::bucketized::wide::{Layout, Line, pair, put};
use crate::scheme::signpost::SignpostFunctions;
use crate::scheme::signpost::group::{Leavers, offered};
use crate::scheme::signpost::post::STASH;
use crate::scheme::slot::{AGE_BITS, EMPTY};

/// Up to this many late keys of a home are inserted one by one.
const FEW: usize = 8;

/// A home with more keys than slots.
pub(super) struct Home {
    /// Its line in the part.
    pub(super) line: u32,
    /// The number of tags that occur, and the number of tokens.
    pub(super) tags: u32,
    pub(super) tokens: u32,
    /// The tags, ascending; elements after them are unspecified.
    pub(super) tag: [u8; MOST_TAGS + 1],
    /// The place of each tag's least key.
    least: [u32; MOST_TAGS + 1],
    /// The positions of the first key, and after the last.
    start: u32,
    end: u32,
    pub(super) entries: u128,
}

impl Home {
    fn enter(&mut self, n: u32, entry: u32) {
        self.entries |= u128::from(entry) << (4 * self.tag[n as usize % MOST_TAGS]);
    }
}

/// The homes of one part; and, of all parts so far, the keys for the stash and the counts of duplicates.
pub(super) struct Homes<L: Layout> {
    /// The bucket that the part begins with.
    start: u32,
    pub(super) homes: Vec<Home>,
    /// The keys of all gathered homes, as words of age 1.
    pairs: Vec<(u64, L::Value)>,
    pub(super) stash: Vec<(L::Key, L::Value)>,
    pub(super) duplicates: u64,
    pub(super) least_duplicate: Option<L::Key>,
    /// Tokens that were lost. This cannot happen; if it did, the lost pairs would be reported.
    pub(super) lost: u64,
}

impl<L: Layout> Default for Homes<L> {
    fn default() -> Self {
        Homes {
            start: 0,
            homes: Vec::new(),
            pairs: Vec::new(),
            stash: Vec::new(),
            duplicates: 0,
            least_duplicate: None,
            lost: 0,
        }
    }
}

impl<L: Layout> Homes<L> {
    /// Begins the part that starts with this bucket.
    pub(super) fn clear(&mut self, start: u32) {
        self.start = start;
        self.homes.clear();
        self.pairs.clear();
    }

    /// Gathers the `count` keys of a home: those in its line, which is sorted, and the late ones. Returns the number of
    /// natives; if all keys are natives, they are in the line.
    #[inline(always)]
    pub(super) fn gather(
        &mut self,
        functions: &SignpostFunctions<L::Key>,
        at: u32,
        line: &mut Line,
        count: usize,
        late: impl Iterator<Item = (u64, L::Value)>,
    ) -> Option<usize> {
        let start = self.pairs.len();
        self.pairs.try_reserve(count).ok()?;
        self.pairs.extend((0..count.min(L::SLOTS)).rev().map(|i| pair::<L>(line, i)));
        if count > L::SLOTS + FEW {
            self.pairs.extend(late);
            self.pairs[start..].sort_unstable_by_key(|pair| pair.0);
        } else {
            late.for_each(|pair| insert(&mut self.pairs, start, pair));
        }
        if self.pairs[start..].windows(2).fold(false, |any, two| any | (two[0].0 == two[1].0)) {
            self.drop_duplicates(functions, at, start);
            if self.pairs.len() <= start + L::SLOTS {
                *line = [0; 8];
                let natives = self.pairs[start..].iter().rev().enumerate();
                natives.for_each(|(slot, &native)| put::<L>(line, slot, native));
                let len = self.pairs.len() - start;
                self.pairs.truncate(start);
                return Some(len);
            }
        }
        self.home(functions, at, start)?;
        Some(L::SLOTS)
    }

    /// Of duplicates, keeps the greatest value.
    #[cold]
    fn drop_duplicates(&mut self, functions: &SignpostFunctions<L::Key>, at: u32, start: usize) {
        self.pairs[start..].sort_unstable();
        let mut last = start;
        for i in start + 1..self.pairs.len() {
            let (pair, is_duplicate) = (self.pairs[i], self.pairs[i].0 == self.pairs[last].0);
            last += usize::from(!is_duplicate);
            self.pairs[last] = pair;
            if is_duplicate {
                self.duplicates += 1;
                let key = key_of::<L>(functions, self.start + at, pair.0);
                self.least_duplicate = Some(self.least_duplicate.map_or(key, |least| least.min(key)));
            }
        }
        self.pairs.truncate(last + 1);
    }

    /// Adds a home for the keys gathered from `start` on, which are more than its slots.
    #[inline(always)]
    fn home(&mut self, functions: &SignpostFunctions<L::Key>, line: u32, start: usize) -> Option<()> {
        let end = self.pairs.len();
        let leave = (end - start - L::SLOTS) as u32;
        let mut home = Home {
            line,
            tags: 0,
            tokens: 0,
            tag: [0; MOST_TAGS + 1],
            least: [0; MOST_TAGS + 1],
            start: start as u32,
            end: end as u32,
            entries: 0,
        };
        let mut before = None;
        for (at, &(word, _)) in (start as u32..).zip(&self.pairs[start..]) {
            let tag = tag_of::<L>(functions, word);
            let is_least = before.replace(tag) != Some(tag);
            home.tags += u32::from(is_least);
            let n = (home.tags as usize - 1) % MOST_TAGS;
            home.tag[n] = tag as u8;
            home.least[if is_least { n } else { MOST_TAGS }] = at;
        }
        home.tokens = leave.min(home.tags);
        let has_surplus = leave > home.tags;
        self.homes.try_reserve(1).ok()?;
        self.homes.push(home);
        if has_surplus { self.surplus(functions) } else { Some(()) }
    }

    /// Called if more keys of the last home leave than it has tags: moves some to the stash at once.
    #[cold]
    fn surplus(&mut self, functions: &SignpostFunctions<L::Key>) -> Option<()> {
        let Homes { start, homes, pairs, stash, .. } = self;
        let home = homes.last_mut()?;
        let pairs = &mut pairs[home.start as usize..home.end as usize];
        let leavers = Leavers::of(pairs.iter().map(|pair| tag_of::<L>(functions, pair.0)), L::SLOTS);
        stash.try_reserve(pairs.len() - L::SLOTS).ok()?;
        let (mut n, mut left, mut before) = (0, leavers.surplus, None);
        for pair in pairs {
            let tag = tag_of::<L>(functions, pair.0);
            let is_least = before.replace(tag) != Some(tag);
            let leaves = if is_least { leavers.stashed >> tag & 1 == 1 } else { left > 0 };
            left -= u32::from(!is_least && leaves);
            if is_least {
                n += 1;
                if leaves {
                    home.enter(n - 1, STASH);
                }
            }
            if leaves {
                stash.push((key_of::<L>(functions, *start + home.line, pair.0), pair.1));
                pair.0 = EMPTY;
            }
        }
        Some(())
    }

    /// The tokens of a home that make offers: those whose first tag has no entry yet.
    #[inline(always)]
    pub(super) fn tokens(&self, number: usize) -> impl Iterator<Item = u32> {
        let offers = |home: &Home, token: u32| home.entries >> (4 * home.tag[token as usize % MOST_TAGS]) & 15 == 0;
        let home = self.homes.get(number);
        home.into_iter().flat_map(move |home| (0..home.tokens).filter(move |&token| offers(home, token)))
    }

    /// Removes the key whose offer was accepted, and returns its word and value.
    #[inline(always)]
    pub(super) fn leave(&mut self, offer: Offer) -> Option<(u64, L::Value)> {
        let home = self.homes.get_mut(offer.home)?;
        let (n, function) = offered(home.tags, home.tokens, offer.token, offer.position)?;
        home.enter(n, function);
        let (word, value) = self.pairs.get_mut(home.least[n as usize % MOST_TAGS] as usize)?;
        let age = u64::from(function) << (L::Key::BITS - AGE_BITS);
        Some((std::mem::replace(word, EMPTY) + age, *value))
    }

    /// Moves the least key of a token's first tag to the stash, after all its offers were rejected.
    #[cold]
    pub(super) fn exhausted(&mut self, functions: &SignpostFunctions<L::Key>, number: usize, token: u32) -> Option<()> {
        let home = self.homes.get_mut(number)?;
        home.enter(token, STASH);
        let (word, value) = self.pairs.get_mut(home.least[token as usize % MOST_TAGS] as usize)?;
        self.stash.try_reserve(1).ok()?;
        self.stash.push((key_of::<L>(functions, self.start + home.line, *word), *value));
        *word = EMPTY;
        Some(())
    }

    /// Fills the line of a home with the remaining natives.
    #[inline(always)]
    pub(super) fn natives(&self, home: &Home, line: &mut Line) {
        let mut slot = 0;
        for &pair in self.pairs[home.start as usize..home.end as usize].iter().rev() {
            // There is a word for at most as many keys as there are slots; after the last slot, a key without a word
            // may follow.
            if slot < L::SLOTS {
                put::<L>(line, slot, pair);
            }
            slot += usize::from(pair.0 != EMPTY);
        }
    }
}

/// Inserts a pair in the ascending pairs from `start` on, without a branch.
#[inline(always)]
fn insert<V: Copy>(pairs: &mut Vec<(u64, V)>, start: usize, mut mine: (u64, V)) {
    for there in &mut pairs[start..] {
        let (least, greatest) = if mine.0 < there.0 { (mine, *there) } else { (*there, mine) };
        (*there, mine) = (least, greatest);
    }
    pairs.push(mine);
}

#[inline(always)]
fn tag_of<L: Layout>(functions: &SignpostFunctions<L::Key>, word: u64) -> u32 {
    functions.fields.tag(functions.fields.remainder::<L::Key>(word))
}

fn key_of<L: Layout>(functions: &SignpostFunctions<L::Key>, home: u32, word: u64) -> L::Key {
    functions.key_of(home, functions.fields.remainder::<L::Key>(word))
}
