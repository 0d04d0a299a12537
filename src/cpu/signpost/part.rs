//! One part of a new table: `scheme/signpost/rule.rs` in a core's cache.
//!
//! ```text
//! take      the part's pairs sorted by home (by counting), then each home's by remainder; of copies the greatest value stays
//! fill      tokens of each home offer, in turn, and rooms keep the greatest; then signposts; then lines, as guests in
//!           descending order, natives in descending order, nothing
//! ```
//!
//! An offer is 32 bits that compare as the rule says: `[1][position 10][!home 12][!token 5]`, with homes numbered within
//! the part.

use crate::backend::Word;
use crate::cpu::bucketized::wide::parts::PART_BITS;
use crate::scheme::bucketized::wide::{Layout, Line, SlotKey, lines, pair, put};
use crate::scheme::signpost::group::{CYCLES, Leavers};
use crate::scheme::signpost::post::{FUNCTIONS, Posts, STASH};
use crate::scheme::signpost::rule::write_entries;
use crate::scheme::signpost::{SignpostFunctions, post};

const PART_LINES: usize = 1 << PART_BITS;
// A table whose signposts stand behind its lines has one part.
const _: () = assert!(post::MIN_BUCKETS_WITHIN as usize <= PART_LINES);

const TOKEN_BITS: u32 = 5;
/// An offer's bits: there is one.
const OFFER: u32 = 1 << 31;
const _: () = assert!(CYCLES * FUNCTIONS * 32 < 1 << (31 - TOKEN_BITS - PART_BITS));

/// What a thread works in, and what it has found in all its parts.
pub(super) struct Room<L: Layout> {
    /// The pairs of the part as words of age 1, by home.
    pairs: Vec<(u64, L::Value)>,
    /// Where those of each home begin, and how many there are without copies.
    starts: Vec<u32>,
    lens: Vec<u32>,
    leavers: Vec<Leavers>,
    /// The offers that each line keeps.
    kept: Vec<u32>,
    entries: Vec<u128>,
    start: u32,
    pub(super) stash: Vec<(L::Key, L::Value)>,
    /// The entries of a table whose words have no room for them.
    pub(super) behind: Vec<u128>,
    pub(super) copies: u64,
    pub(super) least_copy: Option<L::Key>,
}

impl<L: Layout> Default for Room<L> {
    fn default() -> Self {
        Room {
            pairs: Vec::new(),
            starts: Vec::new(),
            lens: Vec::new(),
            leavers: Vec::new(),
            kept: Vec::new(),
            entries: Vec::new(),
            start: 0,
            stash: Vec::new(),
            behind: Vec::new(),
            copies: 0,
            least_copy: None,
        }
    }
}

/// A vector of so many copies, if there is the memory.
fn filled<T: Clone>(vec: &mut Vec<T>, len: usize, value: T) -> Option<()> {
    vec.clear();
    vec.try_reserve(len).ok()?;
    vec.resize(len, value);
    Some(())
}

impl<L: Layout> Room<L> {
    /// Sorts the rows of a part that begins with this bucket.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        functions: &SignpostFunctions<L::Key>,
        start: u32,
        dealt: [(&[u64], usize); 2],
        escapes: &[(L::Key, L::Value)],
    ) -> Option<()> {
        let lines = (functions.buckets - start).min(PART_LINES as u32) as usize;
        self.start = start;
        filled(&mut self.starts, lines + 2, 0)?;
        let place = |(mixed, value): (L::Key, L::Value)| {
            let (home, low) = mixed.split(functions.buckets);
            let remainder = L::Key::low(low.into() >> functions.fields.post_bits);
            ((home - start) as usize, (functions.fields.word(1, remainder), value))
        };
        let mut count = 0;
        each_row::<L>(dealt, escapes, |row| {
            count += 1;
            self.starts[place(row).0 + 2] += 1;
        });
        filled(&mut self.pairs, count, (0, Word::low(0)))?;
        for line in 2..lines + 2 {
            self.starts[line] += self.starts[line - 1];
        }
        each_row::<L>(dealt, escapes, |row| {
            let (line, pair) = place(row);
            let at = &mut self.starts[line + 1];
            self.pairs[*at as usize] = pair;
            *at += 1;
        });
        filled(&mut self.lens, lines, 0)?;
        filled(&mut self.leavers, lines, Leavers::default())?;
        for line in 0..lines {
            let group = &mut self.pairs[self.starts[line] as usize..self.starts[line + 1] as usize];
            sort(group);
            self.lens[line] = group.len() as u32;
            if group.windows(2).any(|two| two[0].0 == two[1].0) {
                self.drop_copies(functions, line);
            }
            if self.lens[line] as usize > L::SLOTS {
                let tags = self
                    .group(line)
                    .iter()
                    .map(|pair| functions.fields.tag(L::Key::low(remainder_of::<L>(functions, pair.0))));
                self.leavers[line] = Leavers::of(tags, L::SLOTS);
            }
        }
        Some(())
    }

    /// The pairs of a home, each key once.
    fn group(&self, line: usize) -> &[(u64, L::Value)] {
        &self.pairs[self.starts[line] as usize..][..self.lens[line] as usize]
    }

    /// Of copies the greatest value stays, which is the last.
    #[cold]
    fn drop_copies(&mut self, functions: &SignpostFunctions<L::Key>, line: usize) {
        let group = &mut self.pairs[self.starts[line] as usize..self.starts[line + 1] as usize];
        let mut len = 0;
        for i in 0..group.len() {
            if len > 0 && group[len - 1].0 == group[i].0 {
                group[len - 1] = group[i];
                self.copies += 1;
                let key =
                    functions.key_of(self.start + line as u32, L::Key::low(remainder_of::<L>(functions, group[i].0)));
                self.least_copy = Some(self.least_copy.map_or(key, |least| least.min(key)));
            } else {
                group[len] = group[i];
                len += 1;
            }
        }
        self.lens[line] = len as u32;
    }

    /// Writes the lines of the part that was taken.
    #[inline(always)]
    pub(super) fn fill(&mut self, functions: &SignpostFunctions<L::Key>, lines: &mut [Line]) -> Option<()> {
        filled(&mut self.kept, lines.len() * L::SLOTS, 0)?;
        filled(&mut self.entries, lines.len(), 0)?;
        for line in 0..lines.len() {
            let leavers = self.leavers[line];
            for token in (0..leavers.tokens).filter(|&token| leavers.offers(token)) {
                if let Some((line, token)) = self.follow(functions, line, token) {
                    self.entries[line] |= u128::from(STASH) << (4 * self.leavers[line].tag(token, 0));
                }
            }
            for tag in (0..32).filter(|tag| leavers.stashed >> tag & 1 == 1) {
                self.entries[line] |= u128::from(STASH) << (4 * tag);
            }
        }
        for &offer in self.kept.iter().filter(|&&offer| offer != 0) {
            let (line, token, position) = unpacked(offer);
            if let Some((tag, function)) = self.leavers[line].offer(token, position) {
                self.entries[line] |= u128::from(function) << (4 * tag);
            }
        }
        for (at, line) in lines.iter_mut().enumerate() {
            *line = self.line(functions, at)?;
            write_entries::<L>(functions.posts, line, self.entries[at]);
        }
        if functions.posts == Posts::Behind {
            self.behind = std::mem::take(&mut self.entries);
        }
        Some(())
    }

    /// Follows one token, and all whom it displaces, to the end; home and number of the one that went past its last offer.
    fn follow(&mut self, functions: &SignpostFunctions<L::Key>, line: usize, token: u32) -> Option<(usize, u32)> {
        let (mut line, mut token, mut position) = (line, token, 0);
        loop {
            let Some((tag, function)) = self.leavers[line].offer(token, position) else { return Some((line, token)) };
            // Who is alone in its part has nowhere to go.
            let home = self.start + line as u32;
            let to = functions.guest(home, tag, function).map_or(line, |bucket| (bucket - self.start) as usize);
            let taken = (self.lens[to] as usize).min(L::SLOTS);
            let rooms = &mut self.kept[to * L::SLOTS + taken..(to + 1) * L::SLOTS];
            let mine = packed(line, token, position);
            if let Some(least) = rooms.iter_mut().min().filter(|least| **least < mine) {
                let displaced = std::mem::replace(least, mine);
                if displaced == 0 {
                    return None;
                }
                (line, token, position) = unpacked(displaced);
            }
            position += 1;
        }
    }

    /// The words and values of a line, without entries; those of its home that go to the stash are put there.
    #[inline(always)]
    fn line(&mut self, functions: &SignpostFunctions<L::Key>, at: usize) -> Option<Line> {
        let mut line = [0; 8];
        let len = self.lens[at] as usize;
        if len > L::SLOTS {
            self.full_line(functions, at, &mut line)?;
            return Some(line);
        }
        let mut guests = [(0, L::Value::low(0)); 16];
        let mut count = 0;
        for i in len..L::SLOTS {
            let offer = self.kept[at * L::SLOTS + i];
            if offer == 0 {
                continue;
            }
            let (home, token, position) = unpacked(offer);
            let Some((tag, function)) = self.leavers[home].offer(token, position) else { continue };
            let is_tags = |pair: &&(u64, L::Value)| {
                functions.fields.tag(L::Key::low(remainder_of::<L>(functions, pair.0))) == tag
            };
            let Some(&(word, value)) = self.group(home).iter().find(is_tags) else { continue };
            guests[count] =
                (functions.fields.word(function + 1, L::Key::low(remainder_of::<L>(functions, word))), value);
            count += 1;
        }
        sort(&mut guests[..count]);
        for (slot, &guest) in guests[..count].iter().rev().enumerate() {
            put::<L>(&mut line, slot, guest);
        }
        for (slot, &native) in (count..).zip(self.group(at).iter().rev()) {
            put::<L>(&mut line, slot, native);
        }
        Some(line)
    }

    /// The line of a home whose keys do not all find room.
    fn full_line(&mut self, functions: &SignpostFunctions<L::Key>, at: usize, line: &mut Line) -> Option<()> {
        let (entries, mut surplus) = (self.entries[at], self.leavers[at].surplus);
        let (first, len) = (self.starts[at] as usize, self.lens[at] as usize);
        let (mut before, mut slot) = (None, L::SLOTS);
        for i in first..first + len {
            let (word, value) = self.pairs[i];
            let remainder = L::Key::low(remainder_of::<L>(functions, word));
            let tag = functions.fields.tag(remainder);
            let entry = (entries >> (4 * tag)) as u32 & 15;
            let is_least = before.replace(tag) != Some(tag);
            let is_surplus = !is_least && surplus > 0;
            surplus -= u32::from(is_surplus);
            if is_surplus || is_least && entry == STASH {
                self.stash.try_reserve(1).ok()?;
                self.stash.push((functions.key_of(self.start + at as u32, remainder), value));
            } else if !is_least || entry == 0 {
                slot = slot.wrapping_sub(1);
                if slot < L::SLOTS {
                    put::<L>(line, slot, (word, value));
                }
            }
        }
        Some(())
    }
}

/// Calls `each` for all rows of a part.
#[inline(always)]
fn each_row<L: Layout>(
    dealt: [(&[u64], usize); 2],
    escapes: &[(L::Key, L::Value)],
    mut each: impl FnMut((L::Key, L::Value)),
) {
    for (words, count) in dealt {
        for i in 0..count {
            let (mixed, value) = pair::<L>(&lines(words)[i / L::SLOTS], i % L::SLOTS);
            each((L::Key::low(mixed), value));
        }
    }
    escapes.iter().for_each(|&row| each(row));
}

/// The remainder in a word without entries.
#[inline(always)]
fn remainder_of<L: Layout>(functions: &SignpostFunctions<L::Key>, word: u64) -> u64 {
    functions.fields.remainder::<L::Key>(word).into()
}

/// Brings a few pairs into ascending order.
#[inline(always)]
fn sort<V: Copy + Ord>(pairs: &mut [(u64, V)]) {
    if pairs.len() > 24 {
        return pairs.sort_unstable();
    }
    for sorted in 1..pairs.len() {
        let mine = pairs[sorted];
        let mut at = sorted;
        while at > 0 && pairs[at - 1] > mine {
            pairs[at] = pairs[at - 1];
            at -= 1;
        }
        pairs[at] = mine;
    }
}

fn packed(line: usize, token: u32, position: u32) -> u32 {
    let ones = |bits: u32| (1 << bits) - 1;
    OFFER
        | position << (PART_BITS + TOKEN_BITS)
        | (ones(PART_BITS) - line as u32) << TOKEN_BITS
        | (ones(TOKEN_BITS) - token)
}

fn unpacked(offer: u32) -> (usize, u32, u32) {
    let low = |of: u32, bits: u32| of & ((1 << bits) - 1);
    let line = low(!(offer >> TOKEN_BITS), PART_BITS) as usize;
    (line, low(!offer, TOKEN_BITS), (offer & !OFFER) >> (PART_BITS + TOKEN_BITS))
}
