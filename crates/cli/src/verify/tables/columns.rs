//! The data for verifying structures: rows with duplicate keys, in random order.
//!
//! ```text
//! copies     one group of each of some sizes around powers of two, and random groups of about four rows
//! heavy      one key has half of all rows, the greatest key an eighth; the rest are random groups of about four rows
//! distinct   no duplicate keys
//! ```
//!
//! The data includes the least and the greatest key, and the least and the greatest value.

use koel::scheme::Limits;
use koel::scheme::hash::{MixKeys, SplitMix64, mix, reduce};
use koel::workload::Workload;

use crate::failure::Result;
use crate::number::Word;
use crate::text;
use crate::verify::map::{Spread, too_wide};

/// The sizes of the groups, which are used until half of all rows are used.
const SIZES: [usize; 21] =
    [1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025];
/// The average number of rows of a random group.
const COPIES: usize = 4;
/// The minimum number of absent keys that are looked up, even if there are few rows.
const LEAST_MISSES: usize = 100;

/// Rows of a key and a value.
pub(super) struct Columns<K = u32> {
    pub(super) name: &'static str,
    pub(super) keys: Vec<K>,
    pub(super) values: Vec<u32>,
    /// Keys that no row has, but that the table could hold.
    pub(super) absent: Vec<K>,
    /// Keys that are too wide for the table.
    pub(super) wide: Vec<K>,
    /// How the data differs from the requested data.
    pub(super) cut: Option<String>,
}

/// How often keys occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Copies,
    Heavy,
    Distinct,
}

impl Shape {
    pub(super) const ALL: [Shape; 3] = [Shape::Copies, Shape::Heavy, Shape::Distinct];

    pub(super) fn name(self) -> &'static str {
        match self {
            Shape::Copies => "copies",
            Shape::Heavy => "heavy",
            Shape::Distinct => "distinct",
        }
    }

    /// The number of each row's key; there are at most `most` different numbers. Numbers may be unused.
    fn numbers(self, n: usize, most: usize) -> Vec<usize> {
        let mut numbers = Vec::with_capacity(n);
        let mut groups = 0;
        match self {
            Shape::Distinct => return (0..n.min(most)).collect(),
            Shape::Copies => {
                for size in SIZES {
                    if numbers.len() + size <= n / 2 && groups + 1 < most {
                        numbers.extend(std::iter::repeat_n(groups, size));
                        groups += 1;
                    }
                }
            }
            Shape::Heavy if most > 3 => {
                numbers.extend(std::iter::repeat_n(2, n / 2));
                numbers.extend(std::iter::repeat_n(1, n / 8));
                numbers.extend((n > 1).then_some(0));
                groups = 3;
            }
            Shape::Heavy => {}
        }
        let rest = n.saturating_sub(numbers.len());
        let random = (rest / COPIES).clamp(1, most.saturating_sub(groups).max(1));
        numbers.extend((0..rest as u32).map(|i| groups + reduce(mix(i, MixKeys::default()), random as u32) as usize));
        numbers
    }
}

impl Columns {
    /// About `n` rows, with keys that tables with these limits can hold.
    ///
    /// # Errors
    /// Only errors of drawing keys. Enough keys exist.
    pub(super) fn new(shape: Shape, n: u32, seed: u64, limits: Limits) -> Result<Columns> {
        // At least one key remains to be a miss.
        let most = limits.pairs.min(limits.greatest_key().into()).min(n.into()) as usize;
        let numbers = shape.numbers(n as usize, most);
        let distinct = numbers.iter().max().map_or(0, |&greatest| greatest + 1);
        let workload = Workload::new(distinct as u32, seed).within(limits)?;
        let mut pool = workload.keys();
        for (at, extreme) in [0, limits.greatest_key()].into_iter().enumerate().take(pool.len()) {
            let there = pool.iter().position(|&key| key == extreme).unwrap_or(at);
            pool.swap(there, at);
            pool[at] = extreme;
        }
        let mut stream = SplitMix64::new(seed ^ n as u64);
        let (order, draws) = (stream.next_mix_keys(), stream.next_mix_keys());
        let mut shuffled: Vec<(u32, usize)> = (0u32..).map(|i| mix(i, order)).zip(numbers).collect();
        shuffled.sort_unstable();
        let keys: Vec<u32> = shuffled.into_iter().map(|(_, number)| pool[number]).collect();
        let mut values: Vec<u32> = (0..keys.len() as u32).map(|i| mix(i, draws)).collect();
        values.first_mut().into_iter().for_each(|value| *value = u32::MAX);
        values.iter_mut().skip(1).take(1).for_each(|value| *value = 0);
        let misses = workload.queries(LEAST_MISSES.max(n as usize / 4), 0);
        let mut absent: Vec<u32> = misses.into_iter().filter(|key| !pool[..pool.len().min(2)].contains(key)).collect();
        absent.sort_unstable();
        absent.dedup();
        Ok(Columns {
            name: shape.name(),
            keys,
            values,
            absent,
            wide: too_wide(limits).collect(),
            cut: cut(shape, n, limits),
        })
    }

    /// The same rows with 64-bit keys.
    pub(super) fn widened(self, spread: Spread) -> Columns<u64> {
        let wide = |keys: Vec<u32>| keys.into_iter().map(|key| spread.of(key)).collect();
        let Columns { name, keys, values, absent, cut, .. } = self;
        Columns { name, keys: wide(keys), values, absent: wide(absent), wide: Vec::new(), cut }
    }
}

impl<K: Word> Columns<K> {
    /// The distinct keys, absent and too wide ones, and some of the keys once more.
    pub(super) fn queried(&self, distinct: &[K]) -> Vec<K> {
        let again = self.keys.iter().take(100);
        distinct.iter().chain(&self.absent).chain(&self.wide).chain(again).copied().collect()
    }
}

/// Describes how limits change the data, if they do.
fn cut(shape: Shape, n: u32, limits: Limits) -> Option<String> {
    let mut notes = Vec::new();
    if limits.key_bits < u32::BITS && n > 0 {
        notes.push(format!("keys of {} bits", limits.key_bits));
    }
    let most = usize::try_from(limits.pairs).unwrap_or(usize::MAX);
    let unlimited = |most| shape.numbers(n as usize, most).into_iter().max();
    if unlimited(n as usize) != unlimited(most.min(n as usize)) {
        notes.push(format!("{} keys", text::grouped(limits.pairs)));
    }
    (!notes.is_empty()).then(|| format!("cut to {}", notes.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn counts(columns: &Columns) -> BTreeMap<u32, usize> {
        columns.keys.iter().fold(BTreeMap::new(), |mut counts, &key| {
            *counts.entry(key).or_default() += 1;
            counts
        })
    }

    fn columns(shape: Shape, n: u32, limits: Limits) -> Columns {
        Columns::new(shape, n, 7, limits).unwrap_or_else(|failure| panic!("{failure}"))
    }

    #[test]
    fn rows_occur_as_often_as_their_shape_says() {
        let copies = columns(Shape::Copies, 20_000, Limits::NONE);
        let counts_of = counts(&copies);
        assert_eq!(copies.keys.len(), 20_000);
        assert!(SIZES.iter().all(|size| counts_of.values().any(|count| count == size)));
        assert_eq!((counts_of.get(&0), counts_of.get(&u32::MAX)), (Some(&1), Some(&2)));
        let heavy = columns(Shape::Heavy, 20_000, Limits::NONE);
        assert_eq!(counts(&heavy).values().max(), Some(&10_000));
        assert_eq!(counts(&heavy)[&u32::MAX], 2500);
        assert_eq!(counts(&columns(Shape::Distinct, 5000, Limits::NONE)).len(), 5000);
        for shape in Shape::ALL {
            for n in [0, 1, 2, 3, 7, 300, 5000] {
                let columns = columns(shape, n, Limits::NONE);
                assert_eq!((columns.keys.len(), columns.values.len()), (n as usize, n as usize), "{shape:?}");
                assert!(columns.absent.len() >= 90 && columns.cut.is_none());
                let counts = counts(&columns);
                assert!(columns.absent.iter().all(|key| !counts.contains_key(key)));
                assert!(n < 2 || columns.values.contains(&0) && columns.values.contains(&u32::MAX));
            }
        }
    }

    #[test]
    fn limits_are_kept() {
        let limits = Limits { key_bits: 20, value_bits: 3, pairs: 60 };
        for shape in Shape::ALL {
            for n in [0, 1, 40, 3000] {
                let columns = columns(shape, n, limits);
                assert!(columns.keys.iter().chain(&columns.absent).all(|&key| key < 1 << 20));
                assert!(columns.wide.len() > 100 && columns.wide.iter().all(|&key| key >= 1 << 20));
                assert!(counts(&columns).len() <= 60);
                let note = columns.cut.unwrap_or_default();
                assert_eq!(note.contains("20 bits"), n > 0);
                assert_eq!(note.contains("60 keys"), n == 3000, "{shape:?} {n}");
            }
        }
    }
}
