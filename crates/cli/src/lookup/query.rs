//! Queries each structure, and writes its answers as rows.
//!
//! ```text
//! map, compact       key,value or key,id; empty for a miss         --reverse: id,key
//! set                key,found; 1 or 0
//! multi              key,value a value of the key; one row with an empty value for a miss      --count: key,count
//! ```
//!
//! A query that does not fit the type of the table's keys, such as -1 for u32, is a miss. It is not looked up, but its
//! row is written in its place.

use koel::backend::{Runs, bitmap_words};
use koel::{CompactingTable, Scheme};

use super::rows::{Column, Rows, Shown};
use super::stored_table::{StoredLists, StoredTable};
use crate::failure::Result;
use crate::number::{Number, Type, Word, reserve};

/// Values of a multivalue table that are fetched at a time.
const VALUES: usize = 1 << 20;

/// Queries as keys of a table.
pub(super) struct Queried<K> {
    /// The type of the table's keys.
    kind: Type,
    /// The queries that this type can represent.
    keys: Vec<K>,
    /// The other queries, each with its position among all queries, in ascending order.
    unrepresentable: Vec<(usize, Number)>,
}

impl<K: Word> Queried<K> {
    pub(super) fn new(kind: Type) -> Self {
        Queried { kind, keys: Vec::new(), unrepresentable: Vec::new() }
    }

    pub(super) fn kind(&self) -> Type {
        self.kind
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len() + self.unrepresentable.len()
    }

    pub(super) fn push(&mut self, query: Number) -> Result<()> {
        if self.kind.holds(query) {
            reserve(&mut self.keys, 1)?;
            self.keys.push(K::low(query as u64 ^ self.kind.turned()));
        } else {
            reserve(&mut self.unrepresentable, 1)?;
            self.unrepresentable.push((self.len(), query));
        }
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.unrepresentable.clear();
    }

    /// Each query in order, with its position in `keys` if it is looked up.
    fn iter(&self) -> impl Iterator<Item = (Number, Option<usize>)> {
        let mut unrepresentable = self.unrepresentable.iter().peekable();
        let mut keys = self.keys.iter().enumerate();
        (0..self.len()).filter_map(move |i| match unrepresentable.next_if(|(at, _)| *at == i) {
            Some(&(_, query)) => Some((query, None)),
            None => keys.next().map(|(place, &key)| (self.kind.of_key(key), Some(place))),
        })
    }
}

/// A structure that can be queried.
pub(super) trait Queryable<K: Word> {
    /// The columns of the answers to queries of this type.
    fn columns(&self, queries: Shown) -> [Column; 2];
    /// Writes the answers to these queries, in order, and returns the number of hits.
    fn answer(&mut self, queries: &Queried<K>, rows: &mut Rows) -> Result<u64>;
}

/// Looks up one value per key.
pub(super) struct Values<'t, S: Scheme> {
    table: &'t dyn StoredTable<S>,
    name: &'static str,
    kind: Type,
    values: Vec<S::Value>,
    found: Vec<u32>,
}

impl<'t, S: Scheme> Values<'t, S> {
    /// Looks up values of this type, and names their column `name`.
    pub(super) fn new(table: &'t dyn StoredTable<S>, name: &'static str, kind: Type) -> Self {
        Values { table, name, kind, values: Vec::new(), found: Vec::new() }
    }
}

impl<S: Scheme> Queryable<S::Key> for Values<'_, S>
where
    S::Key: Word,
{
    fn columns(&self, queries: Shown) -> [Column; 2] {
        [Column::of("key", queries), Column::maybe(self.name, Shown::Number(self.kind))]
    }

    fn answer(&mut self, queries: &Queried<S::Key>, rows: &mut Rows) -> Result<u64> {
        resize(&mut self.values, queries.keys.len())?;
        resize(&mut self.found, bitmap_words(queries.keys.len()))?;
        self.table.get_into(&queries.keys, &mut self.values, &mut self.found)?;
        for (query, place) in queries.iter() {
            match place.filter(|i| self.found[i / 32] >> (i % 32) & 1 == 1) {
                Some(i) => rows.write(query, Some(self.kind.number(self.values[i].into())))?,
                None => rows.write(query, None)?,
            }
        }
        Ok(self.found.iter().map(|word| u64::from(word.count_ones())).sum())
    }
}

/// Resizes to `len` words, or returns an error if there is not enough memory.
fn resize<T: Copy + Default>(words: &mut Vec<T>, len: usize) -> Result<()> {
    let more = len.saturating_sub(words.len());
    reserve(words, more)?;
    words.resize(len, T::default());
    Ok(())
}

/// Looks up whether keys are in a set.
pub(super) struct Members<'t, S: Scheme>(pub(super) &'t dyn StoredTable<S>);

impl<S: Scheme> Queryable<S::Key> for Members<'_, S>
where
    S::Key: Word,
{
    fn columns(&self, queries: Shown) -> [Column; 2] {
        [Column::of("key", queries), Column::of("found", Shown::Flag)]
    }

    fn answer(&mut self, queries: &Queried<S::Key>, rows: &mut Rows) -> Result<u64> {
        let found = self.0.contains(&queries.keys)?;
        for (query, place) in queries.iter() {
            rows.write(query, Some(place.is_some_and(|i| found[i]).into()))?;
        }
        Ok(found.iter().filter(|&&found| found).count() as u64)
    }
}

/// Looks up the keys of ids: the type of the keys, and how they are written.
pub(super) struct KeysOfIds<'t, B: Runs<S>, S: Scheme<Value = u32>>(
    pub(super) &'t CompactingTable<B, S>,
    pub(super) Type,
    pub(super) Shown,
);

impl<B: Runs<S>, S: Scheme<Value = u32>> Queryable<u32> for KeysOfIds<'_, B, S> {
    fn columns(&self, queries: Shown) -> [Column; 2] {
        [Column::of("id", queries), Column::maybe("key", self.2)]
    }

    fn answer(&mut self, queries: &Queried<u32>, rows: &mut Rows) -> Result<u64> {
        let keys = self.0.keys(&queries.keys)?;
        for (id, place) in queries.iter() {
            match place.and_then(|i| keys[i]) {
                Some(key) => rows.write(id, Some(self.1.of_key(key)))?,
                None => rows.write(id, None)?,
            }
        }
        Ok(keys.iter().flatten().count() as u64)
    }
}

/// Looks up the number of values of each key.
pub(super) struct Counts<'t, K, V>(pub(super) &'t dyn StoredLists<K, V>);

impl<K: Word, V: Word> Queryable<K> for Counts<'_, K, V> {
    fn columns(&self, queries: Shown) -> [Column; 2] {
        [Column::of("key", queries), Column::of("count", Shown::Number(Type::U32))]
    }

    fn answer(&mut self, queries: &Queried<K>, rows: &mut Rows) -> Result<u64> {
        let counts = self.0.count(&queries.keys)?;
        for (query, place) in queries.iter() {
            rows.write(query, Some(place.map_or(0, |i| counts[i].into())))?;
        }
        Ok(counts.iter().filter(|&&count| count > 0).count() as u64)
    }
}

/// Looks up all values of each key; the values have this type.
pub(super) struct AllValues<'t, K, V>(pub(super) &'t dyn StoredLists<K, V>, pub(super) Type);

impl<K: Word, V: Word> Queryable<K> for AllValues<'_, K, V> {
    fn columns(&self, queries: Shown) -> [Column; 2] {
        [Column::of("key", queries), Column::maybe("value", Shown::Number(self.1))]
    }

    fn answer(&mut self, queries: &Queried<K>, rows: &mut Rows) -> Result<u64> {
        // `each_piece` returns nothing for a query without values, and unrepresentable queries are not looked up. Their
        // rows are written before that of the next hit.
        let (mut queried, mut hits) = (queries.iter(), 0);
        let mut current: Option<(usize, Number)> = None;
        self.0.each_piece(&queries.keys, VALUES, &mut |places, values| {
            for (&place, &value) in places.iter().zip(values) {
                let place = place as usize;
                while current.is_none_or(|(before, _)| before != place) {
                    let Some((query, at)) = queried.next() else { break };
                    match at.filter(|&at| at == place) {
                        Some(at) => (current, hits) = (Some((at, query)), hits + 1),
                        None => rows.write(query, None)?,
                    }
                }
                if let Some((_, query)) = current {
                    rows.write(query, Some(self.1.number(value.into())))?;
                }
            }
            Ok(())
        })?;
        queried.try_for_each(|(missed, _)| rows.write(missed, None))?;
        Ok(hits)
    }
}
