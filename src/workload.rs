//! Keys for experiments: distinct keys that look random, and whose values are known, so that every answer can be
//! checked.
//!
//! ```text
//! key(i)   = mix(i)             a bijection, so different i have different keys, and no keys are stored
//! value(k) = mix'(k)            so the correct answer to a query is a function of the query
//! hit      = key(i), i < n      miss = key(i), i >= n
//! ```
//!
//! A [`Picture`] has spatial keys: cells, many of which are adjacent.

mod picture;

pub use picture::Picture;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::scheme::Limits;
use crate::scheme::hash::{MIX_FIRST, MIX_FIRST_INVERSE, MIX_SECOND, MIX_SECOND_INVERSE};
use crate::scheme::hash::{MixKeys, SplitMix64, mix, reduce, unmix};

/// `n` distinct keys with values, and queries with a given share of hits.
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
    /// The greatest key: all bits that keys may have are ones.
    greatest: u32,
    /// The greatest value: all bits that values may have are ones.
    greatest_value: u32,
    keys: MixKeys,
    values: MixKeys,
    order: MixKeys,
}

impl Workload {
    /// Creates `pairs` keys from `seed`.
    pub fn new(pairs: u32, seed: u64) -> Self {
        let mut stream = SplitMix64::new(seed);
        let (keys, values, order) = (stream.next_mix_keys(), stream.next_mix_keys(), stream.next_mix_keys());
        Workload { pairs, greatest: u32::MAX, greatest_value: u32::MAX, keys, values, order }
    }

    /// The same workload with keys and values within these limits. If keys must be narrower, they are other keys; of
    /// values, the low bits are used. The caller must check limits on the number of pairs.
    ///
    /// ```
    /// use koel::scheme::Limits;
    /// use koel::workload::Workload;
    /// let load = Workload::new(1000, 42).within(Limits { key_bits: 10, value_bits: 3, ..Limits::NONE })?;
    /// let mut keys = load.keys();
    /// keys.sort_unstable();
    /// assert!(keys.windows(2).all(|two| two[0] < two[1]) && keys[999] < 1 << 10);
    /// assert!(load.values().iter().all(|&value| value < 1 << 3));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLarge`] if there are not enough keys for all pairs and one miss.
    pub fn within(self, limits: Limits) -> Result<Self> {
        let greatest = limits.greatest_key();
        if self.pairs > greatest {
            return Err(Error::TooLarge {
                what: "keys of so few bits",
                requested: self.pairs.into(),
                most: greatest.into(),
            });
        }
        Ok(Workload { greatest, greatest_value: limits.greatest_value(), ..self })
    }

    /// The keys.
    pub fn keys(&self) -> Vec<u32> {
        (0..self.pairs).into_par_iter().map(|i| self.key(i)).collect()
    }

    /// Their values.
    pub fn values(&self) -> Vec<u32> {
        (0..self.pairs).into_par_iter().map(|i| self.value(self.key(i))).collect()
    }

    /// `count` queries in random order, of which `hits` percent are keys. Hits are drawn with replacement; misses are
    /// keys that were never inserted.
    pub fn queries(&self, count: usize, hits: u32) -> Vec<u32> {
        (0..count as u64)
            .into_par_iter()
            .map(|i| {
                // Exactly `hits` of every hundred queries are hits, at positions that look random.
                let hit = self.pairs > 0 && (i * 61 + i / 100 * 7) % 100 < u64::from(hits);
                let draw = mix(i as u32, self.order);
                let misses = self.greatest - self.pairs;
                self.key(if hit { reduce(draw, self.pairs) } else { self.pairs + reduce(draw, misses) })
            })
            .collect()
    }

    /// The correct answer to a query.
    pub fn answer(&self, query: u32) -> Option<u32> {
        (query <= self.greatest && self.position(query) < self.pairs).then(|| self.value(query))
    }

    fn key(&self, i: u32) -> u32 {
        if self.greatest == u32::MAX { mix(i, self.keys) } else { mix_narrow(i, self.keys, self.greatest) }
    }

    /// The index i of a key that does not exceed the greatest key.
    fn position(&self, key: u32) -> u32 {
        if self.greatest == u32::MAX { unmix(key, self.keys) } else { unmix_narrow(key, self.keys, self.greatest) }
    }

    fn value(&self, key: u32) -> u32 {
        mix(key, self.values) & self.greatest_value
    }
}

/// [`mix`] restricted to the bits of `mask`. It shifts by half the number of these bits, so each shift step is its own
/// inverse.
fn mix_narrow(x: u32, keys: MixKeys, mask: u32) -> u32 {
    let half = mask.count_ones().div_ceil(2);
    let turn = |x: u32, times: u32| {
        let x = x.wrapping_mul(times) & mask;
        x ^ x >> half
    };
    let x = turn(x ^ keys.before, keys.times);
    let x = turn(x ^ keys.between, MIX_FIRST);
    turn(x, MIX_SECOND)
}

/// The inverse of [`mix_narrow`].
fn unmix_narrow(y: u32, keys: MixKeys, mask: u32) -> u32 {
    let half = mask.count_ones().div_ceil(2);
    let back = |y: u32, times: u32| (y ^ y >> half).wrapping_mul(times) & mask;
    let x = back(y, MIX_SECOND_INVERSE);
    let x = back(x, MIX_FIRST_INVERSE) ^ keys.between & mask;
    back(x, keys.back) ^ keys.before & mask
}

/// Columns of `len` keys, each a different case for sorting.
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
        // Nearly all keys are in one bucket by the first digit, whatever its width, and again in one bucket by the next
        // digit.
        ("a crowd", each(|x| if x % 1000 == 0 { x } else { 0x1234_0000 | x & 0xfff })),
        ("random", random),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_keys_cover_their_whole_range() {
        let narrow = |pairs, key_bits| {
            Workload::new(pairs, 3).within(Limits { key_bits, value_bits: 0, pairs: 0 }).expect("enough keys")
        };
        let all = narrow((1 << 12) - 1, 12);
        let keys: std::collections::BTreeSet<_> = all.keys().into_iter().collect();
        assert_eq!((keys.len(), keys.last().is_some_and(|&key| key < 1 << 12)), ((1 << 12) - 1, true));
        let answers = (0..1 << 13).filter_map(|query| all.answer(query));
        assert_eq!(answers.collect::<Vec<_>>(), vec![0; (1 << 12) - 1]);
        let half = narrow(1 << 11, 12);
        for (hits, expected) in [(100, 1000), (30, 300), (0, 0)] {
            let queries = half.queries(1000, hits);
            assert_eq!(queries.iter().filter(|&&query| half.answer(query).is_some()).count(), expected);
            assert!(queries.iter().all(|&query| query < 1 << 12));
        }
        assert!(Workload::new(1 << 12, 3).within(Limits { key_bits: 12, ..Limits::NONE }).is_err());
        assert_eq!(
            Workload::new(99, 3).within(Limits::NONE).map(|load| load.keys()).ok(),
            Some(Workload::new(99, 3).keys())
        );
    }

    #[test]
    fn queries_hit_as_often_as_requested_and_answers_agree_with_the_pairs() {
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
