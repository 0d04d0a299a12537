//! Builds each bucket separately: the poster's fourth pass. A task is the eight buckets whose seed numbers share a
//! word.
//!
//! ```text
//! load      the bucket's pairs, as columns
//! for each seed number:   aim (all slots, eight pairs at a time);   `accept.rs` or `rounds.rs`;   all placed: done
//! write     all 576 words in one sweep, so that the image need not be cleared first
//! ```
//!
//! This takes 17 KiB, half of a first-level cache, because the table under construction holds numbers of pairs instead
//! of pairs.

use std::array;

use wide::u32x8;

use super::{accept, rounds};
use crate::backend::Placed;
use crate::cpu::block::sum;
use crate::error::Result;
use crate::memory;
use crate::parallel::{Per, fold_with};
use crate::scheme::fks::classic::{self, key};
use crate::scheme::fks::{
    BUCKET_PAIRS, BUCKET_SLOTS, FksFamily, FksPlan, Functions, SEEDS_OF_WORD, SUBTABLE_SLOTS, SUBTABLES, tweak,
};
use crate::scheme::{Kind, Plan, slot};

/// Slots of a bucket.
pub(super) const SLOTS: usize = BUCKET_SLOTS as usize;
/// The most pairs of a bucket.
pub(super) const PAIRS: usize = BUCKET_PAIRS as usize;
/// The number of sub-tables.
pub(super) const TABLES: usize = SUBTABLES as usize;

/// A bucket under construction.
pub(super) struct Bucket {
    /// Its pairs: the first `len` of both columns.
    pub(super) len: usize,
    pub(super) keys: [u32; PAIRS],
    pub(super) values: [u32; PAIRS],
    /// For each sub-table the slot of every pair, counted from the first of the bucket, and its remainder there.
    pub(super) slots: [[u16; PAIRS]; TABLES],
    pub(super) remainders: [[u32; PAIRS]; TABLES],
    /// The contents of each slot: age and remainder (canonical), and the number of the pair.
    pub(super) uppers: [u32; SLOTS],
    pub(super) pairs: [u16; SLOTS],
}

/// The result of placing a bucket with one seed number.
#[derive(Clone, Copy, Default)]
pub(super) struct Seated {
    /// Pairs without a slot. Exact only for the last seed number; for others, any number above 0 means that there are
    /// some.
    pub(super) unplaced: u64,
    /// Pairs dropped as duplicates.
    pub(super) duplicates: u64,
    /// The least key of these.
    pub(super) least_duplicate: Option<u32>,
}

impl Seated {
    /// Counts a duplicate.
    #[inline(always)]
    pub(super) fn drop_duplicate(&mut self, key: u32) {
        self.duplicates += 1;
        self.least_duplicate = Some(self.least_duplicate.map_or(key, |least| least.min(key)));
    }
}

/// Builds all buckets from the shuffled pairs.
pub(super) fn cuckoo(
    functions: &Functions,
    plan: &FksPlan,
    starts: &[u64],
    shuffled: &[u64],
    image: &mut [u64],
) -> Result<Placed> {
    let (slots, seeds) = image.split_at_mut(functions.slots());
    let task_slots = SEEDS_OF_WORD as usize * SLOTS;
    let of_task = |bucket: &mut Option<Box<[Bucket]>>, task: usize, (slots, seeds): (&mut [u64], Per<&mut [u64]>)| {
        let Some([bucket]) = bucket.as_deref_mut() else { return Err(memory::out_of_memory::<Bucket>(1)) };
        let seeds = &mut seeds.1[0];
        let mut placed = Placed::default();
        *seeds = 0;
        for (i, words) in slots.as_chunks_mut::<SLOTS>().0.iter_mut().enumerate() {
            let number = task * SEEDS_OF_WORD as usize + i;
            bucket.load(&shuffled[starts[number] as usize..starts[number + 1] as usize]);
            let (seed, seated) = bucket.build(functions, plan, words);
            *seeds |= u64::from(seed) << (8 * i);
            let Seated { unplaced, duplicates, least_duplicate } = seated;
            placed = sum(placed, Placed { unplaced, duplicates, least_duplicate, outside: None, stash: 0 });
        }
        Ok(placed)
    };
    let empty = || memory::boxed(Bucket::empty()).ok();
    fold_with((slots, Per(task_slots, seeds)), task_slots, empty, of_task, |a, b| Ok(sum(a?, b?)))
        .unwrap_or_else(|| Ok(Placed::default()))
}

impl Bucket {
    fn empty() -> Self {
        Bucket {
            len: 0,
            keys: [0; PAIRS],
            values: [0; PAIRS],
            slots: [[0; PAIRS]; TABLES],
            remainders: [[0; PAIRS]; TABLES],
            uppers: [0; SLOTS],
            pairs: [0; SLOTS],
        }
    }

    fn load(&mut self, pairs: &[u64]) {
        self.len = pairs.len().min(PAIRS);
        for ((to_key, to_value), &pair) in self.keys.iter_mut().zip(&mut self.values).zip(pairs) {
            (*to_key, *to_value) = (key(pair), pair as u32);
        }
    }

    /// Places the pairs with the first seed number that has a slot for each, and writes the bucket's words. If there is
    /// no such number, reports the unplaced pairs of the last one; the words are then unspecified.
    fn build(&mut self, functions: &Functions, plan: &FksPlan, words: &mut [u64; SLOTS]) -> (u32, Seated) {
        let last = functions.seeds() - 1;
        let mut seated = Seated::default();
        for seed in 0..=last {
            self.aim(functions, seed);
            seated = match plan.kind() {
                Kind::Canonical => accept::seat(self, seed == last),
                Kind::Classic => rounds::seat(self, plan.iterations()),
            };
            if seated.unplaced == 0 {
                let canonical = |upper, _, value| if upper == 0 { slot::EMPTY } else { word(upper, value) };
                let classic = |upper, key, value| if upper == 0 { classic::EMPTY } else { word(key, value) };
                match plan.kind() {
                    Kind::Canonical => self.write(words, canonical),
                    Kind::Classic => self.write(words, classic),
                }
                return (seed, seated);
            }
        }
        (0, seated)
    }

    /// Computes every slot of every pair.
    fn aim(&mut self, functions: &Functions, seed: u32) {
        let lanes = self.len.div_ceil(8);
        for i in 0..SUBTABLES {
            let first = i * SUBTABLE_SLOTS;
            let keys = self.keys.as_chunks::<8>().0.iter().take(lanes);
            let slots = self.slots[i as usize].as_chunks_mut::<8>().0.iter_mut();
            let remainders = self.remainders[i as usize].as_chunks_mut::<8>().0.iter_mut();
            for ((keys, slots), remainders) in keys.zip(slots).zip(remainders) {
                let at = if functions.family == FksFamily::Mixer {
                    let (at, remainder) = functions.probe(i, u32x8::splat(tweak(seed)), u32x8::new(*keys));
                    *remainders = remainder.to_array();
                    at.to_array()
                } else {
                    keys.map(|key| functions.location(i, seed, key))
                };
                *slots = array::from_fn(|lane| (first + at[lane]) as u16);
            }
        }
    }

    /// Writes all words. `made` computes a slot's word from its upper half, and the key and value of its pair.
    #[inline(always)]
    fn write(&self, words: &mut [u64; SLOTS], made: impl Fn(u32, u32, u32) -> u64) {
        for ((to, &upper), &pair) in words.iter_mut().zip(&self.uppers).zip(&self.pairs) {
            let pair = usize::from(pair) % PAIRS;
            *to = made(upper, self.keys[pair], self.values[pair]);
        }
    }
}

/// A word of two halves.
#[inline(always)]
fn word(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}
