//! The cuckoo table on the CPU, and the schemes that are one with a single function.
//!
//! ```text
//! canonical.rs  place by atomic maximum
//! classic.rs    place by atomic swap, and the pass that finds copies
//! lookup.rs     lookup, for both kinds
//! ```

mod canonical;
mod classic;
mod lookup;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use self::canonical::Canonical;
use self::classic::Classic;
use super::block::{Lists, Pairs, sum};
use super::memory::{Memory, atomic};
use super::{CHUNK, Cpu};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Kernels, Placed, Removed, bitmap_words};
use crate::error::{Error, Result};
use crate::fault::{Fault, planted};
use crate::spec::cuckoo::{self, CuckooImage, CuckooPlan, Functions};
use crate::spec::{Kind, Plan, slot};

/// The functions of a plan, with one constant off where that fault is planted.
fn functions(plan: &CuckooPlan) -> Functions {
    let mut functions = plan.functions();
    if planted("cpu", Fault::Hash) {
        functions.keys[0].before ^= 1;
    }
    functions
}

impl<S: CuckooImage> Kernels<S> for Cpu {
    fn place(
        &self,
        plan: &S::Plan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<Placed> {
        let plan = &checked::<S>(plan, image)?;
        Error::check_length("the values", values.len(), keys.len())?;
        if planted("cpu", Fault::Stale) {
            return Ok(Placed::default());
        }
        let len = keys.len().saturating_sub(usize::from(planted("cpu", Fault::Drop)));
        let pairs = Pairs { keys: &keys.words()[..len], values: &values.words()[..len] };
        let functions = functions(plan);
        self.ledger().kernel("cuckoo_place", len);
        let (words, workspaces) = (image.words_mut()?, self.workspaces());
        if plan.kind() == Kind::Canonical {
            return Ok(self.run(|| canonical::place(&functions, atomic(words), pairs, workspaces)));
        }
        let placed = self.run(|| classic::place(plan, &functions, atomic(words), pairs));
        if placed.unplaced > 0 {
            return Ok(placed);
        }
        self.ledger().kernel("cuckoo_copies", words.len());
        Ok(sum(placed, self.run(|| classic::copies(plan, &functions, words, workspaces))))
    }

    fn lookup(
        &self,
        plan: &S::Plan,
        image: &Memory<u64>,
        queries: &Memory<u32>,
        values: &mut Memory<u32>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        let plan = &checked::<S>(plan, image)?;
        Error::check_length("the values", values.len(), queries.len())?;
        Error::check_length("the bitmap", found.len(), bitmap_words(queries.len()))?;
        self.ledger().kernel("cuckoo_lookup", queries.len());
        let (image, queries, functions) = (image.words(), queries.words(), functions(plan));
        let (values, found) = (values.words_mut()?, found.words_mut()?);
        self.run(|| match plan.kind() {
            Kind::Canonical => self.look_up(&Canonical::new(&functions), None, image, queries, values, found),
            Kind::Classic => {
                self.look_up(&Classic::new(plan, &functions), plan.outside(), image, queries, values, found)
            }
        });
        Ok(())
    }

    fn assign(&self, plan: &S::Plan, image: &mut Memory<u64>, keys: &Memory<u32>, values: &Memory<u32>) -> Result<()> {
        let plan = &checked::<S>(plan, image)?;
        Error::check_length("the values", values.len(), keys.len())?;
        self.ledger().kernel("cuckoo_assign", keys.len());
        let functions = functions(plan);
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        let image = atomic(image.words_mut()?);
        self.run(|| match plan.kind() {
            Kind::Canonical => self.overwrite(&Canonical::new(&functions), image, pairs),
            Kind::Classic => self.overwrite(&Classic::new(plan, &functions), image, pairs),
        });
        Ok(())
    }

    fn decode(&self, plan: &S::Plan, image: &Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        let plan = &checked::<S>(plan, image)?;
        self.ledger().kernel("cuckoo_decode", image.len());
        let functions = functions(plan);
        self.decode_with(image.words(), |slot, word| match plan.kind() {
            Kind::Canonical => cuckoo::canonical::pair(&functions, slot as u32, word),
            Kind::Classic => cuckoo::classic::pair(word),
        })
    }

    fn remove(&self, plan: &S::Plan, image: &mut Memory<u64>, keys: &Memory<u32>) -> Result<Removed> {
        let plan = &checked::<S>(plan, image)?;
        self.ledger().kernel("cuckoo_remove", keys.len());
        let functions = functions(plan);
        let (image, keys) = (atomic(image.words_mut()?), keys.words());
        Ok(self.run(|| match plan.kind() {
            Kind::Canonical => {
                let pairs = self.vacate(&Canonical::new(&functions), image, keys, slot::TOMBSTONE);
                Removed { pairs, outside: false }
            }
            Kind::Classic => Removed {
                pairs: self.vacate(&Classic::new(plan, &functions), image, keys, cuckoo::classic::EMPTY),
                outside: keys.par_iter().any(|&key| key == cuckoo::classic::EMPTY_KEY),
            },
        }))
    }

    fn lift(&self, plan: &S::Plan, image: &mut Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        Error::check_tombstones::<S>(plan)?;
        let plan = &checked::<S>(plan, image)?;
        self.ledger().kernel("cuckoo_lift", image.len());
        let functions = functions(plan);
        self.lift_with(image.words_mut()?, |slot, word| cuckoo::canonical::pair(&functions, slot as u32, word))
    }
}

/// The plan that the passes read, of an image that has a slot for each place of a key.
fn checked<S: CuckooImage>(plan: &S::Plan, image: &Memory<u64>) -> Result<CuckooPlan> {
    Error::check_plan::<S>(plan)?;
    let plan = S::cuckoo_plan(plan);
    Error::check_length("the image", image.len(), plan.slot_count() as usize)?;
    Ok(plan)
}

impl Cpu {
    /// Lookup on all threads. `outside` is the pair that stands beside the image.
    pub(in crate::cpu) fn look_up(
        &self,
        lists: &impl Lists,
        outside: Option<(u32, u32)>,
        image: &[u64],
        queries: &[u32],
        values: &mut [u32],
        found: &mut [u32],
    ) {
        let to = values.par_chunks_mut(CHUNK).zip(found.par_chunks_mut(CHUNK / 32));
        let chunks = queries.par_chunks(CHUNK).zip(to);
        chunks.for_each_init(
            || self.workspaces().lend(),
            |loan, (queries, (values, found))| {
                lookup::answer(lists, image, queries, values, found, loan.workspace());
                let Some((key, value)) = outside else { return };
                for i in (0..queries.len()).filter(|&i| queries[i] == key) {
                    values[i] = value;
                    found[i / 32] |= 1 << (i % 32);
                }
            },
        );
    }

    /// Overwrites values on all threads. Keys are distinct, so no two threads change one slot; and a value takes no
    /// part in the search for another key, so those who read the slot meanwhile are not misled.
    pub(in crate::cpu) fn overwrite(&self, lists: &impl Lists, image: &[AtomicU64], pairs: Pairs<'_>) {
        pairs.keys.par_chunks(CHUNK).zip(pairs.values.par_chunks(CHUNK)).for_each_init(
            || self.workspaces().lend(),
            |loan, (keys, values)| {
                let write = |i: usize, hit, slot: u32, word: u64| {
                    if hit {
                        let upper = word >> 32 << 32;
                        image[slot as usize].store(upper | u64::from(values[i]), Relaxed);
                    }
                };
                lookup::search(lists, image, keys, loan.workspace(), write);
            },
        );
    }

    /// Writes `mark` over the pairs of keys, on all threads, and counts them. Of several threads with one key, one finds a
    /// pair in the slot and the others the mark.
    fn vacate(&self, lists: &impl Lists, image: &[AtomicU64], keys: &[u32], mark: u64) -> u64 {
        let chunks = keys.par_chunks(CHUNK).map_init(
            || self.workspaces().lend(),
            |loan, keys| {
                let mut vacated = 0;
                let take = |_, hit, slot: u32, _| {
                    if hit {
                        vacated += u64::from(image[slot as usize].swap(mark, Relaxed) != mark);
                    }
                };
                lookup::search(lists, image, keys, loan.workspace(), take);
                vacated
            },
        );
        chunks.sum()
    }
}
