//! Deals the pairs of a batch to the parts of a new table, so that each part can be placed in a core's cache.
//!
//! ```text
//! count    how many pairs of each chunk of the input go to each part; sums over the chunks tell where in the slice of a
//!          part the share of a chunk begins                      (one thread has one chunk, and need not count)
//! deal     each pair goes to the line of its part in a buffer; a line that is full goes to the slice as a whole
//! ```
//!
//! A dealt word is `[mixed key][value]`: bucket and remainder come back from it, and so does the key.
//!
//! **Why there are lines.** Parts are more places than a first-level cache keeps open for writing. The buffer is one
//! line a part, which the second level keeps, and the image gets whole lines.
//!
//! **Why the image has the room.** A part's slice has as many words as the part has slots, and distinct keys come to
//! parts evenly. What finds its slice full *escapes*, and few do up to loads at which no table builds. Copies of a key
//! are all of one part: too many escapes end the dealing, and the table is built in another way.
//!
//! **Why slices are filled from another place each.** They are a power of two long and fill up alike. Filled from their
//! fronts, all of them would be written to in the same few sets of the caches.
//!
//! **Why it stores atomically.** As in `sort.rs`: each place is written once, which safe Rust cannot know.
//!
//! What it is not: a sort. Which word of its slice a pair becomes depends on chunks and threads, and nothing may depend
//! on that.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use wide::u32x8;

use super::CHUNK;
use super::block::Pairs;
use super::lanes::at_best;
use super::memory::{atomic, prefetch};
use crate::parallel::collect;

/// Words of a line, and keys that are hashed together.
const LINE: usize = 8;
/// The lines by which the place where a slice is filled from moves on from part to part: odd, so that the parts use all
/// sets of a cache.
const APART: usize = 421;
/// Chunks a thread, where there are several: they need not take equally long.
const CHUNKS_EACH: usize = 4;

/// An empty vector with so much room, if there is the memory.
pub(super) fn with_room<T>(len: usize) -> Option<Vec<T>> {
    let mut room = Vec::new();
    room.try_reserve_exact(len).ok()?;
    Some(room)
}

/// An image cut into slices, one a part.
#[derive(Clone, Copy)]
pub(super) struct Slices {
    /// Words of the image.
    words: usize,
    /// Words of a slice, a power of two of at least [`LINE`]; the last may have fewer.
    each: usize,
}

impl Slices {
    /// An image of so many words in slices of 2 to the power of `bits`, of which there are at least as many as lines
    /// have.
    pub(super) fn new(words: usize, bits: u32) -> Self {
        Slices { words, each: (1 << bits).max(LINE) }
    }

    fn count(self) -> usize {
        self.words.div_ceil(self.each)
    }

    fn len_of(self, part: usize) -> usize {
        self.words.saturating_sub(part * self.each).min(self.each)
    }

    /// Where the slice of a part is filled from; the last one, which may be short, from its front.
    #[inline(always)]
    fn begin(self, part: usize) -> usize {
        if (part + 1) * self.each < self.words { (part * APART * LINE) & (self.each - 1) } else { 0 }
    }

    /// Where in the image word `at` of a part goes, of at most as many as the slice has.
    #[inline(always)]
    fn place(self, part: usize, at: usize) -> usize {
        part * self.each + ((self.begin(part) + at) & (self.each - 1))
    }

    /// The words that lie in the slice of a part.
    pub(super) fn dealt(self, part: usize, slice: &[u64], count: usize) -> [&[u64]; 2] {
        let (behind, first) = slice.split_at(self.begin(part).min(slice.len()));
        let first = &first[..count.min(first.len())];
        [first, &behind[..(count - first.len()).min(behind.len())]]
    }
}

/// What became of the pairs of a batch.
pub(super) struct Dealt {
    /// How many lie in the slice of each part.
    pub(super) counts: Vec<usize>,
    /// Words that found the slices of their parts full.
    pub(super) escapes: Vec<u64>,
}

/// Deals pairs to the slices of an image. `aim` tells the upper halves of eight words, and the numbers of their parts.
/// None if more than `most` pairs escape, or if memory is short; the image is of no use then.
pub(super) fn deal(
    pairs: Pairs<'_>,
    image: &mut [u64],
    slices: Slices,
    most: usize,
    aim: impl Fn(u32x8) -> (u32x8, u32x8) + Copy + Sync,
) -> Option<Dealt> {
    let len = pairs.keys.len();
    // Places are counted in 32 bits.
    u32::try_from(len).ok()?;
    let threads = rayon::current_num_threads();
    let share = if threads == 1 { len } else { len.div_ceil(CHUNKS_EACH * threads) };
    let share = share.max(CHUNK).next_multiple_of(LINE);
    let chunk = |number: usize| {
        let range = number * share..len.min((number + 1) * share);
        Pairs { keys: &pairs.keys[range.clone()], values: &pairs.values[range] }
    };
    let chunks = len.div_ceil(share);
    let mut firsts = if chunks == 1 {
        vec![zeros(slices.count())?]
    } else {
        let counts = collect(0..chunks, 1, |number, _| count(chunk(number), slices.count(), aim)).ok()?;
        sums(counts.into_iter().collect::<Option<_>>()?)?
    };
    let (image, escaped) = (atomic(image), AtomicUsize::new(0));
    let of_chunk = |number, first: &mut [_]| {
        let first = std::mem::take(&mut first[0]);
        Dealer::new(image, slices, first)?.deal(chunk(number), (&escaped, most), aim)
    };
    let mut done = collect(&mut firsts[..], 1, of_chunk).ok()?.into_iter().collect::<Option<Vec<_>>>()?;
    let mut escapes = with_room(done.iter().map(|(_, escapes)| escapes.len()).sum())?;
    done.iter_mut().for_each(|(_, mine)| escapes.append(mine));
    // The last chunk's shares lie behind all others.
    let (ends, _) = done.pop()?;
    let mut counts = with_room(ends.len())?;
    counts.extend(ends.iter().enumerate().map(|(part, &end)| slices.len_of(part).min(end as usize)));
    (escapes.len() <= most).then_some(Dealt { counts, escapes })
}

fn zeros(len: usize) -> Option<Vec<u32>> {
    let mut zeros = with_room(len)?;
    zeros.resize(len, 0);
    Some(zeros)
}

/// Of what each chunk has of each part: what the chunks before it have.
fn sums(mut counts: Vec<Vec<u32>>) -> Option<Vec<Vec<u32>>> {
    let mut totals = zeros(counts.first()?.len())?;
    for counts in &mut counts {
        for (count, total) in counts.iter_mut().zip(&mut totals) {
            (*count, *total) = (*total, *total + *count);
        }
    }
    Some(counts)
}

/// Calls `each` for every pair, with the number of its part and the word that it becomes.
#[inline(always)]
fn each_word(pairs: Pairs<'_>, aim: impl Fn(u32x8) -> (u32x8, u32x8), mut each: impl FnMut(usize, u64)) {
    let (keys, last_keys) = pairs.keys.as_chunks::<LINE>();
    let (values, last_values) = pairs.values.as_chunks::<LINE>();
    for (keys, values) in keys.iter().zip(values) {
        let (uppers, parts) = aim(u32x8::new(*keys));
        let (uppers, parts) = (uppers.to_array(), parts.to_array());
        for i in 0..LINE {
            each(parts[i] as usize, u64::from(uppers[i]) << 32 | u64::from(values[i]));
        }
    }
    for (&key, &value) in last_keys.iter().zip(last_values) {
        let (upper, part) = aim(u32x8::splat(key));
        each(part.to_array()[0] as usize, u64::from(upper.to_array()[0]) << 32 | u64::from(value));
    }
}

/// How many of these pairs go to each part.
fn count(pairs: Pairs<'_>, parts: usize, aim: impl Fn(u32x8) -> (u32x8, u32x8) + Copy) -> Option<Vec<u32>> {
    let mut counts = zeros(parts)?;
    at_best(
        #[inline(always)]
        || {
            each_word(
                pairs,
                aim,
                #[inline(always)]
                |part, _| {
                    if let Some(count) = counts.get_mut(part) {
                        *count += 1;
                    }
                },
            );
        },
    );
    Some(counts)
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; LINE]);

/// One chunk being dealt.
struct Dealer<'a> {
    image: &'a [AtomicU64],
    slices: Slices,
    /// For each part the words that have not gone to its slice yet: word i of the part is word i % 8 of the line.
    lines: Vec<Line>,
    /// For each part the number of the first word of this chunk, and of the next.
    first: Vec<u32>,
    next: Vec<u32>,
    escapes: Vec<u64>,
}

impl<'a> Dealer<'a> {
    fn new(image: &'a [AtomicU64], slices: Slices, first: Vec<u32>) -> Option<Self> {
        let (mut lines, mut next) = (with_room(first.len())?, with_room(first.len())?);
        lines.resize(first.len(), Line([0; LINE]));
        next.extend_from_slice(&first);
        Some(Dealer { image, slices, lines, first, next, escapes: Vec::new() })
    }

    /// The numbers behind the last words of each part, and what escaped; none if that is too much.
    fn deal(
        mut self,
        pairs: Pairs<'_>,
        (escaped, most): (&AtomicUsize, usize),
        aim: impl Fn(u32x8) -> (u32x8, u32x8) + Copy,
    ) -> Option<(Vec<u32>, Vec<u64>)> {
        for (keys, values) in pairs.keys.chunks(CHUNK).zip(pairs.values.chunks(CHUNK)) {
            let before = self.escapes.len();
            // None comes of most inputs, and about so many of the worst.
            self.escapes.try_reserve(keys.len() + LINE).ok()?;
            at_best(
                #[inline(always)]
                || self.deal_some(Pairs { keys, values }, aim),
            );
            // Of all chunks together, so that all end when there are too many.
            let new = self.escapes.len() - before;
            if escaped.fetch_add(new, Relaxed) + new > most {
                return None;
            }
        }
        for part in (0..self.lines.len()).filter(|&part| !self.next[part].is_multiple_of(LINE as u32)) {
            self.escapes.try_reserve(LINE).ok()?;
            close(
                self.image,
                self.slices,
                part,
                self.first[part]..self.next[part],
                &self.lines[part],
                &mut self.escapes,
            );
        }
        Some((self.next, self.escapes))
    }

    #[inline(always)]
    fn deal_some(&mut self, pairs: Pairs<'_>, aim: impl Fn(u32x8) -> (u32x8, u32x8)) {
        // Slices of their own, so that what is written through one is known to leave the others where they are.
        let Dealer { image, slices, lines, first, next, escapes } = self;
        let (image, slices, lines, first, next) = (*image, *slices, &mut lines[..], &first[..], &mut next[..]);
        each_word(
            pairs,
            aim,
            #[inline(always)]
            |part, word| {
                let (Some(next), Some(line)) = (next.get_mut(part), lines.get_mut(part)) else { return };
                line.0[*next as usize % LINE] = word;
                *next += 1;
                if !next.is_multiple_of(LINE as u32) {
                    return;
                }
                let (end, at) = (*next as usize, slices.place(part, *next as usize - LINE));
                match image.get(at..).and_then(|rest| rest.first_chunk::<LINE>()) {
                    Some(slots) if end <= slices.each && first[part] as usize + LINE <= end => {
                        slots.iter().zip(&line.0).for_each(|(slot, &word)| slot.store(word, Relaxed));
                        prefetch(image, at + LINE);
                    }
                    _ => close(image, slices, part, first[part]..*next, line, escapes),
                }
            },
        );
    }
}

/// Sends the line with the last of these words on, of which some may be another chunk's, or may have no room.
#[cold]
fn close(
    image: &[AtomicU64],
    slices: Slices,
    part: usize,
    numbers: std::ops::Range<u32>,
    line: &Line,
    escapes: &mut Vec<u64>,
) {
    let (first, end) = (numbers.start as usize, numbers.end as usize);
    let line_begin = (end - 1) / LINE * LINE;
    for at in first.max(line_begin)..end {
        let word = line.0[at % LINE];
        match image.get(slices.place(part, at)) {
            Some(slot) if at < slices.len_of(part) => slot.store(word, Relaxed),
            _ => escapes.push(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;
    use crate::scheme::hash::{MixKeys, SplitMix64, mix, reduce, unmix};

    const MIXER: MixKeys = MixKeys::new(3, 5, 7);

    /// Deals to slices of 2 to the power of `bits` words, and checks that each pair is where it belongs or has escaped.
    fn deal_and_check(cpu: &Cpu, keys: &[u32], words: usize, bits: u32, most: usize) -> Option<usize> {
        let values: Vec<u32> = (0..keys.len() as u32).collect();
        let slices = Slices::new(words, bits);
        let parts = slices.count() as u32;
        let mut image = vec![u64::MAX; words];
        let pairs = Pairs { keys, values: &values };
        let dealt = cpu.run(|| {
            deal(pairs, &mut image, slices, most, |keys| {
                let mixed = mix(keys, MIXER);
                (mixed, reduce(mixed, parts))
            })
        });
        let dealt = dealt.expect("threads")?;
        let mut found = vec![false; keys.len()];
        let mut meet = |word: u64| {
            let (mixed, value) = ((word >> 32) as u32, word as u32 as usize);
            assert_eq!(unmix(mixed, MIXER), keys[value]);
            assert!(!std::mem::replace(&mut found[value], true), "{value} twice");
            reduce(mixed, parts) as usize
        };
        assert_eq!(dealt.counts.len(), parts as usize);
        for (part, (slice, &count)) in image.chunks(1 << bits).zip(&dealt.counts).enumerate() {
            let lists = slices.dealt(part, slice, count);
            assert_eq!(lists.map(<[u64]>::len).iter().sum::<usize>(), count);
            lists.into_iter().flatten().for_each(|&word| assert_eq!(meet(word), part));
        }
        for &word in &dealt.escapes {
            let part = meet(word);
            assert_eq!(dealt.counts[part], slices.len_of(part), "only from full slices");
        }
        let untouched = image.iter().filter(|&&word| word == u64::MAX).count();
        assert_eq!(untouched, words - dealt.counts.iter().sum::<usize>(), "nothing else was written");
        assert!(found.iter().all(|&found| found));
        Some(dealt.escapes.len())
    }

    #[test]
    fn every_pair_is_in_its_slice_or_has_escaped() {
        let mut stream = SplitMix64::new(1);
        let noise: Vec<u32> = (0..150_001).map(|_| stream.next_u32()).collect();
        for cpu in [1, 2, 5].map(|threads| Cpu::with_threads(threads).expect("threads")) {
            for len in [1, 7, 8, 9, 4096, 4097, 70_003, 150_001] {
                // Slices with room to spare, with just enough on average, and too small; the last whole, short, tiny.
                for words in [len * 2, len + len / 20 + 3, len, len * 9 / 10 + 1, 8192, 8193, 16_384 + 16] {
                    for bits in [3, 6, 13] {
                        deal_and_check(&cpu, &noise[..len], words, bits, usize::MAX).expect("dealt");
                    }
                }
            }
            assert_eq!(deal_and_check(&cpu, &noise[..1000], 1 << 16, 13, 0), Some(0));
        }
    }

    #[test]
    fn too_many_escapes_end_the_dealing() {
        for cpu in [1, 3, 16].map(|threads| Cpu::with_threads(threads).expect("threads")) {
            let crowd = vec![77; 100_000];
            assert_eq!(deal_and_check(&cpu, &crowd, 1 << 17, 10, 100_000 - 1024), Some(100_000 - 1024));
            assert_eq!(deal_and_check(&cpu, &crowd, 1 << 17, 10, 100_000 - 1025), None);
            assert_eq!(deal_and_check(&cpu, &crowd, 1 << 17, 10, 0), None);
        }
    }
}
