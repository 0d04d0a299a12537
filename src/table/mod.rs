//! The hash table: a plan, an image on a device, and all decisions that are the same for all devices.
//!
//! ```text
//! builder.rs    parameters, sizes, the rule for duplicates, memory estimates;   builder_settings.rs   settings that the
//!               builders of all structures share
//! build.rs      attempts: new constants until every pair has a slot, or a typed error
//! rows.rs       the rows of a build, what is known about duplicates among them, and their rule;   sample.rs   a sample of
//!               the keys;   heavy.rs   drops duplicates of heavy keys
//! distinct.rs   finds duplicate keys and keeps one pair of each
//! image.rs      plan, buffer and counts: the results of builds and batches;   change.rs   changes that leave the table
//!               unchanged on an error
//! insert.rs     `insert`, `upsert`
//! remove.rs     `remove`, `compact`, `rebuild`
//! reading.rs    get, contains, pairs, from host slices and device buffers
//! inspect.rs    audit, statistics
//! keeping.rs    tables of keys without values, which may repeat in the input
//! parts.rs      access for the structures that contain a table
//! keys.rs       types of keys and values;   salt.rs   the salt of a table's keys;   seed.rs   random seeds
//! digest.rs     the header and the digest;   file.rs   save, open, open_mapped;   settings.rs   the settings at the end
//!               of a file
//! ```

mod build;
mod builder;
mod builder_settings;
mod change;
mod digest;
pub(crate) mod distinct;
mod file;
mod heavy;
mod image;
mod insert;
mod inspect;
mod keeping;
mod keys;
mod parts;
mod reading;
mod remove;
mod rows;
mod salt;
mod sample;
mod seed;
mod settings;

pub(crate) use builder_settings::{table_estimate, table_settings};
pub(crate) use change::Change;
pub(crate) use image::Image;

pub use builder::{Contents, Duplicates, MemoryEstimate, TableBuilder};
pub use digest::Digest;
pub use file::{FileInfo, read_info};
pub use insert::Inserted;
pub use inspect::{Buckets, Stats};
pub use keys::{KeyType, ValueType};
pub use seed::random_seed;

use crate::backend::{HashBackend, Runs, Word};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::scheme::{Cuckoo, Key, Plan, Scheme};
use builder::Settings;

/// A hash table from `u32` keys to `u32` values on backend `B`, laid out by scheme `S`.
///
/// Every operation takes many keys at once. Every `u32` is a legal key and a legal value.
///
/// ```
/// use koel::{Cpu, Cuckoo, HashTable};
///
/// let (keys, values) = ([10, 20, 30], [1, 2, 3]);
/// let table = HashTable::builder(Cuckoo::canonical(4)).build(&Cpu::new(), &keys, &values)?;
/// assert_eq!(table.get(&[20, 25])?, [Some(2), None]);
/// # Ok::<(), koel::Error>(())
/// ```
pub struct HashTable<B: HashBackend, S: Scheme = Cuckoo> {
    backend: B,
    scheme: S,
    settings: Settings,
    image: Image<B, S>,
}

/// Keys and values of equal length on one device.
pub(crate) struct Pairs<B: HashBackend, K: Key, V: Word> {
    pub(crate) keys: B::Buffer<K>,
    pub(crate) values: B::Buffer<V>,
}

/// The pairs of a table of scheme `S`.
pub(crate) type PairsOf<B, S> = Pairs<B, <S as Scheme>::Key, <S as Scheme>::Value>;

/// Implemented for one backend so that `HashTable::builder(..)` needs no type; it builds on any.
impl<S: Scheme> HashTable<Cpu, S> {
    /// Returns a builder with these parameters, for any backend; see [`TableBuilder`].
    pub fn builder(scheme: S) -> TableBuilder<S> {
        TableBuilder::new(scheme)
    }
}

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// The number of pairs, in constant time.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let table = HashTable::builder(Cuckoo::default()).slots(20).build(&Cpu::new(), &[5, 6], &[1, 2])?;
    /// assert_eq!((table.len(), table.capacity(), table.load_factor()), (2, 20, 0.1));
    /// # Ok::<(), koel::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.image.len() as usize
    }

    /// Whether the table has no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The maximum number of pairs: one for each of the [`slots`](Self::slots), and one more if the key 0xFFFFFFFF
    /// marks empty slots and has a place outside of them ([`Plan::outside_key`]: canonical Horton and perfect tables,
    /// and classic ones but Robin Hood's). How many pairs fit depends on the load: [`TableBuilder::capacity`] allocates
    /// more slots, as many as a number of pairs needs.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let table = HashTable::builder(Cuckoo::classic(4)).slots(20).build(&Cpu::new(), &[5], &[1])?;
    /// assert_eq!((table.slots(), table.capacity()), (20, 21));
    /// # Ok::<(), koel::Error>(())
    /// ```
    pub fn capacity(&self) -> usize {
        (self.plan().slots() + u64::from(self.plan().outside_key().is_some())) as usize
    }

    /// The number of slots: that of [`TableBuilder::slots`], rounded up, or the number that the capacity or the load
    /// needs. The stash of a Horton table is not counted.
    pub fn slots(&self) -> usize {
        self.plan().slots() as usize
    }

    /// Pairs per slot, from 0 to 1; a pair outside of the slots is not counted if all slots are full.
    pub fn load_factor(&self) -> f64 {
        (self.len() as f64 / self.slots() as f64).min(1.0)
    }

    /// Whether the table has the parameters and settings of another one.
    pub(crate) fn has_parameters_of(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.settings == other.settings
    }

    /// The parameters of the scheme.
    pub fn scheme(&self) -> &S {
        &self.scheme
    }

    /// The role of the table in the structure that contains it.
    pub(crate) fn contents(&self) -> Contents {
        self.settings.contents
    }

    /// The type of the keys, as set by [`TableBuilder::key_type`].
    pub fn key_type(&self) -> KeyType {
        self.settings.key_type
    }

    /// The type of the values, as set by [`TableBuilder::value_type`].
    pub fn value_type(&self) -> ValueType {
        self.settings.value_type
    }

    /// The number of times that a build of this table was restarted with new constants.
    pub fn restarts(&self) -> u32 {
        self.plan().attempt()
    }

    /// The integers that determine what the image means.
    pub fn plan(&self) -> &S::Plan {
        &self.image.plan
    }

    /// The slots, on the device.
    pub fn image(&self) -> &B::Buffer<u64> {
        &self.image.buffer
    }

    /// The device.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// A copy of the table on another device; nothing is rebuilt.
    ///
    /// Cost: the image is copied through host memory, which holds it once.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable, auto};
    /// let table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[1, 2], &[3, 4])?;
    /// let there = table.to_backend(&auto().backend)?;
    /// assert_eq!(there.digest()?, table.digest()?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or [`crate::Error::Device`] of either device.
    pub fn to_backend<C: Runs<S>>(&self, other: &C) -> Result<HashTable<C, S>> {
        let image = self.image.moved(&self.backend, other)?;
        Ok(HashTable { backend: other.clone(), scheme: self.scheme.clone(), settings: self.settings.clone(), image })
    }
}

impl<B: HashBackend, S: Scheme> std::fmt::Debug for HashTable<B, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HashTable")
            .field("scheme", &self.scheme.name())
            .field("device", &self.backend.info().id)
            .field("plan", &self.image.plan)
            .field("pairs_in_image", &self.image.pairs)
            .finish_non_exhaustive()
    }
}
