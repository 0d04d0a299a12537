//! Canonical cuckoo tables of 64-bit keys or values, and sets of 64-bit keys.
//!
//! ```text
//! functions.rs   the places of keys: H mixers of the keys' width
//! plan.rs        the integers that determine an image
//! ```
//!
//! The rule is `scheme/slot_lists.rs`.
//!
//! A slot is a word `[age 4][remainder]` of the key's width (`bucketized/wide/slot.rs`), and a value. Slots are stored
//! in lines of 64 bytes, four, five or eight per line (`bucketized/wide/line.rs`), so one memory access reads the word
//! and the value of a slot. A key of a set takes 8 bytes.
//!
//! There are no classic tables of 64-bit keys or values. Lines are not buckets: the H slots of a key are in unrelated
//! lines.

mod functions;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use functions::SlotFunctions;
pub use plan::CuckooLinePlan;

use std::marker::PhantomData;
use std::ops::Range;

use super::Cuckoo;
use crate::error::{Error, Result};
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::slot::MIN_BUCKETS;
use crate::scheme::slot_lists::rule_of_slot_lists;
use crate::scheme::{Audit, CuckooSet, Kind, Limits, Load, Placing, Plan, Request, Scheme, Updates, Violation};

/// The parameters of a cuckoo table of `K` keys and `V` values, of which at least one has 64 bits. Created by
/// [`Cuckoo::of`], and for sets of `u64` keys also by [`CuckooSet::of`].
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
    /// The same parameters for other types of keys and values: canonical tables of `u64` keys or values, and sets of
    /// `u64` keys (`of::<u64, ()>()`).
    pub fn of<K, V>(&self) -> CuckooOf<K, V>
    where
        (K, V): Layout,
    {
        CuckooOf { cuckoo: self.clone(), layout: PhantomData }
    }
}

impl CuckooSet {
    /// The same parameters for `u64` keys: canonical sets.
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
            requested: request.slots,
            most: u64::from(u32::MAX),
        })?;
        let slots = slots.max(MIN_BUCKETS);
        Ok(CuckooLinePlan::new(self.cuckoo.functions, slots, request.seed, request.attempt))
    }
    fn from_plan(plan: &Self::Plan) -> Self {
        Cuckoo::canonical(plan.function_count()).of()
    }
    fn gives_up_above(&self) -> Option<Load> {
        self.cuckoo.gives_up_above()
    }

    rule_of_slot_lists!(SlotFunctions<<(K, V) as Layout>::Key>);
}
