//! One pair of each key: which keys come more than once, and which of their pairs stays.
//!
//! ```text
//! which key comes again?     a canonical cuckoo table of the keys: two copies meet in a slot of it; if its attempts
//!                            fail, which keys can be chosen for, a sort: two copies stand side by side
//! which pair of it stays?    a stable sort by key; the first pair of each run (KeepFirst), or the last (KeepLast)
//! ```
//!
//! Neither minds how often a key comes: copies take no slots, so the table builds whatever the multiplicity, and runs
//! are cut into equal pieces. What is found is the same on every device.
//!
//! Why two ways: a table of positions can tell which pair stays as well, at the cost of two random accesses a pair and
//! one for its value. The sort moves the values along, and reads memory in order (docs/performance/h200-structures.md).

use std::cmp::Ordering;

use super::builder::Duplicates;
use super::{Pairs, salt};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Kernels, Relational, Runs};
use crate::error::{Error, Result};
use crate::scheme::{Cuckoo, FIRST_SALTED, Load, Plan, Request, Scheme};

/// Far from where four functions fail, so that a second attempt is rare.
const LOAD: Load = Load::from_millionths(800_000);
/// Attempts before the sort. Even of tables of 16 slots one in 2,000 attempts fails, so random keys do not come so far.
const ATTEMPTS: u32 = 4;
/// Salted attempts after it.
const SALTED_ATTEMPTS: u32 = 64;
const SEED: u64 = 0x0064_6973_7469_6e63;

/// The smallest key that comes more than once.
pub(super) fn least_copy<B: Runs<Cuckoo>>(backend: &B, keys: &B::Buffer<u32>) -> Result<Option<u32>> {
    match positions_by_table(backend, keys, keys)? {
        Some(table) => Ok(table.least_copy),
        None => sorted(backend, keys, keys)?.least_copy(backend),
    }
}

/// A bitmap of which `keys` are among `wanted`, whose keys may come more than once.
pub(super) fn among<B: Runs<Cuckoo>>(
    backend: &B,
    keys: &B::Buffer<u32>,
    wanted: &B::Buffer<u32>,
) -> Result<B::Buffer<u32>> {
    let table = positions(backend, wanted, wanted)?;
    backend.contains(&table.plan, &table.image, keys)
}

/// The pairs that stay under `rule`, in ascending order of keys.
pub(super) fn one_of_each<B: Relational>(
    backend: &B,
    keys: &B::Buffer<u32>,
    values: &B::Buffer<u32>,
    rule: Duplicates,
) -> Result<Pairs<B>> {
    let (keys, values) = backend.sort_pairs(keys, values)?;
    let staying = if rule == Duplicates::KeepFirst { backend.heads(&keys)? } else { backend.tails(&keys)? };
    Pairs { keys, values }.select(backend, &staying, true)
}

/// What pairs in ascending order of keys hold for one key. A read from the device a step of the halving.
pub(super) fn value_of<B: HashBackend>(backend: &B, sorted: &Pairs<B>, key: u32) -> Result<Option<u32>> {
    let mut word = [0];
    let (mut low, mut high) = (0, sorted.keys.len());
    while low < high {
        let middle = low.midpoint(high);
        backend.read(&sorted.keys, middle, &mut word)?;
        match word[0].cmp(&key) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => {
                backend.read(&sorted.values, middle, &mut word)?;
                return Ok(Some(word[0]));
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

impl<B: Relational> Pairs<B> {
    /// The smallest key that comes more than once, of pairs in ascending order of keys.
    fn least_copy(&self, backend: &B) -> Result<Option<u32>> {
        let copies = self.select(backend, &backend.heads(&self.keys)?, false)?.keys;
        let mut least = [0];
        if copies.is_empty() {
            return Ok(None);
        }
        backend.read(&copies, 0, &mut least)?;
        Ok(Some(least[0]))
    }
}

/// A canonical cuckoo table, and whether keys came more than once.
pub(crate) struct Positions<B: Kernels<Cuckoo>> {
    pub(crate) plan: <Cuckoo as Scheme>::Plan,
    pub(crate) image: B::Buffer<u64>,
    pub(crate) least_copy: Option<u32>,
}

/// A table in which of all pairs with one key the one with the greatest value stays.
///
/// The seed is fixed, so keys can be chosen for which all attempts fail. Then a sort finds the copies, and the table is
/// made of one pair of each key with salted constants. Who uses the table sees no difference but another order of its
/// slots.
pub(crate) fn positions<B: Runs<Cuckoo>>(
    backend: &B,
    keys: &B::Buffer<u32>,
    values: &B::Buffer<u32>,
) -> Result<Positions<B>> {
    match positions_by_table(backend, keys, values)? {
        Some(table) => Ok(table),
        None => positions_by_sort(backend, keys, values),
    }
}

/// `None` if all attempts fail, or no table has room for so many rows.
fn positions_by_table<B: Runs<Cuckoo>>(
    backend: &B,
    keys: &B::Buffer<u32>,
    values: &B::Buffer<u32>,
) -> Result<Option<Positions<B>>> {
    for attempt in 0..ATTEMPTS {
        let plan = match plan(keys, attempt) {
            Err(Error::TooLarge { .. }) => return Ok(None),
            plan => plan?,
        };
        let (image, placed) = Kernels::<Cuckoo>::build(backend, &plan, keys, values)?;
        if placed.unplaced == 0 {
            return Ok(Some(Positions { plan, image, least_copy: placed.least_copy }));
        }
    }
    Ok(None)
}

/// The pairs by ascending keys, those of a key by ascending values.
fn sorted<B: Relational>(backend: &B, keys: &B::Buffer<u32>, values: &B::Buffer<u32>) -> Result<Pairs<B>> {
    // The sort by keys is stable, so the values of a key stay in order.
    let (values, keys) = backend.sort_pairs(values, keys)?;
    let (keys, values) = backend.sort_pairs(&keys, &values)?;
    Ok(Pairs { keys, values })
}

/// The same for keys of any choice: by two sorts and, once or so, a table.
fn positions_by_sort<B: Runs<Cuckoo>>(
    backend: &B,
    keys: &B::Buffer<u32>,
    values: &B::Buffer<u32>,
) -> Result<Positions<B>> {
    let sorted = sorted(backend, keys, values)?;
    let least_copy = sorted.least_copy(backend)?;
    let pairs = sorted.select(backend, &backend.tails(&sorted.keys)?, true)?;
    drop(sorted);
    let salt = salt::of(backend, SEED, &pairs.keys)?;
    let mut unplaced = 0;
    for attempt in (FIRST_SALTED..).take(SALTED_ATTEMPTS as usize) {
        let plan = plan(&pairs.keys, attempt)?.with_salt(Some(salt));
        let (image, placed) = Kernels::<Cuckoo>::build(backend, &plan, &pairs.keys, &pairs.values)?;
        if placed.unplaced == 0 {
            return Ok(Positions { plan, image, least_copy });
        }
        unplaced = placed.unplaced;
    }
    let (pairs, slots, attempts) = (pairs.keys.len() as u64, LOAD.slots_for(pairs.keys.len() as u64), SALTED_ATTEMPTS);
    Err(Error::TooFull { pairs, slots, attempts, unplaced, by_load: false })
}

/// The plan of an attempt at a table of so many keys.
fn plan(keys: &impl DeviceBuffer, attempt: u32) -> Result<<Cuckoo as Scheme>::Plan> {
    let pairs = keys.len() as u64;
    Cuckoo::canonical(4).plan(Request { slots: LOAD.slots_for(pairs), pairs, seed: SEED, attempt })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cpu;
    use crate::scheme::hash::SplitMix64;

    /// Both ways are of use to the same callers: the same least copy, and of each key the greatest value.
    #[test]
    fn the_sort_tells_what_the_table_tells() -> Result<()> {
        let cpu = Cpu::new();
        let mut stream = SplitMix64::new(5);
        for (len, keys) in [(0, 1), (1, 1), (300, 50), (300, u32::MAX), (20_000, 9_000)] {
            let column: Vec<u32> = (0..len).map(|_| stream.next_u32() % keys).collect();
            let values: Vec<u32> = (0..len).map(|_| stream.next_u32()).collect();
            let (column, values) = (cpu.upload(&column)?, cpu.upload(&values)?);
            let direct = positions(&cpu, &column, &values)?;
            let sorted = positions_by_sort(&cpu, &column, &values)?;
            assert_eq!(sorted.least_copy, direct.least_copy, "{len} rows");
            let mut lists = Vec::new();
            for table in [direct, sorted] {
                let pairs = occupied::<Cpu, Cuckoo>(&cpu, &table.plan, &table.image)?;
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
