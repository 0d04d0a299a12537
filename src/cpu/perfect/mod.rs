//! The perfect spatial hash on the CPU: `lookup.rs` answers in blocks. Builds run on the host for every backend
//! (`scheme/perfect/build.rs`).

mod lookup;
#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering::Relaxed;

use super::memory::{Memory, atomic};
use super::{CHUNK, Cpu};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Passes, Placed};
use crate::error::Result;
use crate::parallel::{Per, each};
use crate::scheme::cuckoo::classic::pair;
use crate::scheme::perfect::build;
use crate::scheme::{Perfect, PerfectPlan, Plan};

/// Queries that a thread answers at a time: many, because the last two rounds of each task have little work.
const TASK: usize = 4 * CHUNK;

impl Passes<Perfect> for Cpu {
    /// Builds on one thread, in the image itself.
    fn place(
        &self,
        plan: &PerfectPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<Placed> {
        let outside = plan.outside().is_some();
        self.ledger().host("place", keys.len());
        build::place(&plan.functions(), image.words_mut()?, outside, keys.words(), values.words())
    }

    fn lookup(
        &self,
        plan: &PerfectPlan,
        image: &Memory<u64>,
        queries: &Memory<u32>,
        values: &mut Memory<u32>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("perfect_lookup", queries.len());
        let (image, queries, functions) = (image.words(), queries.words(), plan.functions());
        let outside = plan.outside().map(|(_, value)| value);
        let columns = (queries, values.words_mut()?, Per(32, found.words_mut()?));
        self.run(|| {
            each(columns, TASK, |_, (queries, values, Per(_, found))| {
                lookup::answer(&functions, image, outside, queries, values, found);
            });
        })?;
        Ok(())
    }

    /// Keys are distinct, so no two threads change one slot; and values do not affect the search for other keys, so
    /// concurrent readers of the slot are correct.
    fn assign(
        &self,
        plan: &PerfectPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("perfect_assign", keys.len());
        let functions = plan.functions();
        let image = atomic(image.words_mut()?);
        self.run(|| {
            each((keys.words(), values.words()), TASK, |_, (keys, values)| {
                let word = |at: usize| image[at].load(Relaxed);
                lookup::search(&functions, image, word, keys, |i, hit, slot, word| {
                    if hit {
                        image[slot as usize].store(word >> 32 << 32 | u64::from(values[i]), Relaxed);
                    }
                });
            });
        })?;
        Ok(())
    }

    fn decode(&self, plan: &PerfectPlan, image: &Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        self.ledger().kernel("perfect_decode", plan.slots() as usize);
        self.decode_with(&image.words()[..plan.slots() as usize], |_, word| pair(word))
    }
}
