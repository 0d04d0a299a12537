//! The sequential reference: ordered maps on the host, which share no code with the library.

use std::collections::BTreeMap;

use super::columns::Columns;
use crate::number::Word;

/// The rows of each key, and the order of keys.
pub(super) struct Model<K = u32> {
    /// The row numbers of each key, in ascending order.
    pub(super) rows: BTreeMap<K, Vec<u32>>,
    /// The distinct keys, in order of first occurrence.
    pub(super) first_seen: Vec<K>,
}

impl<K: Word> Model<K> {
    pub(super) fn new(columns: &Columns<K>) -> Self {
        let (mut rows, mut first_seen) = (BTreeMap::<K, Vec<u32>>::new(), Vec::new());
        for (row, &key) in (0u32..).zip(&columns.keys) {
            let of_key = rows.entry(key).or_default();
            if of_key.is_empty() {
                first_seen.push(key);
            }
            of_key.push(row);
        }
        Model { rows, first_seen }
    }

    /// The distinct keys, ascending.
    pub(super) fn ascending(&self) -> Vec<K> {
        self.rows.keys().copied().collect()
    }

    /// The heaviest key, repeated so often that its rows, counted once per repetition, exceed 2^32; and the number of
    /// these rows. `None` if that would take too many repetitions.
    pub(super) fn past_32_bits(&self) -> Option<(Vec<K>, u64)> {
        let (&key, rows) = self.rows.iter().max_by_key(|(_, rows)| rows.len())?;
        let times = (1u64 << 32) / rows.len() as u64 + 1;
        (rows.len() >= 1 << 12).then(|| (vec![key; times as usize], times * rows.len() as u64))
    }

    /// The row numbers of a key.
    pub(super) fn of(&self, key: K) -> &[u32] {
        self.rows.get(&key).map_or(&[], Vec::as_slice)
    }
}

/// The position of each key in a list of distinct keys.
pub(super) fn numbers<K: Word>(keys: &[K]) -> BTreeMap<K, u32> {
    keys.iter().copied().zip(0..).collect()
}

/// Checks that two lists are equal.
///
/// # Errors
/// A sentence that describes the first difference.
pub(super) fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &[T], right: &[T]) -> Result<(), String> {
    if got.len() != right.len() {
        return Err(format!("{what}: {} where there should be {}", got.len(), right.len()));
    }
    match got.iter().zip(right).position(|(got, right)| got != right) {
        None => Ok(()),
        Some(at) => {
            let differing = got.iter().zip(right).filter(|(got, right)| got != right).count();
            let (got, right) = (&got[at], &right[at]);
            Err(format!("{what}: {differing} differ; the first is number {at}, {got:?} where {right:?} is right"))
        }
    }
}

/// Checks that two numbers are equal.
///
/// # Errors
/// A sentence with both numbers.
pub(in crate::verify) fn equal<T: PartialEq + std::fmt::Display>(what: &str, got: T, right: T) -> Result<(), String> {
    if got == right { Ok(()) } else { Err(format!("{what}: {got} where {right} is right")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_seen() {
        assert_eq!(same("x", &[1, 2], &[1, 2]), Ok(()));
        assert!(same("x", &[1, 2], &[1, 2, 3]).is_err());
        assert!(same("x", &[1, 4], &[1, 2]).is_err_and(|reason| reason.contains("number 1, 4 where 2")));
        assert!(equal("x", 1, 2).is_err() && equal("x", 2, 2).is_ok());
    }
}
