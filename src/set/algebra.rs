//! Operations on two sets.
//!
//! ```text
//! union                  the keys of one set, and the keys of the other set that are not in the first
//! intersection           the keys of the smaller set that are in the other set
//! difference             the keys of one set that are not in the other set
//! symmetric_difference   the differences in both directions
//! ```
//!
//! Each operation is a lookup of whole columns and one build of distinct keys. The result has the parameters of the
//! first set: scheme, seed, attempts, and the load or, if one was given, the capacity. A canonical result therefore has
//! the same bytes as a set built from these keys. Its keys have the type of both sets, or are plain numbers if the
//! types differ.

use super::{HashSet, SetBuilder};
use crate::backend::{DeviceBuffer, Runs};
use crate::error::Result;
use crate::scheme::Scheme;

impl<B: Runs<S>, S: Scheme> HashSet<B, S> {
    /// The keys that are in at least one of the sets, with the parameters of this set.
    ///
    /// Cost: a lookup of the keys of the other set, and a build.
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashSet};
    /// let build = |keys: &[u32]| HashSet::builder(CuckooSet::default()).build(&Cpu::new(), keys);
    /// let union = build(&[1, 2])?.union(&build(&[2, 3])?)?;
    /// assert_eq!(union.digest()?, build(&[1, 2, 3])?.digest()?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::WrongDevice`] if the sets are on different devices; otherwise as a build.
    pub fn union(&self, other: &Self) -> Result<Self> {
        let more = other.among(self, false)?;
        self.with(other, &self.backend().concat(&self.keys_on()?, &more)?)
    }

    /// The keys that are in both sets, with the parameters of this set.
    ///
    /// Cost: a lookup of the keys of the smaller set, and a build of the keys in both sets.
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashSet};
    /// let build = |keys: &[u32]| HashSet::builder(CuckooSet::default()).build(&Cpu::new(), keys);
    /// let both = build(&[1, 2])?.intersection(&build(&[2, 3])?)?;
    /// assert_eq!(both.to_keys()?, [2]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`union`](Self::union).
    pub fn intersection(&self, other: &Self) -> Result<Self> {
        let (smaller, larger) = if other.len() < self.len() { (other, self) } else { (self, other) };
        self.with(other, &smaller.among(larger, true)?)
    }

    /// The keys of this set that are not in the other set.
    ///
    /// Cost: a lookup of the keys of this set, and a build of the remaining keys.
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashSet};
    /// let build = |keys: &[u32]| HashSet::builder(CuckooSet::default()).build(&Cpu::new(), keys);
    /// assert_eq!(build(&[1, 2])?.difference(&build(&[2, 3])?)?.to_keys()?, [1]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`union`](Self::union).
    pub fn difference(&self, other: &Self) -> Result<Self> {
        self.with(other, &self.among(other, false)?)
    }

    /// The keys that are in exactly one of the sets, with the parameters of this set.
    ///
    /// Cost: a lookup of the keys of both sets, and a build.
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashSet};
    /// let build = |keys: &[u32]| HashSet::builder(CuckooSet::default()).build(&Cpu::new(), keys);
    /// let either = build(&[1, 2])?.symmetric_difference(&build(&[2, 3])?)?;
    /// assert_eq!(either.digest()?, build(&[1, 3])?.digest()?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`union`](Self::union).
    pub fn symmetric_difference(&self, other: &Self) -> Result<Self> {
        let (here, there) = (self.among(other, false)?, other.among(self, false)?);
        self.with(other, &self.backend().concat(&here, &there)?)
    }

    /// Whether every key of this set is in the other set. Cost: a lookup of the keys of this set, unless the other set
    /// is smaller.
    ///
    /// ```
    /// use koel::{Cpu, CuckooSet, HashSet};
    /// let build = |keys: &[u32]| HashSet::builder(CuckooSet::default()).build(&Cpu::new(), keys);
    /// assert!(build(&[1, 2])?.is_subset(&build(&[2, 3, 1])?)?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::WrongDevice`], [`crate::Error::OutOfMemory`], or what the device reports.
    pub fn is_subset(&self, other: &Self) -> Result<bool> {
        Ok(self.len() <= other.len() && self.among(other, false)?.is_empty())
    }

    /// Whether every key of the other set is in this set. Cost: a lookup of the keys of the other set, unless it is
    /// larger.
    ///
    /// # Errors
    /// As [`is_subset`](Self::is_subset).
    pub fn is_superset(&self, other: &Self) -> Result<bool> {
        other.is_subset(self)
    }

    /// Whether there is no key in both sets. Cost: a lookup of the keys of the smaller set.
    ///
    /// # Errors
    /// As [`is_subset`](Self::is_subset).
    pub fn is_disjoint(&self, other: &Self) -> Result<bool> {
        let (smaller, larger) = if other.len() < self.len() { (other, self) } else { (self, other) };
        Ok(smaller.among(larger, true)?.is_empty())
    }

    /// The keys of this set that are in the other set if `there` is true, and otherwise those that are not.
    fn among(&self, other: &Self, there: bool) -> Result<B::Buffer<S::Key>> {
        let keys = self.keys_on()?;
        self.backend().select(&other.contains_on(&keys)?, there, &keys)
    }

    /// Builds the set of these distinct keys of both sets, with the parameters of this set.
    fn with(&self, other: &Self, keys: &B::Buffer<S::Key>) -> Result<Self> {
        let key_type = self.key_type().of_both(other.key_type());
        SetBuilder::of(self.table.builder_like()).key_type(key_type).build_on(self.backend(), keys)
    }
}
