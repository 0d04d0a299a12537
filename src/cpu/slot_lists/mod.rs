//! The passes of tables whose keys have lists of single slots in lines, on the CPU: cuckoo and Robin Hood tables of
//! 64-bit keys or values, and sets of 64-bit keys (`scheme/slot_lists.rs`).
//!
//! ```text
//! place.rs    words, by atomic maximum on all threads
//! lookup.rs   finds keys, a block at a time
//! ```
//!
//! Values follow their words, as in all images of lines (`bucketized/wide`): those of the old image are copied to the
//! new slots of their keys, and those of the batch are written.

mod lookup;
mod place;

use crate::backend::{DecodedOf, DeviceBuffer, HashBackend, Passes, Placed, PlacedOf, Removed};
use crate::cpu::bucketized::wide::{Shared, values};
use crate::cpu::{Cpu, Memory};
use crate::error::Result;
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::slot_lists::SlotLists;
use crate::scheme::{CuckooOf, Plan, RobinHoodOf, Scheme};

macro_rules! passes_of_slot_lists {
    ($($scheme:ident, $name:literal;)*) => {$(
        impl<K: Column, V: Column> Passes<$scheme<K, V>> for Cpu
        where
            (K, V): Layout,
            <(K, V) as Layout>::Key: Shared,
            <(K, V) as Layout>::Value: Shared,
        {
            fn build(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                keys: &Memory<<(K, V) as Layout>::Key>,
                values: &Memory<<(K, V) as Layout>::Value>,
            ) -> Result<(Memory<u64>, PlacedOf<$scheme<K, V>>)> {
                let stages = [concat!($name, "_place"), concat!($name, "_values")];
                let mut image = Memory::zeroed(plan.word_count()?)?;
                let placed = self.add_to_slots::<(K, V), _>(stages, &plan.functions(), &mut image, None, keys.words(), values.words())?;
                Ok((image, placed))
            }

            fn extended(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                image: &Memory<u64>,
                keys: &Memory<<(K, V) as Layout>::Key>,
                values: &Memory<<(K, V) as Layout>::Value>,
            ) -> Result<(Memory<u64>, PlacedOf<$scheme<K, V>>)> {
                let stages = [concat!($name, "_place"), concat!($name, "_values")];
                let mut new = self.clone_buffer(image)?;
                let placed = self.add_to_slots::<(K, V), _>(stages, &plan.functions(), &mut new, Some(image), keys.words(), values.words())?;
                Ok((new, placed))
            }

            fn place(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                image: &mut Memory<u64>,
                keys: &Memory<<(K, V) as Layout>::Key>,
                values: &Memory<<(K, V) as Layout>::Value>,
            ) -> Result<PlacedOf<$scheme<K, V>>> {
                let stages = [concat!($name, "_place"), concat!($name, "_values")];
                let old = self.clone_buffer(image)?;
                self.add_to_slots::<(K, V), _>(stages, &plan.functions(), image, Some(&old), keys.words(), values.words())
            }

            fn lookup(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                image: &Memory<u64>,
                queries: &Memory<<(K, V) as Layout>::Key>,
                values: &mut Memory<<(K, V) as Layout>::Value>,
                found: &mut Memory<u32>,
            ) -> Result<()> {
                self.ledger().kernel(concat!($name, "_lookup"), queries.len());
                self.lookup_in_lines::<(K, V)>(&plan.functions(), image, queries, values, found)
            }

            fn contains(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                image: &Memory<u64>,
                queries: &Memory<<(K, V) as Layout>::Key>,
            ) -> Result<Memory<u32>> {
                self.ledger().kernel(concat!($name, "_lookup"), queries.len());
                self.contains_in_lines::<(K, V)>(&plan.functions(), image, queries)
            }

            fn assign(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                image: &mut Memory<u64>,
                keys: &Memory<<(K, V) as Layout>::Key>,
                values: &Memory<<(K, V) as Layout>::Value>,
            ) -> Result<()> {
                self.ledger().kernel(concat!($name, "_assign"), keys.len());
                self.assign_in_lines::<(K, V)>(&plan.functions(), image, keys, values)
            }

            fn decode(&self, plan: &<$scheme<K, V> as Scheme>::Plan, image: &Memory<u64>) -> Result<DecodedOf<Cpu, $scheme<K, V>>> {
                self.ledger().kernel(concat!($name, "_decode"), plan.slot_count() as usize);
                self.decode_lines::<(K, V), _>(&plan.functions(), image, plan.cells() as usize)
            }

            fn remove(
                &self,
                plan: &<$scheme<K, V> as Scheme>::Plan,
                image: &mut Memory<u64>,
                keys: &Memory<<(K, V) as Layout>::Key>,
            ) -> Result<Removed> {
                self.ledger().kernel(concat!($name, "_remove"), keys.len());
                self.remove_from_lines::<(K, V), _>(&plan.functions(), image, keys)
            }

            fn lift(&self, plan: &<$scheme<K, V> as Scheme>::Plan, image: &mut Memory<u64>) -> Result<DecodedOf<Cpu, $scheme<K, V>>> {
                self.ledger().kernel(concat!($name, "_lift"), plan.slot_count() as usize);
                self.lift_from_lines::<(K, V), _>(&plan.functions(), image, plan.cells() as usize)
            }
        }
    )*};
}
passes_of_slot_lists! {
    CuckooOf, "cuckoo";
    RobinHoodOf, "robin_hood";
}

impl Cpu {
    /// Adds pairs to an image, whose existing pairs are those of `old`.
    fn add_to_slots<L: Layout, F: SlotLists<Key = L::Key>>(
        &self,
        [place, fetch]: [&'static str; 2],
        lists: &F,
        image: &mut Memory<u64>,
        old: Option<&Memory<u64>>,
        keys: &[L::Key],
        pair_values: &[L::Value],
    ) -> Result<Placed<L::Key, L::Value>>
    where
        L::Key: Shared,
        L::Value: Shared,
    {
        self.ledger().kernel(place, keys.len());
        let words = image.words_mut()?;
        if old.is_some() && L::VALUES.is_some() {
            self.run(|| values::clear::<L>(words))?;
        }
        let placed = self.run(|| place::words::<L, F>(lists, words, keys)).flatten()?;
        if placed.unplaced > 0 || L::VALUES.is_none() {
            return Ok(placed);
        }
        self.ledger().kernel(fetch, keys.len());
        let old = old.map(|old| old.words());
        self.run(|| values::fetch::<L>(lists, words, old, keys, pair_values)).flatten()?;
        Ok(placed)
    }
}
