//! The construction of compacting tables in the paper (Alcantara et al. 2011, Section 4.4): it starts from a set, and
//! does not place the keys again.
//!
//! ```text
//! set       slots of 32 bits, built from rows with duplicate keys, and cleaned up so that one slot per key remains
//! flags     one for each slot that contains a key
//! ids       the number of ones before each slot: a prefix sum
//! table     [slot of the set][id] if the flag is one, otherwise empty: the two columns interleaved
//! unique    the keys whose flag is one, in the order of the slots
//! ```
//!
//! A slot of the set is the upper half of the corresponding word in the cuckoo table of the same keys
//! (`scheme/cuckoo_set.rs`), so the result is that cuckoo table. For a canonical set, it has the same bytes as the
//! table built from the pairs `key -> id`.

use super::CompactingTable;
use crate::backend::{Decoded, DeviceBuffer, Kernels, Runs};
use crate::error::Result;
use crate::scheme::{Cuckoo, CuckooSet, Plan};
use crate::set::HashSet;
use crate::table::{Contents, Duplicates, HashTable, Image};

impl<B: Runs<CuckooSet> + Runs<Cuckoo>> CompactingTable<B, Cuckoo> {
    /// Numbers the keys of a set in table order: slot by slot, then the sentinel key, if it is in the set. For a
    /// canonical set this order is the same on every device; it depends on the seed and the number of slots.
    ///
    /// The table has the hash functions, the seed and the slots of the set. Tombstones are removed first.
    ///
    /// Cost: sequential passes over the slots; no key is hashed or looked up. Memory: the table, another 12 bytes per
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
            // There are fewer than 2^32 keys, so the number of the last one fits.
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
