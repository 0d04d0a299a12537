//! The set of Alcantara et al. 2011, Section 4.4: a cuckoo table of keys without values, with 32 bits per slot.
//!
//! ```text
//! slot        the upper half of the word that the cuckoo table of the same keys, with the value 0, has in this slot:
//!   canonical   [age 4][remainder 28];  0 empty, 0xF0000000 a tombstone
//!   classic     [key 32];               0xFFFFFFFF empty, and that key is stored in the plan
//! image       two slots per word, the first in the lower half; the half after an odd last slot stays empty
//! ```
//!
//! **Keys may occur more than once**, unlike in the basic table, and one of each is kept:
//!
//! ```text
//! canonical   two duplicates offer a slot the same 32 bits: the second finds an equal slot, is dropped and counted
//! classic     each thread swaps its key in, 32 bits at a time, and continues with the key that was there. It stops if
//!             the slot was empty, or if it has swapped two duplicates: one of them stays, the other is dropped.
//!             Duplicates may remain in several slots of their key. So a clean-up follows, after all threads have
//!             stopped: it empties every slot whose key a lookup finds in an earlier slot of the key.
//! ```
//!
//! No key is lost in the race: each key is in the table or carried by a thread, and a thread drops a key only if it
//! leaves a duplicate of it in the table. The clean-up may read slots that are being emptied. It never empties the
//! first slot that contains a key, and lookups stop at that slot.
//!
//! `(slot << 32) | value` is a word of the cuckoo table with the same parameters, seed, attempt and number of slots. So
//! writing values next to the keys of a set turns it into a table, which is how the paper creates compacting tables.
//! The rules are those of `scheme/cuckoo/`, which are generic over the slot (`Cell`).

use std::ops::Range;

use super::cuckoo::{Cell, CuckooImage, kinds};
use super::{
    Audit, Cuckoo, CuckooPlan, HashFamily, Kind, Limits, Load, Placing, Plan, Reinsertion, Request, Salt, Scheme,
    Updates, Violation,
};
use crate::error::Result;

/// The parameters of a set of 32-bit keys: those of the [`Cuckoo`] table with the same keys.
///
/// A set takes half the bytes of that table, with the same loads and reads. Every value is 0. Keys may occur more than
/// once.
///
/// ```
/// use koel::{Cpu, CuckooSet, HashTable};
/// let keys = [3, 1, 2];
/// let set = HashTable::builder(CuckooSet::canonical(4)).slots(100).build(&Cpu::new(), &keys, &[0; 3])?;
/// assert_eq!(set.contains(&[2, 4])?, [true, false]);
/// assert_eq!(set.image().words().len(), 50);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CuckooSet {
    cuckoo: Cuckoo,
}

impl CuckooSet {
    /// A canonical set with `functions` (2 to 5) slots for each key.
    pub fn canonical(functions: u32) -> Self {
        Cuckoo::canonical(functions).into()
    }

    /// The paper's set with `functions` (2 to 5) slots for each key.
    pub fn classic(functions: u32) -> Self {
        Cuckoo::classic(functions).into()
    }

    /// See [`Cuckoo::family`].
    pub fn family(self, family: HashFamily) -> Self {
        self.cuckoo.family(family).into()
    }

    /// See [`Cuckoo::reinsertion`].
    pub fn reinsertion(self, reinsertion: Reinsertion) -> Self {
        self.cuckoo.reinsertion(reinsertion).into()
    }

    /// See [`Cuckoo::chain`].
    pub fn chain(self, swaps: u32) -> Self {
        self.cuckoo.chain(swaps).into()
    }

    /// The cuckoo table with the same slots for each key.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, CuckooSet, HashTable};
    /// let (cpu, keys) = (Cpu::new(), [3, 1, 2]);
    /// let set = HashTable::builder(CuckooSet::canonical(4)).slots(20).build(&cpu, &keys, &[0; 3])?;
    /// let map = HashTable::builder(CuckooSet::canonical(4).cuckoo().clone()).slots(20).build(&cpu, &keys, &[0; 3])?;
    /// let halves = |word: u64| [word as u32, (word >> 32) as u32];
    /// let slots = set.image().words().iter().flat_map(|&word| halves(word));
    /// assert!(slots.eq(map.image().words().iter().map(|&word| halves(word)[1])));
    /// # Ok::<(), koel::Error>(())
    /// ```
    pub fn cuckoo(&self) -> &Cuckoo {
        &self.cuckoo
    }
}

impl From<Cuckoo> for CuckooSet {
    fn from(cuckoo: Cuckoo) -> Self {
        CuckooSet { cuckoo }
    }
}

/// The integers that determine the image of a [`CuckooSet`]: those of the cuckoo table with the same slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuckooSetPlan(CuckooPlan);

impl CuckooSetPlan {
    /// The plan of the table whose words have this set's slots as their upper halves.
    pub fn cuckoo(&self) -> &CuckooPlan {
        &self.0
    }
}

impl Plan for CuckooSetPlan {
    type Key = u32;
    type Value = u32;

    fn stored(&self) -> &[u8] {
        self.0.stored()
    }
    fn of_stored(scheme: u32, stored: &[u8]) -> std::result::Result<Self, String> {
        if !CuckooSet::has_id(scheme) {
            return Err(format!("its plan is of scheme number {scheme}, not of {}", CuckooSet::NAME));
        }
        let plan = CuckooSetPlan(CuckooPlan::of_stored(Cuckoo::ID, stored)?);
        if plan.with_outside(plan.outside().map(|(_, value)| value)) != plan {
            return Err("it has a value, which sets have not".into());
        }
        Ok(plan)
    }
    fn kind(&self) -> Kind {
        self.0.kind()
    }
    fn slots(&self) -> u64 {
        self.0.slots()
    }
    fn words(&self) -> u64 {
        u32::words(self.slots())
    }
    fn cells(&self) -> u64 {
        self.slots()
    }
    /// Two empty slots.
    fn empty_word(&self) -> u64 {
        let slot = self.0.empty_word();
        slot | slot >> u32::BITS
    }
    fn seed(&self) -> u64 {
        self.0.seed()
    }
    fn attempt(&self) -> u32 {
        self.0.attempt()
    }
    fn outside_key(&self) -> Option<u32> {
        self.0.outside_key()
    }
    fn outside(&self) -> Option<(u32, u32)> {
        self.0.outside()
    }
    fn with_outside(self, value: Option<u32>) -> Self {
        CuckooSetPlan(self.0.with_outside(value.map(|_| 0)))
    }
    fn takes_salt(&self) -> bool {
        self.0.takes_salt()
    }
    fn salt(&self) -> Option<Salt> {
        self.0.salt()
    }
    fn with_salt(self, salt: Option<Salt>) -> Self {
        CuckooSetPlan(self.0.with_salt(salt))
    }
}

impl CuckooImage for CuckooSet {
    type Cell = u32;

    fn cuckoo_plan(plan: &CuckooSetPlan) -> CuckooPlan {
        plan.0
    }
}

/// The slots of an image.
fn slots<'a>(plan: &CuckooSetPlan, image: &'a [u64]) -> &'a [u32] {
    u32::slots(image, plan.0.slot_count())
}

/// The clean-up of a classic build, one slot at a time, to which backends are compared: empties every slot whose key a
/// lookup finds in an earlier one, and returns their number.
#[cfg(test)]
pub(crate) fn clean_up(plan: &CuckooSetPlan, image: &mut [u64]) -> u64 {
    use super::cuckoo::classic::EMPTY_KEY;

    let functions = plan.0.functions();
    let slots = u32::slots_mut(image, plan.0.slot_count());
    let mut emptied = 0;
    for at in 0..slots.len() {
        let key = slots[at];
        let first = functions.locations(key).find(|&location| slots[location as usize] == key);
        if key != EMPTY_KEY && first.is_some_and(|first| first as usize != at) {
            slots[at] = EMPTY_KEY;
            emptied += 1;
        }
    }
    emptied
}

impl Scheme for CuckooSet {
    const NAME: &'static str = "cuckoo_set";
    const ID: u32 = 9;
    const KINDS: &'static [Kind] = Cuckoo::KINDS;
    type Key = u32;
    type Value = u32;
    type Plan = CuckooSetPlan;

    fn host_built(&self) -> bool {
        self.cuckoo.host_built()
    }

    fn updates(&self) -> Updates {
        self.cuckoo.updates()
    }

    fn gives_up_above(&self) -> Option<Load> {
        self.cuckoo.gives_up_above()
    }

    /// Classic tables remove duplicates in their clean-up.
    fn keeps_one(&self) -> bool {
        true
    }

    fn of_kind(kind: Kind) -> Self {
        Cuckoo::of_kind(kind).into()
    }

    fn kind(&self) -> Kind {
        self.cuckoo.kind()
    }

    fn check(&self) -> Result<()> {
        self.cuckoo.check()
    }

    fn default_load(&self) -> Load {
        self.cuckoo.default_load()
    }

    fn limits(&self) -> Limits {
        Limits { value_bits: 0, ..Limits::NONE }
    }

    fn plan(&self, request: Request) -> Result<CuckooSetPlan> {
        self.cuckoo.plan(request).map(CuckooSetPlan)
    }

    fn from_plan(plan: &CuckooSetPlan) -> Self {
        Cuckoo::from_plan(&plan.0).into()
    }

    fn find(plan: &CuckooSetPlan, image: &[u64], key: u32) -> Option<u32> {
        kinds::search(&plan.0, slots(plan, image), key).1
    }

    fn reads(plan: &CuckooSetPlan, image: &[u64], key: u32) -> u32 {
        kinds::search(&plan.0, slots(plan, image), key).0
    }

    fn pair(plan: &CuckooSetPlan, image: &[u64], at: u64) -> Option<(u32, u32)> {
        kinds::pair(&plan.0, slots(plan, image), at)
    }

    fn age(plan: &CuckooSetPlan, image: &[u64], at: u64) -> u32 {
        kinds::age(&plan.0, slots(plan, image), at)
    }

    /// Classic: an existing key is not placed again, so no clean-up is necessary.
    fn place(plan: &CuckooSetPlan, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
        kinds::place(&plan.0, u32::slots_mut(image, plan.0.slot_count()), pairs)
    }

    fn remove(plan: &CuckooSetPlan, image: &mut [u64], keys: &[u32]) -> u64 {
        kinds::remove(&plan.0, u32::slots_mut(image, plan.0.slot_count()), keys)
    }

    /// As in the cuckoo table. In addition, the half after an odd last slot must be empty.
    fn audit(plan: &CuckooSetPlan, image: &[u64], cells: Range<u64>) -> std::result::Result<Audit, Violation> {
        let end = cells.end;
        let audit = kinds::audit(&plan.0, slots(plan, image), cells)?;
        let behind = bytemuck::cast_slice::<u64, u32>(image).get(end as usize);
        match behind {
            Some(&half) if end == plan.slots() && half != u32::of(plan.0.empty_word()) => {
                Err(Violation::Word { slot: end, word: half.word() })
            }
            _ => Ok(audit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::slot;

    fn keys(count: u32) -> Vec<u32> {
        (0..count).map(|i| i.wrapping_mul(0x9e37_79b9)).collect()
    }

    fn plan_of(scheme: &CuckooSet, slots: u64) -> CuckooSetPlan {
        scheme.plan(Request { slots, pairs: slots / 2, seed: 3, attempt: 0 }).expect("a plan")
    }

    fn built(scheme: &CuckooSet, slots: u64, keys: &[u32]) -> (CuckooSetPlan, Vec<u64>) {
        let plan = plan_of(scheme, slots);
        let mut image = vec![plan.empty_word(); plan.words() as usize];
        for &key in keys {
            assert_ne!(CuckooSet::place(&plan, &mut image, &[(key, 0)]), Placing::Unplaced);
        }
        (plan, image)
    }

    fn audited(plan: &CuckooSetPlan, image: &[u64]) -> std::result::Result<u64, Violation> {
        CuckooSet::audit(plan, image, 0..plan.cells()).map(|audit| audit.pairs)
    }

    /// Each slot is the upper half of that of the cuckoo table with values 0, also after removals.
    #[test]
    fn slots_are_the_upper_halves_of_the_table_of_pairs() {
        for functions in 2..=5 {
            for scheme in [CuckooSet::canonical(functions), CuckooSet::classic(functions)] {
                for slots in [900, 901] {
                    let keys = keys(400);
                    let (plan, mut image) = built(&scheme, slots, &keys);
                    let pairs: Vec<_> = keys.iter().map(|&key| (key, 0)).collect();
                    let request = Request { slots, pairs: slots / 2, seed: 3, attempt: 0 };
                    let table = scheme.cuckoo().plan(request).expect("a plan");
                    assert_eq!(plan.cuckoo(), &table);
                    let mut words = vec![table.empty_word(); slots as usize];
                    Cuckoo::place(&table, &mut words, &pairs);
                    let agree = |image: &[u64], words: &[u64]| {
                        assert_eq!(image.len() as u64, slots.div_ceil(2));
                        let halves: &[u32] = bytemuck::cast_slice(image);
                        assert!((0..slots as usize).all(|at| halves[at].word() == words[at]));
                        assert!(halves.get(slots as usize).is_none_or(|&half| half == plan.empty_word() as u32));
                    };
                    agree(&image, &words);
                    assert_eq!(audited(&plan, &image), Ok(400));
                    assert_eq!(CuckooSet::remove(&plan, &mut image, &keys[..50]), 50);
                    assert_eq!(Cuckoo::remove(&table, &mut words, &keys[..50]), 50);
                    agree(&image, &words);
                    for key in (0..2000).chain(keys.iter().copied()) {
                        assert_eq!(CuckooSet::find(&plan, &image, key), Cuckoo::find(&table, &words, key));
                        assert_eq!(CuckooSet::reads(&plan, &image, key), Cuckoo::reads(&table, &words, key));
                    }
                    for at in 0..slots + 3 {
                        assert_eq!(CuckooSet::pair(&plan, &image, at), Cuckoo::pair(&table, &words, at));
                        assert_eq!(CuckooSet::age(&plan, &image, at), Cuckoo::age(&table, &words, at));
                    }
                }
            }
        }
    }

    #[test]
    fn a_duplicate_key_changes_nothing() {
        for scheme in [CuckooSet::canonical(3), CuckooSet::classic(3)] {
            let keys = keys(300);
            let (plan, image) = built(&scheme, 501, &keys);
            let mut again = image.clone();
            let duplicates: Vec<_> = keys.iter().rev().map(|&key| (key, 0)).collect();
            assert_eq!(CuckooSet::place(&plan, &mut again, &duplicates), Placing::Duplicate(0));
            assert_eq!(again, image);
        }
    }

    /// If keys are in all of their slots, only those that lookups find remain.
    #[test]
    fn the_clean_up_leaves_the_first_of_each_key() {
        let plan = plan_of(&CuckooSet::classic(4), 101);
        let functions = plan.cuckoo().functions();
        let mut image = vec![plan.empty_word(); plan.words() as usize];
        let mut expected = image.clone();
        let (mut taken, mut duplicates) = (std::collections::HashSet::new(), 0);
        for key in keys(40) {
            let mut places: Vec<u32> = functions.locations(key).collect();
            let first = places[0];
            places.sort_unstable();
            places.dedup();
            if places.iter().any(|place| taken.contains(place)) {
                continue;
            }
            taken.extend(places.iter().copied());
            duplicates += places.len() as u64 - 1;
            let slots = u32::slots_mut(&mut image, 101);
            places.iter().for_each(|&place| slots[place as usize] = key);
            u32::slots_mut(&mut expected, 101)[first as usize] = key;
        }
        assert!(duplicates > 10 && audited(&plan, &image).is_err());
        assert_eq!(clean_up(&plan, &mut image), duplicates);
        assert_eq!(image, expected);
        assert!(audited(&plan, &image).is_ok());
        assert_eq!(clean_up(&plan, &mut image), 0);
    }

    #[test]
    fn the_audit_checks_the_half_after_an_odd_last_slot() {
        for scheme in [CuckooSet::canonical(3), CuckooSet::classic(3)] {
            let (plan, image) = built(&scheme, 501, &keys(300));
            let mut damaged = image.clone();
            damaged[250] ^= 5 << 32;
            assert!(audited(&plan, &image).is_ok());
            assert!(matches!(audited(&plan, &damaged), Err(Violation::Word { slot: 501, .. })));
            assert!(CuckooSet::audit(&plan, &damaged, 0..448).is_ok(), "not this part's concern");
        }
    }

    #[test]
    fn a_stored_plan_gives_its_parameters_back() {
        for scheme in [CuckooSet::canonical(3), CuckooSet::classic(5).family(HashFamily::Xor)] {
            let plan = plan_of(&scheme, 1000);
            assert_eq!(CuckooSet::from_plan(&plan), scheme);
            assert_eq!((plan.slots(), plan.cells(), plan.words()), (1000, 1000, 500));
        }
        let classic = plan_of(&CuckooSet::classic(4), 1000);
        let with_key = classic.with_outside(Some(7));
        assert_eq!(with_key.outside(), Some((u32::MAX, 0)));
        let read = |stored: &[u8]| CuckooSetPlan::of_stored(CuckooSet::ID, stored);
        assert_eq!(read(with_key.stored()), Ok(with_key));
        assert!(read(classic.0.with_outside(Some(7)).stored()).is_err(), "sets have no values");
        let canonical = plan_of(&CuckooSet::canonical(4), 1000);
        assert_eq!(canonical.with_outside(Some(0)), canonical, "every key has its place inside");
        assert_eq!((canonical.empty_word(), classic.empty_word()), (slot::EMPTY, u64::MAX));
    }
}
