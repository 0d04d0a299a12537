//! Sums of doubles by random `u64` keys, so that groups have different numbers of rows.
//!
//! ```text
//! rows per key  1 (no key occurs twice), 1 to 100 on average; or 1,000 and 16 keys in total
//! values        alike: multiples of 0.1 below 2^50
//!               mixed: the same, but every 64th is smaller by a factor of 2^-60, which is outside the column's window
//!               hostile: exponents over the whole range of doubles, so that all are outside of it
//! ```

use std::collections::HashMap;

use koel::backend::HashBackend;
use koel::device::Any;
use koel::scheme::hash::SplitMix64;
use koel::{Aggregate, ExactSum, IdOrder, group};

use super::{Case, Row, key};
use crate::wrong;
use koel_cli::failure::Result;

/// The name of a row, the number of keys for a number of rows, and the values.
const CASES: [(&str, Keys, Values); 9] = [
    ("distinct", Keys::Distinct, Values::Alike),
    ("1 a key", Keys::RowsEach(1), Values::Alike),
    ("4 a key", Keys::RowsEach(4), Values::Alike),
    ("4, mixed", Keys::RowsEach(4), Values::Mixed),
    ("4, hostile", Keys::RowsEach(4), Values::Hostile),
    ("100 a key", Keys::RowsEach(100), Values::Alike),
    ("1,000 keys", Keys::Many(1000), Values::Alike),
    ("16 keys", Keys::Many(16), Values::Alike),
    ("16 hostile", Keys::Many(16), Values::Hostile),
];

#[derive(Clone, Copy)]
enum Keys {
    Distinct,
    RowsEach(u64),
    Many(u64),
}

#[derive(Clone, Copy)]
enum Values {
    Alike,
    Mixed,
    Hostile,
}

impl Keys {
    fn column(self, rows: u64) -> Vec<u64> {
        let mut random = SplitMix64::new(1);
        let mut among = |keys: u64| (0..rows).map(|_| key(random.next_u64() % keys.max(1))).collect();
        match self {
            Keys::Distinct => (0..rows).map(key).collect(),
            Keys::RowsEach(each) => among(rows / each),
            Keys::Many(keys) => among(keys),
        }
    }
}

impl Values {
    fn column(self, rows: u64) -> Vec<u64> {
        let mut random = SplitMix64::new(2);
        let mut value = |row: u64| {
            let bits = random.next_u64();
            let alike = (bits >> 14) as f64 * 0.1;
            match self {
                // All exponents except that of infinities.
                Values::Hostile if bits >> 52 & 0x7ff == 0x7ff => f64::from_bits(bits ^ 1 << 62),
                Values::Hostile => f64::from_bits(bits),
                Values::Mixed if row.is_multiple_of(64) => alike * 2_f64.powi(-60),
                Values::Alike | Values::Mixed => alike,
            }
        };
        (0..rows).map(|row| value(row).to_bits()).collect()
    }
}

impl Case<'_> {
    /// Sums of doubles by key, compared with exact sums in a plain map.
    pub(super) fn sums(&self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for (name, keys, values) in CASES {
            let (keys, values) = (keys.column(self.n), values.column(self.n));
            let (unique, sums) = right(&keys, &values);
            let (keys, values) = (self.device.upload(&keys)?, self.device.upload(&values)?);
            for (what, order) in [("first", IdOrder::FirstSeen), ("ascending", IdOrder::Ascending)] {
                let wanted = [Aggregate::Sum];
                let work = || group::wide::group_by_on::<Any, u64, f64>(self.device, &keys, &values, &wanted, order);
                let (groups, row) = self.timed(what, self.n, (name, None, None), work)?;
                rows.push(row);
                let groups = groups.download(self.device)?;
                let mut numbers: Vec<usize> = (0..unique.len()).collect();
                if order == IdOrder::Ascending {
                    numbers.sort_unstable_by_key(|&number| unique[number]);
                }
                let is_right = |(i, &number): (usize, &usize)| {
                    groups.keys[i] == unique[number] && groups.sums[i].to_bits() == sums[number].to_bits()
                };
                if groups.len() != unique.len() || !numbers.iter().enumerate().all(is_right) {
                    return Err(wrong(self.columns, format!("{name}, {what}: there are other groups or sums")));
                }
            }
        }
        Ok(rows)
    }
}

/// Distinct keys in order of first occurrence, and their sums.
fn right(keys: &[u64], values: &[u64]) -> (Vec<u64>, Vec<f64>) {
    let (mut unique, mut ids) = (Vec::new(), HashMap::with_capacity(keys.len()));
    let mut rows: Vec<(u32, f64)> = Vec::with_capacity(keys.len());
    for (&key, &value) in keys.iter().zip(values) {
        let id = *ids.entry(key).or_insert_with(|| {
            unique.push(key);
            unique.len() as u32 - 1
        });
        rows.push((id, f64::from_bits(value)));
    }
    drop(ids);
    rows.sort_unstable_by_key(|row| row.0);
    let sum = |rows: &[(u32, f64)]| {
        let mut exact = ExactSum::default();
        rows.iter().for_each(|row| exact.add(row.1));
        exact.sum()
    };
    let sums = rows.chunk_by(|a, b| a.0 == b.0).map(sum).collect();
    (unique, sums)
}
