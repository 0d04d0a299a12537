//! An index of a right column that is a table of all its rows, on a device other than the CPU.
//!
//! ```text
//! table       key -> complement of its first row; the build finds whether there are duplicates
//! distinct    a left row has one right row or none, and the table contains its number
//!             left: the rows of all left rows   inner: those with a right row   right, full: then all other right rows
//! otherwise   (first, rows) = sort_pairs(first row of each row's key, 0, 1, ..), and the runs of equal `first`;
//!             table: key -> complement of the number of its run; from here on as a `JoinIndex`
//! ```
//!
//! A [`JoinIndex`](crate::JoinIndex) sorts the keys, because its runs are in their order. The rows of a join do not
//! depend on it: distinct keys need no sort here. With duplicates, row numbers are sorted, which have fewer bits than
//! most keys. This needs more memory than a `JoinIndex`, so it is for short columns.

use super::first_seen::{are_mostly_distinct, is_short};
use super::numbering::{first_positions, looked_up};
use crate::backend::join_rows::{JoinKind, NO_ROW};
use crate::backend::{DeviceBuffer, HashBackend, Kernels, Runs};
use crate::error::Result;
use crate::join::rows::{Join, JoinRowsOn, Matches, without};
use crate::multi::{Grouped, Listing};
use crate::scheme::Key;
use crate::table::distinct::Positions;

/// The rows of a right column by key.
pub struct ByTable<B: Runs<K::Rows>, K: Key> {
    /// Maps each key to the complement of its row or, if there are runs, of the number of its run.
    table: Positions<B, K>,
    /// `None` if all keys are distinct.
    runs: Option<RowRuns<B>>,
    len: usize,
}

struct RowRuns<B: HashBackend> {
    /// The start of each key's run, followed by the number of rows.
    starts: B::Buffer<u32>,
    /// The rows, followed by one [`NO_ROW`].
    rows: B::Buffer<u32>,
}

impl<B: Runs<K::Rows>, K: Key> ByTable<B, K> {
    /// `None` if a [`JoinIndex`](crate::JoinIndex) is preferable: for long columns with duplicates, and on devices that
    /// do not build tables.
    pub(crate) fn of(backend: &B, right: &B::Buffer<K>) -> Result<Option<Self>> {
        let is_short = is_short(right);
        if backend.builder().is_some() || !is_short && !are_mostly_distinct(backend, right)? {
            return Ok(None);
        }
        let mut table = first_positions::<B, K>(backend, right)?;
        let runs = match table.least_duplicate {
            None => None,
            Some(_) if is_short => Some(RowRuns::of(backend, right, &mut table)?),
            Some(_) => return Ok(None),
        };
        Ok(Some(ByTable { table, runs, len: right.len() }))
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The number of distinct keys.
    pub(crate) fn keys_len(&self) -> usize {
        self.runs.as_ref().map_or(self.len, |runs| runs.starts.len() - 1)
    }

    /// As [`JoinIndex::join_on`](crate::JoinIndex::join_on).
    pub(crate) fn join<'a>(&'a self, backend: &'a B, left: &B::Buffer<K>, kind: JoinKind) -> Result<Join<'a, B>> {
        let table = &self.table;
        if !kind.has_right() {
            let found = Kernels::<K::Rows>::contains(backend, &table.plan, &table.image, left)?;
            let left = backend.select(&found, kind == JoinKind::Semi, &backend.iota(left.len())?)?;
            return Join::chosen(backend, left);
        }
        let numbers = looked_up(backend, table, left)?;
        let Some(RowRuns { starts, rows }) = &self.runs else {
            let (rows, found) = numbers;
            let alone = kind.keeps_right().then(|| self.others(backend, &rows)).transpose()?;
            let left = backend.iota(left.len())?;
            let (left, right) =
                if kind.keeps_left() { (left, rows) } else { backend.select_pairs(&found, true, &left, &rows)? };
            return Join::of(backend, Matches::Pairs(JoinRowsOn { left, right }), alone);
        };
        let missing = kind.keeps_left().then_some(self.len as u32);
        let listing = Listing::of(backend, backend.spans(starts, &numbers.0, &numbers.1, missing)?)?;
        let alone = kind.keeps_right().then(|| without(backend, starts, rows, &numbers, self.len)).transpose()?;
        Join::of(backend, Matches::Listed { right: rows, listing }, alone)
    }

    /// The rows that are not among these.
    fn others(&self, backend: &B, rows: &B::Buffer<u32>) -> Result<B::Buffer<u32>> {
        backend.select(&backend.mark(rows, self.len)?, false, &backend.iota(self.len)?)
    }
}

impl<B: HashBackend> RowRuns<B> {
    /// The runs of a column with duplicates. Replaces the values of the table by the complements of their numbers.
    fn of<K: Key>(backend: &B, right: &B::Buffer<K>, table: &mut Positions<B, K>) -> Result<Self>
    where
        B: Runs<K::Rows>,
    {
        let first = looked_up(backend, table, right)?.0;
        let Grouped { keys: first, starts, values: rows } = Grouped::of(backend, &first, &backend.iota(right.len())?)?;
        let mut numbers = backend.iota(first.len())?;
        backend.complement(&mut numbers)?;
        let keys = backend.gather(right, &first)?;
        Kernels::<K::Rows>::assign(backend, &table.plan, &mut table.image, &keys, &numbers)?;
        Ok(RowRuns { starts, rows: backend.concat(&rows, &backend.upload(&[NO_ROW])?)? })
    }
}
