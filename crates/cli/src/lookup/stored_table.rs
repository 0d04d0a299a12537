//! Where a queried table is stored: on one device, sharded on several, sharded in a file, or replicated on several.

use std::path::Path;

use koel::backend::Runs;
use koel::device::Any;
use koel::{Cpu, HashTable, MultiTable, Replicated, Scheme, Sharded, ShardedFile, ShardedMulti};

use crate::failure::Result;
use crate::number::{Word, reserve};
use crate::structure::Structure;

/// A table with one value per key, wherever it is stored. The code that queries it is compiled once per scheme.
pub(super) trait StoredTable<S: Scheme> {
    fn get_into(&self, queries: &[S::Key], values: &mut [S::Value], found: &mut [u32]) -> koel::Result<()>;
    fn contains(&self, queries: &[S::Key]) -> koel::Result<Vec<bool>>;
}

macro_rules! stored_table {
    ($($table:ident),*) => {$(
        impl<B: Runs<S>, S: Scheme> StoredTable<S> for $table<B, S> {
            fn get_into(&self, queries: &[S::Key], values: &mut [S::Value], found: &mut [u32]) -> koel::Result<()> {
                $table::get_into(self, queries, values, found)
            }
            fn contains(&self, queries: &[S::Key]) -> koel::Result<Vec<bool>> {
                $table::contains(self, queries)
            }
        }
    )*};
}
stored_table!(HashTable, Sharded, ShardedFile, Replicated);

/// Receives values, and the query number of each.
pub(super) type Take<'a, V> = &'a mut dyn FnMut(&[u32], &[V]) -> Result<()>;

/// A table of lists of values, wherever it is stored.
pub(super) trait StoredLists<K, V> {
    fn count(&self, queries: &[K]) -> koel::Result<Vec<u32>>;
    /// Passes on the values of all queries, about `values` at a time, each with the number of its query.
    fn each_piece(&self, queries: &[K], values: usize, take: Take<'_, V>) -> Result<()>;
}

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Word> StoredLists<S::Key, V> for MultiTable<B, S, V> {
    fn count(&self, queries: &[S::Key]) -> koel::Result<Vec<u32>> {
        MultiTable::count(self, queries)
    }

    fn each_piece(&self, queries: &[S::Key], values: usize, take: Take<'_, V>) -> Result<()> {
        for piece in self.retrieve_chunks(queries, values)? {
            let piece = piece?;
            take(&piece.queries, &piece.values)?;
        }
        Ok(())
    }
}

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Word> StoredLists<S::Key, V> for ShardedMulti<B, S, V> {
    fn count(&self, queries: &[S::Key]) -> koel::Result<Vec<u32>> {
        ShardedMulti::count(self, queries)
    }

    fn each_piece(&self, queries: &[S::Key], values: usize, take: Take<'_, V>) -> Result<()> {
        let counts = ShardedMulti::count(self, queries)?;
        let (mut start, mut places) = (0, Vec::new());
        while start < queries.len() {
            places.clear();
            if counts[start] as usize > values {
                // A single list that is longer than a piece.
                let shard = &self.shards()[self.shard_of(queries[start])];
                for piece in shard.retrieve_chunks(&queries[start..=start], values)? {
                    let piece = piece?;
                    places.resize(piece.values.len(), start as u32);
                    take(&places, &piece.values)?;
                    places.clear();
                }
                start += 1;
                continue;
            }
            let mut sum = 0;
            let fits = |count: &&u32| {
                sum += **count as usize;
                sum <= values
            };
            let end = start + counts[start..].iter().take_while(fits).count();
            let found = self.retrieve(&queries[start..end])?;
            reserve(&mut places, found.values.len())?;
            for (place, run) in (start as u32..).zip(found.offsets.windows(2)) {
                places.extend(std::iter::repeat_n(place, (run[1] - run[0]) as usize));
            }
            take(&places, &found.values)?;
            start = end;
        }
        Ok(())
    }
}

/// The table of a structure without shards.
pub(super) enum Opened<T, S: Scheme>
where
    Any: Runs<S>,
{
    /// On the only device that was named.
    One(T),
    /// A copy on each of the named devices.
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

    pub(super) fn stored_table(&self) -> &dyn StoredTable<S> {
        match self {
            Opened::One(structure) => structure.table(),
            Opened::Several(replicas) => replicas,
        }
    }
}
