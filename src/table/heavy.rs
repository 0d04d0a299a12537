//! Drops the duplicates of heavy keys before a build.
//!
//! ```text
//! heavy     a key with at least a 64th of the sample (`sample.rs`)
//! kept      its first pair among the first rows, or its last among the last rows; the host reads these rows
//! others    look up all rows in a small table of the heavy keys, and select those that do not match
//! ```
//!
//! A heavy key that does not occur among the rows that the host reads is ignored. The result may contain duplicates of
//! other keys (`distinct.rs` finds those), so this step is only useful if the sample shows none.

use super::builder::Duplicates;
use super::{Pairs, distinct};
use crate::backend::{DeviceBuffer, HashBackend, Runs};
use crate::error::Result;
use crate::memory;
use crate::scheme::{Key, Value};

/// The number of first or last rows in which the pair to keep is searched. A key with 1/64 of all rows, in random
/// order, is missing from them with probability e^-256.
const WINDOW: usize = 1 << 14;

/// The pairs without those of the heavy keys in the window, followed by the pair of each heavy key that is kept under
/// `rule`. `None` if the window has no pair of a heavy key.
pub(super) fn without_heavy_keys<B: Runs<K::Rows>, K: Key, V: Value>(
    backend: &B,
    keys: &B::Buffer<K>,
    values: &B::Buffer<V>,
    rule: Duplicates,
    heavy: &[K],
) -> Result<Option<Pairs<B, K, V>>> {
    if heavy.is_empty() {
        return Ok(None);
    }
    let kept_pairs = kept_pairs(backend, keys, values, rule, heavy)?;
    if kept_pairs.is_empty() {
        return Ok(None);
    }
    let (kept_keys, kept_values): (Vec<K>, Vec<V>) = kept_pairs.into_iter().unzip();
    let kept = Pairs::<B, K, V> { keys: backend.upload(&kept_keys)?, values: backend.upload(&kept_values)? };
    let out = distinct::among::<B, K>(backend, keys, &kept.keys)?;
    let (keys, values) = backend.select_pairs(&out, false, keys, values)?;
    Pairs { keys, values }.followed_by(backend, &kept.keys, &kept.values).map(Some)
}

/// The kept pair of each of these keys that occurs in the window.
fn kept_pairs<B: HashBackend, K: Key, V: Value>(
    backend: &B,
    keys: &B::Buffer<K>,
    values: &B::Buffer<V>,
    rule: Duplicates,
    heavy: &[K],
) -> Result<Vec<(K, V)>> {
    let len = keys.len().min(WINDOW);
    let at = if rule == Duplicates::KeepFirst { 0 } else { keys.len() - len };
    let (mut some_keys, mut some_values) = (memory::zeroed(len)?, memory::zeroed(len)?);
    backend.read(keys, at, &mut some_keys)?;
    backend.read(values, at, &mut some_values)?;
    let place = |key: &K| match rule {
        Duplicates::KeepFirst => some_keys.iter().position(|other| other == key),
        _ => some_keys.iter().rposition(|other| other == key),
    };
    Ok(heavy.iter().filter_map(|key| place(key).map(|i| (*key, some_values[i]))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cpu;
    use crate::table::sample::Sample;
    use std::collections::BTreeMap;

    /// Enough rows for a sample. Keys are distinct, except for those that `heavy` returns.
    fn rows(heavy: impl Fn(usize) -> Option<u32>) -> (Vec<u32>, Vec<u32>) {
        let keys = (0..1 << 18).map(|i| heavy(i).unwrap_or((i as u32).wrapping_mul(0x9e37_79b1) | 1 << 31));
        (keys.collect(), (0..1 << 18).collect())
    }

    fn kept(keys: &[u32], values: &[u32], rule: Duplicates) -> Result<Option<BTreeMap<u32, u32>>> {
        let cpu = Cpu::new();
        let (keys, values) = (cpu.upload(keys)?, cpu.upload(values)?);
        let heavy = Sample::with_duplicates(&cpu, &keys)?.map_or(Vec::new(), |sample| sample.heavy_keys());
        let Some(pairs) = without_heavy_keys(&cpu, &keys, &values, rule, &heavy)? else { return Ok(None) };
        let (keys, values) = (cpu.download(&pairs.keys)?, cpu.download(&pairs.values)?);
        let map: BTreeMap<_, _> = keys.iter().copied().zip(values.iter().copied()).collect();
        assert_eq!(map.len(), keys.len(), "each key once");
        Ok(Some(map))
    }

    #[test]
    fn the_first_or_last_pair_of_heavy_keys_is_kept() -> Result<()> {
        // One key has half of all rows, and another a sixteenth.
        let (keys, values) = rows(|i| if i % 2 == 1 { Some(7) } else { (i % 16 == 4).then_some(9) });
        let mut last = BTreeMap::new();
        let mut first = BTreeMap::new();
        for (&key, &value) in keys.iter().zip(&values) {
            last.insert(key, value);
            first.entry(key).or_insert(value);
        }
        assert!(last.len() < keys.len() / 2 && last.len() > keys.len() / 3);
        assert_eq!(kept(&keys, &values, Duplicates::KeepLast)?, Some(last));
        assert_eq!(kept(&keys, &values, Duplicates::KeepFirst)?, Some(first));
        Ok(())
    }

    #[test]
    fn input_without_chunks_is_not_processed() -> Result<()> {
        let rule = Duplicates::KeepLast;
        let (keys, values) = rows(|_| None);
        assert_eq!(kept(&keys, &values, rule)?, None, "distinct keys");
        let (keys, values) = rows(|i| Some(i as u32 / 2));
        assert_eq!(kept(&keys, &values, rule)?, None, "every key twice, side by side");
        let (keys, values) = rows(|i| (50_000..150_000).contains(&i).then_some(7));
        assert_eq!(kept(&keys, &values, rule)?, None, "a heavy key far from the end");
        let (keys, values) = (vec![1; 1000], vec![2; 1000]);
        assert_eq!(kept(&keys, &values, rule)?, None, "too few for a sample");
        Ok(())
    }
}
