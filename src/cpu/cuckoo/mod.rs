//! The cuckoo table on the CPU.
//!
//! ```text
//! block.rs      blocks of keys and the queues between them
//! canonical.rs  place by atomic maximum
//! classic.rs    place by atomic swap, and the pass that finds copies
//! lookup.rs     lookup, for both kinds
//! ```

mod block;
mod canonical;
mod classic;
mod lookup;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;

use self::block::Lists;
pub(super) use self::block::Workspaces;
use self::canonical::Canonical;
use self::classic::Classic;
use super::memory::{Memory, atomic};
use super::{CHUNK, Cpu};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Kernels, Placed, bitmap_words};
use crate::error::{Error, Result};
use crate::fault::{Fault, planted};
use crate::spec::cuckoo::{self, CuckooPlan, Functions};
use crate::spec::{Cuckoo, Kind, Plan};

/// A batch: `keys[i]` goes with `values[i]`.
#[derive(Clone, Copy)]
struct Pairs<'a> {
    keys: &'a [u32],
    values: &'a [u32],
}

/// What two threads counted. Of the marker's values the greatest stays.
fn sum(a: Placed, b: Placed) -> Placed {
    Placed {
        unplaced: a.unplaced + b.unplaced,
        copies: a.copies + b.copies,
        least_copy: a.least_copy.into_iter().chain(b.least_copy).min(),
        outside: a.outside.max(b.outside),
    }
}

/// The functions of a plan, with one constant off where that fault is planted.
fn functions(plan: &CuckooPlan) -> Functions {
    let mut functions = plan.functions();
    if planted("cpu", Fault::Hash) {
        functions.keys[0].before ^= 1;
    }
    functions
}

impl Kernels<Cuckoo> for Cpu {
    fn place(
        &self,
        plan: &CuckooPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<Placed> {
        check_image(plan, image)?;
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
        plan: &CuckooPlan,
        image: &Memory<u64>,
        queries: &Memory<u32>,
        values: &mut Memory<u32>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        check_image(plan, image)?;
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

    fn assign(
        &self,
        plan: &CuckooPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<()> {
        check_image(plan, image)?;
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

    fn decode(&self, plan: &CuckooPlan, image: &Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        check_image(plan, image)?;
        self.ledger().kernel("cuckoo_decode", image.len());
        let mut keys = Memory::zeroed(image.len())?;
        let mut values = Memory::zeroed(image.len())?;
        let mut taken = Memory::zeroed(bitmap_words(image.len()))?;
        let functions = functions(plan);
        let pair = |slot: u32, word: u64| match plan.kind() {
            Kind::Canonical => cuckoo::canonical::pair(&functions, slot, word),
            Kind::Classic => cuckoo::classic::pair(word),
        };
        let (to_keys, to_values, to_taken) = (keys.words_mut()?, values.words_mut()?, taken.words_mut()?);
        self.run(|| {
            let to = (to_keys.par_chunks_mut(32), to_values.par_chunks_mut(32), to_taken);
            let slots = image.words().par_chunks(32).zip(to.into_par_iter());
            slots.enumerate().with_min_len(CHUNK / 32).for_each(|(group, (words, (keys, values, taken)))| {
                for (i, &word) in words.iter().enumerate() {
                    if let Some(pair) = pair((32 * group + i) as u32, word) {
                        (keys[i], values[i]) = pair;
                        *taken |= 1 << i;
                    }
                }
            });
        });
        Ok(Decoded { keys, values, taken })
    }
}

fn check_image(plan: &CuckooPlan, image: &Memory<u64>) -> Result<()> {
    Error::check_length("the image", image.len(), plan.slot_count() as usize)
}

impl Cpu {
    /// Lookup on all threads. `outside` is the pair that stands beside the image.
    fn look_up(
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
    fn overwrite(&self, lists: &impl Lists, image: &[AtomicU64], pairs: Pairs<'_>) {
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
}
