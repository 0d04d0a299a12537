//! The Horton table on the CPU.
//!
//! ```text
//! build.rs    the canonical build: its working memory and the order of its passes
//! part.rs     moves every pair to its home, one partition at a time
//! group.rs    crowded homes: the keys that may have to leave
//! offer.rs    an offer in a word
//! settle.rs   deferred acceptance, by compare-and-swap
//! close.rs    offers become pairs, and buckets take their final form
//! lookup.rs   lookup, for both kinds
//! ```
//!
//! Classic builds are not parallel: each insertion of the paper depends on all previous ones, so they run on one thread
//! (`backend/host.rs`).

mod build;
mod close;
mod group;
mod lookup;
mod offer;
mod part;
mod settle;
#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering::Relaxed;

use self::build::place;
use self::lookup::{Answers, Lookup, search, slot_of};
use super::block::Pairs;
use super::lanes::{Lanes, Portable, with_lanes};
use super::lines::{in_whole_chunks, mask, pack};
use super::memory::{Memory, atomic};
use super::{CHUNK, Cpu};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Passes, Placed, Removed, filled_and_placed, host};
use crate::error::Result;
use crate::parallel::{Per, each};
use crate::scheme::horton::{HortonPlan, bucket, tokens};
use crate::scheme::{Horton, Kind, Plan};

/// Queries that a thread answers at a time. Tasks are longer than in other tables, because at the end of each task only
/// the lines of its last queries are in flight.
const TASK: usize = 4 * CHUNK;

/// Keys whose places are found before any value is overwritten.
const ASSIGNED: usize = 256 * CHUNK;

/// Not the index of a word.
const NOWHERE: u64 = u64::MAX;

/// Calls a function with the number of slots of a bucket as a constant.
macro_rules! with_slots {
    ($slots:expr, $call:ident($($argument:expr),* $(,)?)) => {
        match $slots {
            4 => $call::<4>($($argument),*),
            8 => $call::<8>($($argument),*),
            _ => $call::<16>($($argument),*),
        }
    };
}

impl Passes<Horton> for Cpu {
    fn build(&self, plan: &HortonPlan, keys: &Memory<u32>, values: &Memory<u32>) -> Result<(Memory<u64>, Placed)> {
        if plan.kind() == Kind::Classic {
            return filled_and_placed::<Horton, _>(self, plan, keys, values);
        }
        let mut image = Memory::zeroed(plan.word_count()?)?;
        let placed = self.horton_of_zeros(plan, image.words_mut()?, keys, values)?;
        Ok((image, placed))
    }

    fn place(
        &self,
        plan: &HortonPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<Placed> {
        if plan.kind() == Kind::Classic {
            return host::place::<Cpu, Horton>(self, plan, image, keys, values);
        }
        let words = image.words_mut()?;
        self.run(|| each(&mut *words, CHUNK, |_, words| words.fill(0)))?;
        self.horton_of_zeros(plan, words, keys, values)
    }

    fn lookup(
        &self,
        plan: &HortonPlan,
        image: &Memory<u64>,
        queries: &Memory<u32>,
        values: &mut Memory<u32>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("horton_lookup", queries.len());
        let functions = plan.functions();
        let lookup = Lookup { functions: &functions, family: plan.family() };
        let outside = plan.outside().map(|(_, value)| value);
        let (image, queries) = (image.words(), queries.words());
        let columns = (queries, values.words_mut()?, Per(32, found.words_mut()?));
        self.run(|| {
            each(columns, TASK, |_, (queries, values, Per(_, found))| {
                with_lanes!(lanes => {
                    with_slots!(functions.slots, look_up(lanes, lookup, outside, image, queries, values, found))
                });
            });
        })?;
        Ok(())
    }

    fn assign(
        &self,
        plan: &HortonPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("horton_assign", keys.len());
        let functions = plan.functions();
        let lookup = Lookup { functions: &functions, family: plan.family() };
        let image = image.words_mut()?;
        let mut places = Memory::zeroed(keys.len().min(ASSIGNED))?;
        let places = places.words_mut()?;
        self.run(|| {
            for (keys, values) in keys.words().chunks(ASSIGNED).zip(values.words().chunks(ASSIGNED)) {
                let places = &mut places[..keys.len()];
                with_slots!(functions.slots, assign(lookup, image, keys, values, places));
            }
        })?;
        Ok(())
    }

    fn decode(&self, plan: &HortonPlan, image: &Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        self.ledger().kernel("horton_decode", image.len());
        let functions = plan.functions();
        let (words, last) = (image.words(), functions.slots as usize - 1);
        self.decode_with(words, |at, word| {
            let is_last = at & last == last;
            let bucket = (at >> last.count_ones()) as u32;
            if is_last && bucket::is_type_b(&functions, words, bucket) { None } else { tokens::pair(word) }
        })
    }

    fn remove(&self, plan: &HortonPlan, image: &mut Memory<u64>, keys: &Memory<u32>) -> Result<Removed> {
        // Canonical tables are rebuilt.
        host::remove::<Cpu, Horton>(self, plan, image, keys)
    }
}

impl Cpu {
    /// Builds a canonical image in an image of zeros.
    fn horton_of_zeros(
        &self,
        plan: &HortonPlan,
        image: &mut [u64],
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<Placed> {
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        let (functions, outside) = (plan.functions(), plan.outside().is_some());
        self.run(|| with_slots!(functions.slots, place(&functions, outside, image, pairs, self.ledger()))).flatten()
    }
}

/// Values and found bits of one task. `outside` is the value of the empty marker's key.
#[inline(always)]
fn look_up<const S: usize>(
    lanes: impl Lanes,
    lookup: Lookup<'_>,
    outside: Option<u32>,
    image: &[u64],
    queries: &[u32],
    values: &mut [u32],
    found: &mut [u32],
) {
    let mut hits = [0; TASK];
    in_whole_chunks(
        values,
        #[inline(always)]
        |values: &mut [u32; TASK]| {
            search::<S>(lanes, lookup, image, queries, &mut Columns { values, hits: &mut hits });
            mask(values, &hits);
        },
    );
    pack(&hits, found);
    if queries.contains(&tokens::EMPTY_KEY) {
        for i in (0..queries.len()).filter(|&i| queries[i] == tokens::EMPTY_KEY) {
            values[i] = outside.unwrap_or(0);
            found[i / 32] = found[i / 32] & !(1 << (i % 32)) | u32::from(outside.is_some()) << (i % 32);
        }
    }
}

/// Answers as bytes that are 0 or 1, and as values, which are arbitrary where the byte is 0.
struct Columns<'a> {
    values: &'a mut [u32; TASK],
    hits: &'a mut [u8; TASK],
}

impl<const S: usize> Answers<S> for Columns<'_> {
    #[inline(always)]
    fn answer(&mut self, number: usize, _: u32, hits: u32, value: u32) {
        self.values[number % TASK] = value;
        self.hits[number % TASK] = (hits != 0).into();
    }
}

/// Answers as indexes of words; [`NOWHERE`] for misses.
struct Places<'a>(&'a mut [u64]);

impl<const S: usize> Answers<S> for Places<'_> {
    #[inline(always)]
    fn answer(&mut self, number: usize, bucket: u32, hits: u32, _: u32) {
        let at = bucket as usize * S + slot_of::<S>(hits);
        self.0[number] = if hits != 0 { at as u64 } else { NOWHERE };
    }
}

/// Finds all keys, and then overwrites their values: the search reads whole lines at once, which would be wrong if
/// other threads wrote to them. The keys are distinct, so no two threads write to one word.
fn assign<const S: usize>(lookup: Lookup<'_>, image: &mut [u64], keys: &[u32], values: &[u32], places: &mut [u64]) {
    let words = &*image;
    each((keys, &mut *places), TASK, |_, (keys, places)| {
        search::<S>(Portable, lookup, words, keys, &mut Places(places));
        // The empty marker's key equals the key of empty slots, but is not stored in any of them.
        places.iter_mut().zip(keys).filter(|(_, key)| **key == tokens::EMPTY_KEY).for_each(|(at, _)| *at = NOWHERE);
    });
    let image = atomic(image);
    each((&*places, values), CHUNK, |_, (places, values)| {
        for (&at, &value) in places.iter().zip(values).filter(|(at, _)| **at != NOWHERE) {
            let word = &image[at as usize];
            word.store(tokens::word(tokens::key(word.load(Relaxed)), value), Relaxed);
        }
    });
}
