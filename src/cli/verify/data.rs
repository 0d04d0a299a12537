//! What tables are verified on: keys with values, and queries with their right answers.

use koel::spec::Limits;
use koel::workload::Workload;

use crate::cli::failure::Result;
use crate::cli::{input, text};

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

    /// What of it these limits allow, and in what it differs; nothing if all of it does.
    pub(super) fn within(&self, limits: Limits) -> Option<(DataSet, String)> {
        let mut notes = Vec::new();
        let is_narrow = |&(key, _): &(u32, u32)| key <= limits.greatest_key();
        let all = self.keys.iter().copied().zip(self.values.iter().copied());
        let mut pairs: Vec<_> = all.filter(is_narrow).collect();
        if pairs.len() < self.keys.len() {
            notes.push(format!("keys of {} bits", limits.key_bits));
        }
        if pairs.len() as u64 > limits.pairs {
            pairs.truncate(limits.pairs as usize);
            notes.push(format!("{} pairs", text::grouped(limits.pairs)));
        }
        if pairs.iter().any(|&(_, value)| value > limits.greatest_value()) {
            pairs.iter_mut().for_each(|(_, value)| *value &= limits.greatest_value());
            notes.push(format!("values of {} bits", limits.value_bits));
        }
        if notes.is_empty() {
            return None;
        }
        // Keys that are too wide are still asked for: they miss. So are as many others as there are keys.
        let misses = self.queries[self.keys.len()..].iter().copied();
        let wide = self.keys.iter().copied().filter(|&key| key > limits.greatest_key());
        let misses: Vec<_> = wide.chain(misses).take(pairs.len().max(1000)).collect();
        let (keys, values) = pairs.into_iter().unzip();
        Some((DataSet::new(self.name, keys, values, misses.into_iter()), format!("cut to {}", notes.join(", "))))
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
        assert!(random.within(Limits::NONE).is_none());
        let (cut, note) = random.within(Limits { key_bits: 30, value_bits: 8, pairs: 700 }).unwrap_or_else(|| panic!());
        assert_eq!((cut.keys.len(), note.as_str()), (700, "cut to keys of 30 bits, 700 pairs, values of 8 bits"));
        assert!(cut.keys.iter().all(|&key| key < 1 << 30) && cut.values.iter().all(|&value| value < 1 << 8));
        let hits: HashMap<_, _> = cut.keys.iter().zip(&cut.values).collect();
        let right = |i: usize| cut.answer(i).as_ref() == hits.get(&cut.queries[i]).copied();
        assert!((0..cut.queries.len()).all(right) && cut.queries.iter().any(|&key| key >= 1 << 30));
        assert_eq!((&random.keys[..2], &random.values[..2]), (&[0, u32::MAX][..], &[u32::MAX, 0][..]));
    }
}
