//! The three slots of a key, as the slot lists for the passes of the cuckoo table.
//!
//! A probe of a later age hashes the key again and reads the seed number of its bucket, instead of storing both in the
//! queue: one byte per bucket stays in the caches (41 KB for 2^24 pairs), and eight keys are hashed at once.

use std::array;

use wide::u32x8;

use super::split::buckets;
use crate::cpu::block::Lists;
use crate::scheme::fks::classic::{EMPTY_KEY, key};
use crate::scheme::fks::{BUCKET_SLOTS, FksFamily, Functions, SUBTABLE_SLOTS, SUBTABLES, turn, tweak};
use crate::scheme::hash::Lane;
use crate::scheme::slot;

/// The lists of an image. `CLASSIC` selects the layout of its words.
pub(super) struct Fks<'a, const CLASSIC: bool> {
    functions: &'a Functions,
    /// The seed number of each bucket.
    seeds: &'a [u8],
    /// For each sub-table the ages that belong to it, one bit per age.
    ages: [u32; SUBTABLES as usize],
}

impl<'a> Fks<'a, false> {
    /// Creates the lists of a canonical table.
    pub(super) fn canonical(functions: &'a Functions, seeds: &'a [u64]) -> Self {
        Fks::new(functions, seeds)
    }
}

impl<'a> Fks<'a, true> {
    /// The lists of a classic table.
    pub(super) fn classic(functions: &'a Functions, seeds: &'a [u64]) -> Self {
        Fks::new(functions, seeds)
    }
}

impl<'a, const CLASSIC: bool> Fks<'a, CLASSIC> {
    fn new(functions: &'a Functions, seeds: &'a [u64]) -> Self {
        let of_table =
            |table| (1..=slot::MAX_AGE).filter(|&age| turn(age) == table).fold(0, |ages, age| ages | 1 << age);
        Fks { functions, seeds: bytemuck::cast_slice(seeds), ages: array::from_fn(|table| of_table(table as u32)) }
    }
}

impl<const CLASSIC: bool> Lists for Fks<'_, CLASSIC> {
    const STRIDE: usize = 1;

    #[inline(always)]
    fn aim(&self, age: u32, keys: u32x8) -> (u32x8, u32x8) {
        let (functions, table) = (self.functions, turn(age));
        let buckets = buckets(functions, keys);
        let seeds = buckets.to_array().map(|bucket| self.seeds.get(bucket as usize).map_or(0, |&seed| u32::from(seed)));
        let (at, remainders) = if functions.family == FksFamily::Mixer {
            functions.probe(table, tweak(u32x8::new(seeds)), keys)
        } else {
            let each = keys.to_array();
            let at = array::from_fn(|i| functions.location(table, seeds[i], each[i]));
            (u32x8::new(at), u32x8::splat(0))
        };
        let first = buckets.times(u32x8::splat(BUCKET_SLOTS)).plus(u32x8::splat(table * SUBTABLE_SLOTS));
        let upper = if CLASSIC { keys } else { remainders | u32x8::splat(slot::upper(age, 0)) };
        (first.plus(at), upper)
    }

    /// An empty slot of a classic table is not a hit, not even for the marker itself.
    #[inline(always)]
    fn judge(&self, age: u32) -> impl Fn(u32, u64) -> (bool, bool) {
        let ages = self.ages[turn(age) as usize];
        move |wanted, word| {
            if CLASSIC {
                return ((key(word) == wanted) & (wanted != EMPTY_KEY), false);
            }
            let there = (word >> 32) as u32;
            let same_remainder = (wanted ^ there) << slot::AGE_BITS == 0;
            (same_remainder & ((ages >> slot::age(word)) & 1 == 1), there < wanted)
        }
    }

    fn last_age(&self) -> u32 {
        SUBTABLES
    }
}
