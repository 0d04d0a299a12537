//! Aggregates of the values of each key.
//!
//! ```text
//! FirstSeen    the id of each row (`columns/first_seen.rs`), then one pass over rows that adds up by id;
//!              on the CPU, for columns with few groups, both in one pass without writing ids (`cpu/groups.rs`)
//! Ascending    sort_pairs(keys, values); rows of one key are adjacent, and their id is the number of runs that began
//!              before; on devices, for columns with few groups, the groups by slots, and a sort of them
//! ```
//!
//! A group with most of the rows costs no more than many small groups: see [`Relational::accumulate`].
//!
//! [`Relational::accumulate`]: crate::backend::Relational::accumulate

use super::{Aggregate, DeviceGroups, Groups, IdOrder, wide};
use crate::backend::Runs;
use crate::error::Result;
use crate::scheme::Bucketized;

/// Groups rows by key, and aggregates the values of each group. The groups are in the order of `order`.
/// [`wide::group_by`] also takes keys of 64 bits, and values of `u64`, `i64` and `f64`.
///
/// Cost: for the order of first occurrence, that of [`factorize`](super::factorize); for the ascending order, that of a
/// sort of the pairs. In addition, a pass over the rows, whose groups are first added up in local memory or caches.
///
/// ```
/// use koel::{Aggregate, Cpu, IdOrder, group};
/// let (customers, spent) = ([7, 3, 7], [u32::MAX, 5, 1]);
/// let wanted = [Aggregate::Count, Aggregate::Sum];
/// let groups = group::group_by(&Cpu::new(), &customers, &spent, &wanted, IdOrder::FirstSeen)?;
/// assert_eq!(groups.keys, [7, 3]);
/// assert_eq!((groups.counts, groups.sums), (vec![2, 1], vec![1 << 32, 5]));
/// assert!(groups.mins.is_empty(), "not requested");
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// [`crate::Error::LengthMismatch`] unless there is a value for each key (there may be none if only counts are
/// requested); [`crate::Error::TooLarge`] for more than `u32::MAX` rows; [`crate::Error::OutOfMemory`], or what the
/// device reports.
pub fn group_by<B: Runs<Bucketized>>(
    backend: &B,
    keys: &[u32],
    values: &[u32],
    aggregates: &[Aggregate],
    order: IdOrder,
) -> Result<Groups> {
    wide::group_by(backend, keys, values, aggregates, order)
}

/// [`group_by`] of columns on the device; nothing is transferred.
///
/// ```
/// use koel::{Aggregate, Cpu, HashBackend, IdOrder, group};
/// let cpu = Cpu::new();
/// let (keys, values) = (cpu.upload(&[7, 3, 7])?, cpu.upload(&[1, 5, 4])?);
/// let groups = group::group_by_on(&cpu, &keys, &values, &[Aggregate::Max], IdOrder::Ascending)?;
/// assert_eq!((cpu.download(&groups.keys)?, cpu.download(&groups.maxs)?), (vec![3, 7], vec![5, 4]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// As [`group_by`].
pub fn group_by_on<B: Runs<Bucketized>>(
    backend: &B,
    keys: &B::Buffer<u32>,
    values: &B::Buffer<u32>,
    aggregates: &[Aggregate],
    order: IdOrder,
) -> Result<DeviceGroups<B>> {
    wide::group_by_on::<B, u32, u32>(backend, keys, values, aggregates, order)
}
