//! The functions of [`group`](super) for keys of either width and values of any type, determined by the type of the
//! column.
//!
//! The functions in `group` take `u32` columns, so that literals need no type there. For columns on a device, specify
//! the types in the call, `unique_on::<_, u64>` or `group_by_on::<_, u64, f64>`, because the type of a buffer does not
//! imply them.
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
//! # Values
//!
//! Values are `u32`, `u64`, `i64` or `f64`; convert `i32` and `f32` columns to `i64` and `f64` with `as`. A group's sum
//! is a `u64` for unsigned values, an `i64` for `i64` and an `f64` for `f64`. If an integer sum does not fit in 64
//! bits, the result is [`Error::SumTooLarge`], whatever the order of rows: intermediate sums do not overflow.
//!
//! ```
//! use koel::{Aggregate, Cpu, IdOrder, group};
//! let (keys, change) = ([7_u64, 3, 7], [-0.5, 8.0, 1e300]);
//! let wanted = [Aggregate::Sum, Aggregate::Min];
//! let groups = group::wide::group_by(&Cpu::new(), &keys, &change, &wanted, IdOrder::FirstSeen)?;
//! assert_eq!((groups.sums, groups.mins), (vec![1e300, 8.0], vec![-0.5, 8.0]));
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! # Sums and means of doubles
//!
//! Sums and means are exact: the real sum of the values, rounded once to the nearest double, ties to even; a mean is
//! the real sum divided by the count, rounded once. So they do not depend on the order of rows, on batches, threads or
//! the device. The sum is that of Python's `math.fsum`: an infinity if it is beyond the largest double, and +0.0 for
//! zeros.
//!
//! A group with a NaN, or with both infinities, has NaN as its sum and mean; a group with a NaN also has NaN as its
//! least and greatest value, with the bits 0x7ff8000000000000.
//!
//! # Costs
//!
//! Errors and costs are those of the functions with the same names. A key of 64 bits takes 8 bytes instead of 4. Sums
//! of `f64` take 16 bytes per group during the aggregation. Values that are smaller than the greatest one of the column
//! by a factor of 2^40 or more are added up separately by the host, after these values are sorted by group.
//!
//! On devices other than the CPU, a column of 2^21 rows or more with at least four rows per key on average is
//! aggregated by the slots of a hash table. There are two to four slots per group, more if groups are few, and at most
//! one per two rows and 2^21 in all. If that is not enough, rows are sorted. Each slot takes the memory of a key, of a
//! row number and of all aggregates of a group.

#[cfg(test)]
mod tests;

use super::groups::{check_values, of_row_numbers, wanted};
use super::number::Number;
use super::{Aggregate, DeviceGroups, Groups, IdOrder};
use crate::backend::{BufferOf, BuffersOf, DeviceBuffer, Runs};
use crate::columns::{ColumnOf, Columns, Numbered};
use crate::error::{Error, Result};
use crate::scheme::{Bucketized, Key};

/// As [`group::unique`](super::unique).
///
/// # Errors
/// As `group::unique`.
pub fn unique<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &[K], order: IdOrder) -> Result<Vec<K>> {
    Error::check_rows("rows", keys.len())?;
    backend.download(&backend.distinct(ColumnOf::Host(keys), order)?)
}

/// The first row of each distinct key, in ascending order: that of the keys by first occurrence.
///
/// # Errors
/// As [`group::unique`](super::unique).
#[doc(hidden)]
pub fn distinct_rows<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &[K]) -> Result<Vec<u32>> {
    Error::check_rows("rows", keys.len())?;
    backend.distinct_rows(keys)
}

/// As [`group::unique_on`](super::unique_on).
///
/// # Errors
/// As `group::unique_on`.
pub fn unique_on<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &BufferOf<B, K>,
    order: IdOrder,
) -> Result<BufferOf<B, K>> {
    Error::check_rows("rows", keys.len())?;
    backend.distinct(ColumnOf::<B, K>::Device(keys), order)
}

/// As [`group::factorize`](super::factorize).
///
/// # Errors
/// As `group::factorize`.
pub fn factorize<B: Runs<K::Rows>, K: Key>(backend: &B, keys: &[K], order: IdOrder) -> Result<(Vec<K>, Vec<u32>)> {
    Error::check_rows("rows", keys.len())?;
    backend.factorized(keys, order)
}

/// As [`group::factorize_on`](super::factorize_on).
///
/// # Errors
/// As `group::factorize_on`.
pub fn factorize_on<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &BufferOf<B, K>,
    order: IdOrder,
) -> Result<BuffersOf<B, K, u32>> {
    Error::check_rows("rows", keys.len())?;
    let Numbered { unique, ids } = backend.numbered(ColumnOf::<B, K>::Device(keys), order)?;
    Ok((unique, ids))
}

/// As [`group::group_by`](super::group_by).
///
/// # Errors
/// As `group::group_by`, and [`Error::SumTooLarge`] with the first key, in the order of the groups, whose sum does not
/// fit in 64 bits.
pub fn group_by<B: Runs<K::Rows>, K: Key, V: Number>(
    backend: &B,
    keys: &[K],
    values: &[V],
    aggregates: &[Aggregate],
    order: IdOrder,
) -> Result<Groups<K, V>> {
    check_values(values.len(), keys.len(), aggregates)?;
    Error::check_rows("rows", keys.len())?;
    let values = if wanted(aggregates).values() { values } else { &[] };
    let (keys, values) = (ColumnOf::Host(keys), ColumnOf::Host(bytemuck::cast_slice(values)));
    Columns::<K>::grouped::<V>(backend, keys, values, aggregates, order)?.download(backend)
}

/// As [`group::group_by_on`](super::group_by_on). `values` contains the bits of the values.
///
/// ```
/// use koel::{Aggregate, Cpu, HashBackend, IdOrder, group};
/// let cpu = Cpu::new();
/// let values = [0.1_f64, 0.2, 0.3].map(f64::to_bits);
/// let (keys, values) = (cpu.upload(&[7_u64, 7, 7])?, cpu.upload(&values)?);
/// let groups =
///     group::wide::group_by_on::<_, u64, f64>(&cpu, &keys, &values, &[Aggregate::Sum], IdOrder::FirstSeen)?;
/// assert_eq!(groups.download(&cpu)?.sums, [0.6]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// As [`group_by`].
pub fn group_by_on<B: Runs<K::Rows>, K: Key, V: Number>(
    backend: &B,
    keys: &BufferOf<B, K>,
    values: &BufferOf<B, V::Word>,
    aggregates: &[Aggregate],
    order: IdOrder,
) -> Result<DeviceGroups<B, K, V>> {
    check_values(values.len(), keys.len(), aggregates)?;
    Error::check_rows("rows", keys.len())?;
    let (keys, values) = (ColumnOf::<B, K>::Device(keys), ColumnOf::Device(values));
    Columns::<K>::grouped::<V>(backend, keys, values, aggregates, order)
}

/// Groups row numbers by key, and returns the id of each row as well: what [`factorize_on`] and [`group_by_on`] of the
/// row numbers return, in about the time of one of them. The least row number of a group is its first row.
///
/// # Errors
/// As [`factorize_on`].
#[doc(hidden)]
pub fn group_rows_on<B: Runs<K::Rows>, K: Key>(
    backend: &B,
    keys: &BufferOf<B, K>,
    aggregates: &[Aggregate],
    order: IdOrder,
) -> Result<(DeviceGroups<B, K>, BufferOf<B, u32>)> {
    Error::check_rows("rows", keys.len())?;
    let grouping = match aggregates {
        [] => backend.numbered(ColumnOf::<B, K>::Device(keys), order)?.into(),
        _ => Columns::<K>::grouping(backend, keys, order)?,
    };
    of_row_numbers(backend, grouping, aggregates)
}

/// Aggregates groups that are already numbered: row `i` belongs to group `ids[i]` and has the value `values[i]`. Rows
/// whose group is not below `groups` are skipped. The key of a group is its number; a group without rows has count and
/// sum 0.
///
/// ```
/// use koel::{Aggregate, Cpu, group};
/// let wanted = [Aggregate::Sum, Aggregate::Count];
/// let groups = group::wide::aggregate(&Cpu::new(), &[0, 2, 0], 3, &[5_i64, -1, 7], &wanted)?;
/// assert_eq!((groups.sums, groups.counts), (vec![12, 0, -1], vec![2, 0, 1]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// [`Error::LengthMismatch`]; [`Error::TooLarge`] for 2^32 or more rows or groups; [`Error::SumTooLarge`] with the
/// number of the first group whose sum does not fit in 64 bits; or what the device reports.
pub fn aggregate<B: Runs<Bucketized>, V: Number>(
    backend: &B,
    ids: &[u32],
    groups: usize,
    values: &[V],
    aggregates: &[Aggregate],
) -> Result<Groups<u32, V>> {
    check_values(values.len(), ids.len(), aggregates)?;
    Error::check_rows("rows", ids.len())?;
    Error::check_rows("groups", groups)?;
    let values = if wanted(aggregates).values() { values } else { &[] };
    let (ids, values) = (ColumnOf::Host(ids), ColumnOf::Host(bytemuck::cast_slice(values)));
    backend.grouped_by_id::<V>(ids, groups, values, aggregates)?.download(backend)
}

/// [`aggregate`] of columns that are already on the device. `values` contains the bits of the values.
///
/// ```
/// use koel::{Aggregate, Cpu, HashBackend, group};
/// let cpu = Cpu::new();
/// let (ids, values) = (cpu.upload(&[0, 2, 0])?, cpu.upload(&[5_u64, 1, 7])?);
/// let groups = group::wide::aggregate_on::<_, u64>(&cpu, &ids, 3, &values, &[Aggregate::Sum])?;
/// assert_eq!(groups.download(&cpu)?.sums, [12, 0, 1]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// As [`aggregate`].
pub fn aggregate_on<B: Runs<Bucketized>, V: Number>(
    backend: &B,
    ids: &BufferOf<B, u32>,
    groups: usize,
    values: &BufferOf<B, V::Word>,
    aggregates: &[Aggregate],
) -> Result<DeviceGroups<B, u32, V>> {
    check_values(values.len(), ids.len(), aggregates)?;
    Error::check_rows("rows", ids.len())?;
    Error::check_rows("groups", groups)?;
    backend.grouped_by_id::<V>(ColumnOf::Device(ids), groups, ColumnOf::Device(values), aggregates)
}
