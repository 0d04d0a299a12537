//! The cuckoo table on the CPU, and the schemes that have its images: those with a single function, and sets, whose
//! slots are halves of words.
//!
//! ```text
//! canonical.rs  its lists for `acceptance.rs` and `search.rs`
//! classic.rs    the same for `search.rs`;  place by atomic swap, and the passes that find duplicates and clean up sets
//! ```
//!
//! Tables of 64-bit keys or values: `cpu/slot_lists/`.

mod canonical;
mod classic;
#[cfg(test)]
mod set_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wide_tests;

use self::canonical::Canonical;
use self::classic::Classic;
use super::block::{Pairs, sum};
use super::memory::Memory;
use super::place::Share;
use super::{CHUNK, Cpu, acceptance};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Passes, Placed, Removed};
use crate::error::Result;
use crate::parallel::any;
use crate::scheme::cuckoo::{self, Cell, CuckooImage, CuckooPlan};
use crate::scheme::{Kind, Plan, slot};

/// The slots of an image, mutably.
fn slots_of<'a, S: CuckooImage>(plan: &CuckooPlan, image: &'a mut Memory<u64>) -> Result<&'a mut [S::Cell]> {
    Ok(S::Cell::slots_mut(image.words_mut()?, plan.slot_count()))
}

#[diagnostic::do_not_recommend]
impl<S: CuckooImage> Passes<S> for Cpu
where
    S::Cell: Share,
{
    fn place(
        &self,
        plan: &S::Plan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<Placed> {
        let plan = &S::cuckoo_plan(plan);
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        let functions = plan.functions();
        self.ledger().kernel("cuckoo_place", keys.len());
        let slots = S::Cell::share(slots_of::<S>(plan, image)?);
        let workspaces = self.workspaces();
        if plan.kind() == Kind::Canonical {
            let lists = Canonical::new(&functions);
            return self.run(|| acceptance::place(&lists, slots, pairs, workspaces));
        }
        let placed = self.run(|| classic::place::<S::Cell>(plan, &functions, slots, pairs))?;
        if placed.unplaced > 0 {
            return Ok(placed);
        }
        let lists = Classic::new(plan, &functions);
        self.ledger().kernel("cuckoo_copies", slots.len());
        let duplicates = self.run(|| match S::Cell::KEYS_ALONE {
            true => classic::clean_up(&lists, slots, workspaces),
            false => classic::duplicates(&lists, slots, workspaces),
        })?;
        Ok(sum(placed, duplicates))
    }

    fn lookup(
        &self,
        plan: &S::Plan,
        image: &Memory<u64>,
        queries: &Memory<u32>,
        values: &mut Memory<u32>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        let plan = &S::cuckoo_plan(plan);
        self.ledger().kernel("cuckoo_lookup", queries.len());
        let (slots, functions) = (S::Cell::slots(image.words(), plan.slot_count()), plan.functions());
        let (queries, values, found) = (queries.words(), values.words_mut()?, found.words_mut()?);
        self.run(|| match plan.kind() {
            Kind::Canonical => self.look_up(&Canonical::new(&functions), None, slots, queries, values, found),
            Kind::Classic => {
                self.look_up(&Classic::new(plan, &functions), plan.outside(), slots, queries, values, found)
            }
        })?;
        Ok(())
    }

    fn assign(&self, plan: &S::Plan, image: &mut Memory<u64>, keys: &Memory<u32>, values: &Memory<u32>) -> Result<()> {
        let plan = &S::cuckoo_plan(plan);
        if S::Cell::KEYS_ALONE {
            // Sets have no values to overwrite.
            return Ok(());
        }
        self.ledger().kernel("cuckoo_assign", keys.len());
        let functions = plan.functions();
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        let slots = S::Cell::share(slots_of::<S>(plan, image)?);
        self.run(|| match plan.kind() {
            Kind::Canonical => self.overwrite(&Canonical::new(&functions), slots, pairs),
            Kind::Classic => self.overwrite(&Classic::new(plan, &functions), slots, pairs),
        })?;
        Ok(())
    }

    fn decode(&self, plan: &S::Plan, image: &Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        let plan = &S::cuckoo_plan(plan);
        self.ledger().kernel("cuckoo_decode", plan.slot_count() as usize);
        let (slots, functions) = (S::Cell::slots(image.words(), plan.slot_count()), plan.functions());
        self.decode_cells(slots.len(), |slot| match plan.kind() {
            Kind::Canonical => cuckoo::canonical::pair(&functions, slot as u32, Cell::word(slots[slot])),
            Kind::Classic => cuckoo::classic::pair(Cell::word(slots[slot])),
        })
    }

    fn remove(&self, plan: &S::Plan, image: &mut Memory<u64>, keys: &Memory<u32>) -> Result<Removed> {
        let plan = &S::cuckoo_plan(plan);
        self.ledger().kernel("cuckoo_remove", keys.len());
        let functions = plan.functions();
        let (slots, keys) = (S::Cell::share(slots_of::<S>(plan, image)?), keys.words());
        self.run(|| match plan.kind() {
            Kind::Canonical => {
                let pairs = self.vacate(&Canonical::new(&functions), slots, keys, slot::TOMBSTONE);
                Removed { pairs, outside: false }
            }
            Kind::Classic => Removed {
                pairs: self.vacate(&Classic::new(plan, &functions), slots, keys, cuckoo::classic::EMPTY),
                outside: any(keys, CHUNK, |_, keys| keys.contains(&cuckoo::classic::EMPTY_KEY)),
            },
        })
    }

    fn lift(&self, plan: &S::Plan, image: &mut Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        let plan = &S::cuckoo_plan(plan);
        self.ledger().kernel("cuckoo_lift", plan.slot_count() as usize);
        let functions = plan.functions();
        let pair = |slot, word| cuckoo::canonical::pair(&functions, slot as u32, word);
        self.lift_with(slots_of::<S>(plan, image)?, pair)
    }
}
