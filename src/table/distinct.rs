//! Removes duplicates: finds the keys that occur more than once, and keeps one pair of each.
//!
//! ```text
//! find duplicate keys     a canonical bucketized table of the keys: two duplicates meet in a bucket. If its attempts
//!                         fail, which chosen keys can cause, a sort: two duplicates become neighbours
//! choose the pair         a stable sort by key; the first pair of each run (KeepFirst), or the last (KeepLast)
//! ```
//!
//! The cost does not depend on how often a key occurs: duplicates take no slots, so the table can be built for any
//! multiplicity, and runs are cut into equal pieces. The result is the same on every device.
//!
//! Why not one algorithm for both: a table of positions could also choose the pair, at the cost of two random accesses
//! per pair and one for its value. The sort moves the values along, and reads memory in order
//! (docs/performance/h200-structures.md).

use std::cmp::Ordering;

use super::builder::Duplicates;
use super::{Pairs, PairsOf, salt};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Kernels, Relational, Runs, Word};
use crate::error::{Error, Result};
use crate::scheme::{FIRST_SALTED, Key, Kind, Load, Plan, Request, Scheme, Value};

/// Far below the load at which builds fail, so that a second attempt is rare.
const LOAD: Load = Load::from_millionths(800_000);
/// Attempts before a sort is used instead. Only keys chosen against the hash functions need the sort.
const ATTEMPTS: u32 = 4;
/// Salted attempts after the sort.
const SALTED_ATTEMPTS: u32 = 64;
const SEED: u64 = 0x0064_6973_7469_6e63;

/// The smallest key that occurs more than once.
pub(super) fn least_duplicate<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &B::Buffer<K>) -> Result<Option<K>> {
    let rows = backend.iota(keys.len())?;
    match positions_by_table(backend, keys, &rows)? {
        Some(table) => Ok(table.least_duplicate),
        None => sorted(backend, keys, &rows)?.least_duplicate(backend),
    }
}

/// A bitmap of the `keys` that are among `wanted`, which may contain duplicates.
pub(super) fn among<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
    wanted: &B::Buffer<K>,
) -> Result<B::Buffer<u32>> {
    let table = positions(backend, wanted, &backend.filled(wanted.len(), 0)?)?;
    backend.contains(&table.plan, &table.image, keys)
}

/// The pairs that are kept under `rule`, in ascending order of keys.
pub(super) fn one_of_each<B: Relational, K: Key, V: Value>(
    backend: &B,
    keys: &B::Buffer<K>,
    values: &B::Buffer<V>,
    rule: Duplicates,
) -> Result<Pairs<B, K, V>> {
    let (keys, values) = backend.sort_pairs(keys, values)?;
    let kept = if rule == Duplicates::KeepFirst { backend.heads(&keys)? } else { backend.tails(&keys)? };
    Pairs { keys, values }.select(backend, &kept, true)
}

/// The value of one key in pairs in ascending order of keys. A binary search, with a read from the device per step.
pub(super) fn value_of<B: HashBackend, K: Key, V: Value>(
    backend: &B,
    sorted: &Pairs<B, K, V>,
    key: K,
) -> Result<Option<V>> {
    let mut word = [K::default()];
    let (mut low, mut high) = (0, sorted.keys.len());
    while low < high {
        let middle = low.midpoint(high);
        backend.read(&sorted.keys, middle, &mut word)?;
        match word[0].cmp(&key) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => {
                let mut value = [V::default()];
                backend.read(&sorted.values, middle, &mut value)?;
                return Ok(Some(value[0]));
            }
        }
    }
    Ok(None)
}

/// The pairs in an image, in slot order.
pub(crate) fn occupied<B: Kernels<S>, S: Scheme>(
    backend: &B,
    plan: &S::Plan,
    image: &B::Buffer<u64>,
) -> Result<PairsOf<B, S>> {
    let Decoded { keys, values, taken } = backend.decode(plan, image)?;
    Pairs { keys, values }.select(backend, &taken, true)
}

impl<B: HashBackend, K: Key, V: Word> Pairs<B, K, V> {
    /// The pairs whose bit equals `keep`, in order.
    pub(super) fn select(&self, backend: &B, bits: &B::Buffer<u32>, keep: bool) -> Result<Self> {
        let (keys, values) = backend.select_pairs(bits, keep, &self.keys, &self.values)?;
        Ok(Pairs { keys, values })
    }
}

impl<B: Relational, K: Key, V: Word> Pairs<B, K, V> {
    /// The smallest duplicate key in pairs in ascending order of keys.
    fn least_duplicate(&self, backend: &B) -> Result<Option<K>> {
        let duplicates = backend.select(&backend.heads(&self.keys)?, false, &self.keys)?;
        let mut least = [K::default()];
        if duplicates.is_empty() {
            return Ok(None);
        }
        backend.read(&duplicates, 0, &mut least)?;
        Ok(Some(least[0]))
    }
}

/// A canonical bucketized table, and whether there were duplicate keys.
pub(crate) struct Positions<B: Kernels<K::Rows>, K: Key> {
    pub(crate) plan: <K::Rows as Scheme>::Plan,
    pub(crate) image: B::Buffer<u64>,
    pub(crate) least_duplicate: Option<K>,
}

/// A table that keeps, for each key, the pair with the greatest value.
///
/// The seed is fixed, so keys can be chosen for which all attempts fail. In that case a sort finds the duplicates, and
/// the table is built from one pair per key with salted constants. Only the order of its slots differs.
pub(crate) fn positions<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
    values: &B::Buffer<u32>,
) -> Result<Positions<B, K>> {
    match positions_by_table(backend, keys, values)? {
        Some(table) => Ok(table),
        None => positions_by_sort(backend, keys, values),
    }
}

/// `None` if all attempts fail, or if there are too many rows for a table.
fn positions_by_table<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
    values: &B::Buffer<u32>,
) -> Result<Option<Positions<B, K>>> {
    for attempt in 0..ATTEMPTS {
        let plan = match plan::<K>(keys, attempt) {
            Err(Error::TooLarge { .. }) => return Ok(None),
            plan => plan?,
        };
        let (image, placed) = Kernels::<K::Rows>::build(backend, &plan, keys, values)?;
        if placed.unplaced == 0 {
            return Ok(Some(Positions { plan, image, least_duplicate: placed.least_duplicate }));
        }
    }
    Ok(None)
}

/// The pairs in ascending order of keys, and of values within a key.
fn sorted<B: Relational, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
    values: &B::Buffer<u32>,
) -> Result<Pairs<B, K, u32>> {
    // The sort by keys is stable, so the values of a key stay in order.
    let (values, keys) = backend.sort_pairs(values, keys)?;
    let (keys, values) = backend.sort_pairs(&keys, &values)?;
    Ok(Pairs { keys, values })
}

/// As [`positions`], for keys for which all attempts fail: two sorts, and one or a few builds.
fn positions_by_sort<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &B::Buffer<K>,
    values: &B::Buffer<u32>,
) -> Result<Positions<B, K>> {
    let sorted = sorted(backend, keys, values)?;
    let least_duplicate = sorted.least_duplicate(backend)?;
    let pairs = sorted.select(backend, &backend.tails(&sorted.keys)?, true)?;
    drop(sorted);
    let salt = salt::of(backend, SEED, &pairs.keys)?;
    let mut unplaced = 0;
    for attempt in (FIRST_SALTED..).take(SALTED_ATTEMPTS as usize) {
        let plan = plan::<K>(&pairs.keys, attempt)?.with_salt(Some(salt));
        let (image, placed) = Kernels::<K::Rows>::build(backend, &plan, &pairs.keys, &pairs.values)?;
        if placed.unplaced == 0 {
            return Ok(Positions { plan, image, least_duplicate });
        }
        unplaced = placed.unplaced;
    }
    let (pairs, slots, attempts) = (pairs.keys.len() as u64, LOAD.slots_for(pairs.keys.len() as u64), SALTED_ATTEMPTS);
    Err(Error::TooFull { pairs, slots, attempts, unplaced, by_load: false })
}

/// The plan of an attempt at a table of this many keys.
fn plan<K: Key>(keys: &impl DeviceBuffer, attempt: u32) -> Result<<K::Rows as Scheme>::Plan> {
    let pairs = keys.len() as u64;
    K::Rows::of_kind(Kind::Canonical).plan(Request { slots: LOAD.slots_for(pairs), pairs, seed: SEED, attempt })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cpu;
    use crate::scheme::hash::SplitMix64;

    /// Both functions return the same smallest duplicate, and the same greatest value of each key.
    #[test]
    fn sort_and_table_report_the_same() -> Result<()> {
        let cpu = Cpu::new();
        let mut stream = SplitMix64::new(5);
        for (len, keys) in [(0, 1), (1, 1), (300, 50), (300, u32::MAX), (20_000, 9_000)] {
            let column: Vec<u32> = (0..len).map(|_| stream.next_u32() % keys).collect();
            let values: Vec<u32> = (0..len).map(|_| stream.next_u32()).collect();
            let (column, values) = (cpu.upload(&column)?, cpu.upload(&values)?);
            let direct = positions(&cpu, &column, &values)?;
            let sorted = positions_by_sort(&cpu, &column, &values)?;
            assert_eq!(sorted.least_duplicate, direct.least_duplicate, "{len} rows");
            let mut lists = Vec::new();
            for table in [direct, sorted] {
                let pairs = occupied::<Cpu, crate::Bucketized>(&cpu, &table.plan, &table.image)?;
                let (keys, values) = (cpu.download(&pairs.keys)?, cpu.download(&pairs.values)?);
                let mut list: Vec<_> = keys.into_iter().zip(values).collect();
                list.sort_unstable();
                lists.push(list);
            }
            assert_eq!(lists[0], lists[1], "{len} rows");
        }
        Ok(())
    }
}
