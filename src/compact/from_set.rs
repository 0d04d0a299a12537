//! The paper's own construction of a compacting table (Alcantara et al. 2011, Section 4.4): from a set, without placing
//! the keys again.
//!
//! ```text
//! set       slots of 32 bits, built from rows with duplicate keys; a clean-up has left one slot per key
//! flags     a one for each slot that holds a key
//! ids       the ones before each slot: a prefix sum
//! table     [slot of the set][id] where the flag is one, empty elsewhere: the two interleaved
//! unique    the keys whose flag is one, in the order of the slots
//! ```
//!
//! A set's slot is the upper half of the corresponding word in the cuckoo table of the same keys
//! (`scheme/cuckoo_set.rs`), so the result is that table. From a canonical set, it is bit for bit the table built from
//! the pairs `key -> id`.

use super::CompactingTable;
use crate::backend::{Decoded, DeviceBuffer, Kernels, Runs};
use crate::error::Result;
use crate::scheme::{Cuckoo, CuckooSet, Plan};
use crate::set::HashSet;
use crate::table::{Contents, Duplicates, HashTable, Image};

impl<B: Runs<CuckooSet> + Runs<Cuckoo>> CompactingTable<B, Cuckoo> {
    /// Numbers the keys of a set in its table order: slot by slot, then the sentinel key, if it is in the set. For a
    /// canonical set this order is the same on every device; it depends on the seed and the number of slots.
    ///
    /// The table has the set's functions, seed and slots. A set with tombstones is compacted first.
    ///
    /// Cost: passes over the slots in order; no key is hashed or looked up. Memory: the table, another 12 bytes per
    /// slot, and the set until the end.
    ///
    /// ```
    /// use koel::{CompactingTable, Cpu, CuckooSet, HashSet};
    /// let set = HashSet::builder(CuckooSet::canonical(4)).build(&Cpu::new(), &[30, 10, 30, 20])?;
    /// let keys = set.to_keys()?;
    /// let table = CompactingTable::from_set(set)?;
    /// assert_eq!(table.unique()?, keys);
    /// assert_eq!(table.ids(&keys)?, [Some(0), Some(1), Some(2)]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or what the device reports.
    pub fn from_set(mut set: HashSet<B, CuckooSet>) -> Result<Self> {
        set.compact()?;
        let set = set.table();
        let (backend, plan) = (set.backend(), *set.plan().cuckoo());
        let Decoded { keys, taken, .. } = Kernels::<CuckooSet>::decode(backend, set.plan(), set.image())?;
        let ids = backend.ranks(&taken, keys.len())?;
        let image = backend.interleave(set.image(), &ids, &taken, plan.empty_word())?;
        drop(ids);
        let mut unique = backend.select(&taken, true, &keys)?;
        let mut outside = None;
        if let Some((key, _)) = plan.outside() {
            // There are fewer than 2^32 keys, so the last one's number fits.
            outside = Some(unique.len() as u32);
            unique = backend.concat(&unique, &backend.upload(&[key])?)?;
        }
        let builder = set.builder_like().of_scheme(|set| set.cuckoo().clone());
        let builder = builder.contents(Contents::Compact).duplicates(Duplicates::Error);
        let image = Image::of_pairs(plan, image, unique.len() as u64, outside);
        let table = HashTable::<B, Cuckoo>::of_image(backend, &builder, image)?;
        Ok(CompactingTable { table, unique })
    }
}
