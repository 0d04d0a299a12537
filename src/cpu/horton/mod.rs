//! The Horton table on the CPU.
//!
//! ```text
//! build.rs    the canonical build: its working memory and the order of its passes
//! deal.rs     pass 1 to 3: every pair to its home
//! group.rs    pass 4: every home's keys in order; who may have to leave
//! settle.rs   pass 5: deferred acceptance, by compare-and-swap
//! close.rs    pass 6 to 8: proposals become pairs, and buckets take their final form
//! lookup.rs   lookup, for both kinds
//! ```
//!
//! What it is not: a parallel classic build. The paper's insertions depend on all that were before them, so they run on
//! one thread (`backend/host.rs`).

mod build;
mod close;
mod deal;
mod group;
mod lookup;
mod settle;
#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering::Relaxed;

use wide::u32x8;

use self::build::place;
use self::lookup::{Answers, Found, Lookup, search, slot_of};
use super::block::Pairs;
use super::lanes::at_best;
use super::memory::{Memory, atomic};
use super::{BLOCK, CHUNK, Cpu};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Passes, Placed, Removed, host};
use crate::error::Result;
use crate::parallel::{Per, each};
use crate::scheme::horton::{HortonPlan, bucket, tokens};
use crate::scheme::{Horton, Kind, Plan};

/// Queries that a thread answers at a time. At the end of each such task nothing is on its way but its own last lines,
/// so tasks are longer than elsewhere.
const TASK: usize = 4 * CHUNK;

/// Keys whose places are found before any value is overwritten.
const ASSIGNED: usize = 256 * CHUNK;

/// No word of an image.
const NOWHERE: u64 = u64::MAX;

/// Calls a function with the slots of a bucket as a constant.
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
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        self.ledger().kernel("horton_place", keys.len());
        let (functions, words) = (plan.functions(), image.words_mut()?);
        let outside = plan.outside().is_some();
        self.run(|| with_slots!(functions.slots, place(&functions, outside, words, pairs))).flatten()
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
                at_best(
                    #[inline(always)]
                    || with_slots!(functions.slots, look_up(lookup, outside, image, queries, values, found)),
                );
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
        // Canonical tables are built afresh.
        host::remove::<Cpu, Horton>(self, plan, image, keys)
    }
}

/// Values and found bits of one task. `outside` is the value of the empty marker's key.
#[inline(always)]
fn look_up<const S: usize>(
    lookup: Lookup<'_>,
    outside: Option<u32>,
    image: &[u64],
    queries: &[u32],
    values: &mut [u32],
    found: &mut [u32],
) {
    search::<S>(lookup, image, queries, &mut Columns { values, found });
    if queries.contains(&tokens::EMPTY_KEY) {
        for i in (0..queries.len()).filter(|&i| queries[i] == tokens::EMPTY_KEY) {
            values[i] = outside.unwrap_or(0);
            found[i / 32] = found[i / 32] & !(1 << (i % 32)) | u32::from(outside.is_some()) << (i % 32);
        }
    }
}

/// Answers as values and found bits.
struct Columns<'a> {
    values: &'a mut [u32],
    found: &'a mut [u32],
}

impl<const S: usize> Answers<S> for Columns<'_> {
    /// The values of those that have not hit are cleared, eight at a time.
    #[inline(always)]
    fn firsts(&mut self, start: usize, _: &[u32; BLOCK], Found { hits, values }: &Found) {
        let mut values = *values;
        let mut found = [0; BLOCK / 32];
        let lanes = values.as_chunks_mut::<8>().0.iter_mut().zip(hits.as_chunks::<8>().0);
        for (i, (values, hits)) in lanes.enumerate() {
            let missed = u32x8::new(*hits).simd_eq(u32x8::splat(0));
            *values = (u32x8::new(*values) & !missed).to_array();
            found[i / 4] |= (!missed.to_bitmask() & 0xff) << (8 * (i % 4));
        }
        let len = self.values.len().saturating_sub(start).min(BLOCK);
        self.values[start..start + len].copy_from_slice(&values[..len]);
        let past = BLOCK - len;
        for (i, to) in self.found[start / 32..].iter_mut().take(BLOCK / 32).enumerate() {
            let here = (BLOCK - past).saturating_sub(32 * i).min(32);
            *to = found[i] & (1u64 << here).wrapping_sub(1) as u32;
        }
    }

    #[inline(always)]
    fn second(&mut self, number: usize, _: u32, hits: u32, value: u32) {
        self.values[number] = value & u32::from(hits != 0).wrapping_neg();
        self.found[number / 32] |= u32::from(hits != 0) << (number % 32);
    }
}

/// Answers as numbers of words, [`NOWHERE`] for misses.
struct Places<'a>(&'a mut [u64]);

impl<const S: usize> Answers<S> for Places<'_> {
    #[inline(always)]
    fn firsts(&mut self, start: usize, homes: &[u32; BLOCK], found: &Found) {
        for (i, (&home, &hits)) in homes.iter().zip(&found.hits).enumerate().take(self.0.len() - start) {
            Answers::<S>::second(self, start + i, home, hits, 0);
        }
    }

    #[inline(always)]
    fn second(&mut self, number: usize, bucket: u32, hits: u32, _: u32) {
        let at = bucket as usize * S + slot_of::<S>(hits);
        self.0[number] = if hits != 0 { at as u64 } else { NOWHERE };
    }
}

/// Finds all keys, then overwrites their values: the search reads whole lines at once, as nobody could who has to
/// expect others to write to them. The keys are distinct, so no two threads write to one word.
fn assign<const S: usize>(lookup: Lookup<'_>, image: &mut [u64], keys: &[u32], values: &[u32], places: &mut [u64]) {
    let words = &*image;
    each((keys, &mut *places), TASK, |_, (keys, places)| {
        search::<S>(lookup, words, keys, &mut Places(places));
        // That key finds empty slots, and stands in none of them.
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
