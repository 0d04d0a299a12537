//! Canonical Robin Hood tables of 64-bit keys or values, and sets of 64-bit keys: for Morton codes of 21 bits per axis,
//! and other 64-bit keys with neighbours.
//!
//! ```text
//! word    [age 6][quotient 58]   of u64 keys          followed by its value, in the same line of 64 bytes
//!         [age 6][quotient 26]   of u32 keys
//! m slots, a prime, at least 67;   x = key, or mix(key);   quotient = x / m,  r = x mod m
//! place at age a = (home of r + o_a) mod m                 the walk o_1 = 0, o_2, ..: `robin_hood/functions.rs`
//! ```
//!
//! **58 bits suffice for 64 slots or more.** x is below 2^64, so x / m is below 2^64 / m, which is at most 2^58 if m is
//! at least 64. The same holds for 32-bit keys with 32 and 26. The smallest such prime is 67, as in 32-bit tables,
//! because both words use six bits for the age.
//!
//! **At one place, key and (age, quotient) determine each other.** Place and age give home = place - o_a mod m, the
//! home gives r (c1 has an inverse, because m is prime), and x = quotient m + r with r below m inverts the division;
//! the mixer is a bijection. So two keys never have equal words at one place, and no bit of a key is lost.
//!
//! **The image is a function of the keys.** A slot keeps the greatest word that was offered to it, and a key offers its
//! word of age a + 1 exactly when that of age a was rejected or displaced: deferred acceptance with a strict order of
//! words at each slot, whose result does not depend on the order of events (`cuckoo/canonical.rs`). Values do not
//! affect it.
//!
//! **Crowded tables.** Ages end at 62, because 63 marks a tombstone. A pair that is rejected or displaced at 62 is
//! unplaced, and the attempt has failed. That too is a function of the keys, so every device continues with the same
//! attempt, which has another prime. Keys that are congruent modulo the prime share all their places in the coherent
//! sequence, and no attempt places more than 62 of them; the error names them.
//!
//! ```text
//! functions.rs   the places of keys
//! plan.rs        the integers that determine an image
//! ```
//!
//! The rule is `scheme/slot_lists.rs`.
//!
//! There are no maximum ages and no classic tables here: the ages end a miss, and the paper's words do not fit 64 bits.

mod functions;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use functions::WalkFunctions;
pub use plan::RobinHoodLinePlan;

use std::marker::PhantomData;
use std::ops::Range;

use super::cell::LEAST_SLOTS;
use super::{RobinHood, crowd_of, sizes};
use crate::error::{Error, Result};
use crate::scheme::bucketized::wide::slot::Fields;
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::slot_lists::{SlotLists, rule_of_slot_lists};
use crate::scheme::{Audit, Crowd, Kind, Limits, Load, Placing, Plan, Request, Scheme, Updates, Violation};

/// The bit fields of words.
pub(crate) const FIELDS: Fields = Fields { age_bits: 6 };
const _: () = assert!(u64::MAX / (LEAST_SLOTS as u64) < 1 << FIELDS.age_shift::<u64>());
const _: () = assert!(u32::MAX / LEAST_SLOTS < 1 << FIELDS.age_shift::<u32>());

/// The parameters of a Robin Hood table of `K` keys and `V` values, of which at least one has 64 bits. Created by
/// [`RobinHood::of`].
///
/// A table of the corners of a box of 2^21 cells per axis, whose neighbours are stored next to each other:
///
/// ```
/// use koel::layout::wide::morton3;
/// use koel::{Cpu, HashTable, RobinHood};
/// let corner = (1 << 21) - 1;
/// let cells = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (corner, corner, corner)];
/// let keys = cells.map(|(x, y, z)| morton3(x, y, z).expect("inside"));
/// let scheme = RobinHood::canonical().of::<u64, u64>();
/// let table = HashTable::builder(scheme).build(&Cpu::new(), &keys, &[1, 2, 3, 4])?;
/// assert_eq!(table.get(&[keys[3], keys[1], 77])?, [Some(4), Some(2), None]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobinHoodOf<K, V> {
    robin_hood: RobinHood,
    layout: PhantomData<(K, V)>,
}

impl RobinHood {
    /// The same parameters for other types of keys and values: canonical tables of `u64` keys or values, and sets of
    /// `u64` keys (`of::<u64, ()>()`). They have no maximum ages.
    ///
    /// ```
    /// use koel::{Cpu, HashSet, RobinHood, Sequence};
    /// let scheme = RobinHood::canonical().sequence(Sequence::Random).of::<u64, ()>();
    /// let set = HashSet::builder(scheme).build(&Cpu::new(), &[7, 1 << 50, 7])?;
    /// assert_eq!((set.len(), set.contains(&[1 << 50, 1])?), (2, vec![true, false]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    pub fn of<K, V>(&self) -> RobinHoodOf<K, V>
    where
        (K, V): Layout,
    {
        RobinHoodOf { robin_hood: self.clone(), layout: PhantomData }
    }
}

impl<K: Column, V: Column> Scheme for RobinHoodOf<K, V>
where
    (K, V): Layout,
{
    const NAME: &'static str = RobinHood::NAME;
    const ID: u32 = RobinHoodLinePlan::<(K, V)>::ID;
    const KINDS: &'static [Kind] = &[Kind::Canonical];
    type Key = <(K, V) as Layout>::Key;
    type Value = <(K, V) as Layout>::Value;
    type Plan = RobinHoodLinePlan<(K, V)>;

    fn of_kind(kind: Kind) -> Self {
        RobinHoodOf { robin_hood: RobinHood::of_kind(kind), layout: PhantomData }
    }
    fn kind(&self) -> Kind {
        self.robin_hood.kind()
    }
    fn check(&self) -> Result<()> {
        if self.kind() == Kind::Classic {
            return Err(Error::parameter("kind", self.kind(), "tables of 64-bit keys or values are canonical"));
        }
        if self.robin_hood.max_ages != 0 {
            let advice = "tables of 64-bit keys or values have none: use 0";
            return Err(Error::parameter("max_ages", self.robin_hood.max_ages, advice));
        }
        self.robin_hood.check()
    }
    fn default_load(&self) -> Load {
        self.robin_hood.default_load()
    }
    fn plan(&self, request: Request) -> Result<Self::Plan> {
        self.check()?;
        let (base, slots) = sizes(&request)?;
        Ok(RobinHoodLinePlan::new(self.robin_hood.sequence, base, slots, &request))
    }
    fn from_plan(plan: &Self::Plan) -> Self {
        RobinHood::canonical().sequence(plan.sequence()).of()
    }
    fn names_crowds(&self) -> bool {
        true
    }
    fn crowd(plan: &Self::Plan, keys: &[Self::Key]) -> Option<Crowd> {
        let functions = plan.functions();
        let homes = keys.iter().map(|&key| functions.goal(key).home);
        crowd_of(&functions.walk, FIELDS.max_age(), homes, |home| functions.key_of(home, 0))
    }

    rule_of_slot_lists!(WalkFunctions<<(K, V) as Layout>::Key>);
}
