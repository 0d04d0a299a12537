//! Columns: multivalue tables and sorts. Every key has four of the n rows.
//!
//! ```text
//! row i has key number i * STRIDE mod m, with m = n / 4; STRIDE and m are coprime, so rows i, i + m, i + 2m, .. have
//! one key, and the keys of rows 0 to m are distinct
//! ```

use koel::backend::{HashBackend, Relational, Runs};
use koel::device::Any;
use koel::scheme::{BucketizedOf, Scheme, Value};
use koel::{Bucketized, MultiTable};

use super::{Case, Row, key, value};
use crate::wrong;
use koel_cli::failure::Result;

/// A prime above all row numbers.
const STRIDE: u64 = 0x1_0000_000f;

impl Case<'_> {
    /// The number of distinct keys.
    fn distinct(&self) -> u64 {
        (self.n / 4).max(1)
    }

    fn keys(&self) -> Vec<u64> {
        (0..self.n).map(|row| key(row * STRIDE % self.distinct())).collect()
    }

    /// Multivalue tables and sorts with values of a type.
    pub(super) fn columns<V: Value>(&self) -> Result<Vec<Row>>
    where
        Any: Runs<BucketizedOf<u64, u32>> + Relational,
    {
        let (n, device, m) = (self.n, self.device, self.distinct());
        let keys = self.keys();
        let values: Vec<V> = (0..n).map(|row| value(row, true)).collect();
        let (there, values_on_device) = (device.upload(&keys)?, device.upload(&values)?);

        let scheme = Bucketized::default().of::<u64, u32>();
        let load = self.load.unwrap_or(scheme.default_load().get());
        let builder = MultiTable::builder(scheme).values::<V>().load_factor(load);
        let said = ("", Some(load), None);
        let (table, build) =
            self.timed("multi, build", n, said, || builder.build_on(device, &there, &values_on_device))?;
        // Each key once, in order of first occurrence.
        let queries = device.upload(&keys[..m as usize])?;
        let (got, retrieve) =
            self.timed("multi, retrieve", n, ("", Some(load), Some(100)), || table.retrieve_on(&queries))?;
        let (offsets, listed) = (device.download(&got.offsets)?, device.download(&got.values)?);
        drop((got, table, queries));
        let right = |row: u64| (row..n).step_by(m as usize);
        let mut at = 0;
        for row in 0..m {
            for other in right(row) {
                if offsets[row as usize] > at || listed.get(at as usize) != Some(&values[other as usize]) {
                    return Err(wrong(self.columns, format!("retrieve: the values of row {row}'s key are others")));
                }
                at += 1;
            }
        }

        // Row numbers are the values: they show the origin of each key.
        drop((there, values_on_device));
        let distinct: Vec<u64> = (0..n).map(key).collect();
        let rows: Vec<V> = (0..n).map(V::low).collect();
        let (there, values_on_device) = (device.upload(&distinct)?, device.upload(&rows)?);
        let (sorted, sort) =
            self.timed("sort", n, ("", None, None), || device.sort_pairs(&there, &values_on_device))?;
        let (sorted, from) = (device.download(&sorted.0)?, device.download(&sorted.1)?);
        let is_of_row = |(&key, &row): (&u64, &V)| distinct.get(Into::<u64>::into(row) as usize) == Some(&key);
        if !sorted.is_sorted() || !sorted.iter().zip(&from).all(is_of_row) || sorted.len() as u64 != n {
            return Err(wrong(self.columns, "the sort gives other rows".into()));
        }
        Ok(vec![build, retrieve, sort])
    }
}
