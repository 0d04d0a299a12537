//! Sorted tables of 64-bit keys or values on the CPU: pairs are sorted in scratch space, and then copied to the columns
//! of the image.

use super::super::bucketized::wide::Shared;
use super::super::memory::Memory;
use super::super::sort::sort_into;
use super::super::{BLOCK, CHUNK, Cpu};
use super::{duplicates, lookup};
use crate::backend::{DecodedOf, DeviceBuffer, HashBackend, Passes, PlacedOf, bitmap_words};
use crate::error::Result;
use crate::parallel::{Per, each};
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::sorted::wide::ColumnsPlan;
use crate::scheme::sorted::wide::columns::{columns, columns_mut};
use crate::scheme::{Plan, Scheme, SortedOf};

/// The keys of the pairs, and the values.
fn pairs_of<'a, L: Layout>(plan: &ColumnsPlan<L>, image: &'a [u64]) -> (&'a [L::Key], &'a [L::Value]) {
    let (keys, values) = columns::<L>(image, plan.slot_count());
    (&keys[..plan.pairs() as usize], values)
}

impl<K: Column, V: Column> Passes<SortedOf<K, V>> for Cpu
where
    (K, V): Layout,
    <(K, V) as Layout>::Value: Shared,
{
    /// Sorts in separate memory, and then finds duplicates in one pass.
    fn place(
        &self,
        plan: &ColumnsPlan<(K, V)>,
        image: &mut Memory<u64>,
        keys: &Memory<<(K, V) as Layout>::Key>,
        values: &Memory<<(K, V) as Layout>::Value>,
    ) -> Result<PlacedOf<SortedOf<K, V>>> {
        let unplaced = plan.pairs_beyond(keys.len())?;
        if unplaced > 0 {
            return Ok(PlacedOf::<SortedOf<K, V>> { unplaced, ..Default::default() });
        }
        let len = keys.len();
        self.ledger().kernel("sorted_place", len);
        // Values of sets, which are all 0, are not stored.
        let mut discarded = Memory::zeroed(if <(K, V)>::VALUES.is_some() { 0 } else { len })?;
        let (key_words, value_words) = columns_mut::<(K, V)>(image.words_mut()?, plan.slot_count());
        let to_keys: &mut [<(K, V) as Layout>::Key] = bytemuck::cast_slice_mut(key_words);
        let to_values: &mut [<(K, V) as Layout>::Value] = match <(K, V)>::VALUES {
            Some(_) => bytemuck::cast_slice_mut(value_words),
            None => discarded.words_mut()?,
        };
        let ((to_keys, keys_past), (to_values, values_past)) = (to_keys.split_at_mut(len), to_values.split_at_mut(len));
        self.run(|| {
            sort_into(keys.words(), values.words(), (&mut *to_keys, to_values))?;
            each(keys_past, CHUNK, |_, past| past.fill(Default::default()));
            each(values_past, CHUNK, |_, past| past.fill(Default::default()));
            Ok(duplicates(to_keys, |&key| key))
        })
        .flatten()
    }

    fn lookup(
        &self,
        plan: &ColumnsPlan<(K, V)>,
        image: &Memory<u64>,
        queries: &Memory<<(K, V) as Layout>::Key>,
        values: &mut Memory<<(K, V) as Layout>::Value>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("sorted_lookup", queries.len());
        let pairs = pairs_of(plan, image.words());
        let columns = (queries.words(), values.words_mut()?, Per(32, found.words_mut()?));
        self.run(|| {
            each(columns, CHUNK, |_, (queries, to, Per(_, found))| lookup::answer_columns(pairs, queries, to, found));
        })?;
        Ok(())
    }

    fn contains(
        &self,
        plan: &ColumnsPlan<(K, V)>,
        image: &Memory<u64>,
        queries: &Memory<<(K, V) as Layout>::Key>,
    ) -> Result<Memory<u32>> {
        self.ledger().kernel("sorted_lookup", queries.len());
        let (keys, _) = pairs_of(plan, image.words());
        let mut found = Memory::zeroed(bitmap_words(queries.len()))?;
        let columns = (queries.words(), Per(32, found.words_mut()?));
        self.run(|| {
            each(columns, CHUNK, |_, (queries, Per(_, found))| lookup::contains(keys, queries, found));
        })?;
        Ok(found)
    }

    /// Keys are distinct, so no two threads change one value; and values do not affect searches.
    fn assign(
        &self,
        plan: &ColumnsPlan<(K, V)>,
        image: &mut Memory<u64>,
        keys: &Memory<<(K, V) as Layout>::Key>,
        values: &Memory<<(K, V) as Layout>::Value>,
    ) -> Result<()> {
        self.ledger().kernel("sorted_assign", keys.len());
        let (key_words, value_words) = columns_mut::<(K, V)>(image.words_mut()?, plan.slot_count());
        let column: &[<(K, V) as Layout>::Key] = bytemuck::cast_slice(key_words);
        let column = &column[..plan.pairs() as usize];
        let cells = <(K, V) as Layout>::Value::cells(value_words);
        self.run(|| {
            each((keys.words(), values.words()), BLOCK, |_, (keys, values)| {
                let write = |i: usize, at: usize, _, hit| {
                    if let Some(cell) = cells.get(at).filter(|_| hit) {
                        <(K, V) as Layout>::Value::set(cell, values[i]);
                    }
                };
                lookup::search(column, lookup::Keys, |&key| key.into(), keys, write);
            });
        })?;
        Ok(())
    }

    fn decode(&self, plan: &ColumnsPlan<(K, V)>, image: &Memory<u64>) -> Result<DecodedOf<Cpu, SortedOf<K, V>>> {
        self.ledger().kernel("sorted_decode", plan.slot_count() as usize);
        let image = image.words();
        self.decode_cells(plan.cells() as usize, |cell| SortedOf::<K, V>::pair(plan, image, cell as u64))
    }
}
