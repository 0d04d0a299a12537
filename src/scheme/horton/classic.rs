//! The paper's own table: insertions one by one (Sections 5.3.1 to 5.3.4), deletion with repatriation (5.4).
//!
//! ```text
//! insert(key):   home has an empty slot:                      store it there                          (primary insert)
//!                home is Type A with secondary items:         move one of them away, then store it there
//!                home is Type A, only its own keys:           it becomes Type B; the key in its last slot and the new
//!                                                             one are remapped                            (promotion)
//!                home is Type B:                              the new key is remapped             (secondary insert)
//! remap(key):    entry of its tag set:     to the bucket that it leads to, after moving secondary items if necessary, or
//!                                          with the entry's other items to a bucket with enough free slots
//!                not set:                  to the least loaded of R_1 .. R_F, or where secondary items can be moved
//!                neither works:            another key of the home is remapped, and this one takes its slot
//!                nor that:                 unplaced
//! remove(key):   clears its slot;  clears its entry if that was the last of its items;
//!                S keys of this home left:  it becomes Type A and its keys move home             (section 5.4.1, eager)
//!                more, and the key was at home:  one of the remapped keys moves home
//! ```
//!
//! The rules that hold after every operation, and that the audit checks:
//! 1. A bucket is Type B if and only if more than S keys have it as home. Then it stores S - 1 of them, and nothing
//!    else.
//! 2. So a bucket does not store secondary items if some of its own keys are stored elsewhere: primary items displace
//!    secondary ones, never the reverse (guidelines 1 and 2), and a bucket is promoted only when it is full of its own
//!    keys (guideline 3).
//! 3. Items that share a remap entry are stored in one bucket; an entry is set if and only if it has an item.
//!
//! Guideline 3 of the paper lets a bucket become Type B with a secondary item that cannot be moved. Here that item's
//! home exchanges it for another of its keys; if no key of that home can move either, the insertion fails. In return,
//! the number of remapped keys depends only on the keys: it does not grow with the number of removals.
//!
//! The table is not canonical. Which keys leave a bucket, and for which of their buckets, depends on the order.
//!
//! Measured: 2^16 slots filled sequentially with random keys to 0.88, 0.95, 0.96 (S = 4, 8, 16), six seeds each: no key
//! failed; 0.055, 0.049, 0.015 relocations per key, and the deepest search was 3. After 100 rounds of replacing half
//! the keys at load 0.80 (2^14 slots, S = 8) hits cost exactly as much as in a fresh table, and I_alias was 0.2% lower.
//!
//! Lifetime of tables in which half of the keys are replaced repeatedly (2^16 slots, four seeds, 16 rounds, about
//! 500,000 insertions per seed): no failure with S = 8 at loads up to 0.95 and S = 16 up to 0.96. With S = 4 one
//! insertion in some hundred thousand fails, even at 0.75 and with short searches: few of its residents can leave, and
//! items that share an entry do not find four free slots together. Such a table is rebuilt, which fails for large
//! tables: with 2^22 keys, tables of S = 4 are built at 0.60 without a restart, at 0.70 with two, and at 0.85 not in 32
//! attempts; with 16 entries of 4 bits at 0.70 without a restart.

use super::Functions;
use super::bucket;
use super::moves::{Moves, Path, Table};
use super::tokens::{self, EMPTY, EMPTY_KEY};
use crate::scheme::Placing;

/// Inserts pairs in order, with searches of up to `height` moves, and returns what was moved.
pub(crate) fn place(functions: &Functions, height: u32, image: &mut [u64], pairs: &[(u32, u32)]) -> (Placing, Moves) {
    let mut table = Table::new(functions, height, image);
    let placing = Placing::of_each(pairs, |key, value| table.insert(key, value));
    (placing, table.moves)
}

/// Removes these keys, and returns the number of keys that were in the image.
pub(crate) fn remove(functions: &Functions, image: &mut [u64], keys: &[u32]) -> u64 {
    let mut table = Table::new(functions, 1, image);
    keys.iter().filter(|&&key| table.remove(key)).count() as u64
}

impl Table<'_> {
    fn insert(&mut self, key: u32, value: u32) -> Placing {
        if key == EMPTY_KEY {
            return Placing::Duplicate(key);
        }
        let new = tokens::word(key, value);
        if let Some(at) = bucket::search(self.functions, self.image, key).1 {
            // The same key in the same place, so the bucket stays sorted.
            self.image[at] = self.image[at].max(new);
            return Placing::Duplicate(key);
        }
        self.begin();
        let (home, _) = self.functions.home(key);
        let placed = if self.is_type_b(home) {
            self.secondary(home, new)
        } else if self.pairs(home).filter(|&word| self.home(word).0 == home).count() == self.functions.slots as usize {
            self.promote(home, new)
        } else {
            (0..=self.height).any(|depth| self.make_free(home, 1, depth, None, &mut Path::default()))
                && self.put(home, new)
        };
        if placed { Placing::Placed } else { Placing::Unplaced }
    }

    /// Section 5.3.3: a Type A bucket full of its own keys gives its last slot to remap entries.
    fn promote(&mut self, home: u32, new: u64) -> bool {
        let mut stay: Vec<_> = self.pairs(home).collect();
        let Some(last) = stay.pop() else { return false };
        bucket::write_b(&mut self.image[bucket::range(self.functions, home)], &stay, 0);
        self.moves.promoted += 1;
        self.secondary(home, last) && self.secondary(home, new)
    }

    /// Finds a place for a key of a Type B bucket: its own, or that of another key of its home that can leave instead.
    /// The depth increases, so that the shortest moves are used.
    fn secondary(&mut self, home: u32, word: u64) -> bool {
        (0..=self.height).any(|depth| self.remap(home, word, depth, &mut Path::from(home)))
            || (0..=self.height).any(|depth| self.exchange(home, word, depth, &mut Path::default()))
    }

    /// Section 5.4, with the repatriation of 5.4.1 at once.
    fn remove(&mut self, key: u32) -> bool {
        if key == EMPTY_KEY {
            return false;
        }
        let (home, tag) = self.functions.home(key);
        let Some(at) = bucket::search(self.functions, self.image, key).1 else { return false };
        let (word, stood) = (self.image[at], at as u64 / u64::from(self.functions.slots));
        let here = stood == u64::from(home);
        if !self.is_type_b(home) {
            return self.replace(home, word, EMPTY);
        }
        if !here {
            self.replace(stood as u32, word, EMPTY);
            self.clear_if_unused(home, tag);
        }
        let mut keys: Vec<_> = self.pairs(home).filter(|&resident| resident != word).collect();
        let away = self.items_away(home);
        if keys.len() + away.len() <= self.functions.slots as usize {
            for &item in &away {
                self.take_away(home, item);
                keys.push(item);
            }
            bucket::write_a(&mut self.image[bucket::range(self.functions, home)], &keys);
            self.moves.demoted += 1;
        } else if here {
            // Prefers the first remapped key that does not share its entry, because clearing the entry makes misses
            // cheaper too.
            let alone = |item: &u64| self.items(home, self.home(*item).1).len() == 1;
            let Some(item) = away.iter().copied().find(alone).or(away.first().copied()) else { return false };
            self.take_away(home, item);
            self.replace(home, word, item);
        }
        true
    }

    /// Removes a remapped key from the bucket that its entry leads to, and clears the entry if it was the last item
    /// there.
    fn take_away(&mut self, home: u32, item: u64) {
        let tag = self.home(item).1;
        let from = self.functions.remap(home, tag, self.entry(home, tag).max(1));
        self.replace(from, item, EMPTY);
        self.clear_if_unused(home, tag);
        self.moves.repatriated += 1;
    }
}
