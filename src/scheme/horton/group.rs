//! The keys of one home bucket, and the rule that selects the keys that leave it (canonical tables).
//!
//! ```text
//! group     = the pairs of one home bucket, sorted by (tag, key)
//! least     = the first pair of each tag: the one that leaves if the tag's entry is set
//! leavers   = n > S ? n - (S - 1) : 0;   tokens = min(leavers, tags present)
//! surplus   = the first (leavers - tokens) pairs that are not their tag's least: they leave for the stash, and so do
//!             the least pairs of their tags
//! ```

use super::Functions;
use super::tokens;

/// A pair with its home and tag, in the sort order of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    /// The home bucket.
    pub home: u32,
    /// The tag.
    pub tag: u32,
    /// Key and value.
    pub word: u64,
}

impl Item {
    /// The item of a word.
    pub(crate) fn new(functions: &Functions, word: u64) -> Self {
        let (home, tag) = functions.home(tokens::key(word));
        Item { home, tag, word }
    }
}

/// The sorted, distinct items of one home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a> {
    /// The items, sorted by tag, then key.
    pub items: &'a [Item],
    /// A bit for each tag that occurs.
    pub mask: u32,
    /// The number of items that must leave.
    pub leavers: u32,
    /// The number of leavers that are tokens; the others are surplus.
    pub tokens: u32,
}

impl<'a> Group<'a> {
    /// The group of these items, in buckets of this many slots.
    pub(crate) fn new(items: &'a [Item], slots: u32) -> Self {
        let mask = items.iter().fold(0, |mask, item| mask | 1 << item.tag);
        let leavers = tokens::leavers(items.len() as u32, slots);
        Group { items, mask, leavers, tokens: tokens::token_count(items.len() as u32, slots, mask) }
    }

    /// Whether this item, by number, is the least of its tag.
    pub(crate) fn is_least(&self, at: usize) -> bool {
        at == 0 || self.items[at - 1].tag != self.items[at].tag
    }

    /// The least item of a tag.
    pub(crate) fn least(&self, tag: u32) -> Option<Item> {
        self.items.iter().find(|item| item.tag == tag).copied()
    }

    /// The numbers of the items that go to the stash because there are fewer tags than leavers.
    pub(crate) fn surplus(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.items.len()).filter(|&at| !self.is_least(at)).take((self.leavers - self.tokens) as usize)
    }

    /// A bit for each tag whose entry means the stash from the start.
    pub(crate) fn stash_tags(&self) -> u32 {
        self.surplus().fold(0, |mask, at| mask | 1 << self.items[at].tag)
    }

    /// Tag and function of a token's proposal at an age; `None` past its last one.
    pub(crate) fn step(&self, token: u32, age: u32, functions: &Functions) -> Option<(u32, u32)> {
        tokens::step(self.mask, self.tokens, token, age, functions.count)
    }

    /// For each item: whether it leaves, given the remap entries, and the entry of its tag.
    pub(crate) fn leaving(&self, array: u64, bits: u32) -> impl Iterator<Item = (Item, bool, u32)> + '_ {
        let mut surplus = self.surplus().peekable();
        self.items.iter().enumerate().map(move |(at, &item)| {
            let code = tokens::entry(array, item.tag, bits);
            let left_over = surplus.next_if_eq(&at).is_some();
            (item, left_over || code != 0 && self.is_least(at), code)
        })
    }
}
