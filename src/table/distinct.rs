//! One pair of each key: which keys come more than once, and which of their pairs stays.
//!
//! ```text
//! a canonical cuckoo table of  key -> position     (KeepLast)
//!                          or  key -> !position    (KeepFirst)
//! ```
//!
//! Where two copies of a key meet in such a table the greater word stays, that is, the later or the earlier position;
//! and copies take no slots, so the table builds whatever the multiplicity. What stands in it at the end is one
//! position for each key, the same on every device. It is neither a sort nor a second hash table of its own kind: the
//! one rule of `spec/cuckoo/canonical.rs` does it, in about two random accesses a pair.

use super::Pairs;
use super::builder::Duplicates;
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Kernels, bitmap_words};
use crate::error::{Error, Result};
use crate::spec::{Cuckoo, Load, Plan, Request, Scheme};

/// Far from where four functions fail, so that a second attempt is rare.
const LOAD: Load = Load::from_millionths(800_000);
const ATTEMPTS: u32 = 64;
/// Neighbours in a sample, and how many such runs.
const RUN: u32 = 64;
const RUNS: u64 = 64;
/// The fewest keys that are sampled: below, a build that finds its copies late is soon over too.
const LEAST_SAMPLED: u64 = 1 << 18;
const SEED: u64 = 0x0064_6973_7469_6e63;

/// The smallest key that comes more than once.
pub(super) fn least_copy<B: Kernels<Cuckoo>>(backend: &B, keys: &B::Buffer<u32>) -> Result<Option<u32>> {
    Ok(positions(backend, keys, keys)?.least_copy)
}

/// Whether a sample of the keys holds copies. It says no of most inputs in which few keys come again, and surely if
/// none does; it says yes where keys crowd, before a build has to find that out at the cost of all its rounds.
///
/// The sample is runs of neighbours, spread evenly: copies that stand together are seen in a run, and scattered ones
/// meet across runs, as soon as there are fewer than some millions of keys or one has a thousandth of the rows.
pub(super) fn sampled_copies<B: Kernels<Cuckoo>>(backend: &B, keys: &B::Buffer<u32>) -> Result<bool> {
    let len = keys.len() as u64;
    if !(LEAST_SAMPLED..=u64::from(u32::MAX)).contains(&len) {
        return Ok(false);
    }
    let last = len - u64::from(RUN);
    let run = |run: u64| (last * run / (RUNS - 1)) as u32;
    let index: Vec<u32> = (0..RUNS).flat_map(|r| (0..RUN).map(move |i| run(r) + i)).collect();
    let sample = backend.gather(keys, &backend.upload(&index)?)?;
    Ok(least_copy(backend, &sample)?.is_some())
}

/// A bitmap of which `keys` are among `wanted`, whose keys may come more than once.
pub(super) fn among<B: Kernels<Cuckoo>>(
    backend: &B,
    keys: &B::Buffer<u32>,
    wanted: &B::Buffer<u32>,
) -> Result<B::Buffer<u32>> {
    let table = positions(backend, wanted, wanted)?;
    let mut values = backend.filled(keys.len(), 0)?;
    let mut found = backend.filled(bitmap_words(keys.len()), 0)?;
    backend.lookup(&table.plan, &table.image, keys, &mut values, &mut found)?;
    Ok(found)
}

/// A batch in which every key comes once.
pub(super) struct Batch<B: HashBackend> {
    /// The pairs that stay, in an order that is the same on every device.
    pub(super) pairs: Pairs<B>,
    /// The value that stays for the key that was asked about, if it is among them.
    pub(super) watched: Option<u32>,
}

/// The pairs that stay under `rule`; and what became of the key `watch`, whose value is wanted on the host.
pub(super) fn one_of_each<B: Kernels<Cuckoo>>(
    backend: &B,
    keys: &B::Buffer<u32>,
    values: &B::Buffer<u32>,
    rule: Duplicates,
    watch: Option<u32>,
) -> Result<Batch<B>> {
    let first_wins = rule == Duplicates::KeepFirst;
    let mut position = backend.iota(keys.len())?;
    if first_wins {
        backend.complement(&mut position)?;
    }
    let table = positions(backend, keys, &position)?;
    drop(position);
    let watched = match watch {
        None => None,
        Some(key) => value_of(backend, &table, key)?.map(|at| if first_wins { !at } else { at }),
    };
    let mut kept = occupied(backend, &table.plan, &table.image)?;
    drop(table.image);
    if first_wins {
        backend.complement(&mut kept.values)?;
    }
    let pairs = Pairs { values: backend.gather(values, &kept.values)?, keys: kept.keys };
    let mut value = [0];
    if let Some(at) = watched {
        backend.read(values, at as usize, &mut value)?;
    }
    Ok(Batch { pairs, watched: watched.map(|_| value[0]) })
}

/// What a table of positions holds for one key.
fn value_of<B: Kernels<Cuckoo>>(backend: &B, table: &Positions<B>, key: u32) -> Result<Option<u32>> {
    let query = backend.upload(&[key])?;
    let (mut value, mut found) = (backend.filled(1, 0)?, backend.filled(1, 0)?);
    backend.lookup(&table.plan, &table.image, &query, &mut value, &mut found)?;
    let (value, found) = (backend.download(&value)?, backend.download(&found)?);
    Ok((found == [1]).then(|| value[0]))
}

/// The pairs in an image, in slot order.
pub(crate) fn occupied<B: Kernels<S>, S: Scheme>(
    backend: &B,
    plan: &S::Plan,
    image: &B::Buffer<u64>,
) -> Result<Pairs<B>> {
    let Decoded { keys, values, taken } = backend.decode(plan, image)?;
    Pairs { keys, values }.select(backend, &taken, true)
}

impl<B: HashBackend> Pairs<B> {
    /// The pairs whose bit is `keep`, in their order.
    pub(super) fn select(&self, backend: &B, bits: &B::Buffer<u32>, keep: bool) -> Result<Pairs<B>> {
        let mut columns = backend.select(bits, keep, &[&self.keys, &self.values])?.into_iter();
        match (columns.next(), columns.next()) {
            (Some(keys), Some(values)) => Ok(Pairs { keys, values }),
            _ => unreachable!("`select` returns as many columns as it is given"),
        }
    }
}

/// A canonical cuckoo table, and whether keys came more than once.
pub(crate) struct Positions<B: Kernels<Cuckoo>> {
    pub(crate) plan: <Cuckoo as Scheme>::Plan,
    pub(crate) image: B::Buffer<u64>,
    pub(crate) least_copy: Option<u32>,
}

/// A table in which of all pairs with one key the one with the greatest value stays.
pub(crate) fn positions<B: Kernels<Cuckoo>>(
    backend: &B,
    keys: &B::Buffer<u32>,
    values: &B::Buffer<u32>,
) -> Result<Positions<B>> {
    let scheme = Cuckoo::canonical(4);
    let pairs = keys.len() as u64;
    let mut unplaced = 0;
    for attempt in 0..ATTEMPTS {
        let plan = scheme.plan(Request { slots: LOAD.slots_for(pairs), pairs, seed: SEED, attempt })?;
        let mut image = backend.filled(super::build::word_count(&plan)?, plan.empty_word())?;
        let placed = Kernels::<Cuckoo>::place(backend, &plan, &mut image, keys, values)?;
        if placed.unplaced == 0 {
            return Ok(Positions { plan, image, least_copy: placed.least_copy });
        }
        unplaced = placed.unplaced;
    }
    Err(Error::TooFull { pairs, slots: LOAD.slots_for(pairs), attempts: ATTEMPTS, unplaced })
}
