//! Canonical bucketized tables of 64-bit keys or values: a bucket is one line of 64 bytes.
//!
//! ```text
//! slot.rs        a word [age 4][remainder], of 64 bits or of 32, and its inverse, the key
//! line.rs        the positions of words and values in a line: (u64, u64), (u64, u32), (u32, u64), sets of u64
//! functions.rs   the places of keys
//! plan.rs        the integers that determine an image
//! canonical.rs   the rule
//! ```
//!
//! Words alone determine the places of keys, and values are moved with them. An offer is therefore one atomic operation
//! on 64 bits, as in tables of 32 bits, and the proofs of `bucketized/canonical.rs` apply without changes.
//!
//! There are no classic tables of 64-bit keys or values.

pub(crate) mod canonical;
mod functions;
mod line;
mod plan;
pub(crate) mod slot;
#[cfg(test)]
mod tests;

pub(crate) use canonical::sort_line as sort_words;
pub(crate) use functions::LineFunctions;
pub use line::{Column, Layout};
pub(crate) use line::{LINE_WORDS, Line, lines, lines_mut, pair, put};
pub use plan::LinePlan;
pub(crate) use slot::SlotKey;

use std::marker::PhantomData;
use std::ops::Range;

use super::{Bucketized, MOST_BUCKETS};
use crate::error::{Error, Result};
use crate::scheme::slot::MIN_BUCKETS;
use crate::scheme::{Audit, Kind, Limits, Load, Placing, Plan, Request, Scheme, Updates, Violation};

/// The parameters of a bucketized table of `K` keys and `V` values, of which at least one has 64 bits. Created by
/// [`Bucketized::of`].
///
/// | keys, values | slots per bucket | default load |
/// |---|---|---|
/// | `u64`, `u64` | 4 | 0.85 |
/// | `u64`, `u32` and `u32`, `u64` | 5 | 0.87 |
/// | `u64`, `()`: sets | 8 | 0.90 |
///
/// ```
/// use koel::{Bucketized, Cpu, HashTable};
/// let scheme = Bucketized::canonical(4).of::<u64, u64>();
/// let table = HashTable::builder(scheme).build(&Cpu::new(), &[1 << 40, u64::MAX], &[7, 0])?;
/// assert_eq!(table.get(&[u64::MAX, 1, 1 << 40])?, [Some(0), None, Some(7)]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketizedOf<K, V> {
    kind: Kind,
    layout: PhantomData<(K, V)>,
}

/// Canonical tables.
impl<K, V> Default for BucketizedOf<K, V>
where
    (K, V): Layout,
{
    fn default() -> Self {
        Bucketized::default().of()
    }
}

impl Bucketized {
    /// The same scheme for other types of keys and values: canonical tables of `u64` keys or values, and sets of `u64`
    /// keys (`of::<u64, ()>()`). A bucket is a line of 64 bytes, and its number of slots follows from that, whatever
    /// number was given.
    pub fn of<K, V>(&self) -> BucketizedOf<K, V>
    where
        (K, V): Layout,
    {
        BucketizedOf { kind: self.kind, layout: PhantomData }
    }
}

impl<K: Column, V: Column> Scheme for BucketizedOf<K, V>
where
    (K, V): Layout,
{
    const NAME: &'static str = Bucketized::NAME;
    const ID: u32 = LinePlan::<(K, V)>::ID;
    const KINDS: &'static [Kind] = &[Kind::Canonical];
    type Key = <(K, V) as Layout>::Key;
    type Value = <(K, V) as Layout>::Value;
    type Plan = LinePlan<(K, V)>;

    fn of_kind(kind: Kind) -> Self {
        BucketizedOf { kind, layout: PhantomData }
    }
    fn kind(&self) -> Kind {
        self.kind
    }
    fn updates(&self) -> Updates {
        Updates::Tombstones
    }
    fn check(&self) -> Result<()> {
        match self.kind {
            Kind::Canonical => Ok(()),
            Kind::Classic => Err(Error::parameter("kind", self.kind, "tables of 64-bit keys or values are canonical")),
        }
    }
    fn default_load(&self) -> Load {
        Load::from_millionths(match <(K, V)>::SLOTS {
            4 => 850_000,
            5 => 870_000,
            _ => 900_000,
        })
    }
    fn plan(&self, request: Request) -> Result<Self::Plan> {
        self.check()?;
        let slots = <(K, V)>::SLOTS as u64;
        let buckets = request.slots.div_ceil(slots).max(MIN_BUCKETS.into());
        if buckets > MOST_BUCKETS {
            let what = "slots of a bucketized table";
            return Err(Error::TooLarge { what, requested: request.slots, most: MOST_BUCKETS * slots });
        }
        Ok(LinePlan::new(buckets as u32, request.seed, request.attempt))
    }
    fn from_plan(_: &Self::Plan) -> Self {
        Self::of_kind(Kind::Canonical)
    }
    fn limits(&self) -> Limits {
        let limits = Limits::of::<Self::Key, Self::Value>();
        if <(K, V)>::VALUES.is_some() { limits } else { Limits { value_bits: 0, ..limits } }
    }
    fn gives_up_above(&self) -> Option<Load> {
        Bucketized::canonical(if <(K, V)>::SLOTS == 8 { 8 } else { 4 }).gives_up_above()
    }

    fn find(plan: &Self::Plan, image: &[u64], key: Self::Key) -> Option<Self::Value> {
        let (bucket, i) = canonical::search::<(K, V)>(&plan.functions(), image, key).1?;
        Some(<(K, V)>::value(&lines(image)[bucket], i))
    }
    fn reads(plan: &Self::Plan, image: &[u64], key: Self::Key) -> u32 {
        canonical::search::<(K, V)>(&plan.functions(), image, key).0
    }
    fn pair(plan: &Self::Plan, image: &[u64], cell: u64) -> Option<(Self::Key, Self::Value)> {
        let slots = <(K, V)>::SLOTS as u64;
        canonical::pair_in::<(K, V)>(&plan.functions(), image, (cell / slots) as usize, (cell % slots) as usize)
    }
    fn age(_: &Self::Plan, image: &[u64], cell: u64) -> u32 {
        let slots = <(K, V)>::SLOTS as u64;
        let Some(line) = lines(image).get((cell / slots) as usize) else { return 0 };
        let word = <(K, V)>::word(line, (cell % slots) as usize);
        if slot::is_pair::<Self::Key>(word) { slot::age::<Self::Key>(word) } else { 0 }
    }
    fn place(plan: &Self::Plan, image: &mut [u64], pairs: &[(Self::Key, Self::Value)]) -> Placing<Self::Key> {
        let functions = plan.functions();
        let placing = Placing::of_each(pairs, |key, value| canonical::place::<(K, V)>(&functions, image, key, value));
        if !pairs.is_empty() {
            canonical::sort::<(K, V)>(image);
        }
        placing
    }
    fn remove(plan: &Self::Plan, image: &mut [u64], keys: &[Self::Key]) -> u64 {
        let functions = plan.functions();
        keys.iter().filter(|&&key| canonical::remove::<(K, V)>(&functions, image, key)).count() as u64
    }
    fn audit(plan: &Self::Plan, image: &[u64], cells: Range<u64>) -> std::result::Result<Audit, Violation> {
        canonical::audit::<(K, V)>(&plan.functions(), image, cells)
    }

    /// The old image, from which values are copied to the new one. A new table that the CPU builds one partition at a
    /// time needs no more memory, except for sets, which need a little more: the space in which each thread places a
    /// part (three quarters of this limit the number of threads), and a list of the pairs that leave their part.
    fn scratch_bytes(plan: &Self::Plan, _: u64) -> u64 {
        8 * plan.words()
    }
}
