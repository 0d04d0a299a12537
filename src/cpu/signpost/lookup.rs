//! Lookups: a chunk of keys probes its home lines, and then the keys with a signpost probe their guest lines.
//!
//! ```text
//! homes    for each block of 128 keys:   hash all
//!                                        probe the previous block, whose lines were prefetched one block earlier; with
//!                                        each key prefetch the line of one key of this block
//!          probe:  compares all words of the line at once; lists the keys that are missing
//!          then for each of those:       a signpost that is not 0: list number and entry
//!                                        (if most keys of the last block were missing: during the probe, without a list)
//! guests   the same with the listed keys, whose lines and words follow from their entries
//! stash    the few keys whose signposts lead there, one by one
//! ```
//!
//! As in `bucketized/lookup.rs`, there are no branches on results, and data is read in the pieces in which it was
//! written. Keys are hashed again for their guest line, which costs less than storing 12 bytes per key.

use crate::backend::Word;
use crate::cpu::lanes::Lanes;
use crate::cpu::lines::{Finds, Hit};
use crate::cpu::memory::prefetch;
use crate::cpu::{BLOCK, CHUNK};
use crate::scheme::bucketized::wide::{Layout, Line, SlotKey, canonical};
use crate::scheme::signpost::SignpostFunctions;
use crate::scheme::signpost::post::{self, FUNCTIONS, Posts, STASH};

impl<L: Layout> Finds<L> for SignpostFunctions<L::Key> {
    #[inline(always)]
    fn each_hit(&self, lanes: impl Lanes, lines: &[Line], keys: &[L::Key], mut then: impl FnMut(Hit)) {
        let mut led = Led { numbers: [0; CHUNK], entries: [0; CHUNK] };
        for (start, keys) in (0..).step_by(CHUNK).zip(keys.chunks(CHUNK)) {
            // Compiled separately, so that no key tests where signposts are stored.
            let left = if self.posts == Posts::Behind {
                homes::<L, true>(lanes, self, lines, (start, keys), &mut led, &mut then)
            } else {
                homes::<L, false>(lanes, self, lines, (start, keys), &mut led, &mut then)
            };
            guests::<L>(lanes, self, lines, (start, keys), &led, left, &mut then);
        }
    }
    #[inline(always)]
    fn key_of(&self, line: usize, _: usize, word: u64) -> L::Key {
        match (line as u32).checked_sub(self.buckets) {
            Some(of_stash) => self.stash.key_of(of_stash, word),
            None => {
                self.pair_in(line as u32, word & self.fields.of_pair::<L::Key>()).map_or(L::Key::low(0), |pair| pair.1)
            }
        }
    }
}

/// The keys of a chunk whose signposts are set.
struct Led {
    numbers: [u16; CHUNK],
    entries: [u8; CHUNK],
}

/// The places of the keys of a block. It is copied, since swapping two pointers costs registers.
#[derive(Clone, Copy)]
struct Aimed<K> {
    lines: [u32; BLOCK],
    /// Words without entries.
    words: [K; BLOCK],
}

impl<K: SlotKey> Aimed<K> {
    fn new() -> Self {
        Aimed { lines: [0; BLOCK], words: [K::low(0); BLOCK] }
    }
}

/// The distance from one slot's word to the next one's, in the sixteen 32-bit lanes of a line.
const fn stride<L: Layout>() -> u32 {
    L::WORD_STRIDE as u32 * L::Key::BITS / u32::BITS
}

/// The lanes in which the words of slots begin, one bit each.
fn beginnings<L: Layout>() -> u32 {
    (0..L::SLOTS as u32).fold(0, |bits, i| bits | 1 << (i * stride::<L>()))
}

/// Returns the slot that contains a word, and whether one does; if none does, an arbitrary slot.
#[inline(always)]
fn compare<L: Layout>(
    lanes: impl Lanes,
    functions: &SignpostFunctions<L::Key>,
    line: &Line,
    word: L::Key,
) -> (usize, bool) {
    let everywhere = |word: u64| if L::Key::BITS == u64::BITS { word } else { word << 32 | word };
    let same = lanes.same(line, everywhere(word.into()), everywhere(functions.fields.of_pair::<L::Key>()));
    let same = if L::Key::BITS == u64::BITS { same & same >> 1 } else { same } & beginnings::<L>();
    ((same.trailing_zeros() / stride::<L>()) as usize % L::SLOTS.next_power_of_two() % L::SLOTS, same != 0)
}

/// The entry of a word's tag in a bucket.
#[inline(always)]
fn entry<L: Layout, const BEHIND: bool>(
    functions: &SignpostFunctions<L::Key>,
    (lines, behind): (&[Line], &[u64]),
    at: u32,
    word: L::Key,
) -> u32 {
    let tag = functions.fields.tag(functions.fields.remainder::<L::Key>(word.into()));
    if BEHIND {
        let (word, shift) = post::behind::<L>(at, tag);
        behind.get(word).map_or(0, |word| (word >> shift) as u32 & 15)
    } else {
        let posts = if L::SPARE.is_some() { Posts::Spare } else { Posts::Within };
        post::entry_in::<L>(posts, &lines[at as usize], tag)
    }
}

/// Probes the homes of all keys, and lists those whose signposts are set; returns their number.
#[inline(always)]
fn homes<L: Layout, const BEHIND: bool>(
    lanes: impl Lanes,
    functions: &SignpostFunctions<L::Key>,
    lines: &[Line],
    (first, keys): (usize, &[L::Key]),
    led: &mut Led,
    then: &mut impl FnMut(Hit),
) -> usize {
    let behind = lines.get((functions.buckets + functions.stash.steps.buckets) as usize..).unwrap_or_default();
    let image = (lines, behind.as_flattened());
    let (mut flying, mut next) = (Aimed::<L::Key>::new(), Aimed::new());
    let (mut left, mut absent) = (0, 0);
    // One extra iteration probes the last block.
    for start in (0..keys.len() + BLOCK).step_by(BLOCK) {
        let block = &keys[start.min(keys.len())..keys.len().min(start + BLOCK)];
        for ((line, word), &key) in next.lines.iter_mut().zip(&mut next.words).zip(block) {
            let (home, remainder) = functions.home(key);
            (*line, *word) = (home, L::Key::low(functions.fields.word(1, remainder)));
        }
        if start == 0 {
            next.lines[..block.len()].iter().for_each(|&line| prefetch(lines, line as usize));
            flying = next;
            continue;
        }
        let before = start - BLOCK;
        let len = (keys.len() - before).min(BLOCK);
        let mut list = [0; BLOCK];
        let mut listed = 0;
        let mut lead = |i: usize, found: bool, led: &mut Led| {
            let entry = entry::<L, BEHIND>(functions, image, flying.lines[i], flying.words[i]);
            (led.numbers[left % CHUNK], led.entries[left % CHUNK]) = ((before + i) as u16, entry as u8);
            left += usize::from(!found & (entry != 0));
        };
        // If most keys are missing, signposts are read during the probe; otherwise afterwards, for the missing keys.
        let at_once = absent > BLOCK / 4 * 3;
        absent = 0;
        if at_once {
            for i in 0..len {
                let found = report_hit::<L>(lanes, functions, lines, (&flying, &next), i, first + before, then);
                lead(i, found, led);
                absent += usize::from(!found);
            }
        } else {
            for i in 0..len {
                let found = report_hit::<L>(lanes, functions, lines, (&flying, &next), i, first + before, then);
                list[listed % BLOCK] = i as u8;
                listed += usize::from(!found);
            }
            list[..listed].iter().for_each(|&i| lead(usize::from(i) % BLOCK, false, led));
            absent = listed;
        }
        flying = next;
    }
    left
}

/// Probes the home of key `i` of a block, and prefetches the line of a key of the next block; returns whether it was
/// found.
#[inline(always)]
fn report_hit<L: Layout>(
    lanes: impl Lanes,
    functions: &SignpostFunctions<L::Key>,
    lines: &[Line],
    (flying, next): (&Aimed<L::Key>, &Aimed<L::Key>),
    i: usize,
    first: usize,
    then: &mut impl FnMut(Hit),
) -> bool {
    prefetch(lines, next.lines[i] as usize);
    let at = flying.lines[i] as usize;
    let (slot, found) = compare::<L>(lanes, functions, &lines[at], flying.words[i]);
    then(Hit { number: first + i, line: at, slot, found });
    found
}

/// Looks up the listed keys in their guest lines.
#[inline(always)]
fn guests<L: Layout>(
    lanes: impl Lanes,
    functions: &SignpostFunctions<L::Key>,
    lines: &[Line],
    (first, keys): (usize, &[L::Key]),
    led: &Led,
    left: usize,
    then: &mut impl FnMut(Hit),
) {
    let fields = functions.fields;
    let (mut flying, mut next) = (Aimed::<L::Key>::new(), Aimed::new());
    for start in (0..left + BLOCK).step_by(BLOCK) {
        let coming = left.saturating_sub(start).min(BLOCK);
        for i in 0..coming {
            let (number, entry) = (led.numbers[start + i], u32::from(led.entries[start + i]));
            let (home, remainder) = functions.home(keys[usize::from(number)]);
            // For keys in the stash, any line.
            next.lines[i] = functions.guest(home, fields.tag(remainder), entry).unwrap_or(home);
            next.words[i] = L::Key::low(fields.word(entry + 1, remainder));
        }
        if start == 0 {
            next.lines[..coming].iter().for_each(|&line| prefetch(lines, line as usize));
            flying = next;
            continue;
        }
        let before = start - BLOCK;
        for i in 0..(left - before).min(BLOCK) {
            prefetch(lines, next.lines[i] as usize);
            let at = flying.lines[i] as usize;
            let (slot, same) = compare::<L>(lanes, functions, &lines[at], flying.words[i]);
            let (number, entry) = (usize::from(led.numbers[before + i]), u32::from(led.entries[before + i]));
            then(Hit { number: first + number, line: at, slot, found: same & (entry <= FUNCTIONS) });
            if entry == STASH {
                in_stash::<L>(functions, lines, keys[number], first + number, then);
            }
        }
        flying = next;
    }
}

/// Looks up a key in the stash.
#[cold]
fn in_stash<L: Layout>(
    functions: &SignpostFunctions<L::Key>,
    lines: &[Line],
    key: L::Key,
    number: usize,
    then: &mut impl FnMut(Hit),
) {
    let stash = functions.stash.steps.buckets as usize;
    let lines = lines.get(functions.buckets as usize..).and_then(|lines| lines.get(..stash)).unwrap_or_default();
    if let Some((line, slot)) = canonical::search::<L>(&functions.stash, lines.as_flattened(), key).1 {
        then(Hit { number, line: functions.buckets as usize + line, slot, found: true });
    }
}
