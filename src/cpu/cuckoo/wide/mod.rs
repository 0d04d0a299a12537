//! Cuckoo tables of 64-bit keys or values, and sets of 64-bit keys, on the CPU.
//!
//! ```text
//! place.rs    words, by atomic maximum on all threads
//! lookup.rs   where keys stand, a block of them at a time
//! ```
//!
//! Values follow their words, and what a batch does to values is that of all images of lines (`bucketized/wide`): those of
//! the old image are carried to where their keys stand now, those of the batch are brought.

mod lookup;
mod place;
#[cfg(test)]
mod tests;

use crate::backend::{DecodedOf, DeviceBuffer, HashBackend, Passes, Placed, PlacedOf, Removed};
use crate::cpu::bucketized::wide::{Shared, values};
use crate::cpu::{Cpu, Memory};
use crate::error::Result;
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::cuckoo::wide::CuckooLinePlan;
use crate::scheme::{CuckooOf, Plan};

impl<K: Column, V: Column> Passes<CuckooOf<K, V>> for Cpu
where
    (K, V): Layout,
    <(K, V) as Layout>::Key: Shared,
    <(K, V) as Layout>::Value: Shared,
{
    fn build(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        keys: &Memory<<(K, V) as Layout>::Key>,
        values: &Memory<<(K, V) as Layout>::Value>,
    ) -> Result<(Memory<u64>, PlacedOf<CuckooOf<K, V>>)> {
        let mut image = Memory::zeroed(plan.word_count()?)?;
        let placed = self.add_to_slots::<(K, V)>(plan, &mut image, None, keys.words(), values.words())?;
        Ok((image, placed))
    }

    fn extended(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        image: &Memory<u64>,
        keys: &Memory<<(K, V) as Layout>::Key>,
        values: &Memory<<(K, V) as Layout>::Value>,
    ) -> Result<(Memory<u64>, PlacedOf<CuckooOf<K, V>>)> {
        let mut new = self.clone_buffer(image)?;
        let placed = self.add_to_slots::<(K, V)>(plan, &mut new, Some(image), keys.words(), values.words())?;
        Ok((new, placed))
    }

    fn place(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        image: &mut Memory<u64>,
        keys: &Memory<<(K, V) as Layout>::Key>,
        values: &Memory<<(K, V) as Layout>::Value>,
    ) -> Result<PlacedOf<CuckooOf<K, V>>> {
        let old = self.clone_buffer(image)?;
        self.add_to_slots::<(K, V)>(plan, image, Some(&old), keys.words(), values.words())
    }

    fn lookup(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        image: &Memory<u64>,
        queries: &Memory<<(K, V) as Layout>::Key>,
        values: &mut Memory<<(K, V) as Layout>::Value>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("cuckoo_lookup", queries.len());
        self.lookup_in_lines::<(K, V)>(&plan.functions(), image, queries, values, found)
    }

    fn contains(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        image: &Memory<u64>,
        queries: &Memory<<(K, V) as Layout>::Key>,
    ) -> Result<Memory<u32>> {
        self.ledger().kernel("cuckoo_lookup", queries.len());
        self.contains_in_lines::<(K, V)>(&plan.functions(), image, queries)
    }

    fn assign(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        image: &mut Memory<u64>,
        keys: &Memory<<(K, V) as Layout>::Key>,
        values: &Memory<<(K, V) as Layout>::Value>,
    ) -> Result<()> {
        self.ledger().kernel("cuckoo_assign", keys.len());
        self.assign_in_lines::<(K, V)>(&plan.functions(), image, keys, values)
    }

    fn decode(&self, plan: &CuckooLinePlan<(K, V)>, image: &Memory<u64>) -> Result<DecodedOf<Cpu, CuckooOf<K, V>>> {
        self.ledger().kernel("cuckoo_decode", plan.slot_count() as usize);
        self.decode_lines::<(K, V)>(&plan.functions(), image, plan.cells() as usize)
    }

    fn remove(
        &self,
        plan: &CuckooLinePlan<(K, V)>,
        image: &mut Memory<u64>,
        keys: &Memory<<(K, V) as Layout>::Key>,
    ) -> Result<Removed> {
        self.ledger().kernel("cuckoo_remove", keys.len());
        self.remove_from_lines::<(K, V)>(&plan.functions(), image, keys)
    }

    fn lift(&self, plan: &CuckooLinePlan<(K, V)>, image: &mut Memory<u64>) -> Result<DecodedOf<Cpu, CuckooOf<K, V>>> {
        self.ledger().kernel("cuckoo_lift", plan.slot_count() as usize);
        self.lift_from_lines::<(K, V)>(&plan.functions(), image, plan.cells() as usize)
    }
}

impl Cpu {
    /// Adds pairs to an image, whose pairs so far are those of `old`.
    fn add_to_slots<L: Layout>(
        &self,
        plan: &CuckooLinePlan<L>,
        image: &mut Memory<u64>,
        old: Option<&Memory<u64>>,
        keys: &[L::Key],
        pair_values: &[L::Value],
    ) -> Result<Placed<L::Key, L::Value>>
    where
        L::Key: Shared,
        L::Value: Shared,
    {
        self.ledger().kernel("cuckoo_place", keys.len());
        let (functions, words) = (plan.functions(), image.words_mut()?);
        if old.is_some() && L::VALUES.is_some() {
            self.run(|| values::clear::<L>(words))?;
        }
        let placed = self.run(|| place::words::<L>(&functions, words, keys)).flatten()?;
        if placed.unplaced > 0 || L::VALUES.is_none() {
            return Ok(placed);
        }
        self.ledger().kernel("cuckoo_values", keys.len());
        let old = old.map(|old| old.words());
        self.run(|| values::bring::<L>(&functions, words, old, keys, pair_values)).flatten()?;
        Ok(placed)
    }
}
