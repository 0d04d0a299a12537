//! What tables are verified on: keys with values, and queries with their right answers.

use koel::workload::Workload;

use crate::cli::failure::Result;
use crate::cli::input;

/// 48,502 bases, GenBank NC_001416.1; see `data/README.md`.
const LAMBDA_PHAGE: &[u8] = include_bytes!("../../../data/lambda_phage.fa");

/// Distinct keys with values, and keys that are absent.
pub(super) struct DataSet {
    pub(super) name: &'static str,
    pub(super) keys: Vec<u32>,
    pub(super) values: Vec<u32>,
    /// Every key, then as many absent ones.
    pub(super) queries: Vec<u32>,
}

impl DataSet {
    /// `n` random keys; the least and the greatest key are among them, with each other's bits as values, because it is
    /// there that markers for empty slots would show.
    pub(super) fn random(n: u32, seed: u64) -> DataSet {
        let workload = Workload::new(n, seed);
        let (mut keys, mut values) = (workload.keys(), workload.values());
        for (at, extreme) in [0, u32::MAX].into_iter().enumerate().take(keys.len()) {
            let there = keys.iter().position(|&key| key == extreme).unwrap_or(at);
            keys.swap(there, at);
            values.swap(there, at);
            (keys[at], values[at]) = (extreme, !extreme);
        }
        let misses = workload.queries(n.max(1000) as usize, 0);
        DataSet::new("random", keys, values, misses.into_iter().filter(|&key| key != 0 && key != u32::MAX))
    }

    /// The 16-mers of the genome of the phage lambda; the misses are their complements, which it does not hold.
    pub(super) fn lambda_phage() -> Result<DataSet> {
        let (keys, values) = input::kmers(LAMBDA_PHAGE, "lambda_phage.fa", 16)?;
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        let misses: Vec<u32> = keys.iter().map(|key| !key).filter(|key| sorted.binary_search(key).is_err()).collect();
        Ok(DataSet::new("lambda", keys, values, misses.into_iter()))
    }

    fn new(name: &'static str, keys: Vec<u32>, values: Vec<u32>, misses: impl Iterator<Item = u32>) -> DataSet {
        let queries = keys.iter().copied().chain(misses).collect();
        DataSet { name, keys, values, queries }
    }

    /// The right answer to query `i`.
    pub(super) fn answer(&self, i: usize) -> Option<u32> {
        self.values.get(i).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn data_sets_are_what_they_say() {
        let lambda = DataSet::lambda_phage().unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(lambda.keys.len(), 48_487);
        for set in [0, 1, 2, 3, 5000].map(|n| DataSet::random(n, 1)).iter().chain([&lambda]) {
            let pairs: HashMap<_, _> = set.keys.iter().copied().zip(set.values.iter().copied()).collect();
            assert_eq!(pairs.len(), set.keys.len(), "keys are distinct");
            assert!(set.queries.iter().enumerate().all(|(i, query)| set.answer(i) == pairs.get(query).copied()));
            assert!(set.queries.len() >= 2 * set.keys.len() - set.keys.len() / 100, "about as many misses");
        }
        let random = DataSet::random(5000, 1);
        assert_eq!((&random.keys[..2], &random.values[..2]), (&[0, u32::MAX][..], &[u32::MAX, 0][..]));
    }
}
