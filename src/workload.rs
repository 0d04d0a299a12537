//! Keys for trying tables out: distinct, random-looking, and with known answers, so that every answer can be checked.
//!
//! ```text
//! key(i)   = mix(i)             a bijection: distinct for distinct i, without remembering any
//! value(k) = mix'(k)            so the right answer to any query is a function of the query
//! hit      = key(i), i < n      miss = key(i), i >= n
//! ```

use rayon::prelude::*;

use crate::spec::hash::{MixKeys, SplitMix64, mix, reduce, unmix};

/// `n` distinct keys with values, and queries of which a known share hits.
///
/// ```
/// use koel::workload::Workload;
/// let load = Workload::new(1000, 42);
/// let queries = load.queries(100, 50);
/// let hits = queries.iter().filter(|&&query| load.answer(query).is_some()).count();
/// assert_eq!(hits, 50);
/// ```
#[derive(Clone, Debug)]
pub struct Workload {
    pairs: u32,
    keys: MixKeys,
    values: MixKeys,
    order: MixKeys,
}

impl Workload {
    /// `pairs` keys drawn by `seed`.
    pub fn new(pairs: u32, seed: u64) -> Self {
        let mut stream = SplitMix64::new(seed);
        let (keys, values, order) = (stream.next_mix_keys(), stream.next_mix_keys(), stream.next_mix_keys());
        Workload { pairs, keys, values, order }
    }

    /// The keys.
    pub fn keys(&self) -> Vec<u32> {
        (0..self.pairs).into_par_iter().map(|i| mix(i, self.keys)).collect()
    }

    /// Their values.
    pub fn values(&self) -> Vec<u32> {
        (0..self.pairs).into_par_iter().map(|i| self.value(mix(i, self.keys))).collect()
    }

    /// `count` queries of which `hits` in a hundred are keys, in random order. Hits are drawn with replacement; misses
    /// are keys that were never inserted.
    pub fn queries(&self, count: usize, hits: u32) -> Vec<u32> {
        (0..count as u64)
            .into_par_iter()
            .map(|i| {
                // In every hundred queries exactly `hits` hit, at places that look random.
                let hit = self.pairs > 0 && (i * 61 + i / 100 * 7) % 100 < u64::from(hits);
                let draw = mix(i as u32, self.order);
                let room = u32::MAX - self.pairs;
                mix(if hit { reduce(draw, self.pairs) } else { self.pairs + reduce(draw, room) }, self.keys)
            })
            .collect()
    }

    /// The right answer to a query.
    pub fn answer(&self, query: u32) -> Option<u32> {
        (unmix(query, self.keys) < self.pairs).then(|| self.value(query))
    }

    fn value(&self, key: u32) -> u32 {
        mix(key, self.values)
    }
}

/// Columns of `len` keys, each a case of its own for what puts keys in order.
#[cfg(test)]
pub(crate) fn keys_of_every_sort(len: usize) -> Vec<(&'static str, Vec<u32>)> {
    let random: Vec<u32> = (0..len as u32).map(|i| mix(i, MixKeys::default())).collect();
    let each = |of: fn(u32) -> u32| random.iter().map(|&x| of(x)).collect();
    let last = len.saturating_sub(1) as u32;
    vec![
        ("ascending", (0..=last).take(len).collect()),
        ("descending", (0..=last).rev().take(len).collect()),
        ("equal", vec![0x8000_0001; len]),
        ("the extremes", each(|x| if x % 2 == 0 { 0 } else { u32::MAX })),
        ("few", each(|x| x % 5)),
        ("of the upper half", each(|x| x & 0xffff_0000)),
        ("of 24 bits", each(|x| x >> 8)),
        // Nearly all of them in one bucket of any first digit, and there again.
        ("a crowd", each(|x| if x % 1000 == 0 { x } else { 0x1234_0000 | x & 0xfff })),
        ("random", random),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_hit_as_often_as_asked_and_answers_agree_with_the_pairs() {
        let load = Workload::new(5000, 3);
        let pairs: std::collections::HashMap<_, _> = load.keys().into_iter().zip(load.values()).collect();
        assert_eq!(pairs.len(), 5000, "keys are distinct");
        for hits in [0, 1, 50, 99, 100] {
            let queries = load.queries(10_000, hits);
            assert!(queries.iter().all(|q| load.answer(*q) == pairs.get(q).copied()));
            let found = queries.iter().filter(|q| pairs.contains_key(q)).count();
            assert_eq!(found, 100 * hits as usize);
        }
        assert!(Workload::new(0, 1).queries(100, 100).iter().all(|&q| Workload::new(0, 1).answer(q).is_none()));
    }
}
