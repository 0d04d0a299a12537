//! The cuckoo table on the CPU.
//!
//! ```text
//! canonical.rs  its lists for `acceptance.rs` and `search.rs`
//! classic.rs    the same for `search.rs`;  place by atomic swap, and the pass that finds copies
//! ```

mod canonical;
mod classic;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

use self::canonical::Canonical;
use self::classic::Classic;
use super::block::{Pairs, sum};
use super::memory::{Memory, atomic};
use super::{Cpu, acceptance};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Kernels, Placed, Removed, bitmap_words};
use crate::error::{Error, Result};
use crate::fault::{Fault, planted};
use crate::spec::cuckoo::{self, CuckooPlan, Functions};
use crate::spec::{Cuckoo, Kind, Plan, slot};

/// The functions of a plan, with one constant off where that fault is planted.
fn functions(plan: &CuckooPlan) -> Functions {
    let mut functions = plan.functions();
    if planted("cpu", Fault::Hash) {
        functions.keys[0].before ^= 1;
    }
    functions
}

impl Kernels<Cuckoo> for Cpu {
    fn place(
        &self,
        plan: &CuckooPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<Placed> {
        check_image(plan, image)?;
        Error::check_length("the values", values.len(), keys.len())?;
        if planted("cpu", Fault::Stale) {
            return Ok(Placed::default());
        }
        let len = keys.len().saturating_sub(usize::from(planted("cpu", Fault::Drop)));
        let pairs = Pairs { keys: &keys.words()[..len], values: &values.words()[..len] };
        let functions = functions(plan);
        self.ledger().kernel("cuckoo_place", len);
        let (words, workspaces) = (image.words_mut()?, self.workspaces());
        if plan.kind() == Kind::Canonical {
            let lists = Canonical::new(&functions);
            return Ok(self.run(|| acceptance::place(&lists, atomic(words), pairs, workspaces)));
        }
        let placed = self.run(|| classic::place(plan, &functions, atomic(words), pairs));
        if placed.unplaced > 0 {
            return Ok(placed);
        }
        self.ledger().kernel("cuckoo_copies", words.len());
        Ok(sum(placed, self.run(|| classic::copies(plan, &functions, words, workspaces))))
    }

    fn lookup(
        &self,
        plan: &CuckooPlan,
        image: &Memory<u64>,
        queries: &Memory<u32>,
        values: &mut Memory<u32>,
        found: &mut Memory<u32>,
    ) -> Result<()> {
        check_image(plan, image)?;
        Error::check_length("the values", values.len(), queries.len())?;
        Error::check_length("the bitmap", found.len(), bitmap_words(queries.len()))?;
        self.ledger().kernel("cuckoo_lookup", queries.len());
        let (image, queries, functions) = (image.words(), queries.words(), functions(plan));
        let (values, found) = (values.words_mut()?, found.words_mut()?);
        self.run(|| match plan.kind() {
            Kind::Canonical => self.look_up(&Canonical::new(&functions), None, image, queries, values, found),
            Kind::Classic => {
                self.look_up(&Classic::new(plan, &functions), plan.outside(), image, queries, values, found)
            }
        });
        Ok(())
    }

    fn assign(
        &self,
        plan: &CuckooPlan,
        image: &mut Memory<u64>,
        keys: &Memory<u32>,
        values: &Memory<u32>,
    ) -> Result<()> {
        check_image(plan, image)?;
        Error::check_length("the values", values.len(), keys.len())?;
        self.ledger().kernel("cuckoo_assign", keys.len());
        let functions = functions(plan);
        let pairs = Pairs { keys: keys.words(), values: values.words() };
        let image = atomic(image.words_mut()?);
        self.run(|| match plan.kind() {
            Kind::Canonical => self.overwrite(&Canonical::new(&functions), image, pairs),
            Kind::Classic => self.overwrite(&Classic::new(plan, &functions), image, pairs),
        });
        Ok(())
    }

    fn decode(&self, plan: &CuckooPlan, image: &Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        check_image(plan, image)?;
        self.ledger().kernel("cuckoo_decode", image.len());
        let functions = functions(plan);
        self.decode_with(image.words(), |slot, word| match plan.kind() {
            Kind::Canonical => cuckoo::canonical::pair(&functions, slot as u32, word),
            Kind::Classic => cuckoo::classic::pair(word),
        })
    }

    fn remove(&self, plan: &CuckooPlan, image: &mut Memory<u64>, keys: &Memory<u32>) -> Result<Removed> {
        check_image(plan, image)?;
        self.ledger().kernel("cuckoo_remove", keys.len());
        let functions = functions(plan);
        let (image, keys) = (atomic(image.words_mut()?), keys.words());
        Ok(self.run(|| match plan.kind() {
            Kind::Canonical => {
                let pairs = self.vacate(&Canonical::new(&functions), image, keys, slot::TOMBSTONE);
                Removed { pairs, outside: false }
            }
            Kind::Classic => Removed {
                pairs: self.vacate(&Classic::new(plan, &functions), image, keys, cuckoo::classic::EMPTY),
                outside: keys.par_iter().any(|&key| key == cuckoo::classic::EMPTY_KEY),
            },
        }))
    }

    fn lift(&self, plan: &CuckooPlan, image: &mut Memory<u64>) -> Result<Decoded<Memory<u32>>> {
        check_image(plan, image)?;
        Error::check_tombstones::<Cuckoo>(plan)?;
        self.ledger().kernel("cuckoo_lift", image.len());
        let functions = functions(plan);
        self.lift_with(image.words_mut()?, |slot, word| cuckoo::canonical::pair(&functions, slot as u32, word))
    }
}

fn check_image(plan: &CuckooPlan, image: &Memory<u64>) -> Result<()> {
    Error::check_plan::<Cuckoo>(plan)?;
    Error::check_length("the image", image.len(), plan.slot_count() as usize)
}
