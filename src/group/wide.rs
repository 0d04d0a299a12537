//! The functions of [`group`](super) for keys of either width: a column's type says which.
//!
//! Those of `group` itself take `u32` keys, so that literals need no type there. For columns on a device the type is given
//! in the call, `unique_on::<_, u64>`, because a buffer's type does not tell it.
//!
//! ```
//! use koel::{Cpu, IdOrder, group};
//! let ids: [u64; 4] = [7 << 40, 3, 7 << 40, u64::MAX];
//! assert_eq!(group::wide::unique(&Cpu::new(), &ids, IdOrder::Ascending)?, [3, 7 << 40, u64::MAX]);
//! let (unique, inverse) = group::wide::factorize(&Cpu::new(), &ids, IdOrder::FirstSeen)?;
//! assert_eq!((unique, inverse), (vec![7 << 40, 3, u64::MAX], vec![0, 1, 0, 2]));
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! Errors and costs are those of the functions of the same names; a key of 64 bits takes 8 bytes where one of 32 takes 4, and
//! columns by first appearance a bucketized table where those of `u32` take a cuckoo table.

use super::groups::{check_values, wanted};
use super::numbering::{Numbered, distinct_keys, numbered, of_sorted};
use super::{Aggregate, DeviceGroups, Groups, IdOrder, aggregated};
use crate::backend::{BufferOf, BuffersOf, DeviceBuffer, Runs};
use crate::error::{Error, Result};
use crate::scheme::Key;

/// As [`group::unique`](super::unique).
///
/// # Errors
/// As there.
pub fn unique<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &[K], order: IdOrder) -> Result<Vec<K>> {
    Error::check_rows("rows", keys.len())?;
    backend.download(&distinct_keys::<B, K>(backend, &backend.upload(keys)?, order)?)
}

/// As [`group::unique_on`](super::unique_on).
///
/// # Errors
/// As there.
pub fn unique_on<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &BufferOf<B, K>,
    order: IdOrder,
) -> Result<BufferOf<B, K>> {
    Error::check_rows("rows", keys.len())?;
    distinct_keys::<B, K>(backend, keys, order)
}

/// As [`group::factorize`](super::factorize).
///
/// # Errors
/// As there.
pub fn factorize<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &[K], order: IdOrder) -> Result<(Vec<K>, Vec<u32>)> {
    Error::check_rows("rows", keys.len())?;
    let (unique, inverse) = factorize_on::<B, K>(backend, &backend.upload(keys)?, order)?;
    Ok((backend.download(&unique)?, backend.download(&inverse)?))
}

/// As [`group::factorize_on`](super::factorize_on).
///
/// # Errors
/// As there.
pub fn factorize_on<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &BufferOf<B, K>,
    order: IdOrder,
) -> Result<BuffersOf<B, K, u32>> {
    Error::check_rows("rows", keys.len())?;
    let Numbered { unique, ids } = numbered::<B, K>(backend, keys, order)?;
    Ok((unique, ids))
}

/// As [`group::group_by`](super::group_by).
///
/// # Errors
/// As there.
pub fn group_by<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &[K],
    values: &[u32],
    aggregates: &[Aggregate],
    order: IdOrder,
) -> Result<Groups<K>> {
    check_values(values.len(), keys.len(), aggregates)?;
    Error::check_rows("rows", keys.len())?;
    let values = if wanted(aggregates).values() { values } else { &[] };
    let (keys, values) = (backend.upload(keys)?, backend.upload(values)?);
    group_by_on::<B, K>(backend, &keys, &values, aggregates, order)?.download(backend)
}

/// As [`group::group_by_on`](super::group_by_on).
///
/// # Errors
/// As there.
pub fn group_by_on<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &BufferOf<B, K>,
    values: &BufferOf<B, u32>,
    aggregates: &[Aggregate],
    order: IdOrder,
) -> Result<DeviceGroups<B, K>> {
    check_values(values.len(), keys.len(), aggregates)?;
    Error::check_rows("rows", keys.len())?;
    if order == IdOrder::FirstSeen {
        let Numbered { unique, ids } = numbered::<B, K>(backend, keys, order)?;
        return aggregated(backend, unique, &ids, values, aggregates);
    }
    if !wanted(aggregates).values() {
        // Where no values are wanted, the keys stand in for them.
        let (sorted, _) = backend.sort_pairs(keys, keys)?;
        let Numbered { unique, ids } = of_sorted::<B, K>(backend, &sorted)?;
        return aggregated(backend, unique, &ids, values, aggregates);
    }
    let (sorted, brought) = backend.sort_pairs(keys, values)?;
    let Numbered { unique, ids } = of_sorted::<B, K>(backend, &sorted)?;
    drop(sorted);
    aggregated(backend, unique, &ids, &brought, aggregates)
}
