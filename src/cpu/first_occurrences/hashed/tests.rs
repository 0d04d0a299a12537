//! Tables of chosen keys: how far from home a key may be stored, and what makes an attempt fail.

use super::*;
use crate::backend::join_rows::NO_ROW;
use crate::cpu::Cpu;
use crate::scheme::hash::SplitMix64;

/// An expected number of keys slightly above [`FEW`].
const EXPECTED: usize = 4200;
const SEED: u64 = 0x6669_7273_7473;

/// Distinct keys whose hashes in the first attempt have these upper bits.
fn keys_of<K: Key>(upper: impl Fn(u64) -> bool, count: usize) -> Vec<K> {
    let mut stream = SplitMix64::new(5);
    let keys = std::iter::repeat_with(|| K::low(stream.next_u64() | 1));
    let mut keys: Vec<K> = keys.filter(|&key| upper(mixed(key.into(), mixed(1, SEED)))).take(count + 9).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.truncate(count);
    assert_eq!(keys.len(), count);
    keys
}

/// Distinct keys whose home is the first line of a table for [`EXPECTED`] keys.
fn at_front<K: Key>(count: usize) -> Vec<K> {
    keys_of(|hash| hash >> 53 == 0, count)
}

/// The table of the first attempt, on this number of threads.
fn table<K: Key>(keys: &[K], threads: usize) -> Result<Option<(Hashed<K>, usize)>> {
    Cpu::with_threads(threads)?.run(|| Hashed::of(keys, EXPECTED, 0)).flatten()
}

fn found<K: Key>(table: &Hashed<K>, queries: &[K]) -> Vec<u32> {
    let mut rows = vec![7; queries.len()];
    table.look(queries, &mut rows);
    rows
}

/// A key that is far from home and occurs in every row costs time, but does not make the attempt fail.
fn far_key<K: Key>() -> Result<()> {
    // The last key is stored twelve lines after its home.
    let front = at_front::<K>(12 * slots::<K>() + 1);
    let far = front[front.len() - 1];
    let keys: Vec<K> = front.iter().copied().chain(std::iter::repeat_n(far, 20 * CHUNK)).collect();
    for threads in [1, 2] {
        let (table, distinct) = table(&keys, threads)?.expect("a table");
        assert_eq!(distinct, front.len());
        assert_eq!(found(&table, &front), (0..front.len() as u32).collect::<Vec<_>>());
        assert!(found(&table, &keys[front.len()..]).iter().all(|&row| row as usize == front.len() - 1));
    }
    Ok(())
}

#[test]
#[cfg_attr(miri, ignore = "keys are looked for among many")]
fn a_far_duplicate_does_not_end_the_attempt() -> Result<()> {
    far_key::<u32>()?;
    far_key::<u64>()
}

/// As many keys with one home as fit within reach, and one more.
fn reach<K: Key>() -> Result<()> {
    let most = REACH * slots::<K>();
    // Other keys far from them, so that the average distance of new keys is small.
    let (front, others) = (at_front::<K>(most + 1), keys_of::<K>(|hash| hash >> 63 == 1, 1000));
    let keys = [&front[..most], &others].concat();
    for threads in [1, 2] {
        let (table, distinct) = table(&keys, threads)?.expect("a table");
        assert_eq!(distinct, keys.len());
        assert_eq!(found(&table, &keys), (0..keys.len() as u32).collect::<Vec<_>>());
        // It probes all lines within reach, none of which has a free slot, and is not found.
        assert_eq!(found(&table, &front[most..]), [NO_ROW]);
    }
    assert!(table(&[&front[..], &others].concat(), 1)?.is_none());
    Ok(())
}

#[test]
#[cfg_attr(miri, ignore = "keys are looked for among many")]
fn no_key_is_stored_beyond_reach() -> Result<()> {
    reach::<u32>()?;
    reach::<u64>()
}

/// A wrong estimate is corrected before memory is allocated for rows.
#[test]
fn the_second_attempt_has_capacity_for_twice_the_keys() -> Result<()> {
    let keys: Vec<u64> = (0..80_000).map(|i| (i % 10_000 + 1_u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let cpu = Cpu::with_threads(1)?;
    let lines = |attempt| -> Result<usize> {
        let (table, distinct) = cpu.run(|| Hashed::of(&keys, 10_000, attempt)).flatten()?.expect("a table");
        assert_eq!(distinct, 10_000);
        Ok(table.lines.words().len() / LINE - REACH - 8)
    };
    let of_keys = |keys: usize| keys * 100 / FILLED / slots::<u64>();
    assert_eq!([lines(0)?, lines(1)?, lines(2)?], [10_000, 20_000, 80_000].map(of_keys));
    Ok(())
}
