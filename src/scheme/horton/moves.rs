//! A classic image during changes: single moves, each of which leaves it valid, and the search for space by such moves.
//!
//! ```text
//! entry's items   the pairs in R_i(home, tag) with this home and tag: they move together, or not at all
//! make_free(z, need, depth):   done if z has enough empty slots
//!   for the items of each entry in z:  if another of their R_j has space for all of them, move them there
//!   depth > 1:  for the items of each entry in z, for each R_j not on the path:  make_free(R_j, count, depth - 1)
//!               for each of those items, for each key K at its home:  remap(K, depth - 1), and the item takes K's slot
//! remap(key, depth):  the entry of its tag leads to a bucket with make_free(1, depth), or can be moved with its items
//!                     to another one
//! ```
//!
//! A failed search undoes no moves, because the moved items of an entry are equally valid in their new bucket.
//!
//! Secondary items are stored only in Type A buckets, so no search looks for space in a Type B bucket, and no search
//! has to move a primary item.

use super::Functions;
use super::bucket::{self, range};
use super::tokens::{self, EMPTY};

/// The maximum number of places that a search visits for one pair. At the default loads it needs a few dozen.
const MOST_VISITS: u32 = 4096;

/// Counts of the side effects of insertions and removals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Secondary items that moved to another of their buckets.
    pub relocated: u64,
    /// Buckets that became Type B.
    pub promoted: u64,
    /// Buckets that became Type A again.
    pub demoted: u64,
    /// Primary items that were exchanged for one without a slot.
    pub swapped: u64,
    /// Secondary items that moved to their home.
    pub repatriated: u64,
    /// The depth of the deepest successful search.
    pub deepest: u32,
    /// The number of places that all searches visited.
    pub visits: u64,
}

/// The state of a search.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    /// Buckets in which slots are being freed: nothing is moved to them.
    pub(super) buckets: Vec<u32>,
    /// Homes with a key that is being remapped: no other key of these homes is exchanged.
    pub(super) homes: Vec<u32>,
}

impl Path {
    /// The path of a search that begins with a key of this home.
    pub(super) fn from(home: u32) -> Self {
        Path { buckets: Vec::new(), homes: vec![home] }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Move,
    Deeper,
    Exchange,
}

/// A classic image and the search's budget.
pub(super) struct Table<'a> {
    pub(super) functions: &'a Functions,
    pub(super) image: &'a mut [u64],
    pub(super) moves: Moves,
    pub(super) height: u32,
    visits_left: u32,
}

impl<'a> Table<'a> {
    pub(super) fn new(functions: &'a Functions, height: u32, image: &'a mut [u64]) -> Self {
        Table { functions, image, moves: Moves::default(), height, visits_left: MOST_VISITS }
    }

    /// Resets the budget for the next pair.
    pub(super) fn begin(&mut self) {
        self.visits_left = MOST_VISITS;
    }

    pub(super) fn is_type_b(&self, at: u32) -> bool {
        bucket::is_type_b(self.functions, self.image, at)
    }

    /// The words of the pairs in a bucket.
    pub(super) fn pairs(&self, at: u32) -> impl DoubleEndedIterator<Item = u64> + '_ {
        bucket::pairs(self.functions, self.image, at).iter().copied().filter(|&word| word != EMPTY)
    }

    /// The number of empty slots for pairs.
    pub(super) fn free(&self, at: u32) -> usize {
        if self.is_type_b(at) { 0 } else { self.functions.slots as usize - self.pairs(at).count() }
    }

    /// Home and tag of the pair in a word.
    pub(super) fn home(&self, word: u64) -> (u32, u32) {
        self.functions.home(tokens::key(word))
    }

    /// The remap entry of a tag; 0 in a Type A bucket.
    pub(super) fn entry(&self, home: u32, tag: u32) -> u32 {
        tokens::entry(bucket::array(self.functions, self.image, home), tag, self.functions.bits)
    }

    /// Writes a remap entry of a Type B bucket.
    pub(super) fn set_entry(&mut self, home: u32, tag: u32, code: u32) {
        if self.is_type_b(home) {
            let array = &mut self.image[range(self.functions, home).end - 1];
            *array = tokens::with_entry(*array, tag, self.functions.bits, code);
        }
    }

    /// Replaces one word of a bucket by another and sorts the words; returns false if `old` is missing. The type of the
    /// bucket does not change.
    pub(super) fn replace(&mut self, at: u32, old: u64, new: u64) -> bool {
        let type_b = self.is_type_b(at);
        let words = &mut self.image[range(self.functions, at)];
        let count = words.len() - usize::from(type_b);
        let Some(slot) = words[..count].iter_mut().find(|word| **word == old) else { return false };
        *slot = new;
        if type_b {
            words[..count].sort_unstable_by(|a, b| b.cmp(a));
        } else {
            words.sort_unstable();
        }
        true
    }

    /// Writes a pair into an empty slot of a Type A bucket.
    pub(super) fn put(&mut self, at: u32, word: u64) -> bool {
        !self.is_type_b(at) && self.replace(at, EMPTY, word)
    }

    /// The items of an entry, in the bucket that it leads to.
    pub(super) fn items(&self, home: u32, tag: u32) -> Vec<u64> {
        bucket::led_away(self.functions, self.image, home, tag, &[]).collect()
    }

    /// All items of a home that are stored in other buckets.
    pub(super) fn items_away(&self, home: u32) -> Vec<u64> {
        (0..self.functions.tags).flat_map(|tag| self.items(home, tag)).collect()
    }

    /// The entries, as home and tag, of the secondary items in a bucket.
    pub(super) fn entries_in(&self, at: u32) -> Vec<(u32, u32)> {
        let mut entries: Vec<_> = self.pairs(at).map(|word| self.home(word)).filter(|&(home, _)| home != at).collect();
        entries.sort_unstable();
        entries.dedup();
        entries
    }

    /// The first function with the least loaded bucket among those with at least `count` free slots that are not in
    /// `avoid`.
    pub(super) fn least_loaded(&self, home: u32, tag: u32, count: usize, avoid: &[u32]) -> Option<u32> {
        (1..=self.functions.count)
            .map(|i| (i, self.functions.remap(home, tag, i)))
            .filter(|(_, at)| !avoid.contains(at))
            .map(|(i, at)| (i, self.free(at)))
            .filter(|&(_, free)| free >= count)
            .max_by_key(|&(i, free)| (free, std::cmp::Reverse(i)))
            .map(|(i, _)| i)
    }

    /// Moves the items of an entry to the bucket of another function, which must have enough free slots.
    pub(super) fn relocate(&mut self, home: u32, tag: u32, to: u32) {
        let items = self.items(home, tag);
        let from = self.functions.remap(home, tag, self.entry(home, tag).max(1));
        let target = self.functions.remap(home, tag, to);
        for &word in &items {
            self.replace(from, word, EMPTY);
            self.put(target, word);
        }
        self.set_entry(home, tag, to);
        self.moves.relocated += items.len() as u64;
    }

    /// Frees slots of a Type A bucket until `need` are empty, by searches of depth `depth`. The items of the entry
    /// `keep` are not moved, and nothing is moved to the buckets of the path.
    pub(super) fn make_free(
        &mut self,
        at: u32,
        need: usize,
        depth: u32,
        keep: Option<(u32, u32)>,
        path: &mut Path,
    ) -> bool {
        if self.is_type_b(at) || path.buckets.contains(&at) {
            return false;
        }
        path.buckets.push(at);
        let mut found = self.free(at) >= need;
        // Single moves are tried before deeper searches, and exchanges last.
        for stage in [Stage::Move, Stage::Deeper, Stage::Exchange] {
            if found || depth == 0 || stage != Stage::Move && depth == 1 {
                break;
            }
            for (home, tag) in self.entries_in(at) {
                if !found && Some((home, tag)) != keep && self.spend() {
                    self.thin(at, home, tag, depth, stage, path);
                    found = self.free(at) >= need;
                }
            }
        }
        path.buckets.pop();
        if found {
            self.moves.deepest = self.moves.deepest.max(depth);
        }
        found
    }

    /// Moves the items of one entry, or one of them, out of a bucket, if this stage of the search can.
    fn thin(&mut self, at: u32, home: u32, tag: u32, depth: u32, stage: Stage, path: &mut Path) {
        let items = self.items(home, tag);
        // The entry leads to another bucket only in a damaged image.
        if items.is_empty() || self.functions.remap(home, tag, self.entry(home, tag)) != at {
            return;
        }
        let to = match stage {
            Stage::Move => self.least_loaded(home, tag, items.len(), &path.buckets),
            Stage::Deeper => self.deeper(home, tag, items.len(), depth - 1, path),
            Stage::Exchange => {
                if let Some(&item) = items.iter().find(|&&item| self.exchange(home, item, depth - 1, path)) {
                    self.replace(at, item, EMPTY);
                    self.clear_if_unused(home, tag);
                }
                None
            }
        };
        if let Some(to) = to {
            self.relocate(home, tag, to);
        }
    }

    /// The first function in whose bucket slots can be freed.
    fn deeper(&mut self, home: u32, tag: u32, need: usize, depth: u32, path: &mut Path) -> Option<u32> {
        (1..=self.functions.count)
            .find(|&i| self.make_free(self.functions.remap(home, tag, i), need, depth, None, path))
    }

    /// Gives a key of a Type B bucket the slot of another key that can be remapped. The caller must remove the key from
    /// its old place, if it has one.
    pub(super) fn exchange(&mut self, home: u32, word: u64, depth: u32, path: &mut Path) -> bool {
        if path.homes.contains(&home) || !self.is_type_b(home) {
            return false;
        }
        path.homes.push(home);
        let tag = self.home(word).1;
        let residents: Vec<_> = self.pairs(home).collect();
        // Another key of the same tag would not find space either.
        let mut others = residents.into_iter().filter(|&resident| self.functions.home(tokens::key(resident)).1 != tag);
        let leaver = loop {
            let Some(resident) = others.next() else { break None };
            if self.spend() && self.remap(home, resident, depth, path) {
                break Some(resident);
            }
        };
        path.homes.pop();
        self.moves.swapped += u64::from(leaver.is_some());
        leaver.is_some_and(|resident| self.replace(home, resident, word))
    }

    /// Sections 5.3.2 and 5.3.4: moves a key of a Type B bucket to where the entry of its tag leads, or sets the entry.
    /// The caller must remove the key from its home, if it is stored there.
    pub(super) fn remap(&mut self, home: u32, word: u64, depth: u32, path: &mut Path) -> bool {
        let tag = self.home(word).1;
        let entry = self.entry(home, tag);
        let mut count = 1;
        if entry != 0 {
            let there = self.functions.remap(home, tag, entry);
            if self.make_free(there, 1, depth, Some((home, tag)), path) {
                return self.put(there, word);
            }
            if path.buckets.contains(&there) {
                return false;
            }
            count += self.items(home, tag).len();
            path.buckets.push(there);
        }
        let to = self.least_loaded(home, tag, count, &path.buckets);
        let to = to.or_else(|| self.deeper(home, tag, count, depth, path));
        if entry != 0 {
            path.buckets.pop();
        }
        let Some(to) = to else { return false };
        if entry != 0 {
            self.relocate(home, tag, to);
        }
        self.set_entry(home, tag, to);
        self.put(self.functions.remap(home, tag, to), word)
    }

    pub(super) fn clear_if_unused(&mut self, home: u32, tag: u32) {
        if self.items(home, tag).is_empty() {
            self.set_entry(home, tag, 0);
        }
    }

    fn spend(&mut self) -> bool {
        let left = self.visits_left > 0;
        self.visits_left -= u32::from(left);
        self.moves.visits += u64::from(left);
        left
    }
}
