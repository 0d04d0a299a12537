//! Sorted tables of 64-bit keys or values, and sorted sets of 64-bit keys: two columns instead of words.
//!
//! ```text
//! columns.rs   the positions of keys and values in an image
//! plan.rs      the integers of a plan
//! place        the pairs in ascending order of keys: keys to one column, values to the other, followed by zeros
//! find         the search of `../search.rs` among the keys; then one read of the value
//! ```
//!
//! The image is canonical, as for `Sorted`: a set of pairs has one ascending order.
//!
//! This is not a hash table: there are no constants, no attempts and no ages.

pub(crate) mod columns;
mod plan;
#[cfg(test)]
mod tests;

pub use plan::ColumnsPlan;

use std::marker::PhantomData;
use std::ops::Range;

use self::columns::{columns, columns_mut, value};
use super::search::{find_by, steps};
use super::{Sorted, counts_bytes};
use crate::error::{Error, Result};
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::{Audit, Kind, Limits, Load, Placing, Plan, Request, Scheme, Updates, Violation};

/// A sorted array of `K` keys and `V` values, of which at least one has 64 bits. Created by [`Sorted::of`].
///
/// ```
/// use koel::{Cpu, HashTable, Sorted};
/// let table = HashTable::builder(Sorted.of::<u64, u32>()).build(&Cpu::new(), &[u64::MAX, 1 << 40], &[1, 2])?;
/// assert_eq!(table.to_pairs()?, [(1 << 40, 2), (u64::MAX, 1)]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SortedOf<K, V> {
    layout: PhantomData<(K, V)>,
}

impl Sorted {
    /// The same scheme for other types of keys and values: tables of `u64` keys or values, and sets of `u64` keys
    /// (`of::<u64, ()>()`).
    pub fn of<K, V>(&self) -> SortedOf<K, V>
    where
        (K, V): Layout,
    {
        SortedOf { layout: PhantomData }
    }
}

/// The keys and the values of the pairs.
fn pairs<'a, L: Layout>(plan: &ColumnsPlan<L>, image: &'a [u64]) -> (&'a [L::Key], &'a [L::Value]) {
    let (keys, values) = columns::<L>(image, plan.slot_count());
    (&keys[..keys.len().min(plan.pairs() as usize)], values)
}

impl<K: Column, V: Column> Scheme for SortedOf<K, V>
where
    (K, V): Layout,
{
    const NAME: &'static str = Sorted::NAME;
    const ID: u32 = ColumnsPlan::<(K, V)>::ID;
    const KINDS: &'static [Kind] = Sorted::KINDS;
    type Key = <(K, V) as Layout>::Key;
    type Value = <(K, V) as Layout>::Value;
    type Plan = ColumnsPlan<(K, V)>;

    fn updates(&self) -> Updates {
        Updates::Rebuild
    }
    fn of_kind(_: Kind) -> Self {
        SortedOf { layout: PhantomData }
    }
    fn default_load(&self) -> Load {
        Sorted.default_load()
    }
    /// If there are more pairs than slots, the plan has as many as there are slots: duplicates are detected later.
    fn plan(&self, request: Request) -> Result<Self::Plan> {
        let slots = u32::try_from(request.slots).map_err(|_| Error::TooLarge {
            what: "slots of a sorted table",
            requested: request.slots,
            most: u64::from(u32::MAX),
        })?;
        let slots = slots.max(1);
        let pairs = u32::try_from(request.pairs).map_or(slots, |pairs| pairs.min(slots));
        Ok(ColumnsPlan::new(slots, pairs, request.seed))
    }
    fn from_plan(_: &Self::Plan) -> Self {
        SortedOf { layout: PhantomData }
    }
    fn limits(&self) -> Limits {
        let limits = Limits::of::<Self::Key, Self::Value>();
        if <(K, V)>::VALUES.is_some() { limits } else { Limits { value_bits: 0, ..limits } }
    }

    fn find(plan: &Self::Plan, image: &[u64], key: Self::Key) -> Option<Self::Value> {
        let (keys, values) = pairs::<(K, V)>(plan, image);
        find_by(keys, |key| key, key).map(|at| value::<(K, V)>(values, at))
    }
    /// One key per step and the last key, for every query.
    fn reads(plan: &Self::Plan, image: &[u64], _: Self::Key) -> u32 {
        let (keys, _) = pairs::<(K, V)>(plan, image);
        if keys.is_empty() { 0 } else { steps(keys.len()) + 1 }
    }
    fn pair(plan: &Self::Plan, image: &[u64], at: u64) -> Option<(Self::Key, Self::Value)> {
        let (keys, values) = pairs::<(K, V)>(plan, image);
        let at = usize::try_from(at).ok()?;
        Some((*keys.get(at)?, value::<(K, V)>(values, at)))
    }
    /// The image must not be used if the number of pairs is not that of the plan, or if there are duplicates, which are
    /// adjacent.
    fn place(plan: &Self::Plan, image: &mut [u64], pairs: &[(Self::Key, Self::Value)]) -> Placing<Self::Key> {
        if pairs.len() != plan.pairs() as usize || image.len() as u64 != plan.words() {
            return Placing::Unplaced;
        }
        let mut sorted = pairs.to_vec();
        sorted.sort_by_key(|&(key, _)| key);
        image.fill(plan.empty_word());
        let (keys, values) = columns_mut::<(K, V)>(image, plan.slot_count());
        let (keys, values): (&mut [Self::Key], &mut [Self::Value]) =
            (bytemuck::cast_slice_mut(keys), bytemuck::cast_slice_mut(values));
        keys.iter_mut().zip(&sorted).for_each(|(to, pair)| *to = pair.0);
        values.iter_mut().zip(&sorted).for_each(|(to, pair)| *to = pair.1);
        let least = sorted.array_windows().find(|[(first, _), (second, _)]| first == second);
        least.map_or(Placing::Placed, |[(key, _), _]| Placing::Duplicate(*key))
    }
    /// Checks that keys are strictly ascending, and that zeros follow, including the unused half of the last word of a
    /// column.
    fn audit(plan: &Self::Plan, image: &[u64], cells: Range<u64>) -> std::result::Result<Audit, Violation> {
        let (keys, values) = columns::<(K, V)>(image, plan.slot_count());
        let mut audit = Audit::default();
        let end = if cells.end == plan.slots() { keys.len().max(values.len()) as u64 } else { cells.end };
        for slot in cells.start..end {
            let at = slot as usize;
            if slot >= u64::from(plan.pairs()) {
                let word = keys.get(at).map_or(0, |&key| key.into()) | value::<(K, V)>(values, at).into();
                if word != 0 {
                    return Err(Violation::Word { slot, word });
                }
                continue;
            }
            let key = keys[at];
            if let Some(&before) = at.checked_sub(1).and_then(|before| keys.get(before)) {
                if before == key {
                    return Err(Violation::Twice { slot, other: slot - 1, key: key.into() });
                }
                if before > key {
                    return Err(Violation::Unsorted { bucket: slot });
                }
            }
            audit.pairs += 1;
            audit.greatest_age = 1;
        }
        Ok(audit)
    }

    /// The CPU sorts pairs of 16 bytes, and needs as much again if many keys share their leading bits. The OpenCL sort
    /// needs the columns twice, and its counts, with totals of eight passes.
    fn scratch_bytes(plan: &Self::Plan, _: u64) -> u64 {
        let pairs = u64::from(plan.pairs());
        32 * pairs + counts_bytes(pairs) + 4096
    }
}
