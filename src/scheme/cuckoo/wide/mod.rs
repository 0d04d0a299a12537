//! Canonical cuckoo tables of 64-bit keys or values, and sets of 64-bit keys.
//!
//! ```text
//! functions.rs   where keys go: H mixers of the keys' width
//! plan.rs        the integers that fix an image
//! canonical.rs   the rule
//! ```
//!
//! A slot is a word `[age 4][remainder]` of the key's width (`bucketized/wide/slot.rs`) and a value beside it. Slots stand
//! in lines of 64 bytes, four, five or eight to a line (`bucketized/wide/line.rs`): so a slot's word and value are one
//! access of memory, and the key of a set takes 8 bytes.
//!
//! What it is not: a kind of its own, or the paper's. Classic tables have 32 bits. Nor a table of buckets: each key has H
//! slots, of lines that have nothing to do with each other.

pub mod canonical;
mod functions;
mod plan;
#[cfg(test)]
mod tests;

pub use functions::SlotFunctions;
pub use plan::CuckooLinePlan;

use std::marker::PhantomData;
use std::ops::Range;

use super::Cuckoo;
use crate::error::{Error, Result};
use crate::scheme::bucketized::wide::{Column, Layout, slot};
use crate::scheme::slot::MIN_BUCKETS;
use crate::scheme::{Audit, CuckooSet, Kind, Limits, Load, Placing, Plan, Request, Scheme, Updates, Violation};

/// The parameters of a cuckoo table of `K` keys and `V` values, of which one has 64 bits: made by [`Cuckoo::of`], and of
/// sets of `u64` keys also by [`CuckooSet::of`].
///
/// ```
/// use koel::{Cpu, Cuckoo, HashTable};
/// let scheme = Cuckoo::canonical(4).of::<u64, u64>();
/// let table = HashTable::builder(scheme).build(&Cpu::new(), &[1 << 40, u64::MAX], &[7, 0])?;
/// assert_eq!(table.get(&[u64::MAX, 1, 1 << 40])?, [Some(0), None, Some(7)]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuckooOf<K, V> {
    cuckoo: Cuckoo,
    layout: PhantomData<(K, V)>,
}

impl Cuckoo {
    /// The same for keys and values of other types: canonical tables of `u64` keys or values, and sets of `u64` keys
    /// (`of::<u64, ()>()`).
    pub fn of<K, V>(&self) -> CuckooOf<K, V>
    where
        (K, V): Layout,
    {
        CuckooOf { cuckoo: self.clone(), layout: PhantomData }
    }
}

impl CuckooSet {
    /// The same for `u64` keys: canonical sets.
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashSet};
    /// let set = HashSet::builder(CuckooSet::canonical(4).of::<u64>()).build(&Cpu::new(), &[7, 1 << 50, 7])?;
    /// assert_eq!((set.len(), set.contains(&[1 << 50, 1])?), (2, vec![true, false]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    pub fn of<K>(&self) -> CuckooOf<K, ()>
    where
        (K, ()): Layout,
    {
        self.cuckoo().of::<K, ()>()
    }
}

impl<K: Column, V: Column> Scheme for CuckooOf<K, V>
where
    (K, V): Layout,
{
    const NAME: &'static str = Cuckoo::NAME;
    const ID: u32 = CuckooLinePlan::<(K, V)>::ID;
    const KINDS: &'static [Kind] = &[Kind::Canonical];
    type Key = <(K, V) as Layout>::Key;
    type Value = <(K, V) as Layout>::Value;
    type Plan = CuckooLinePlan<(K, V)>;

    fn of_kind(kind: Kind) -> Self {
        CuckooOf { cuckoo: Cuckoo::of_kind(kind), layout: PhantomData }
    }
    fn kind(&self) -> Kind {
        self.cuckoo.kind()
    }
    fn updates(&self) -> Updates {
        Updates::Tombstones
    }
    fn check(&self) -> Result<()> {
        match self.kind() {
            Kind::Canonical => self.cuckoo.check(),
            Kind::Classic => {
                Err(Error::parameter("kind", self.kind(), "tables of 64-bit keys or values are canonical"))
            }
        }
    }
    fn default_load(&self) -> Load {
        self.cuckoo.default_load()
    }
    fn plan(&self, request: Request) -> Result<Self::Plan> {
        self.check()?;
        let slots = u32::try_from(request.slots).map_err(|_| Error::TooLarge {
            what: "slots of a cuckoo table",
            asked: request.slots,
            most: u64::from(u32::MAX),
        })?;
        let slots = slots.max(MIN_BUCKETS);
        Ok(CuckooLinePlan::new(self.cuckoo.functions, slots, request.seed, request.attempt))
    }
    fn from_plan(plan: &Self::Plan) -> Self {
        Cuckoo::canonical(plan.function_count()).of()
    }
    fn limits(&self) -> Limits {
        let limits = Limits::of::<Self::Key, Self::Value>();
        if <(K, V)>::VALUES.is_some() { limits } else { Limits { value_bits: 0, ..limits } }
    }
    fn gives_up_above(&self) -> Option<Load> {
        self.cuckoo.gives_up_above()
    }
    fn keeps_one(&self) -> bool {
        true
    }

    fn find(plan: &Self::Plan, image: &[u64], key: Self::Key) -> Option<Self::Value> {
        let at = canonical::search::<(K, V)>(&plan.functions(), image, key).1?;
        Some(canonical::cell::<(K, V)>(image, at as usize).1)
    }
    fn reads(plan: &Self::Plan, image: &[u64], key: Self::Key) -> u32 {
        canonical::search::<(K, V)>(&plan.functions(), image, key).0
    }
    fn pair(plan: &Self::Plan, image: &[u64], at: u64) -> Option<(Self::Key, Self::Value)> {
        let at = u32::try_from(at).ok().filter(|&at| at < plan.slot_count())?;
        canonical::pair_in::<(K, V)>(&plan.functions(), image, at)
    }
    fn age(plan: &Self::Plan, image: &[u64], at: u64) -> u32 {
        let Some(at) = u32::try_from(at).ok().filter(|&at| at < plan.slot_count()) else { return 0 };
        let word = canonical::cell::<(K, V)>(image, at as usize).0;
        if slot::is_pair::<Self::Key>(word) { slot::age::<Self::Key>(word) } else { 0 }
    }
    fn place(plan: &Self::Plan, image: &mut [u64], pairs: &[(Self::Key, Self::Value)]) -> Placing<Self::Key> {
        let functions = plan.functions();
        Placing::of_each(pairs, |key, value| canonical::place::<(K, V)>(&functions, image, key, value))
    }
    fn remove(plan: &Self::Plan, image: &mut [u64], keys: &[Self::Key]) -> u64 {
        let functions = plan.functions();
        keys.iter().filter(|&&key| canonical::remove::<(K, V)>(&functions, image, key)).count() as u64
    }
    fn audit(plan: &Self::Plan, image: &[u64], cells: Range<u64>) -> std::result::Result<Audit, Violation> {
        canonical::audit::<(K, V)>(&plan.functions(), image, cells)
    }

    /// The old image, from which values are carried over to the new one.
    fn scratch_bytes(plan: &Self::Plan, _: u64) -> u64 {
        8 * plan.words()
    }
}
