//! An index of a right column: what a multivalue table of its row numbers is, and one element more.

use super::{JoinIndex, NO_ROW};
use crate::backend::{DeviceBuffer, Runs};
use crate::error::{Error, Result};
use crate::multi::{Grouped, MultiBuilder};
use crate::scheme::Scheme;
use crate::table::random_seed;

/// Builds indices for joins; made by [`JoinIndex::builder`].
///
/// ```
/// use koel::{Cpu, Cuckoo, JoinIndex};
/// let index = JoinIndex::builder(Cuckoo::canonical(3)).load_factor(0.9).seed(7).build(&Cpu::new(), &[5, 6, 5])?;
/// assert_eq!((index.len(), index.keys_len()), (3, 2));
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct JoinBuilder<S: Scheme> {
    multi: MultiBuilder<S>,
}

impl<S: Scheme> JoinBuilder<S> {
    pub(super) fn new(scheme: S) -> Self {
        JoinBuilder { multi: MultiBuilder::new(scheme) }
    }

    /// Distinct keys per slot, above 0 and up to 1; see
    /// [`TableBuilder::load_factor`](crate::TableBuilder::load_factor).
    pub fn load_factor(mut self, load: f64) -> Self {
        self.multi = self.multi.load_factor(load);
        self
    }

    /// Slots for distinct keys; see [`TableBuilder::capacity`](crate::TableBuilder::capacity).
    pub fn capacity(mut self, slots: u64) -> Self {
        self.multi = self.multi.capacity(slots);
        self
    }

    /// The seed of all constants. No result of a join depends on it.
    pub fn seed(mut self, seed: u64) -> Self {
        self.multi = self.multi.seed(seed);
        self
    }

    /// A seed from the system's source of randomness instead, for keys that strangers choose
    /// (`docs/canonical-layout.md`, "Keys of strangers").
    ///
    /// # Errors
    /// [`Error::NoRandomness`] if the system has none to give.
    pub fn seed_at_random(self) -> Result<Self> {
        Ok(self.seed(random_seed()?))
    }

    /// The most attempts with new constants, 1 to 1024; otherwise 32.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.multi = self.multi.attempts(attempts);
        self
    }

    /// Builds an index of the right column of a join.
    ///
    /// Cost and memory: as [`MultiBuilder::build`] of the keys and their row numbers.
    ///
    /// # Errors
    /// [`Error::TooLarge`] from 2^32 rows on; otherwise as [`MultiBuilder::build`].
    pub fn build<B: Runs<S>>(&self, backend: &B, right: &[u32]) -> Result<JoinIndex<B, S>> {
        self.check(right.len())?;
        let right = backend.upload(right)?;
        self.build_on(backend, &right)
    }

    /// [`build`](Self::build) from a buffer that is on the device already; nothing is transferred.
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`Error::WrongDevice`].
    pub fn build_on<B: Runs<S>>(&self, backend: &B, right: &B::Buffer<u32>) -> Result<JoinIndex<B, S>> {
        self.check(right.len())?;
        let rows = backend.iota(right.len())?;
        let mut grouped = Grouped::of(backend, right, &rows)?;
        drop(rows);
        grouped.values = backend.concat(&grouped.values, &backend.upload(&[NO_ROW])?)?;
        Ok(JoinIndex { rows: self.multi.build_grouped(backend, grouped)? })
    }

    fn check(&self, rows: usize) -> Result<()> {
        Error::check_rows("right rows of a join", rows)?;
        self.multi.check()
    }
}
