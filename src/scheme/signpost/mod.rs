//! Signpost tables: a full bucket records where its surplus keys are stored. The scheme is new in koel.
//!
//! ```text
//! bucket     a line of 64 bytes: the pairs whose home it is, and guests in its free slots
//! signposts  4 bits for each of 8, 16 or 32 tags, in otherwise unused bits of the line: the function by which the
//!            tag's least key has left
//! lookup     the home line; one more only if the key is not there and the signpost of its tag is set; for the few in
//!            the stash up to three
//! ```
//!
//! ```text
//! post.rs        the word of a slot, and the places of a bucket's signposts
//! functions.rs   the places of keys
//! group.rs       the keys of one home, and which of them leave
//! rule.rs        the rule, and the reference implementation
//! reading.rs     search, audit
//! plan.rs        the integers that determine an image
//! model.rs       reads and stash, from slots, tags and load
//! ```
//!
//! As in Horton tables (Breslow 2016), a full bucket locates its surplus keys by tags, so most lookups read one line.
//! There, the entries take the place of a pair; here, they are stored in bits that quotients do not use, so all slots
//! hold pairs. All keys of a home bucket stay in one part of the table.
//!
//! Tables do not change in place: the keys that leave a bucket depend on all its keys, so every batch and every removal
//! rebuilds the table. For frequent inserts, use a bucketized table.

pub(crate) mod functions;
pub(crate) mod group;
pub mod model;
mod plan;
pub(crate) mod post;
pub(crate) mod reading;
pub(crate) mod rule;
#[cfg(test)]
mod tests;

pub use functions::SignpostFunctions;
pub use plan::SignpostPlan;
pub(crate) use post::STASH;

use std::marker::PhantomData;
use std::ops::Range;

use self::reading::Reader;
use crate::error::{Error, Result};
use crate::scheme::bucketized::MOST_BUCKETS;
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::slot::MIN_BUCKETS;
use crate::scheme::{Audit, Kind, Limits, Load, Model, Placing, Plan, Request, Scheme, Updates, Violation};

/// The scheme's number in files.
const NUMBER: u32 = 10;

/// Lines of `u32` keys and values: 8 x `[word 4][value 4]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Narrow;

/// Lines of `u32` keys without values: 16 x `[word 4]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NarrowSet;

impl Layout for Narrow {
    type Key = u32;
    type Value = u32;
    const SLOTS: usize = 8;
    const WORD_STRIDE: usize = 2;
    const VALUES: Option<(usize, usize)> = Some((1, 2));
    const SPARE: Option<usize> = None;
    const PART_BITS: u32 = 9;
    const CODE: u32 = 0x00;
}

impl Layout for NarrowSet {
    type Key = u32;
    type Value = u32;
    const SLOTS: usize = 16;
    const WORD_STRIDE: usize = 1;
    const VALUES: Option<(usize, usize)> = None;
    const SPARE: Option<usize> = None;
    const PART_BITS: u32 = 8;
    const CODE: u32 = 0x20;
}

/// Types of keys and values, with the layout of their lines.
pub trait Posted: Column {
    /// The layout of a line.
    type Layout: Layout;
}

impl Posted for (u32, u32) {
    type Layout = Narrow;
}
impl Posted for (u32, ()) {
    type Layout = NarrowSet;
}
impl Posted for (u64, u64) {
    type Layout = (u64, u64);
}
impl Posted for (u64, u32) {
    type Layout = (u64, u32);
}
impl Posted for (u32, u64) {
    type Layout = (u32, u64);
}
impl Posted for (u64, ()) {
    type Layout = (u64, ());
}

/// The parameters of a signpost table of `K` keys and `V` values, `()` for sets.
///
/// | keys, values | slots per bucket | signposts | buckets read per hit, per miss at load 0.9 |
/// |---|---|---|---|
/// | `u32`, `u32` | 8 | 16 | 1.10, 1.045 |
/// | `u64`, `u64` | 4 | 8 | 1.16, 1.07 |
/// | `u64`, `u32` and `u32`, `u64` | 5 | 8 | 1.14, 1.08 |
/// | `u64`, `()` | 8 | 16 | 1.10, 1.045 |
/// | `u32`, `()` | 16 | 32 | 1.06, 1.03 |
///
/// ```
/// use koel::{Cpu, HashTable, Signpost};
/// let table = HashTable::builder(Signpost::new()).build(&Cpu::new(), &[3, u32::MAX], &[7, 0])?;
/// assert_eq!(table.get(&[u32::MAX, 1, 3])?, [Some(0), None, Some(7)]);
/// let wide = HashTable::builder(Signpost::new().of::<u64, u64>()).build(&Cpu::new(), &[1 << 40], &[9])?;
/// assert_eq!(wide.get(&[1 << 40, 1])?, [Some(9), None]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignpostOf<K, V> {
    kind: Kind,
    layout: PhantomData<(K, V)>,
}

/// Signpost tables of `u32` keys and values.
pub type Signpost = SignpostOf<u32, u32>;

impl Signpost {
    /// Tables of `u32` keys and values.
    #[expect(clippy::new_without_default, reason = "a scheme is named where it is chosen")]
    pub fn new() -> Signpost {
        SignpostOf { kind: Kind::Canonical, layout: PhantomData }
    }

    /// The same scheme for other types of keys and values; `()` for no values.
    pub fn of<K, V>(&self) -> SignpostOf<K, V>
    where
        (K, V): Posted,
    {
        SignpostOf { kind: self.kind, layout: PhantomData }
    }
}

/// The layout of a table's lines.
pub(crate) type LayoutOf<K, V> = <(K, V) as Posted>::Layout;

impl<K: Column, V: Column> Scheme for SignpostOf<K, V>
where
    (K, V): Posted,
{
    const NAME: &'static str = "signpost";
    const ID: u32 = SignpostPlan::<LayoutOf<K, V>>::ID;
    const KINDS: &'static [Kind] = &[Kind::Canonical];
    type Key = <LayoutOf<K, V> as Layout>::Key;
    type Value = <LayoutOf<K, V> as Layout>::Value;
    type Plan = SignpostPlan<LayoutOf<K, V>>;

    fn of_kind(kind: Kind) -> Self {
        SignpostOf { kind, layout: PhantomData }
    }
    fn kind(&self) -> Kind {
        self.kind
    }
    fn updates(&self) -> Updates {
        Updates::Rebuild
    }
    fn check(&self) -> Result<()> {
        match self.kind {
            Kind::Canonical => Ok(()),
            Kind::Classic => Err(Error::parameter("kind", self.kind, "signpost tables are canonical")),
        }
    }
    fn default_load(&self) -> Load {
        Load::from_millionths(900_000)
    }
    fn plan(&self, request: Request) -> Result<Self::Plan> {
        self.check()?;
        let slots = LayoutOf::<K, V>::SLOTS as u64;
        let buckets = request.slots.div_ceil(slots).max(MIN_BUCKETS.into());
        if buckets > MOST_BUCKETS {
            let what = "slots of a signpost table";
            return Err(Error::TooLarge { what, requested: request.slots, most: MOST_BUCKETS * slots });
        }
        Ok(SignpostPlan::new(buckets as u32, request.seed, request.attempt))
    }
    fn from_plan(_: &Self::Plan) -> Self {
        Self::of_kind(Kind::Canonical)
    }
    fn limits(&self) -> Limits {
        // Pairs are partitioned by 32-bit numbers.
        let limits = Limits { pairs: u32::MAX.into(), ..Limits::of::<Self::Key, Self::Value>() };
        if LayoutOf::<K, V>::VALUES.is_some() { limits } else { Limits { value_bits: 0, ..limits } }
    }

    fn find(plan: &Self::Plan, image: &[u64], key: Self::Key) -> Option<Self::Value> {
        reading::find(plan, image, key)
    }
    fn reads(plan: &Self::Plan, image: &[u64], key: Self::Key) -> u32 {
        Reader::new(plan, image).search(key).0
    }
    fn pair(plan: &Self::Plan, image: &[u64], cell: u64) -> Option<(Self::Key, Self::Value)> {
        Reader::new(plan, image).pair(cell)
    }
    fn age(plan: &Self::Plan, image: &[u64], cell: u64) -> u32 {
        Reader::new(plan, image).age(cell)
    }
    fn stash(plan: &Self::Plan, pairs: &[(Self::Key, Self::Value)]) -> u64 {
        rule::stashed(plan, pairs)
    }
    fn place(plan: &Self::Plan, image: &mut [u64], pairs: &[(Self::Key, Self::Value)]) -> Placing<Self::Key> {
        rule::place(plan, image, pairs)
    }
    fn audit(plan: &Self::Plan, image: &[u64], cells: Range<u64>) -> std::result::Result<Audit, Violation> {
        Reader::new(plan, image).audit(cells)
    }
    fn model(plan: &Self::Plan, pairs: u64) -> Option<Model> {
        let (slots, tags) = (plan.bucket_slots(), 1 << post::tag_bits::<LayoutOf<K, V>>());
        let load = pairs as f64 / plan.slots().max(1) as f64;
        let reads_per_hit = model::reads_per_hit(slots, load);
        Some(Model { reads_per_hit, reads_per_miss: model::reads_per_miss(slots, tags, load), type_b_share: None })
    }
}
