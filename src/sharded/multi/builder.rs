//! Builds: the columns are partitioned by shard, and each device builds the multivalue tables of its shards.

use std::marker::PhantomData;

use super::super::ShardedBuilder;
use super::super::builder::{Columns, built, columns_of, some};
use super::super::exchange::{self, Exchange};
use super::ShardedMulti;
use crate::backend::Runs;
use crate::error::Result;
use crate::multi::MultiBuilder;
use crate::scheme::{Scheme, Value};
use crate::table::{Contents, HashTable, ValueType, table_settings};

/// Builds multivalue tables in shards; created by [`ShardedMulti::builder`]. Numbers of keys and slots are those of all
/// shards together; see [`ShardedBuilder`].
#[derive(Clone, Debug)]
pub struct ShardedMultiBuilder<S: Scheme, V: Value = u32> {
    table: ShardedBuilder<S>,
    of: PhantomData<V>,
}

table_settings!(ShardedMultiBuilder<V: Value>, "Distinct keys");

impl<S: Scheme<Value = u32>> ShardedMultiBuilder<S> {
    pub(crate) fn new(scheme: S, shards: usize) -> Self {
        let table = HashTable::builder(scheme).contents(Contents::Multi);
        ShardedMultiBuilder { table: ShardedBuilder::of(table, shards), of: PhantomData }
    }

    /// The same builder for tables whose values are of type `V`: `u64` or `u32`; see [`MultiBuilder::values`].
    pub fn values<V: Value>(self) -> ShardedMultiBuilder<S, V> {
        ShardedMultiBuilder { table: self.table, of: PhantomData }
    }
}

impl<S: Scheme<Value = u32>, V: Value> ShardedMultiBuilder<S, V> {
    /// The type of the values; see [`TableBuilder::value_type`](crate::TableBuilder::value_type).
    pub fn value_type(mut self, value_type: ValueType) -> Self {
        self.table = self.table.value_type(value_type);
        self
    }

    /// Builds a table in which each key `keys[i]` has the value `values[i]`, values in the order of the input; the
    /// shards are assigned to the devices in turn.
    ///
    /// Cost: the columns are partitioned on the devices or on the host (see [`ShardedBuilder::build`]), then each shard
    /// is built ([`MultiBuilder::build`]); different devices build at the same time.
    ///
    /// # Errors
    /// [`InvalidParameter`](crate::Error::InvalidParameter) if there are no devices or the number of shards is invalid;
    /// otherwise as [`MultiBuilder::build`] of one shard.
    pub fn build<B: Runs<S>>(&self, devices: &[B], keys: &[S::Key], values: &[V]) -> Result<ShardedMulti<B, S, V>> {
        let which = self.table.which()?;
        let (builder, devices) = (MultiBuilder::<S, V>::of(self.table.of_shard()), some(devices)?);
        let exchanged =
            exchange::use_device_exchange(&which, devices, keys.len(), size_of::<S::Key>() + size_of::<V>(), || {
                Exchange::of(&which, devices, keys, values)?
                    .built(&which, &|device, keys, values| builder.build_of(device, keys, values))
            })?;
        let tables = match exchanged {
            Some(tables) => tables,
            None => built(devices, columns_of(&which, keys, values)?, &|device, Columns { keys, values }| {
                builder.build(device, &keys, &values)
            })?,
        };
        Ok(ShardedMulti { which, devices: devices.len(), tables })
    }
}
