//! Lookups: a thread's chunk of keys goes through its first buckets, then what is left of it through the second, ..
//!
//! ```text
//! for each turn:   unresolved = the chunk's keys (turn 1), or the numbers that the turn before left
//!   for each block of 128 of them:   hash all, prefetch all their buckets
//!                                    resolve the block before, whose lines have had that time to arrive
//! resolve:         for each key:    compare all words of its bucket at once, and note the first that matches, or any
//!                  for each eight:  is what was noted the key's own?  does the bucket's last word end the search?
//!                                   answer (value and hit, 0 for "not yet");  write the numbers of all eight to the end
//!                                   of the list of the unresolved, which grows by those that are
//! ```
//!
//! Nothing branches on what was found: it is a coin toss to the branch predictor, and a wrong guess costs more than a
//! whole probe. Two things are rare enough for a branch: a second word that matches (canonical: another key with the
//! same remainder that came by another function), and the end of a block. And what can be told of eight keys at once
//! is: judging each where it is found took 85 instructions a key, most of the time where lines are near.
//!
//! Each key that is resolved asks for the line of one key of the next block. Asking for all 128 at once
//! slows large tables down: a core has a few dozen lines on their way at most, and waits in the middle of such a
//! volley.
//!
//! The list of the unresolved is written where it has been read already, so a chunk needs one list of 8 KiB, and no
//! queues. Each turn ends with a wait for its last block, three times in 4096 keys: 1% of the time.
//!
//! What it is not: `search.rs`, which judges word by word, with blocks and queues that serve builds too.

use std::array;
use std::mem::swap;

use wide::u32x8;

use super::bucket::{Cell, buckets};
use crate::cpu::block::{Lists, fetch};
use crate::cpu::{BLOCK, CHUNK};
use crate::scheme::bucketized::MAX_FUNCTIONS;
use crate::scheme::slot::AGE_BITS;

/// Tables whose places are buckets.
pub(super) trait Buckets<const S: usize>: Lists {
    /// A key's word has the upper half of [`Lists::aim`], but for these highest bits.
    const IGNORED: i32;

    /// What [`Lists::judge`] says of eight keys, all ones for yes: of the upper halves of the keys, of the words that
    /// may be theirs, and of the last words in their buckets.
    fn verdict(&self, age: u32) -> impl Fn(u32x8, u32x8, u32x8) -> (u32x8, u32x8);

    /// Whether the buckets of all ages are asked for at once.
    fn at_once(&self) -> bool;
}

/// What eight keys, or fewer, are told.
pub(super) struct Told {
    /// Their numbers, where they are not consecutive.
    numbers: [u16; 8],
    /// The number of the first of eight keys that are consecutive.
    first: Option<usize>,
    /// A bit for each that was found.
    hits: u32,
    /// A bit for each key there is.
    present: u32,
    /// Values, 0 where nothing was found.
    values: [u32; 8],
    /// Upper halves of the words, where one was found.
    uppers: [u32; 8],
    /// Their indices.
    words: [usize; 8],
}

impl Told {
    /// Number, index of the word and word of each key that was found.
    #[inline(always)]
    pub(super) fn each_hit(&self, mut then: impl FnMut(usize, usize, u64)) {
        for i in (0..8).filter(|i| self.hits >> i & 1 == 1) {
            let word = u64::from(self.uppers[i]) << 32 | u64::from(self.values[i]);
            then(usize::from(self.numbers[i]), self.words[i], word);
        }
    }
}

/// Where the keys of a block are looked for.
struct Aimed {
    buckets: [u32; BLOCK],
    uppers: [u32; BLOCK],
}

impl Aimed {
    fn new() -> Self {
        Aimed { buckets: [0; BLOCK], uppers: [0; BLOCK] }
    }

    /// Computes the buckets of the first `len` of these keys, and of a few more.
    #[inline(always)]
    fn aim(&mut self, lists: &impl Lists, age: u32, keys: &[u32; BLOCK], len: usize) {
        let eights = keys.as_chunks::<8>().0.iter();
        let to = self.buckets.as_chunks_mut::<8>().0.iter_mut().zip(self.uppers.as_chunks_mut::<8>().0);
        for (keys, (buckets, uppers)) in eights.zip(to).take(len.div_ceil(8)) {
            let (bucket, upper) = lists.aim(age, u32x8::new(*keys));
            (*buckets, *uppers) = (bucket.to_array(), upper.to_array());
        }
    }
}

/// What the keys of a block found: the word that may be theirs, and the end of their bucket.
struct Noted {
    values: [u32; BLOCK],
    uppers: [u32; BLOCK],
    lasts: [u32; BLOCK],
    /// Places in the buckets.
    places: [u8; BLOCK],
}

impl Noted {
    fn new() -> Self {
        Noted { values: [0; BLOCK], uppers: [0; BLOCK], lasts: [0; BLOCK], places: [0; BLOCK] }
    }
}

/// The place in the bucket and the word of the first pair that may be the key's; any word if there is none.
#[inline(always)]
fn candidate<const S: usize, C: Cell, L: Buckets<S>>(
    _: &L,
    cells: &[C; S],
    judge: &impl Fn(u32, u64) -> (bool, bool),
    upper: u32,
) -> (usize, u64) {
    let same = same_upper::<S, C, L>(cells, upper);
    let mut at = same.trailing_zeros() as usize / 2 % S;
    if same & same.wrapping_sub(1) != 0 {
        at = first_hit(cells, judge, upper).unwrap_or(at);
    }
    (at, cells[at].get())
}

#[inline(always)]
fn same_upper<const S: usize, C: Cell, L: Buckets<S>>(cells: &[C; S], upper: u32) -> u32 {
    // No const generic can be an associated constant yet.
    match L::IGNORED {
        0 => C::same_upper::<S, 0>(cells, upper),
        _ => C::same_upper::<S, { AGE_BITS as i32 }>(cells, upper),
    }
}

#[cold]
fn first_hit<const S: usize, C: Cell>(
    cells: &[C; S],
    judge: &impl Fn(u32, u64) -> (bool, bool),
    upper: u32,
) -> Option<usize> {
    cells.iter().position(|cell| judge(upper, cell.get()).0)
}

/// Looks up to [`CHUNK`] keys up and tells `answer` of every bucket that was asked, a key's last one last.
#[inline(always)]
pub(super) fn search<const S: usize, C: Cell, L: Buckets<S>>(
    lists: &L,
    image: &[C],
    keys: &[u32],
    mut answer: impl FnMut(&Told),
) {
    debug_assert!(keys.len() <= CHUNK);
    if lists.at_once() {
        return search_at_once(lists, image, keys, answer);
    }
    let mut unresolved = [0; CHUNK];
    let mut left = turn::<S, true, C, L>(lists, image, 1, keys, &mut unresolved, keys.len(), &mut answer);
    for age in 2..=lists.last_age() {
        left = turn::<S, false, C, L>(lists, image, age, keys, &mut unresolved, left, &mut answer);
    }
}

/// One turn of `len` keys, either all or those on the list; how many are on the list then.
#[inline(always)]
fn turn<const S: usize, const ALL: bool, C: Cell, L: Buckets<S>>(
    lists: &L,
    image: &[C],
    age: u32,
    keys: &[u32],
    unresolved: &mut [u16; CHUNK],
    len: usize,
    answer: &mut impl FnMut(&Told),
) -> usize {
    let (judge, verdict) = (lists.judge(age), lists.verdict(age));
    let buckets = buckets::<S, C>(image);
    let (mut flying, mut next) = (&mut Aimed::new(), &mut Aimed::new());
    let mut noted = Noted::new();
    let mut left = 0;
    // One block more than there is, to resolve the last.
    for start in (0..len + BLOCK).step_by(BLOCK) {
        let coming = len.saturating_sub(start).min(BLOCK);
        if ALL && let Some(block) = keys.get(start..).and_then(|keys| keys.first_chunk()) {
            next.aim(lists, age, block, coming);
        } else {
            let mut block = [0; BLOCK];
            for i in 0..coming {
                block[i] = keys[if ALL { start + i } else { usize::from(unresolved[start + i]) }];
            }
            next.aim(lists, age, &block, coming);
        }
        let Some(start) = start.checked_sub(BLOCK) else {
            fetch(lists, image, &next.buckets[..coming]);
            swap(&mut flying, &mut next);
            continue;
        };
        let here = (len - start).min(BLOCK);
        for i in 0..here {
            fetch(lists, image, &next.buckets[i..i + 1]);
            let cells = &buckets[flying.buckets[i] as usize];
            let (place, word) = candidate(lists, cells, &judge, flying.uppers[i]);
            (noted.values[i], noted.uppers[i], noted.places[i]) = (word as u32, (word >> 32) as u32, place as u8);
            noted.lasts[i] = (cells[S - 1].get() >> 32) as u32;
        }
        for i in (0..here).step_by(8) {
            let eight = |of: &[u32; BLOCK]| u32x8::new(of[i..i + 8].try_into().unwrap_or_default());
            let (hits, ends) = verdict(eight(&flying.uppers), eight(&noted.uppers), eight(&noted.lasts));
            let numbers =
                array::from_fn(|j| if ALL { (start + i + j) as u16 } else { unresolved[(start + i + j) % CHUNK] });
            let present = 0xff >> 8usize.saturating_sub(here - i);
            let told = Told {
                numbers,
                first: (ALL && present == 0xff).then_some(start + i),
                hits: hits.to_bitmask() & present,
                present,
                values: (eight(&noted.values) & hits).to_array(),
                uppers: noted.uppers[i..i + 8].try_into().unwrap_or_default(),
                words: array::from_fn(|j| flying.buckets[i + j] as usize * S + usize::from(noted.places[i + j])),
            };
            answer(&told);
            let go_on = !(hits | ends).to_bitmask() & present;
            for (j, &number) in numbers.iter().enumerate() {
                unresolved[left % CHUNK] = number;
                left += (go_on >> j & 1) as usize;
            }
        }
        swap(&mut flying, &mut next);
    }
    left
}

/// The same with the buckets of all ages on their way together: one wait instead of up to four, and more lines.
#[inline(always)]
fn search_at_once<const S: usize, C: Cell, L: Buckets<S>>(
    lists: &L,
    image: &[C],
    keys: &[u32],
    mut answer: impl FnMut(&Told),
) {
    let buckets = buckets::<S, C>(image);
    let ages = lists.last_age().min(MAX_FUNCTIONS as u32);
    let aimed = || -> [Aimed; MAX_FUNCTIONS] { array::from_fn(|_| Aimed::new()) };
    let (mut flying, mut next) = (&mut aimed(), &mut aimed());
    for start in (0..keys.len() + BLOCK).step_by(BLOCK) {
        let coming = keys.len().saturating_sub(start).min(BLOCK);
        let mut block = [0; BLOCK];
        block[..coming].copy_from_slice(keys.get(start..start + coming).unwrap_or_default());
        for age in 1..=ages {
            next[age as usize - 1].aim(lists, age, &block, coming);
        }
        let here = start.checked_sub(BLOCK).map_or(0, |start| (keys.len() - start).min(BLOCK));
        for i in (0..BLOCK).step_by(8) {
            for next in &next[..ages as usize] {
                fetch(lists, image, &next.buckets[i..i + 8]);
            }
            if i >= here {
                continue;
            }
            let first = start - BLOCK + i;
            let present = 0xff >> 8usize.saturating_sub(here - i);
            let numbers = array::from_fn(|j| (first + j) as u16);
            let (mut hits, mut values, mut uppers, mut words) = (0, [0; 8], [0; 8], [0; 8]);
            for j in (0..8).filter(|j| present >> j & 1 == 1) {
                for age in 1..=ages {
                    let flying = &flying[age as usize - 1];
                    let (bucket, upper) = (flying.buckets[i + j] as usize, flying.uppers[i + j]);
                    let judge = lists.judge(age);
                    let (place, word) = candidate(lists, &buckets[bucket], &judge, upper);
                    let new = judge(upper, word).0 & (hits >> j & 1 == 0);
                    hits |= u32::from(new) << j;
                    values[j] = if new { word as u32 } else { values[j] };
                    uppers[j] = if new { (word >> 32) as u32 } else { uppers[j] };
                    words[j] = if new { bucket * S + place } else { words[j] };
                }
            }
            let first = (present == 0xff).then_some(first);
            answer(&Told { numbers, first, hits, present, values, uppers, words });
        }
        swap(&mut flying, &mut next);
    }
}

/// Values and found bits of one chunk of queries.
#[inline(always)]
pub(super) fn answer<const S: usize, L: Buckets<S>>(
    lists: &L,
    image: &[u64],
    queries: &[u32],
    values: &mut [u32],
    found: &mut [u32],
) {
    let mut hits = [0u8; CHUNK / 8];
    search(
        lists,
        image,
        queries,
        #[inline(always)]
        |told| {
            if let Some(first) = told.first {
                values[first..first + 8].copy_from_slice(&told.values);
                hits[first / 8] = told.hits as u8;
                return;
            }
            for i in (0..8).filter(|i| told.present >> i & 1 == 1) {
                let number = usize::from(told.numbers[i]);
                values[number] = told.values[i];
                hits[number / 8] |= ((told.hits >> i & 1) as u8) << (number % 8);
            }
        },
    );
    for (found, hits) in found.iter_mut().zip(hits.as_chunks::<4>().0) {
        *found = u32::from_le_bytes(*hits);
    }
}
