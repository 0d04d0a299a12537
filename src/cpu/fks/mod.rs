//! The two-level table on the CPU.
//!
//! ```text
//! split.rs     fks_count, fks_scan, fks_shuffle: moves every pair to the range of its bucket
//! bucket.rs    fks_cuckoo: builds each bucket in one core's first-level cache, and writes its words once
//! accept.rs    the canonical rule for one bucket
//! rounds.rs    the poster's rounds for one bucket
//! lists.rs     the slots of a key, for the passes of the cuckoo table
//! ```
//!
//! The passes are the poster's four. The ledger uses the same names, so that stages can be timed on every device.

mod accept;
mod bucket;
mod lists;
mod rounds;
mod split;
#[cfg(test)]
mod tests;

use self::lists::Fks as Lists;
use super::Cpu;
use super::block::{Pairs, sum};
use super::memory::{Memory, atomic};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Passes, Placed};
use crate::error::Result;
use crate::scheme::fks::{FksPlan, Position, canonical, classic};
use crate::scheme::{Fks, Kind, Plan};

impl Passes<Fks> for Cpu {
    fn place(
        &self,
        plan: &FksPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<Placed> {
        let len = keys.len();
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        let (functions, words) = (plan.functions(), image.words_mut()?);
        // Two ranks per word; one place more than there are buckets, for the end of the last one.
        let mut ranks = Memory::<u32>::zeroed(len.div_ceil(2))?;
        let mut starts = Memory::<u64>::zeroed(functions.buckets as usize + 1)?;
        let ranks_of = bytemuck::cast_slice_mut(ranks.words_mut()?);

        self.ledger().kernel("fks_count", len);
        let counts = atomic(starts.words_mut()?);
        let mut placed = self.run(|| split::count(&functions, plan, counts, pairs, ranks_of))?;
        self.ledger().kernel("fks_scan", starts.len());
        let counts = starts.words_mut()?;
        placed.unplaced = self.run(|| split::scan(counts)).flatten()?;
        if placed.unplaced > 0 {
            return Ok(placed);
        }
        self.ledger().kernel("fks_shuffle", len);
        let starts = starts.words();
        let mut shuffled = Memory::<u64>::zeroed(len)?;
        let to = atomic(shuffled.words_mut()?);
        self.run(|| split::shuffle(&functions, starts, pairs, ranks_of, to))?;
        self.ledger().kernel("fks_cuckoo", len);
        let built = self.run(|| bucket::cuckoo(&functions, plan, starts, shuffled.words(), words)).flatten()?;
        Ok(sum(placed, built))
    }

    fn lookup(
        &self,
        plan: &FksPlan,
        image: &Memory<u64>,
        queries: &Memory<u32>,
        values: &mut Memory<u32>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("fks_lookup", queries.len());
        let functions = plan.functions();
        let (slots, seeds) = image.words().split_at(functions.slots());
        let (queries, values, found) = (queries.words(), values.words_mut()?, found.words_mut()?);
        self.run(|| match plan.kind() {
            Kind::Canonical => {
                self.look_up(&Lists::canonical(&functions, seeds), None, slots, queries, values, found);
            }
            Kind::Classic => {
                self.look_up(&Lists::classic(&functions, seeds), plan.outside(), slots, queries, values, found);
            }
        })?;
        Ok(())
    }

    fn assign(&self, plan: &FksPlan, image: &mut Memory<u64>, keys: &Memory<u32>, values: &Memory<u32>) -> Result<()> {
        self.ledger().kernel("fks_assign", keys.len());
        let functions = plan.functions();
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        let (slots, seeds) = image.words_mut()?.split_at_mut(functions.slots());
        let slots = atomic(slots);
        self.run(|| match plan.kind() {
            Kind::Canonical => self.overwrite(&Lists::canonical(&functions, seeds), slots, pairs),
            Kind::Classic => self.overwrite(&Lists::classic(&functions, seeds), slots, pairs),
        })?;
        Ok(())
    }

    fn decode(&self, plan: &FksPlan, image: &Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        self.ledger().kernel("fks_decode", image.len());
        let (functions, words) = (plan.functions(), image.words());
        self.decode_with(words, |at, word| {
            let Position { bucket, subtable, at } = functions.position(at as u64)?;
            match plan.kind() {
                Kind::Canonical => canonical::pair(&functions, functions.seed(words, bucket), subtable, at, word),
                Kind::Classic => classic::pair(word),
            }
        })
    }
}
