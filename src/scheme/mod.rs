//! Schemes: the arithmetic and the memory layout of tables, in safe Rust, without devices or threads.
//!
//! A **scheme** is a value that holds parameters. From them, a size and a seed it creates a **plan**: the few integers
//! that define the meaning of an **image**, one buffer of 64-bit words. Backends (`cpu/`, `cl/`) fill and read images
//! faster than the functions here, with the same results. A scheme `x` is `scheme/x`, `cpu/x`, `opencl/x`, `cl/x.cl`
//! and one line in the registry below.

use std::fmt;
use std::ops::Range;

use crate::backend::Word;
use crate::error::{Error, Result};
use crate::sealed::Sealed;

mod any;
mod audit;
pub mod bucketized;
mod constants;
pub mod cuckoo;
pub mod cuckoo_set;
pub(crate) mod divisor;
pub mod fks;
pub mod hash;
mod head;
pub mod horton;
mod key;
mod kind;
mod load;
mod number;
pub mod perfect;
pub mod quadratic;
pub mod robin_hood;
pub(crate) mod shard;
pub mod signpost;
pub(crate) mod slot;
pub(crate) mod slot_lists;
pub mod sorted;
mod stored;

pub use any::{AnyPlan, AnyPlanOf, AnyScheme, AnySchemeOf};
pub use audit::{Audit, Violation};
pub use bucketized::{Bucketized, BucketizedOf, BucketizedPlan, Insertion, LookupMode};
pub use constants::{FIRST_SALTED, Salt};
pub use cuckoo::{Cuckoo, CuckooOf, CuckooPlan, HashFamily, Reinsertion};
pub use cuckoo_set::{CuckooSet, CuckooSetPlan};
pub use fks::{Fks, FksFamily, FksPlan};
pub use horton::{Horton, HortonFamily, HortonPlan};
pub use key::{Key, Value};
pub use kind::Kind;
pub use load::Load;
pub(crate) use number::SchemeNumber;
pub use perfect::{Perfect, PerfectPlan};
pub use quadratic::{Quadratic, QuadraticPlan};
pub use robin_hood::{RobinHood, RobinHoodOf, RobinHoodPlan, Sequence};
pub use signpost::{Signpost, SignpostOf, SignpostPlan};
pub use sorted::{Sorted, SortedOf, SortedPlan};

/// The registry: calls the callback macro with one line per scheme: module, type, name.
///
/// [`AnyScheme`], the backend chosen at run time, the command line, the benches and the test lists are generated from
/// it.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_scheme {
    ($callback:ident) => {
        $callback! {
            cuckoo, Cuckoo, "cuckoo";
            bucketized, Bucketized, "bucketized";
            horton, Horton, "horton";
            signpost, Signpost, "signpost";
            robin_hood, RobinHood, "robin_hood";
            fks, Fks, "fks";
            sorted, Sorted, "sorted";
            perfect, Perfect, "perfect";
            quadratic, Quadratic, "quadratic";
            cuckoo_set, CuckooSet, "cuckoo_set";
        }
    };
}

/// How a table changes after it is built. This is the only list of what each kind does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Updates {
    /// New pairs are placed in the image. A removed pair leaves a tombstone, which is neither displaced nor reused
    /// until the table is compacted: canonical cuckoo, bucketized and Robin Hood tables, and quadratic ones.
    Tombstones,
    /// New pairs are placed in the image, and removed ones leave no tombstone: classic cuckoo, bucketized and Horton
    /// tables.
    InPlace,
    /// The image depends on all pairs at once, so every insert and every removal rebuilds it: canonical Horton tables,
    /// classic Robin Hood tables, and two-level (fks), sorted and perfect ones of any kind.
    Rebuild,
}

/// The parameters of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The requested slots; a scheme may pad a tiny table to its minimum.
    pub slots: u64,
    /// The number of pairs to store.
    pub pairs: u64,
    /// The user's seed.
    pub seed: u64,
    /// The number of the set of constants drawn from the seed, counted from 0.
    pub attempt: u32,
}

/// The integers that determine what an image means. Sealed: the plans of this crate implement it.
///
/// Every plan is created by [`Scheme::plan`]; plans read from bytes are checked ([`Plan::of_stored`]).
///
/// ```
/// use koel::Scheme;
/// use koel::scheme::{Cuckoo, CuckooPlan, Plan, Request};
/// let plan = Cuckoo::canonical(4).plan(Request { slots: 100, pairs: 80, seed: 1, attempt: 0 })?;
/// assert_eq!(CuckooPlan::of_stored(Cuckoo::ID, plan.stored()), Ok(plan));
/// assert!(CuckooPlan::of_stored(Cuckoo::ID, &[0xff; 48]).is_err());
/// let seed: u64 = bytemuck::pod_read_unaligned(&plan.stored()[40..]);
/// assert_eq!(seed, 1);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// A plan cannot be created from unchecked bytes, unlike the seed above:
///
/// ```compile_fail,E0277
/// let plan: koel::scheme::CuckooPlan = bytemuck::pod_read_unaligned(&[0xff; 64]);
/// ```
pub trait Plan: Sealed + Copy + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The keys of the tables.
    type Key: Key;
    /// The values of the tables.
    type Value: Value;
    /// The bytes in files and digests, at most 64: the plan without its salt, which is stored separately.
    fn stored(&self) -> &[u8];
    /// The plan with these stored bytes, for tables of the scheme with this number. The bytes need not be trusted.
    ///
    /// # Errors
    /// A sentence that says why the bytes are not a plan.
    fn of_stored(scheme: u32, stored: &[u8]) -> std::result::Result<Self, String>;
    /// Whether attempts from [`FIRST_SALTED`] on draw their constants from a salt of all keys, so that an attacker
    /// cannot choose keys for which they fail. True only for schemes whose attempts differ only in the constants of
    /// their hash functions: not for Robin Hood tables (another prime with each attempt), perfect ones (another size)
    /// and sorted ones (no constants).
    fn takes_salt(&self) -> bool {
        false
    }
    /// Canonical or classic. Schemes of both kinds override it.
    fn kind(&self) -> Kind {
        Kind::Canonical
    }
    /// The number of slots, of which a load is a fraction.
    fn slots(&self) -> u64;
    /// The [`Request::slots`] that results in this plan. Schemes whose size changes with the attempt override it.
    fn requested_slots(&self) -> u64 {
        self.slots()
    }
    /// The maximum number of pairs of the image, whatever their hashes.
    fn capacity(&self) -> u64 {
        self.slots()
    }
    /// The number of 64-bit words of the image: the slots, and other data of the scheme.
    fn words(&self) -> u64 {
        self.slots()
    }
    /// [`Plan::words`] as a length, which may not exist on a 32-bit machine.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    fn word_count(&self) -> Result<usize> {
        usize::try_from(self.words()).map_err(|_| Error::TooLarge {
            what: "words of an image on this machine",
            requested: self.words(),
            most: usize::MAX as u64,
        })
    }
    /// The number of places for pairs: the range of cells of [`Scheme::pair`], [`Scheme::age`] and [`Scheme::audit`],
    /// and the length of decoded columns. Most schemes have one per word.
    fn cells(&self) -> u64 {
        self.words()
    }
    /// The number of slots of a bucket, which one step of a lookup reads.
    fn bucket_slots(&self) -> u32 {
        1
    }
    /// The number of bytes of a bucket, without data outside of its cells.
    fn bucket_bytes(&self) -> u64 {
        let slots = u64::from(self.bucket_slots().max(1));
        if Self::Key::BITS == u32::BITS && Self::Value::BITS == u32::BITS {
            // A cell is a word or an equal part of one.
            return slots * (8 / self.cells().div_ceil(self.words().max(1)).max(1));
        }
        // Images of 64-bit keys or values consist of cells only.
        (8 * self.words() * slots).checked_div(self.cells()).unwrap_or(0)
    }
    /// The word that fills an empty image.
    fn empty_word(&self) -> u64;
    /// The user's seed.
    fn seed(&self) -> u64;
    /// The attempt at which the build succeeded, from 0, which is the number of restarts.
    fn attempt(&self) -> u32;
    /// The key that marks empty slots and so cannot be stored in the image, if there is one.
    fn outside_key(&self) -> Option<Self::Key> {
        None
    }
    /// The sentinel pair, if the table contains it. It is stored outside of the image because its key marks empty
    /// slots.
    fn outside(&self) -> Option<(Self::Key, Self::Value)> {
        None
    }
    /// The same plan with another sentinel pair, or without one; unchanged if the scheme has no sentinel key.
    fn with_outside(self, _value: Option<Self::Value>) -> Self {
        self
    }
    /// The same plan for an image whose stash has this number of keys, if the size depends on it; otherwise unchanged.
    fn with_stash(self, _keys: u64) -> Self {
        self
    }
    /// The salt from which the constants are drawn, if they do not depend on the seed alone. Attempts below
    /// [`FIRST_SALTED`] have no salt, and neither have tables in files of format 2, whatever their attempt.
    fn salt(&self) -> Option<Salt> {
        None
    }
    /// The same plan with another salt, or without one; unchanged if the scheme does not use salts.
    fn with_salt(self, _salt: Option<Salt>) -> Self {
        self
    }
    /// This plan with the data of another one that is not part of a request: the sentinel pair and the salt.
    fn with_rest_of(self, other: &Self) -> Self {
        self.with_outside(other.outside().map(|(_, value)| value)).with_salt(other.salt())
    }
}

/// A layout and the arithmetic on it; a value of the type contains the user's parameters.
///
/// The functions on a plan and an image are the reference implementation: one key at a time, and as simple as possible.
/// They stay in bounds for **any** image whose length matches the plan.
///
/// Sealed: the schemes of this crate implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a scheme",
    note = "schemes are `koel::Bucketized`, `koel::Cuckoo`, `koel::Signpost` and others, with keys and values of `u32`",
    note = "for `u64` take `koel::BucketizedOf<K, V>` or another one of `koel::scheme` with types of keys and values"
)]
pub trait Scheme: Sealed + Clone + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The name of the type, the files, the kernels, and on the command line.
    const NAME: &'static str;
    /// The number in files and digests.
    const ID: u32;
    /// The kinds this scheme can be built as.
    const KINDS: &'static [Kind];
    /// The keys of the tables.
    type Key: Key;
    /// The values of the tables. Tables without values have values of some type, all of them 0
    /// ([`Limits::value_bits`]).
    type Value: Value;
    /// The plan.
    type Plan: Plan<Key = Self::Key, Value = Self::Value>;

    /// The default parameters of a kind.
    fn of_kind(kind: Kind) -> Self;
    /// The kind that these parameters request. By default the only one of [`Scheme::KINDS`].
    fn kind(&self) -> Kind {
        Self::KINDS[0]
    }
    /// [`Scheme::NAME`] of the actual scheme.
    fn name(&self) -> &'static str {
        Self::NAME
    }
    /// [`Scheme::ID`] of the actual scheme.
    fn id(&self) -> u32 {
        Self::ID
    }
    /// Whether tables of this scheme may have this number in files.
    fn has_id(id: u32) -> bool {
        id == Self::ID
    }
    /// Whether tables are built by one host thread and uploaded (`verify` reports it).
    fn host_built(&self) -> bool {
        false
    }
    /// How tables change.
    fn updates(&self) -> Updates;
    /// Returns an error for invalid parameters.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] naming the parameter and its range.
    fn check(&self) -> Result<()> {
        Ok(())
    }
    /// The default load.
    fn default_load(&self) -> Load;
    /// The plan for a request.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] or [`Error::TooLarge`] if no such table can exist.
    fn plan(&self, request: Request) -> Result<Self::Plan>;
    /// The parameters in a plan. It does not contain those that only a build needs: the longest chain is the default
    /// one.
    fn from_plan(plan: &Self::Plan) -> Self;

    /// The value of a key.
    fn find(plan: &Self::Plan, image: &[u64], key: Self::Key) -> Option<Self::Value>;
    /// The number of buckets that a lookup of this key reads.
    fn reads(plan: &Self::Plan, image: &[u64], key: Self::Key) -> u32;
    /// The pair in a cell of the image.
    fn pair(plan: &Self::Plan, image: &[u64], cell: u64) -> Option<(Self::Key, Self::Value)>;
    /// The age of the pair in a cell of the image: which of its proposals placed it, from 1. 0 for an empty cell.
    fn age(plan: &Self::Plan, image: &[u64], cell: u64) -> u32 {
        u32::from(Self::pair(plan, image, cell).is_some())
    }
    /// The number of these pairs that go to the stash, if its size depends on the pairs: the image is then that of
    /// [`Plan::with_stash`]. 0 in schemes without such a stash.
    fn stash(_plan: &Self::Plan, _pairs: &[(Self::Key, Self::Value)]) -> u64 {
        0
    }
    /// Adds pairs to an image, sequentially: the shortest definition of a build. The image is empty if the kind's
    /// updates are [`Updates::Rebuild`], the plan has the [`stash`](Scheme::stash) of these pairs, and the sentinel
    /// pair is not among them.
    fn place(plan: &Self::Plan, image: &mut [u64], pairs: &[(Self::Key, Self::Value)]) -> Placing<Self::Key>;
    /// Removes these keys from an image, sequentially, and counts the removed pairs. Does not handle the sentinel pair,
    /// and does nothing for kinds whose updates are [`Updates::Rebuild`].
    fn remove(_plan: &Self::Plan, _image: &mut [u64], _keys: &[Self::Key]) -> u64 {
        0
    }
    /// Checks every invariant of the pairs in a range of the image's cells; the length of the image must match the
    /// plan, and the range must consist of whole buckets.
    ///
    /// # Errors
    /// The first [`Violation`], in the order of the cells.
    fn audit(plan: &Self::Plan, image: &[u64], cells: Range<u64>) -> std::result::Result<Audit, Violation>;

    /// Device memory that a build takes in addition to the image and its input, on the backend that takes most.
    fn scratch_bytes(_plan: &Self::Plan, _pairs: u64) -> u64 {
        0
    }
    /// The types of buckets; a scheme with one type of bucket does not name it.
    fn bucket_types(_plan: &Self::Plan) -> &'static [&'static str] {
        &[""]
    }
    /// The index of a bucket's type in [`Scheme::bucket_types`].
    fn bucket_type(_plan: &Self::Plan, _image: &[u64], _bucket: u64) -> usize {
        0
    }
    /// The limits of tables with these parameters.
    fn limits(&self) -> Limits {
        Limits::of::<Self::Key, Self::Value>()
    }
    /// The greatest feasible load, in schemes in which the number of unplaced pairs of an attempt is the same on every
    /// device. Above it, an attempt with many unplaced pairs ends the build, because no other constants would succeed.
    /// `None` in schemes whose attempts can fail because of a crowd that other constants would scatter.
    fn gives_up_above(&self) -> Option<Load> {
        None
    }
    /// Whether tables tolerate duplicates: an image without unplaced pairs contains one pair of each key, as if there
    /// were no duplicates. In other schemes an image with duplicates is unusable, so sets and similar structures are
    /// built from deduplicated keys.
    fn keeps_one(&self) -> bool {
        false
    }
    /// Whether [`Scheme::crowd`] can return a crowd. It needs all keys on the host.
    fn names_crowds(&self) -> bool {
        false
    }
    /// The crowd of keys that caused an attempt to fail, if a crowd did: called after the last attempt, with all keys,
    /// for the error message.
    fn crowd(_plan: &Self::Plan, _keys: &[Self::Key]) -> Option<Crowd> {
        None
    }
    /// The prediction of a model for a table of this number of pairs with this plan, if the scheme has one.
    fn model(_plan: &Self::Plan, _pairs: u64) -> Option<Model> {
        None
    }
}

/// The limits of the tables of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of bits of a key: keys are below 2 to this power.
    pub key_bits: u32,
    /// The number of bits of a value.
    pub value_bits: u32,
    /// The number of pairs of a table.
    pub pairs: u64,
}

impl Limits {
    /// Every key and every value of 32 bits, and any number of pairs.
    pub const NONE: Limits = Limits::of::<u32, u32>();

    /// Every key and every value of these types, and any number of pairs.
    pub const fn of<K: Key, V: Value>() -> Limits {
        Limits { key_bits: K::BITS, value_bits: V::BITS, pairs: u64::MAX }
    }

    /// The greatest `u32` key: `key_bits` ones.
    pub fn greatest_key(self) -> u32 {
        greatest(self.key_bits)
    }

    /// The greatest `u32` value: `value_bits` ones.
    pub fn greatest_value(self) -> u32 {
        greatest(self.value_bits)
    }

    /// The limits that satisfy both.
    pub fn and(self, other: Limits) -> Limits {
        Limits {
            key_bits: self.key_bits.min(other.key_bits),
            value_bits: self.value_bits.min(other.value_bits),
            pairs: self.pairs.min(other.pairs),
        }
    }
}

/// The greatest number of this many bits, at most 32.
fn greatest(bits: u32) -> u32 {
    u32::MAX.checked_shr(u32::BITS.saturating_sub(bits)).unwrap_or(0)
}

/// Keys that compete for the same few places: more than fit, whatever the order of insertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// The keys, as a clause: `keys congruent to 5 modulo 67`.
    pub which: String,
    /// The number of keys.
    pub keys: u64,
    /// The number of keys that fit.
    pub most: u64,
}

/// The prediction of a model for a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Buckets read by a lookup that hits.
    pub reads_per_hit: f64,
    /// Buckets read by a lookup that misses.
    pub reads_per_miss: f64,
    /// The share of Type B buckets, where buckets have types.
    pub type_b_share: Option<f64>,
}

/// The result of placing pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing<K = u32> {
    /// Each pair has a slot, and so does every pair that it displaced.
    Placed,
    /// All pairs have a slot, except for duplicates: this is the smallest duplicate key. One pair of each key is stored
    /// in the image.
    Duplicate(K),
    /// A pair has no slot left to try: the attempt has failed, and the image must not be used.
    Unplaced,
}

impl<K: Ord + Copy> Placing<K> {
    /// Places pairs one by one: stops at `Unplaced`, and returns the smallest duplicate key.
    pub fn of_each<V: Copy>(pairs: &[(K, V)], mut place: impl FnMut(K, V) -> Placing<K>) -> Placing<K> {
        let mut least: Option<K> = None;
        for &(key, value) in pairs {
            match place(key, value) {
                Placing::Placed => {}
                Placing::Duplicate(key) => least = Some(least.map_or(key, |least| least.min(key))),
                Placing::Unplaced => return Placing::Unplaced,
            }
        }
        least.map_or(Placing::Placed, Placing::Duplicate)
    }
}
