//! The data sets that tables are verified with: keys with values, and queries with their right answers.

use koel::scheme::Limits;
use koel::scheme::hash::{MixKeys, mix};
use koel::workload::Workload;

use crate::failure::Result;
use crate::number::Word;
use crate::{input, text};

/// 48,502 bases, GenBank NC_001416.1; see `data/README.md`.
const LAMBDA_PHAGE: &[u8] = include_bytes!("../../../data/lambda_phage.fa");

/// The minimum number of absent keys that are looked up, even in small tables.
const LEAST_MISSES: usize = 1000;
/// The number of keys that are looked up although they are too wide for the table.
const WIDE_MISSES: u32 = 1000;

/// Distinct keys with values, and keys that are absent.
pub(super) struct DataSet<K = u32, V = u32> {
    pub(super) name: &'static str,
    pub(super) keys: Vec<K>,
    pub(super) values: Vec<V>,
    /// Every key, then as many absent keys.
    pub(super) queries: Vec<K>,
    /// The seed of random keys, with which narrower keys can be drawn.
    seed: Option<u64>,
}

impl DataSet {
    /// `n` random keys. They include the least and the greatest key, each with the complement of its bits as the value,
    /// because these would reveal errors with the markers of empty slots.
    pub(super) fn random(n: u32, seed: u64) -> DataSet {
        DataSet::drawn(&Workload::new(n, seed), n, seed, Limits::NONE)
    }

    /// The pairs of a workload of `n` pairs that was drawn within these limits.
    fn drawn(workload: &Workload, n: u32, seed: u64, limits: Limits) -> DataSet {
        let (mut keys, mut values) = (workload.keys(), workload.values());
        let (greatest, greatest_value) = (limits.greatest_key(), limits.greatest_value());
        for (at, extreme) in [0, greatest].into_iter().enumerate().take(keys.len()) {
            let there = keys.iter().position(|&key| key == extreme).unwrap_or(at);
            keys.swap(there, at);
            values.swap(there, at);
            (keys[at], values[at]) = (extreme, (extreme ^ greatest) & greatest_value);
        }
        let misses = workload.queries(LEAST_MISSES.max(n as usize), 0);
        let misses = misses.into_iter().filter(|&key| key != 0 && key != greatest).chain(too_wide(limits));
        DataSet { seed: Some(seed), ..DataSet::new("random", keys, values, misses) }
    }

    /// At most `n` 16-mers of the genome of phage lambda; the misses are those of their complements that do not occur
    /// in it.
    pub(super) fn lambda_phage(n: u32) -> Result<DataSet> {
        let pairs = input::kmers(LAMBDA_PHAGE, "lambda_phage.fa", 16)?;
        let (mut keys, mut values) = pairs.into_words::<u32, u32>();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        keys.truncate(n as usize);
        values.truncate(n as usize);
        let misses: Vec<u32> = keys.iter().map(|key| !key).filter(|key| sorted.binary_search(key).is_err()).collect();
        Ok(DataSet::new("lambda", keys, values, misses.into_iter()))
    }

    /// Returns the part of the data set that these limits allow, and a description of the difference; `None` if they
    /// allow all of it. Random keys are drawn again, as many as before if that many exist; of other keys, those that
    /// are narrow enough are kept.
    ///
    /// # Errors
    /// Only errors of drawing keys. Enough keys exist.
    pub(super) fn within(&self, limits: Limits) -> Result<Option<(DataSet, String)>> {
        let mut notes = Vec::new();
        if self.keys.iter().any(|&key| key > limits.greatest_key()) {
            notes.push(format!("keys of {} bits", limits.key_bits));
        }
        if self.keys.len() as u64 > limits.pairs {
            notes.push(format!("{} pairs", text::grouped(limits.pairs)));
        }
        if self.values.iter().any(|&value| value > limits.greatest_value()) {
            notes.push(format!("values of {} bits", limits.value_bits));
        }
        if notes.is_empty() {
            return Ok(None);
        }
        let cut = match self.seed {
            Some(seed) => {
                // If keys have few bits, at least one key remains to be a miss.
                let most = limits.pairs.min(limits.greatest_key().into());
                let n = u32::try_from(most).unwrap_or(u32::MAX).min(self.keys.len() as u32);
                DataSet::drawn(&Workload::new(n, seed).within(limits)?, n, seed, limits)
            }
            None => self.narrow(limits),
        };
        Ok(Some((cut, format!("cut to {}", notes.join(", ")))))
    }

    /// The pairs whose keys these limits allow, with the low bits of their values.
    fn narrow(&self, limits: Limits) -> DataSet {
        let greatest = limits.greatest_key();
        let all = self.keys.iter().copied().zip(self.values.iter().copied());
        let narrow = all.filter(|&(key, _)| key <= greatest).map(|(key, value)| (key, value & limits.greatest_value()));
        let (keys, values): (Vec<u32>, Vec<u32>) =
            narrow.take(usize::try_from(limits.pairs).unwrap_or(usize::MAX)).unzip();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        // Misses are the low bits of absent keys and of dropped keys, except bits that are a key of the table.
        let queried = self.queries.iter().rev().map(|query| query & greatest);
        let absent = queried.filter(|query| sorted.binary_search(query).is_err());
        let misses: Vec<u32> = absent.take(keys.len().max(LEAST_MISSES)).collect();
        DataSet::new(self.name, keys, values, misses.into_iter().chain(too_wide(limits)))
    }
}

impl<K: Word, V: Word> DataSet<K, V> {
    fn new(name: &'static str, keys: Vec<K>, values: Vec<V>, misses: impl Iterator<Item = K>) -> Self {
        let queries = keys.iter().copied().chain(misses).collect();
        DataSet { name, keys, values, queries, seed: None }
    }

    /// The same rows with keys and values of other widths, for tables with or without values. 64-bit numbers use all
    /// bits.
    pub(super) fn widened(of: &DataSet, spread: Spread, has_values: bool) -> Self {
        let key = |&key: &u32| if K::BITS > u32::BITS { K::low(spread.of(key)) } else { K::low(key.into()) };
        let value = |&value: &u32| match (has_values, V::BITS > u32::BITS) {
            (false, _) => V::default(),
            (true, false) => V::low(value.into()),
            // 0 stays 0, and a value of 32 ones becomes one of 64 ones.
            (true, true) => V::low(Spread::Both.of(value)),
        };
        let mut queries: Vec<K> = of.queries.iter().map(key).collect();
        if spread == Spread::Both && K::BITS > u32::BITS {
            // The first two keys, 0 and the greatest one, are kept. The two halves of all other keys are equal, so
            // these keys are new.
            let extremes = [1, 1 << 32, 1 << 63, u64::from(u32::MAX)];
            let places = queries.iter_mut().take(of.keys.len()).skip(2);
            places.zip(extremes).for_each(|(key, extreme)| *key = K::low(extreme));
        }
        let keys = queries.iter().take(of.keys.len()).copied().collect();
        let name = if spread == Spread::Apart { "halves" } else { of.name };
        DataSet { name, keys, values: of.values.iter().map(value).collect(), queries, seed: None }
    }

    /// The right answer to query `i`.
    pub(super) fn answer(&self, i: usize) -> Option<V> {
        self.values.get(i).copied()
    }
}

/// How 32 bits are extended to 64, so that different numbers stay different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::verify) enum Spread {
    /// Both halves are the 32 bits.
    Both,
    /// The upper 16 bits become the highest bits, and the lower 16 bits the lowest: many keys share one of the two.
    Apart,
}

impl Spread {
    pub(in crate::verify) fn of(self, key: u32) -> u64 {
        let key = u64::from(key);
        match self {
            Spread::Both => key << 32 | key,
            Spread::Apart => key >> 16 << 48 | key & 0xffff,
        }
    }
}

/// Keys that no table with these limits can hold, if there are any.
pub(in crate::verify) fn too_wide(limits: Limits) -> impl Iterator<Item = u32> {
    let above = 1u32.checked_shl(limits.key_bits);
    let keys = move |above: u32| (0..WIDE_MISSES).map(move |i| mix(i, MixKeys::default()) | above);
    above.into_iter().flat_map(keys)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn data_sets_are_what_they_say() {
        let lambda = |n| DataSet::lambda_phage(n).unwrap_or_else(|failure| panic!("{failure}"));
        let of_the_phage = [0, 1, 300, u32::MAX].map(lambda);
        assert_eq!(of_the_phage.each_ref().map(|set| set.keys.len()), [0, 1, 300, 48_487]);
        for set in [0, 1, 2, 3, 5000].map(|n| DataSet::random(n, 1)).iter().chain(&of_the_phage) {
            let pairs: HashMap<_, _> = set.keys.iter().copied().zip(set.values.iter().copied()).collect();
            assert_eq!(pairs.len(), set.keys.len(), "keys are distinct");
            assert!(set.queries.iter().enumerate().all(|(i, query)| set.answer(i) == pairs.get(query).copied()));
            assert!(set.queries.len() >= 2 * set.keys.len() - set.keys.len() / 100, "about as many misses");
        }
        let random = DataSet::random(5000, 1);
        assert_eq!((&random.keys[..2], &random.values[..2]), (&[0, u32::MAX][..], &[u32::MAX, 0][..]));
    }

    #[test]
    fn widened_keys_are_distinct_and_agree_in_parts() {
        let of = DataSet::random(5000, 1);
        for spread in [Spread::Both, Spread::Apart] {
            let set = DataSet::<u64, u64>::widened(&of, spread, true);
            let pairs: HashMap<_, _> = set.keys.iter().copied().zip(set.values.iter().copied()).collect();
            assert_eq!((pairs.len(), set.queries.len()), (5000, of.queries.len()), "{spread:?}");
            assert!(set.queries.iter().enumerate().all(|(i, query)| set.answer(i) == pairs.get(query).copied()));
            assert_eq!((set.values[0], set.values[1]), (u64::MAX, 0), "{spread:?}");
        }
        let both = DataSet::<u64, u32>::widened(&of, Spread::Both, false);
        assert_eq!(both.keys[..6], [0, u64::MAX, 1, 1 << 32, 1 << 63, 0xffff_ffff]);
        assert!(both.values.iter().all(|&value| value == 0));
        let apart = DataSet::<u64, u32>::widened(&of, Spread::Apart, true);
        let lower: std::collections::HashSet<_> = apart.keys.iter().map(|&key| key as u32).collect();
        assert!(lower.len() < 4950, "some agree in their lower half");
        let narrow = DataSet::<u32, u64>::widened(&of, Spread::Both, true);
        assert_eq!((narrow.keys, narrow.queries), (of.keys, of.queries));
    }

    fn within(set: &DataSet, limits: Limits) -> Option<(DataSet, String)> {
        set.within(limits).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// As many pairs and narrow misses as before, if enough exist, and some keys that are too wide.
    #[test]
    fn limits_leave_pairs_and_misses_that_could_have_been_there() {
        let (random, lambda) =
            (DataSet::random(5000, 1), DataSet::lambda_phage(u32::MAX).unwrap_or_else(|failure| panic!("{failure}")));
        let limits = |key_bits, value_bits, pairs| Limits { key_bits, value_bits, pairs };
        for (set, limits, pairs, expected) in [
            (&random, limits(30, 8, 700), 700, "cut to keys of 30 bits, 700 pairs, values of 8 bits"),
            (&random, limits(28, 0, u64::MAX), 5000, "cut to keys of 28 bits, values of 0 bits"),
            (&random, limits(32, 28, u64::MAX), 5000, "cut to values of 28 bits"),
            (&random, limits(12, 32, u64::MAX), 4095, "cut to keys of 12 bits"),
            (&lambda, limits(32, 32, 9), 9, "cut to 9 pairs"),
            (&lambda, limits(31, 32, u64::MAX), 24_000, "cut to keys of 31 bits"),
        ] {
            let (cut, note) = within(set, limits).unwrap_or_else(|| panic!("{expected}"));
            assert_eq!(note, expected);
            let (greatest, greatest_value) = (limits.greatest_key(), limits.greatest_value());
            assert!(if set.name == "random" { cut.keys.len() == pairs } else { cut.keys.len().abs_diff(pairs) < 2000 });
            assert!(cut.keys.iter().all(|&key| key <= greatest));
            assert!(cut.values.iter().all(|&value| value <= greatest_value));
            let hits: HashMap<_, _> = cut.keys.iter().zip(&cut.values).collect();
            assert_eq!(hits.len(), cut.keys.len(), "keys are distinct");
            let right = |i: usize| cut.answer(i).as_ref() == hits.get(&cut.queries[i]).copied();
            assert!((0..cut.queries.len()).all(right));
            let misses = &cut.queries[cut.keys.len()..];
            let narrow = misses.iter().filter(|&&key| key <= greatest).count();
            // There is one 12-bit key more than there are pairs.
            let pairs = cut.keys.len();
            assert!(narrow >= pairs - pairs / 100 || limits.key_bits == 12, "{narrow} narrow misses, {expected}");
            let wide = if limits.key_bits < 32 { WIDE_MISSES as usize } else { 0 };
            assert_eq!(misses.len() - narrow, wide, "{expected}");
            if set.name == "random" {
                assert_eq!(
                    (cut.keys[0], cut.values[0], cut.keys[1], cut.values[1]),
                    (0, greatest & greatest_value, greatest, 0)
                );
            }
        }
        assert!(within(&random, Limits::NONE).is_none() && within(&lambda, Limits::NONE).is_none());
        assert!(within(&DataSet::random(0, 1), limits(12, 3, 4)).is_none(), "nothing to cut");
    }
}
