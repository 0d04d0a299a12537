//! The bucketized cuckoo table on the CPU.
//!
//! ```text
//! bucket.rs     one bucket: compare all its words, sort them
//! canonical.rs  place by scan and compare-exchange, then sort
//! parts.rs      build a large canonical table one partition at a time, in the caches
//! classic.rs    place by the paper's search, on one thread
//! lookup.rs     lookup, for both kinds
//! ```

mod bucket;
mod canonical;
mod classic;
mod lookup;
mod parts;
#[cfg(test)]
mod tests;
pub(super) mod wide;

use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use self::canonical::Canonical;
use self::classic::Classic;
use self::lookup::{Buckets, Hit};
use super::block::Pairs;
use super::lanes::{Portable, with_lanes};
use super::memory::{Memory, atomic};
use super::{CHUNK, Cpu};
use crate::backend::{BuildRoute, Decoded, DeviceBuffer, HashBackend, Passes, Placed, Removed, filled_and_placed};
use crate::error::Result;
use crate::parallel::{Per, any, each, fold};
use crate::scheme::bucketized::{self, BucketizedPlan};
use crate::scheme::cuckoo::classic as slots_of_pairs;
use crate::scheme::{Bucketized, Kind, Plan, slot};

/// An expression with the bucket size of a plan as a constant.
macro_rules! with_bucket_slots {
    ($plan:expr, $S:ident => $work:expr) => {
        match $plan.bucket_slots() {
            4 => {
                const $S: usize = 4;
                $work
            }
            8 => {
                const $S: usize = 8;
                $work
            }
            _ => {
                const $S: usize = 16;
                $work
            }
        }
    };
}

impl Passes<Bucketized> for Cpu {
    fn build(&self, plan: &BucketizedPlan, keys: &Memory<u32>, values: &Memory<u32>) -> Result<(Memory<u64>, Placed)> {
        match self.bucketized_by_parts(plan, keys, values)? {
            Some(built) => Ok(built),
            None => filled_and_placed::<Bucketized, _>(self, plan, keys, values),
        }
    }

    fn place(
        &self,
        plan: &BucketizedPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<Placed> {
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        let functions = plan.functions();
        let words = image.words_mut()?;
        match plan.kind() {
            Kind::Canonical => {
                self.ledger().kernel("bucketized_place", keys.len());
                self.ledger().kernel("bucketized_sort", words.len());
                let workspaces = self.workspaces();
                self.run(|| with_bucket_slots!(plan, S => canonical::place::<S>(&functions, words, pairs, workspaces)))
            }
            Kind::Classic => {
                self.ledger().host("bucketized_place", keys.len());
                Ok(with_bucket_slots!(plan, S => classic::place::<S>(plan, &functions, words, pairs)))
            }
        }
    }

    fn lookup(
        &self,
        plan: &BucketizedPlan,
        image: &Memory<u64>,
        queries: &Memory<u32>,
        values: &mut Memory<u32>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("bucketized_lookup", queries.len());
        let (image, queries, functions) = (image.words(), queries.words(), plan.functions());
        let (values, found) = (values.words_mut()?, found.words_mut()?);
        self.run(|| match plan.kind() {
            Kind::Canonical => with_bucket_slots!(plan, S => {
                look_up(&Canonical::<S>::new(&functions), None, image, queries, values, found)
            }),
            Kind::Classic => with_bucket_slots!(plan, S => {
                look_up(&Classic::<S>::new(plan, &functions), plan.outside(), image, queries, values, found)
            }),
        })?;
        Ok(())
    }

    fn assign(
        &self,
        plan: &BucketizedPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("bucketized_assign", keys.len());
        let functions = plan.functions();
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        let image = atomic(image.words_mut()?);
        self.run(|| match plan.kind() {
            Kind::Canonical => with_bucket_slots!(plan, S => overwrite(&Canonical::<S>::new(&functions), image, pairs)),
            Kind::Classic => {
                with_bucket_slots!(plan, S => overwrite(&Classic::<S>::new(plan, &functions), image, pairs))
            }
        })?;
        Ok(())
    }

    fn decode(&self, plan: &BucketizedPlan, image: &Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        self.ledger().kernel("bucketized_decode", image.len());
        let (functions, slots) = (plan.functions(), plan.bucket_slots() as usize);
        self.decode_with(image.words(), |at, word| match plan.kind() {
            Kind::Canonical => bucketized::canonical::pair(&functions, (at / slots) as u32, word),
            Kind::Classic => slots_of_pairs::pair(word),
        })
    }

    fn remove(&self, plan: &BucketizedPlan, image: &mut Memory<u64>, keys: &Memory<u32>) -> Result<Removed> {
        self.ledger().kernel("bucketized_remove", keys.len());
        let functions = plan.functions();
        let (image, keys) = (atomic(image.words_mut()?), keys.words());
        self.run(|| match plan.kind() {
            Kind::Canonical => {
                let mark = slot::TOMBSTONE;
                let pairs = with_bucket_slots!(plan, S => vacate(&Canonical::<S>::new(&functions), image, keys, mark));
                Removed { pairs, outside: false }
            }
            Kind::Classic => {
                let mark = slots_of_pairs::EMPTY;
                let pairs =
                    with_bucket_slots!(plan, S => vacate(&Classic::<S>::new(plan, &functions), image, keys, mark));
                Removed { pairs, outside: any(keys, CHUNK, |_, keys| keys.contains(&slots_of_pairs::EMPTY_KEY)) }
            }
        })
    }

    fn lift(&self, plan: &BucketizedPlan, image: &mut Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        self.ledger().kernel("bucketized_lift", image.len());
        let (functions, slots) = (plan.functions(), plan.bucket_slots() as usize);
        let pair = |at: usize, word| bucketized::canonical::pair(&functions, (at / slots) as u32, word);
        self.lift_with(image.words_mut()?, pair)
    }
}

impl Cpu {
    /// An image with these pairs, built one partition at a time; `None` if another strategy should be used.
    fn bucketized_by_parts(
        &self,
        plan: &BucketizedPlan,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<Option<(Memory<u64>, Placed)>> {
        if plan.kind() == Kind::Classic || keys.is_empty() || self.build_route(keys.len())? == BuildRoute::Direct {
            return Ok(None);
        }
        let functions = plan.functions();
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        let mut image = Memory::zeroed(plan.word_count()?)?;
        let words = image.words_mut()?;
        let placed = with_bucket_slots!(plan, S => {
            self.ledger().kernel("bucketized_deal", keys.len());
            let Some(parts) = self.run(|| parts::partitioned::<S>(&functions, words, pairs))? else { return Ok(None) };
            self.ledger().kernel("bucketized_parts", keys.len());
            let Some(left) = self.run(|| parts.place::<S>(words))? else { return Ok(None) };
            self.ledger().kernel("bucketized_escapes", left.len());
            self.run(|| parts::finish::<S>(&functions, words, left, self.workspaces())).flatten()?
        });
        Ok(Some((image, placed)))
    }
}

/// Lookup on all threads. `outside` is the sentinel pair.
fn look_up<const S: usize>(
    lists: &impl Buckets<S>,
    outside: Option<(u32, u32)>,
    image: &[u64],
    queries: &[u32],
    values: &mut [u32],
    found: &mut [u32],
) {
    each((queries, values, Per(32, found)), CHUNK, |_, (queries, values, Per(_, found))| {
        with_lanes!(lanes => lookup::answer(lanes, lists, image, queries, values, found));
        let Some((key, value)) = outside else { return };
        for i in (0..queries.len()).filter(|&i| queries[i] == key) {
            values[i] = value;
            found[i / 32] |= 1 << (i % 32);
        }
    });
}

/// Overwrites values on all threads. Keys are distinct, so no two threads change one slot; and values do not affect the
/// search for other keys, so concurrent readers of the slot are correct.
fn overwrite<const S: usize>(lists: &impl Buckets<S>, image: &[AtomicU64], pairs: Pairs<'_>) {
    each((pairs.keys, pairs.values), CHUNK, |_, (keys, values)| {
        lookup::search(Portable, lists, image, keys, |Hit { number, at, word, found }| {
            if found {
                image[at].store(word >> 32 << 32 | u64::from(values[number]), Relaxed);
            }
        });
    });
}

/// Replaces the pairs of keys by `mark`, on all threads, and counts them. Of several threads with one key, one finds
/// the pair in the slot and the others the mark.
fn vacate<const S: usize>(lists: &impl Buckets<S>, image: &[AtomicU64], keys: &[u32], mark: u64) -> u64 {
    let of_chunk = |_, keys: &[u32]| {
        let mut vacated = 0;
        lookup::search(Portable, lists, image, keys, |Hit { at, found, .. }| {
            vacated += u64::from(found && image[at].swap(mark, Relaxed) != mark);
        });
        vacated
    };
    fold(keys, CHUNK, of_chunk, u64::add)
}
