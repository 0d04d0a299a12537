//! Signpost tables on the CPU.
//!
//! ```text
//! build.rs    builds one partition at a time: all keys of a home stay in its part, except for the stash
//! part.rs     one part: its lines
//! homes.rs    homes with keys that leave
//! offers.rs   which lines accept which keys
//! lookup.rs   lookup, a block of keys and their lines at a time
//! ```

mod build;
mod homes;
mod lookup;
mod offers;
mod part;
#[cfg(test)]
mod tests;

use super::bucketized::wide::Shared;
use super::{Cpu, Memory};
use crate::backend::{DecodedOf, DeviceBuffer, HashBackend, Passes, Placed, PlacedOf};
use crate::error::{Error, Result};
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::signpost::{Posted, SignpostPlan};
use crate::scheme::{Plan, SignpostOf};

type LayoutOf<K, V> = <(K, V) as Posted>::Layout;
type KeyOf<K, V> = <LayoutOf<K, V> as Layout>::Key;
type ValueOf<K, V> = <LayoutOf<K, V> as Layout>::Value;

impl<K: Column, V: Column> Passes<SignpostOf<K, V>> for Cpu
where
    (K, V): Posted,
    KeyOf<K, V>: Shared,
    ValueOf<K, V>: Shared,
{
    fn build(
        &self,
        plan: &SignpostPlan<LayoutOf<K, V>>,
        keys: &Memory<KeyOf<K, V>>,
        values: &Memory<ValueOf<K, V>>,
    ) -> Result<(Memory<u64>, PlacedOf<SignpostOf<K, V>>)> {
        self.build_signposts(plan, keys.words(), values.words())
    }

    /// Builds a new image, because the length of an image depends on all pairs: an existing image has the stash of
    /// other pairs.
    fn place(
        &self,
        plan: &SignpostPlan<LayoutOf<K, V>>,
        image: &mut Memory<u64>,
        keys: &Memory<KeyOf<K, V>>,
        values: &Memory<ValueOf<K, V>>,
    ) -> Result<PlacedOf<SignpostOf<K, V>>> {
        let (new, placed) = self.build_signposts(plan, keys.words(), values.words())?;
        if placed.unplaced == 0 {
            Error::check_length("the image", image.len(), new.len())?;
            self.copy(&new, 0, image, 0, new.len())?;
        }
        Ok(placed)
    }

    fn lookup(
        &self,
        plan: &SignpostPlan<LayoutOf<K, V>>,
        image: &Memory<u64>,
        queries: &Memory<KeyOf<K, V>>,
        values: &mut Memory<ValueOf<K, V>>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("signpost_lookup", queries.len());
        self.lookup_in_lines::<LayoutOf<K, V>>(&plan.functions(), image, queries, values, found)
    }

    fn contains(
        &self,
        plan: &SignpostPlan<LayoutOf<K, V>>,
        image: &Memory<u64>,
        queries: &Memory<KeyOf<K, V>>,
    ) -> Result<Memory<u32>> {
        self.ledger().kernel("signpost_lookup", queries.len());
        self.contains_in_lines::<LayoutOf<K, V>>(&plan.functions(), image, queries)
    }

    fn assign(
        &self,
        plan: &SignpostPlan<LayoutOf<K, V>>,
        image: &mut Memory<u64>,
        keys: &Memory<KeyOf<K, V>>,
        values: &Memory<ValueOf<K, V>>,
    ) -> Result<()> {
        self.ledger().kernel("signpost_assign", keys.len());
        self.assign_in_lines::<LayoutOf<K, V>>(&plan.functions(), image, keys, values)
    }

    fn decode(
        &self,
        plan: &SignpostPlan<LayoutOf<K, V>>,
        image: &Memory<u64>,
    ) -> Result<DecodedOf<Cpu, SignpostOf<K, V>>> {
        self.ledger().kernel("signpost_decode", image.len());
        self.decode_lines::<LayoutOf<K, V>, _>(&plan.functions(), image, plan.cells() as usize)
    }
}

/// A new image, and the counts of its pairs.
type Built<L> = (Memory<u64>, Placed<<L as Layout>::Key, <L as Layout>::Value>);
