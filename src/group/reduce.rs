//! The distinct keys of a column, and the column as their numbers.

use super::{IdOrder, wide};
use crate::backend::Runs;
use crate::error::Result;
use crate::scheme::Bucketized;

/// The distinct keys of a column.
///
/// Cost in order of first occurrence, on the CPU: about two random accesses per row, to the data of
/// [`FirstRows`](super::FirstRows), or only to the data of the keys at the front of the column if there are no other
/// keys. With many keys and several threads, rows are first partitioned by the hash of their key, which takes 10 bytes
/// per row, and accesses are to the data of one partition.
///
/// On other devices, from 2^21 rows on, a sample selects the fastest of three strategies: a table of all rows if nearly
/// all keys differ, a sort of keys and row numbers if many keys occur more than once, and a table of the first rows if
/// there are few keys. Up to 31 bytes of device memory per row.
///
/// Cost in ascending order: a sort of the rows; see [`sort_pairs`](crate::HashBackend::sort_pairs).
///
/// ```
/// use koel::{Cpu, IdOrder, group};
/// assert_eq!(group::unique(&Cpu::new(), &[7, 3, 7, 7], IdOrder::FirstSeen)?, [7, 3]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// [`crate::Error::TooLarge`] for more than `u32::MAX` rows; [`crate::Error::OutOfMemory`], or what the device reports.
pub fn unique<B: Runs<Bucketized>>(backend: &B, keys: &[u32], order: IdOrder) -> Result<Vec<u32>> {
    wide::unique(backend, keys, order)
}

/// [`unique`] of a column on the device; nothing is transferred.
///
/// ```
/// use koel::{Cpu, HashBackend, IdOrder, group};
/// let cpu = Cpu::new();
/// let unique = group::unique_on(&cpu, &cpu.upload(&[7, 3, 7])?, IdOrder::Ascending)?;
/// assert_eq!(cpu.download(&unique)?, [3, 7]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// As [`unique`].
pub fn unique_on<B: Runs<Bucketized>>(backend: &B, keys: &B::Buffer<u32>, order: IdOrder) -> Result<B::Buffer<u32>> {
    wide::unique_on::<B, u32>(backend, keys, order)
}

/// The distinct keys of a column, and the inverse index: `keys[i] == unique[inverse[i]]`.
///
/// Cost: as [`unique`], and a lookup of every row, or a pass that scatters each row's number to its row.
///
/// ```
/// use koel::{Cpu, IdOrder, group};
/// let (unique, inverse) = group::factorize(&Cpu::new(), &[30, 10, 30, 20], IdOrder::FirstSeen)?;
/// assert_eq!((unique, inverse), (vec![30, 10, 20], vec![0, 1, 0, 2]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// As [`unique`].
pub fn factorize<B: Runs<Bucketized>>(backend: &B, keys: &[u32], order: IdOrder) -> Result<(Vec<u32>, Vec<u32>)> {
    wide::factorize(backend, keys, order)
}

/// [`factorize`] of a column on the device; nothing is transferred.
///
/// ```
/// use koel::{Cpu, HashBackend, IdOrder, group};
/// let cpu = Cpu::new();
/// let (unique, inverse) = group::factorize_on(&cpu, &cpu.upload(&[7, 3, 7])?, IdOrder::Ascending)?;
/// assert_eq!((cpu.download(&unique)?, cpu.download(&inverse)?), (vec![3, 7], vec![1, 0, 1]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// As [`unique`].
pub fn factorize_on<B: Runs<Bucketized>>(
    backend: &B,
    keys: &B::Buffer<u32>,
    order: IdOrder,
) -> Result<(B::Buffer<u32>, B::Buffer<u32>)> {
    wide::factorize_on::<B, u32>(backend, keys, order)
}
