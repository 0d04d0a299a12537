//! An index of a right column: a multivalue table of its row numbers, with one element more.

use super::JoinIndex;
use crate::backend::{DeviceBuffer, Runs};
use crate::error::{Error, Result};
use crate::multi::{Grouped, MultiBuilder};
use crate::scheme::Scheme;
use crate::table::{HashTable, TableBuilder, table_estimate, table_settings};

/// Builds indices for joins; created by [`JoinIndex::builder`].
///
/// ```
/// use koel::{Cpu, Cuckoo, JoinIndex};
/// let index = JoinIndex::builder(Cuckoo::canonical(3)).load_factor(0.9).seed(7).build(&Cpu::new(), &[5, 6, 5])?;
/// assert_eq!((index.len(), index.keys_len()), (3, 2));
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct JoinBuilder<S: Scheme> {
    table: TableBuilder<S>,
}

table_settings!(JoinBuilder, "Distinct keys");
table_estimate!(JoinBuilder);

impl<S: Scheme<Value = u32>> JoinBuilder<S> {
    pub(super) fn new(scheme: S) -> Self {
        JoinBuilder { table: HashTable::builder(scheme) }
    }

    /// Builds an index of the right column of a join.
    ///
    /// Cost and memory: as [`MultiBuilder::build`] of the keys and their row numbers.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for 2^32 or more rows; otherwise as [`MultiBuilder::build`].
    pub fn build<B: Runs<S>>(&self, backend: &B, right: &[S::Key]) -> Result<JoinIndex<B, S>> {
        self.check(right.len())?;
        let right = backend.upload(right)?;
        self.build_on(backend, &right)
    }

    /// [`build`](Self::build) from a buffer that is already on the device; nothing is transferred.
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`Error::WrongDevice`].
    pub fn build_on<B: Runs<S>>(&self, backend: &B, right: &B::Buffer<S::Key>) -> Result<JoinIndex<B, S>> {
        self.check(right.len())?;
        let grouped = Grouped::of(backend, right, &backend.iota(right.len())?)?;
        JoinIndex::of_rows(MultiBuilder::of(self.table.clone()).build_grouped(backend, grouped)?)
    }

    fn check(&self, rows: usize) -> Result<()> {
        Error::check_rows("right rows of a join", rows)?;
        self.table.check()
    }
}
