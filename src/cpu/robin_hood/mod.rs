//! The Robin Hood table on the CPU.
//!
//! ```text
//! lists.rs      the slot lists of keys for `acceptance.rs` and `search.rs`, by layout and by how a lookup ends
//! max_ages.rs   the second pass of a build
//! ```
//!
//! Tables of 64-bit keys or values: `cpu/slot_lists/`.

mod lists;
mod max_ages;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wide_tests;

use self::lists::{Aged, Arrayed, Canonical, Cells, KeyedPairs, KeysAlone, Packed};
use super::block::Pairs;
use super::memory::{Memory, atomic};
use super::{Cpu, acceptance};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Passes, Placed, Removed};
use crate::error::Result;
use crate::scheme::RobinHood;
use crate::scheme::robin_hood::cell::{self, TOMBSTONE};
use crate::scheme::robin_hood::max_ages::{Levels, MaxAges};
use crate::scheme::robin_hood::{RobinHoodPlan, Rule};

/// Evaluates an expression with the lists of a finished table.
macro_rules! with_lists {
    ($rule:expr, $lists:ident => $work:expr) => {{
        let functions = &$rule.functions;
        match ($rule.layout, $rule.max_ages) {
            (cell::PAIRS, MaxAges::Packed(levels)) => {
                let $lists = &Packed::<KeyedPairs>::new(functions, levels);
                $work
            }
            (cell::KEYS, MaxAges::Packed(levels)) => {
                let $lists = &Packed::<KeysAlone>::new(functions, levels);
                $work
            }
            (_, MaxAges::Array(levels)) => {
                let $lists = &Arrayed::new(functions, levels);
                $work
            }
            (cell::PAIRS, _) => {
                let $lists = &Aged::<KeyedPairs>::new(functions);
                $work
            }
            (cell::KEYS, _) => {
                let $lists = &Aged::<KeysAlone>::new(functions);
                $work
            }
            _ => {
                let $lists = &Aged::<Canonical>::new(functions);
                $work
            }
        }
    }};
}

impl Passes<RobinHood> for Cpu {
    fn place(
        &self,
        plan: &RobinHoodPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<Placed> {
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        let (rule, words) = (plan.rule(), image.words_mut()?);
        match rule.layout {
            cell::PAIRS => self.place_pairs::<KeyedPairs>(&rule, words, pairs),
            cell::KEYS => self.place_pairs::<KeysAlone>(&rule, words, pairs),
            _ => self.place_pairs::<Canonical>(&rule, words, pairs),
        }
    }

    fn lookup(
        &self,
        plan: &RobinHoodPlan,
        image: &Memory<u64>,
        queries: &Memory<u32>,
        values: &mut Memory<u32>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("robin_hood_lookup", queries.len());
        let (image, queries, rule) = (image.words(), queries.words(), plan.rule());
        let (values, found) = (values.words_mut()?, found.words_mut()?);
        self.run(|| with_lists!(rule, lists => self.look_up(lists, None, image, queries, values, found)))?;
        Ok(())
    }

    fn assign(
        &self,
        plan: &RobinHoodPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<()> {
        self.ledger().kernel("robin_hood_assign", keys.len());
        let rule = plan.rule();
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        let image = atomic(image.words_mut()?);
        self.run(|| with_lists!(rule, lists => self.overwrite(lists, image, pairs)))?;
        Ok(())
    }

    fn decode(&self, plan: &RobinHoodPlan, image: &Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        self.ledger().kernel("robin_hood_decode", plan.slot_count() as usize);
        let (rule, words) = (plan.rule(), image.words());
        self.decode_cells(plan.slot_count() as usize, |at| {
            let at = at as u32;
            rule.pair(at, rule.layout.get(words, at))
        })
    }

    fn remove(&self, plan: &RobinHoodPlan, image: &mut Memory<u64>, keys: &Memory<u32>) -> Result<Removed> {
        self.ledger().kernel("robin_hood_remove", keys.len());
        let rule = plan.rule();
        let (image, keys) = (atomic(image.words_mut()?), keys.words());
        let pairs = self.run(|| match rule.max_ages {
            MaxAges::Array(levels) => self.vacate(&Arrayed::new(&rule.functions, levels), image, keys, TOMBSTONE),
            _ => self.vacate(&Aged::<Canonical>::new(&rule.functions), image, keys, TOMBSTONE),
        })?;
        Ok(Removed { pairs, outside: false })
    }

    /// The maximum ages are unchanged; placing the pairs again rewrites them.
    fn lift(&self, plan: &RobinHoodPlan, image: &mut Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        let slots = plan.slot_count() as usize;
        self.ledger().kernel("robin_hood_lift", slots);
        let rule = plan.rule();
        let is_lifted = |cell| rule.layout.age(cell) > 1;
        self.lift_words(&mut image.words_mut()?[..slots], is_lifted, |at, cell| rule.pair(at as u32, cell))
    }
}

impl Cpu {
    /// Places pairs, and then writes the maximum ages of all.
    fn place_pairs<C: Cells>(&self, rule: &Rule, words: &mut [u64], pairs: Pairs<'_>) -> Result<Placed> {
        let functions = &rule.functions;
        self.ledger().kernel("robin_hood_place", pairs.keys.len());
        let lists = Aged::<C>::new(functions);
        let (cells, array) = words.split_at_mut(C::LAYOUT.words(functions.slots.into()) as usize);
        let placed = self.run(|| acceptance::place(&lists, atomic(cells), pairs, self.workspaces()))?;
        if placed.unplaced > 0 {
            return Ok(placed);
        }
        let raise = |levels: &Levels, array: &mut [u64]| {
            self.ledger().kernel("robin_hood_max_ages", functions.slots as usize);
            self.run(|| max_ages::raise::<C>(functions, levels, cells, atomic(array)))
        };
        match rule.max_ages {
            MaxAges::None => {}
            MaxAges::Array(levels) => {
                array.fill(0);
                raise(&levels, array)?;
            }
            MaxAges::Packed(levels) => {
                let mut codes = Memory::zeroed(functions.slots.div_ceil(levels.per_word()) as usize)?;
                raise(&levels, codes.words_mut()?)?;
                self.ledger().kernel("robin_hood_pack", functions.slots as usize);
                self.run(|| max_ages::pack::<C>(&levels, cells, codes.words()))?;
            }
        }
        Ok(placed)
    }
}
