//! Asking each structure: what its answers are, as rows.
//!
//! ```text
//! map, compact       key,value or key,id; empty for a miss         --reverse: id,key
//! set                key,found; 1 or 0
//! multi              key,value a value of the key; one row with an empty value for a miss      --count: key,count
//! ```

use koel::backend::{Runs, bitmap_words};
use koel::{CompactingTable, HashSet, HashTable, MultiTable, Scheme};

use crate::failure::Result;
use crate::output::{Column, Rows};

/// Values of a multivalue table that are retrieved at a time.
const VALUES: usize = 1 << 20;

/// Something that can be asked.
pub(super) trait Ask {
    /// The columns of its answers.
    fn columns(&self) -> [Column; 2];
    /// Writes the answers to these queries, in their order, and counts the queries that were found.
    fn answer(&mut self, queries: &[u32], rows: &mut Rows) -> Result<u64>;
}

/// One value a key.
pub(super) struct Values<'t, B: Runs<S>, S: Scheme<Key = u32, Value = u32>> {
    table: &'t HashTable<B, S>,
    name: &'static str,
    values: Vec<u32>,
    found: Vec<u32>,
}

impl<'t, B: Runs<S>, S: Scheme<Key = u32, Value = u32>> Values<'t, B, S> {
    /// The values in a table, under a name.
    pub(super) fn new(table: &'t HashTable<B, S>, name: &'static str) -> Self {
        Values { table, name, values: Vec::new(), found: Vec::new() }
    }
}

impl<B: Runs<S>, S: Scheme<Key = u32, Value = u32>> Ask for Values<'_, B, S> {
    fn columns(&self) -> [Column; 2] {
        [Column::Word("key"), Column::Maybe(self.name, "found")]
    }

    fn answer(&mut self, queries: &[u32], rows: &mut Rows) -> Result<u64> {
        self.values.resize(queries.len(), 0);
        self.found.resize(bitmap_words(queries.len()), 0);
        self.table.get_into(queries, &mut self.values, &mut self.found)?;
        for (i, (&key, &value)) in queries.iter().zip(&self.values).enumerate() {
            let hit = self.found[i / 32] >> (i % 32) & 1 == 1;
            rows.write(&[u64::from(key), u64::from(value)][..1 + usize::from(hit)])?;
        }
        Ok(self.found.iter().map(|word| u64::from(word.count_ones())).sum())
    }
}

/// Whether a key is in a set.
pub(super) struct Members<'t, B: Runs<S>, S: Scheme<Key = u32, Value = u32>>(pub(super) &'t HashSet<B, S>);

impl<B: Runs<S>, S: Scheme<Key = u32, Value = u32>> Ask for Members<'_, B, S> {
    fn columns(&self) -> [Column; 2] {
        [Column::Word("key"), Column::Flag("found")]
    }

    fn answer(&mut self, queries: &[u32], rows: &mut Rows) -> Result<u64> {
        let found = self.0.contains(queries)?;
        for (&key, &found) in queries.iter().zip(&found) {
            rows.write(&[u64::from(key), u64::from(found)])?;
        }
        Ok(found.iter().filter(|&&found| found).count() as u64)
    }
}

/// The keys of ids.
pub(super) struct KeysOfIds<'t, B: Runs<S>, S: Scheme<Key = u32, Value = u32>>(pub(super) &'t CompactingTable<B, S>);

impl<B: Runs<S>, S: Scheme<Key = u32, Value = u32>> Ask for KeysOfIds<'_, B, S> {
    fn columns(&self) -> [Column; 2] {
        [Column::Word("id"), Column::Maybe("key", "found")]
    }

    fn answer(&mut self, queries: &[u32], rows: &mut Rows) -> Result<u64> {
        let keys = self.0.keys(queries)?;
        for (&id, key) in queries.iter().zip(&keys) {
            match *key {
                Some(key) => rows.write(&[u64::from(id), u64::from(key)])?,
                None => rows.write(&[u64::from(id)])?,
            }
        }
        Ok(keys.iter().flatten().count() as u64)
    }
}

/// How many values a key has.
pub(super) struct Counts<'t, B: Runs<S>, S: Scheme<Key = u32, Value = u32>>(pub(super) &'t MultiTable<B, S>);

impl<B: Runs<S>, S: Scheme<Key = u32, Value = u32>> Ask for Counts<'_, B, S> {
    fn columns(&self) -> [Column; 2] {
        [Column::Word("key"), Column::Word("count")]
    }

    fn answer(&mut self, queries: &[u32], rows: &mut Rows) -> Result<u64> {
        let counts = self.0.count(queries)?;
        for (&key, &count) in queries.iter().zip(&counts) {
            rows.write(&[u64::from(key), u64::from(count)])?;
        }
        Ok(counts.iter().filter(|&&count| count > 0).count() as u64)
    }
}

/// All values of a key.
pub(super) struct AllValues<'t, B: Runs<S>, S: Scheme<Key = u32, Value = u32>>(pub(super) &'t MultiTable<B, S>);

impl<B: Runs<S>, S: Scheme<Key = u32, Value = u32>> Ask for AllValues<'_, B, S> {
    fn columns(&self) -> [Column; 2] {
        [Column::Word("key"), Column::Maybe("value", "found")]
    }

    fn answer(&mut self, queries: &[u32], rows: &mut Rows) -> Result<u64> {
        // Queries without a value are passed over in what is retrieved: those before `next` have been written.
        let (mut next, mut hits) = (0, 0);
        let misses = |rows: &mut Rows, missed: &[u32]| missed.iter().try_for_each(|&key| rows.write(&[u64::from(key)]));
        for piece in self.0.retrieve_chunks(queries, VALUES)? {
            let piece = piece?;
            for (&query, &value) in piece.queries.iter().zip(&piece.values) {
                let query = query as usize;
                if query >= next {
                    misses(rows, &queries[next..query])?;
                    (next, hits) = (query + 1, hits + 1);
                }
                rows.write(&[u64::from(queries[query]), u64::from(value)])?;
            }
        }
        misses(rows, &queries[next..])?;
        Ok(hits)
    }
}
