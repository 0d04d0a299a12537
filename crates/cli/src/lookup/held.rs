//! Where a table that is asked for values stands: on one device, on several in shards, in a file in shards, or the same on
//! each of several.

use std::path::Path;

use koel::backend::Runs;
use koel::device::Any;
use koel::{Cpu, HashTable, Replicated, Scheme, Sharded, ShardedFile};

use crate::structure::Structure;

/// A table that has one value a key, wherever it stands. What asks it is compiled once a scheme.
pub(super) trait Held<S: Scheme> {
    fn get_into(&self, queries: &[S::Key], values: &mut [S::Value], found: &mut [u32]) -> koel::Result<()>;
    fn contains(&self, queries: &[S::Key]) -> koel::Result<Vec<bool>>;
}

macro_rules! held {
    ($($table:ident),*) => {$(
        impl<B: Runs<S>, S: Scheme> Held<S> for $table<B, S> {
            fn get_into(&self, queries: &[S::Key], values: &mut [S::Value], found: &mut [u32]) -> koel::Result<()> {
                $table::get_into(self, queries, values, found)
            }
            fn contains(&self, queries: &[S::Key]) -> koel::Result<Vec<bool>> {
                $table::contains(self, queries)
            }
        }
    )*};
}
held!(HashTable, Sharded, ShardedFile, Replicated);

/// A structure's table that is no table in shards.
pub(super) enum Opened<T, S: Scheme>
where
    Any: Runs<S>,
{
    /// On the one device that was named.
    One(T),
    /// The same on all that were.
    Several(Replicated<Any, S>),
}

impl<T: Structure<Any, S>, S: Scheme> Opened<T, S>
where
    Any: Runs<S>,
{
    pub(super) fn open(devices: &[Any], path: &Path) -> koel::Result<Self> {
        match devices {
            [device] => T::open(device, path).map(Opened::One),
            several => {
                let here = T::open(&Any::Cpu(Cpu::new()), path)?;
                Replicated::of(here.table(), several).map(Opened::Several)
            }
        }
    }

    pub(super) fn held(&self) -> &dyn Held<S> {
        match self {
            Opened::One(structure) => structure.table(),
            Opened::Several(replicas) => replicas,
        }
    }
}
