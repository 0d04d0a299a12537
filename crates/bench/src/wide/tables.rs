//! Tables and sets: builds, lookups and membership tests. Queries that hit are the keys in another order.

use std::hash::Hash;

use koel::backend::{HashBackend, Runs, Word, bitmap_words};
use koel::device::Any;
use koel::scheme::bucketized::{Column, Layout};
use koel::scheme::signpost::Posted;
use koel::scheme::{BucketizedOf, Key, Scheme, SignpostOf, Value};
use koel::{Bucketized, HashSet, HashTable, Signpost};

use super::{Case, Row, is_wanted, key, value};
use crate::wrong;
use koel_cli::failure::Result;

/// Shares of queries that hit, in percent.
pub(super) const HITS: [u64; 3] = [100, 50, 0];

/// The number whose key is query i of a table of n keys. Queries that hit are in another order: at an odd stride, which
/// is coprime to most n.
pub(super) fn number(i: u64, n: u64, hits: u64) -> u64 {
    let number = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % n;
    if (i * 7919) % 100 < hits { number } else { n + number }
}

impl Case<'_> {
    /// The number of queries.
    pub(super) fn queried(&self) -> u64 {
        self.args.data.lookups(self.n as u32).0 as u64
    }

    /// Tables of pairs, and on the CPU the alternatives to them.
    pub(super) fn pairs<K: Column + Key + Hash + Eq, V: Column + Value>(&self) -> Result<Vec<Row>>
    where
        (K, V): Layout<Key = K, Value = V> + Posted<Layout = (K, V)>,
        Any: Runs<BucketizedOf<K, V>> + Runs<SignpostOf<K, V>>,
    {
        let mut rows = self.of_both(&Bucketized::default().of::<K, V>(), &Signpost::new().of::<K, V>())?;
        if self.device.info().id == "cpu" && !self.args.no_peers {
            rows.extend(self.peers::<K, V>()?);
        }
        Ok(rows)
    }

    /// Tables of the requested ones among two schemes.
    pub(super) fn of_both<S: Scheme, T: Scheme>(&self, one: &S, other: &T) -> Result<Vec<Row>>
    where
        Any: Runs<S> + Runs<T>,
    {
        let mut rows = if is_wanted::<S>(self.args) { self.table(one)? } else { Vec::new() };
        if is_wanted::<T>(self.args) {
            rows.extend(self.table(other)?);
        }
        Ok(rows)
    }

    pub(super) fn table<S: Scheme>(&self, scheme: &S) -> Result<Vec<Row>>
    where
        Any: Runs<S>,
    {
        let (n, device, has_values) = (self.n, self.device, scheme.limits().value_bits > 0);
        let load = self.load.unwrap_or(scheme.default_load().get());
        let keys: Vec<S::Key> = (0..n).map(key).collect();
        let values: Vec<S::Value> = (0..n).map(|number| value(number, has_values)).collect();
        let (on_device, values_on_device) = (device.upload(&keys)?, device.upload(&values)?);
        drop((keys, values));
        let builder = HashTable::builder(scheme.clone()).load_factor(load);
        let said = (S::NAME, Some(load), None);
        let (table, row) = self.timed("build", n, said, || builder.build_on(device, &on_device, &values_on_device))?;
        let mut rows = vec![row];
        if !has_values {
            let builder = HashSet::builder(scheme.clone()).load_factor(load);
            rows.push(self.timed("set, insert", n, said, || builder.build_on(device, &on_device))?.1);
        }
        drop((on_device, values_on_device));
        let queried = self.queried();
        for hits in HITS {
            let number = |i| number(i, n, hits);
            let queries: Vec<S::Key> = (0..queried).map(|i| key(number(i))).collect();
            let queries = device.upload(&queries)?;
            let mut found = device.filled(bitmap_words(queried as usize), 0x5555_5555u32)?;
            let mut answers = device.filled(queried as usize, Word::low(0x5555_5555))?;
            let said = (S::NAME, Some(load), Some(hits));
            rows.push(self.timed("lookup", queried, said, || table.get_on_into(&queries, &mut answers, &mut found))?.1);
            let (bits, row) = self.timed("contains", queried, said, || table.contains_on(&queries))?;
            rows.push(row);
            let bits = device.download(&bits)?;
            let (answers, found) = (device.download(&answers)?, device.download(&found)?);
            for i in 0..queried {
                let at = i as usize;
                let there = number(i) < n;
                let right = if there { value::<S::Value>(number(i), has_values) } else { Word::low(0) };
                let said = |bits: &[u32]| bits[at / 32] >> (at % 32) & 1 == 1;
                if said(&found) != there || said(&bits) != there || answers[at] != right {
                    return Err(wrong(self.columns, format!("query {i} has another answer")));
                }
            }
        }
        Ok(rows)
    }
}
