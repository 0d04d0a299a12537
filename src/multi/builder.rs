//! Algorithm 1: from pairs in any order to runs of values and a table of the keys.
//!
//! ```text
//! keys, values = sort_pairs(keys, values)        stable: the values of a key keep the order of the input
//! heads        = the positions at which a key differs from its predecessor
//! keys, starts = select(heads, [keys, 0 1 2 ..]), then the number of pairs as the last start
//! table        = keys -> 0 1 2 ..
//! ```
//!
//! The passes and their work do not depend on how often a key occurs. The size of the table depends on the distinct
//! keys, not on the pairs.

use std::marker::PhantomData;

use super::MultiTable;
use crate::backend::{DeviceBuffer, HashBackend, Relational, Runs};
use crate::error::{Error, Result};
use crate::scheme::{Key, Scheme, Value};
use crate::table::{Contents, HashTable, TableBuilder, ValueType, table_estimate, table_settings};

/// Builds multivalue tables; created by [`MultiTable::builder`].
///
/// ```
/// use koel::{Cpu, Cuckoo, MultiTable};
/// let builder = MultiTable::builder(Cuckoo::canonical(3)).load_factor(0.9).seed(7);
/// let table = builder.build(&Cpu::new(), &[5, 6, 5], &[1, 2, 3])?;
/// assert_eq!(table.count(&[5, 6, 7])?, [2, 1, 0]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MultiBuilder<S: Scheme, V: Value = u32> {
    table: TableBuilder<S>,
    of: PhantomData<V>,
}

/// Pairs grouped by key, in ascending order.
pub(crate) struct Grouped<B: HashBackend, K: Key, V: Value = u32> {
    /// The distinct keys, ascending.
    pub(crate) keys: B::Buffer<K>,
    /// The start of the run of each key, followed by the number of pairs.
    pub(crate) starts: B::Buffer<u32>,
    /// The values, run by run.
    pub(crate) values: B::Buffer<V>,
}

table_settings!(MultiBuilder<V: Value>, "Distinct keys");
table_estimate!(MultiBuilder<V: Value>);

impl<S: Scheme<Value = u32>> MultiBuilder<S> {
    pub(crate) fn new(scheme: S) -> Self {
        MultiBuilder::of(HashTable::builder(scheme))
    }

    /// Sets the type of the values: `u64`, or `u32` again.
    ///
    /// ```
    /// use koel::{Bucketized, Cpu, MultiTable};
    /// let scheme = Bucketized::default().of::<u64, u32>();
    /// let builder = MultiTable::builder(scheme).values::<u64>();
    /// let table = builder.build(&Cpu::new(), &[7 << 40, 5, 7 << 40], &[u64::MAX, 2, 1 << 50])?;
    /// assert_eq!(table.retrieve(&[7 << 40])?.values, [u64::MAX, 1 << 50]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// The scheme's own values are the numbers of runs, and remain `u32`.
    pub fn values<V: Value>(self) -> MultiBuilder<S, V> {
        MultiBuilder { table: self.table, of: PhantomData }
    }
}

impl<S: Scheme<Value = u32>, V: Value> MultiBuilder<S, V> {
    /// A builder of multivalue tables with these parameters of tables.
    pub(crate) fn of(table: TableBuilder<S>) -> Self {
        MultiBuilder { table: table.contents(Contents::Multi), of: PhantomData }
    }

    /// The type of the values; see [`TableBuilder::value_type`].
    pub fn value_type(mut self, value_type: ValueType) -> Self {
        self.table = self.table.value_type(value_type);
        self
    }

    /// Builds a table in which each of `keys[i]` has `values[i]` among its values, in the order of the input.
    ///
    /// Cost: a sort of all pairs and a build of the distinct keys ([`TableBuilder::build`]); the pairs are transferred
    /// to the device. Device memory for keys and values of 32 bits: 28 bytes per pair during the sort, including the
    /// input; afterwards 4 bytes per pair, 4 per distinct key, and the table of the keys. Keys of 64 bits need 12 more
    /// bytes per pair during the sort; so do values of 64 bits, and 4 more bytes per pair afterwards.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`]; [`Error::TooLarge`] for 2^32 pairs or more; otherwise as [`TableBuilder::build`] of
    /// the distinct keys, whose values are their numbers.
    pub fn build<B: Runs<S>>(&self, backend: &B, keys: &[S::Key], values: &[V]) -> Result<MultiTable<B, S, V>> {
        self.check_pairs(keys.len(), values.len())?;
        self.build_of(backend, backend.upload(keys)?, backend.upload(values)?)
    }

    /// As [`build_on`](Self::build_on), but drops the buffers as soon as the pairs are grouped.
    pub(crate) fn build_of<B: Runs<S>>(
        &self,
        backend: &B,
        keys: B::Buffer<S::Key>,
        values: B::Buffer<V>,
    ) -> Result<MultiTable<B, S, V>> {
        self.check_pairs(keys.len(), values.len())?;
        let grouped = Grouped::<B, S::Key, V>::of(backend, &keys, &values)?;
        drop((keys, values));
        self.build_grouped(backend, grouped)
    }

    /// [`build`](Self::build) from buffers on the device; nothing is transferred.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashBackend, MultiTable};
    /// let cpu = Cpu::new();
    /// let (keys, values) = (cpu.upload(&[1, 2, 1])?, cpu.upload(&[4, 5, 6])?);
    /// let table = MultiTable::builder(Cuckoo::default()).build_on(&cpu, &keys, &values)?;
    /// assert_eq!(table.values()?, [4, 6, 5]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`Error::WrongDevice`].
    pub fn build_on<B: Runs<S>>(
        &self,
        backend: &B,
        keys: &B::Buffer<S::Key>,
        values: &B::Buffer<V>,
    ) -> Result<MultiTable<B, S, V>> {
        self.check_pairs(keys.len(), values.len())?;
        self.build_grouped(backend, Grouped::of(backend, keys, values)?)
    }

    fn check_pairs(&self, keys: usize, values: usize) -> Result<()> {
        Error::check_length("values", values, keys)?;
        Error::check_rows("pairs of a multivalue table", keys)?;
        self.check()
    }

    /// Rejects invalid parameters before any work is done.
    pub(crate) fn check(&self) -> Result<()> {
        self.table.check()
    }

    /// Builds the table of pairs that are grouped by key.
    pub(crate) fn build_grouped<B: Runs<S>>(
        &self,
        backend: &B,
        grouped: Grouped<B, S::Key, V>,
    ) -> Result<MultiTable<B, S, V>> {
        let Grouped { keys, starts, values } = grouped;
        let pairs = values.len();
        let table = self.table.build_on(backend, &keys, &backend.iota(keys.len())?)?;
        Ok(MultiTable { table, starts, values, pairs })
    }
}

impl<B: Relational, K: Key, V: Value> Grouped<B, K, V> {
    /// Sorts pairs by key, and finds the positions at which keys change.
    pub(crate) fn of(backend: &B, keys: &B::Buffer<K>, values: &B::Buffer<V>) -> Result<Self> {
        let (sorted, values) = backend.sort_pairs(keys, values)?;
        let heads = backend.heads(&sorted)?;
        let places = backend.iota(sorted.len())?;
        let (keys, starts) = backend.select_pairs(&heads, true, &sorted, &places)?;
        drop((sorted, places));
        let end = backend.upload(&[values.len() as u32])?;
        Ok(Grouped { keys, starts: backend.concat(&starts, &end)?, values })
    }
}
