//! Rows with duplicate keys: a given average number of rows per key, and one key with a share of all rows.
//!
//! ```text
//! heavy    rows 0 .. n share               one key
//! others   ceil(rest / multiplicity) keys  in turn, so that the numbers of rows per key differ by at most one
//! ```
//!
//! Then the rows are shuffled. The expected answers are computed by a sort on the host, which shares no code with the
//! library's tables.

use rayon::prelude::*;

use koel::scheme::Limits;
use koel::scheme::hash::{MixKeys, SplitMix64, mix};
use koel::workload::Workload;

use super::in_hundred;
use koel_cli::failure::Result;

/// Columns with known answers.
pub(crate) struct Copies {
    pub(crate) keys: Vec<u32>,
    pub(crate) values: Vec<u32>,
    /// The distinct keys, ascending.
    pub(crate) unique: Vec<u32>,
    /// The positions in `rows` where the rows of each key begin, followed by the number of rows.
    pub(crate) starts: Vec<u32>,
    /// The numbers of rows, by key and ascending within each.
    pub(crate) rows: Vec<u32>,
    workload: Workload,
    order: MixKeys,
}

impl Copies {
    /// `n` rows with keys that these limits allow.
    ///
    /// # Errors
    /// [`koel::Error::TooLarge`] if there are not enough keys.
    pub(super) fn new(n: u32, multiplicity: u32, heavy: f64, seed: u64, limits: Limits) -> Result<Copies> {
        let heavy_rows = ((f64::from(n) * heavy).round() as u32).min(n);
        let others = (n - heavy_rows).div_ceil(multiplicity.max(1));
        let distinct = others + u32::from(heavy_rows > 0);
        let workload = Workload::new(distinct, seed).within(limits)?;
        let pool = workload.keys();
        let mut stream = SplitMix64::new(seed ^ 0xc0_91e5);
        let (shuffle, of_values, order) = (stream.next_mix_keys(), stream.next_mix_keys(), stream.next_mix_keys());
        let number = |row: u32| match row.checked_sub(heavy_rows) {
            None => others,
            Some(row) => row % others.max(1),
        };
        let keys = shuffled(n, shuffle, |row| pool[number(row) as usize]);
        let values = (0..n).into_par_iter().map(|row| mix(row, of_values)).collect();
        let mut by_key: Vec<u64> = (0u32..n).into_par_iter().map(|row| pack(keys[row as usize], row)).collect();
        by_key.par_sort_unstable();
        let begins = |i: &u32| *i == 0 || by_key[*i as usize] >> 32 != by_key[*i as usize - 1] >> 32;
        let mut starts: Vec<u32> = (0..n).into_par_iter().filter(begins).collect();
        let unique = starts.par_iter().map(|&start| (by_key[start as usize] >> 32) as u32).collect();
        starts.push(n);
        let rows = by_key.into_par_iter().map(|word| word as u32).collect();
        Ok(Copies { keys, values, unique, starts, rows, workload, order })
    }

    /// The number of a key among the distinct ones.
    pub(crate) fn find(&self, key: u32) -> Option<usize> {
        self.unique.binary_search(&key).ok()
    }

    /// The rows of the key with this number, ascending.
    pub(crate) fn rows_of(&self, number: usize) -> &[u32] {
        &self.rows[self.starts[number] as usize..self.starts[number + 1] as usize]
    }

    /// The value of each of some rows.
    pub(crate) fn values_of<'a>(&'a self, rows: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        rows.iter().map(|&row| self.values[row as usize])
    }

    /// `count` queries of which `hits` in a hundred hit. Each key is queried as often as it occurs, in random order.
    pub(crate) fn queries(&self, count: usize, hits: u32) -> Vec<u32> {
        let n = self.keys.len() as u32;
        let column = shuffled(n, self.order, |row| self.keys[row as usize]);
        let misses = self.workload.queries(count, 0);
        let query = |(i, miss)| match in_hundred(i as u64, hits) && n > 0 {
            true => column[i % column.len()],
            false => miss,
        };
        misses.into_par_iter().enumerate().map(query).collect()
    }

    /// Each distinct key once and as many absent ones, in random order.
    pub(crate) fn each_once(&self, absent: bool) -> Vec<u32> {
        let misses = if absent { self.workload.queries(self.unique.len(), 0) } else { Vec::new() };
        let all: Vec<u32> = self.unique.iter().copied().chain(misses).collect();
        shuffled(all.len() as u32, self.order, |i| all[i as usize])
    }

    /// The distinct keys in order of first occurrence, each by its number.
    pub(crate) fn first_seen(&self) -> Vec<u32> {
        let first = |number: u32| pack(self.rows_of(number as usize)[0], number);
        let mut order: Vec<u64> = (0..self.unique.len() as u32).into_par_iter().map(first).collect();
        order.par_sort_unstable();
        order.into_par_iter().map(|word| word as u32).collect()
    }
}

fn pack(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

/// `of(i)` for each `i` below `n`, in random order.
pub(crate) fn shuffled(n: u32, order: MixKeys, of: impl Fn(u32) -> u32 + Sync) -> Vec<u32> {
    // The mixed numbers are distinct, so their payload does not affect the order.
    let mut drawn: Vec<u64> = (0..n).into_par_iter().map(|i| pack(mix(i, order), of(i))).collect();
    drawn.par_sort_unstable();
    drawn.into_par_iter().map(|word| word as u32).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn copies(n: u32, multiplicity: u32, heavy: f64) -> Copies {
        Copies::new(n, multiplicity, heavy, 3, Limits::NONE).unwrap_or_else(|failure| panic!("{failure}"))
    }

    #[test]
    fn keys_occur_as_often_as_requested() {
        for (n, multiplicity, heavy, distinct, most) in [
            (1000, 1, 0.0, 1000, 1),
            (1000, 8, 0.0, 125, 8),
            (1000, 1, 0.5, 501, 500),
            (1000, 2048, 0.0, 1, 1000),
            (0, 4, 0.5, 0, 0),
        ] {
            let columns = copies(n, multiplicity, heavy);
            let mut model: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for (row, &key) in (0u32..).zip(&columns.keys) {
                model.entry(key).or_default().push(row);
            }
            assert_eq!((columns.keys.len(), columns.values.len(), model.len()), (n as usize, n as usize, distinct));
            assert_eq!(model.values().map(Vec::len).max().unwrap_or(0), most);
            assert!(columns.unique.iter().eq(model.keys()));
            assert!((0..distinct).all(|i| columns.rows_of(i) == model[&columns.unique[i]]));
            let first: Vec<u32> = columns.first_seen().iter().map(|&i| columns.rows_of(i as usize)[0]).collect();
            assert!(first.is_sorted() && first.len() == distinct);
        }
    }

    #[test]
    fn queries_hit_as_often_as_requested_and_by_the_rows_of_each_key() {
        let columns = copies(4000, 5, 0.5);
        let hits = |queries: &[u32]| queries.iter().filter(|&&query| columns.find(query).is_some()).count();
        for percent in [0, 30, 100] {
            assert_eq!(hits(&columns.queries(4000, percent)), 40 * percent as usize);
        }
        let (mut queried, mut column) = (columns.queries(4000, 100), columns.keys.clone());
        assert_ne!(queried, column);
        queried.sort_unstable();
        column.sort_unstable();
        assert_eq!(queried, column);
        assert_eq!((columns.each_once(true).len(), hits(&columns.each_once(true))), (802, 401));
        assert_eq!(hits(&columns.each_once(false)), 401);
        assert_eq!(copies(0, 1, 0.0).queries(10, 100).len(), 10);
    }
}
