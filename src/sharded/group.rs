//! Groups over several devices: the functions of [`group`](crate::group) for columns in host memory.
//!
//! ```text
//! partition   rows by a hash of the key, with row numbers: all rows of a key are in one piece, in their order
//! group       each piece on one of the devices; returns the first row of each group
//! merge       the groups by first row, or by key for ascending order
//! ```
//!
//! If one device should do all the work, nothing is partitioned. The result equals that of one device, bit for bit: the
//! groups and their order depend only on the column, and each aggregate only on the rows of one group. The number of
//! pieces does not change it: there is one per device, and more if a piece would have too many rows for a device. So
//! columns may exceed a device's memory and 2^32 rows, but one device processes all rows of a key, which must be fewer
//! than 2^32.

use rayon::prelude::*;

use super::builder::{Columns, expected_rows_per_shard, keys_of, some};
use super::devices::{is_out_of_memory, on_devices};
use super::exchange;
use super::host_partition::{MOST_ROWS, Partitioned};
use super::{ROWS_OF_A_PIECE, pieces_of};
use crate::backend::{HashBackend, Runs, Word};
use crate::columns::ColumnOf;
use crate::error::{Error, Result};
use crate::group::{Aggregate, Groups, IdOrder, Number, check_values, wanted, wide};
use crate::memory;
use crate::parallel::append;
use crate::scheme::Key;
use crate::scheme::shard::ShardOf;
use crate::threads;

/// The seed of the partition. The result does not depend on it.
const SEED: u64 = 0;

/// Elements that a thread copies at a time.
const KEYS_AT_ONCE: usize = 1 << 12;

/// The distinct keys of a column; see [`group::unique`](crate::group::unique). [`group_by`] documents which devices do
/// the work.
///
/// ```
/// use koel::{Cpu, IdOrder, sharded};
/// let devices = [Cpu::with_threads(1)?, Cpu::with_threads(1)?];
/// let unique = sharded::group::unique(&devices, &[7_u32, 3, 7, 9], IdOrder::FirstSeen)?;
/// assert_eq!(unique, [7, 3, 9]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// [`Error::InvalidParameter`] if there are no devices; [`Error::TooLarge`] if one key has 2^32 rows or more;
/// [`Error::OutOfMemory`] or what a device reports.
pub fn unique<B: Runs<K::Rows>, K: Key>(devices: &[B], keys: &[K], order: IdOrder) -> Result<Vec<K>> {
    let (which, devices) = (pieces_for(devices, keys.len())?, some(devices)?);
    let alone = |device: &B| wide::unique(device, keys, order);
    if let Some(done) = by_the_first(&which, devices, keys.len(), size_of::<K>(), alone) {
        return done;
    }
    let found = match order {
        IdOrder::Ascending => on_devices(devices.len(), keys_of(&which, keys)?, &|piece, keys: Vec<K>| {
            let keys = wide::unique(&devices[piece % devices.len()], &keys, order)?;
            Ok(Found { places: as_places(&keys)?, columns: keys })
        })?,
        IdOrder::FirstSeen => on_devices(devices.len(), partitioned(&which, keys)?, &|piece, rows| {
            let (keys, ids) = wide::factorize(&devices[piece % devices.len()], &rows.keys, order)?;
            Ok(Found { places: first_rows(keys.len(), &ids, &rows.values)?, columns: keys })
        })?,
    };
    let order = Order::of(&found)?;
    order.column(&found, |keys| &keys[..])
}

/// The distinct keys of a column, and the number of each row's key among them; see
/// [`group::factorize`](crate::group::factorize). [`group_by`] documents which devices do the work.
///
/// ```
/// use koel::{Cpu, IdOrder, sharded};
/// let devices = [Cpu::with_threads(1)?, Cpu::with_threads(1)?];
/// let (unique, ids) = sharded::group::factorize(&devices, &[30_u64, 10, 30], IdOrder::Ascending)?;
/// assert_eq!((unique, ids), (vec![10, 30], vec![1, 0, 1]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// As [`unique`]; [`Error::TooLarge`] for 2^32 or more distinct keys.
pub fn factorize<B: Runs<K::Rows>, K: Key>(devices: &[B], keys: &[K], order: IdOrder) -> Result<(Vec<K>, Vec<u32>)> {
    let (which, devices) = (pieces_for(devices, keys.len())?, some(devices)?);
    let alone = |device: &B| wide::factorize(device, keys, order);
    if let Some(done) = by_the_first(&which, devices, keys.len(), size_of::<K>(), alone) {
        return done;
    }
    let found = on_devices(devices.len(), partitioned(&which, keys)?, &|piece, rows| {
        let (unique, ids) = wide::factorize(&devices[piece % devices.len()], &rows.keys, order)?;
        let places = match order {
            IdOrder::Ascending => as_places(&unique)?,
            IdOrder::FirstSeen => first_rows(unique.len(), &ids, &rows.values)?,
        };
        Ok(Found { places, columns: (unique, ids) })
    })?;
    let order = Order::of(&found)?;
    Error::check_rows("distinct keys", order.0.len())?;
    let unique = order.column(&found, |(unique, _)| &unique[..])?;
    // The number of each key of each piece.
    let mut numbers =
        found.iter().map(|found| memory::zeroed(found.places.len())).collect::<Result<Vec<Vec<u32>>>>()?;
    for (number, &(_, piece, at)) in (0..).zip(&order.0) {
        numbers[piece as usize][at as usize] = number;
    }
    let (mut all, mut next) = (memory::zeroed(keys.len())?, memory::zeroed::<usize>(which.shards)?);
    for (keys, all) in keys.chunks(MOST_ROWS).zip(all.chunks_mut(MOST_ROWS)) {
        let partitioned = Partitioned::of(&which, keys)?;
        let mut ids = memory::reserved(keys.len())?;
        for (piece, next) in next.iter_mut().enumerate() {
            let of_piece = &found[piece].columns.1[*next..*next + partitioned.len(piece)];
            append(&mut ids, of_piece.len(), KEYS_AT_ONCE, |i| numbers[piece][of_piece[i] as usize]);
            *next += partitioned.len(piece);
        }
        partitioned.scatter_words(&ids, all);
    }
    Ok((unique, all))
}

/// Groups rows by key and aggregates the values of each group; see
/// [`group::wide::group_by`](crate::group::wide::group_by).
///
/// Cost: if the devices have separate memory, the first one does all the work if the rows, at most 2^27, fit into its
/// memory. Otherwise the host partitions the columns, which needs their size in memory once more, and in order of first
/// occurrence 8 bytes per row. The devices then work at the same time, and the host merges the groups, which needs 24
/// bytes per group.
///
/// ```
/// use koel::{Aggregate, Cpu, IdOrder, sharded};
/// let devices = [Cpu::with_threads(1)?, Cpu::with_threads(1)?];
/// let (customers, spent) = ([7_u32, 3, 7], [0.5, 5.0, 1.0]);
/// let groups =
///     sharded::group::group_by(&devices, &customers, &spent, &[Aggregate::Sum], IdOrder::FirstSeen)?;
/// assert_eq!((groups.keys, groups.sums), (vec![7, 3], vec![1.5, 5.0]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// [`Error::LengthMismatch`]; [`Error::SumTooLarge`] with the first key, in the order of the groups, whose sum does not
/// fit in 64 bits; otherwise as [`unique`].
pub fn group_by<B: Runs<K::Rows>, K: Key, V: Number>(
    devices: &[B],
    keys: &[K],
    values: &[V],
    aggregates: &[Aggregate],
    order: IdOrder,
) -> Result<Groups<K, V>> {
    check_values(values.len(), keys.len(), aggregates)?;
    let (which, devices) = (pieces_for(devices, keys.len())?, some(devices)?);
    let alone = |device: &B| wide::group_by(device, keys, values, aggregates, order);
    if let Some(done) = by_the_first(&which, devices, keys.len(), size_of::<K>() + size_of::<V>(), alone) {
        return done;
    }
    let values: &[V::Word] = if wanted(aggregates).values() { bytemuck::cast_slice(values) } else { &[] };
    let rows = partitioned_shards(&which, keys, values, order)?;
    let found = on_devices(devices.len(), rows, &|piece, Rows { of: Columns { keys, values: numbers }, values }| {
        let device = &devices[piece % devices.len()];
        if order == IdOrder::Ascending {
            let groups = wide::group_by(device, &keys, bytemuck::cast_slice::<_, V>(&values), aggregates, order);
            return Ok(match groups {
                Ok(groups) => Found { places: as_places(&groups.keys)?, columns: Ok(groups) },
                // In ascending order, a group's place is its key.
                Err(Error::SumTooLarge { key }) => Found { places: Vec::new(), columns: Err((key, key)) },
                Err(error) => return Err(error),
            });
        }
        let (unique, ids) = wide::factorize(device, &keys, order)?;
        let places = first_rows(unique.len(), &ids, &numbers)?;
        let (ids, values) = (ColumnOf::Host(&ids), ColumnOf::Host(&values));
        let groups = device.grouped_by_id::<V>(ids, unique.len(), values, aggregates);
        match groups.and_then(|groups| groups.download(device)) {
            Ok(Groups { counts, sums, means, mins, maxs, .. }) => {
                Ok(Found { places, columns: Ok(Groups { keys: unique, counts, sums, means, mins, maxs }) })
            }
            Err(Error::SumTooLarge { key: group }) => {
                let (place, key) = (places[group as usize], unique[group as usize].into());
                Ok(Found { places: Vec::new(), columns: Err((place, key)) })
            }
            Err(error) => Err(error),
        }
    })?;
    if let Some(&(_, key)) = found.iter().filter_map(|found| found.columns.as_ref().err()).min() {
        return Err(Error::SumTooLarge { key });
    }
    let found: Vec<Found<Groups<K, V>>> = found
        .into_iter()
        .filter_map(|Found { places, columns }| Some(Found { places, columns: columns.ok()? }))
        .collect();
    let order = Order::of(&found)?;
    Ok(Groups {
        keys: order.column(&found, |groups| &groups.keys)?,
        counts: order.column(&found, |groups| &groups.counts)?,
        sums: order.column(&found, |groups| &groups.sums)?,
        means: order.column(&found, |groups| &groups.means)?,
        mins: order.column(&found, |groups| &groups.mins)?,
        maxs: order.column(&found, |groups| &groups.maxs)?,
    })
}

/// Runs `work` on the first device if it should do all the work: if there is one piece, or if the devices have separate
/// memory and the rows, of `bytes` bytes each, fit into that of the first device. Partitioning and merging on the host
/// would then take longer than the other devices save.
fn by_the_first<B: HashBackend, T>(
    which: &ShardOf,
    devices: &[B],
    rows: usize,
    bytes: usize,
    work: impl FnOnce(&B) -> Result<T>,
) -> Option<Result<T>> {
    let most = exchange::most_rows(&devices[..1], bytes).min(ROWS_OF_A_PIECE);
    if which.shards > 1 && (rows > most || devices.iter().any(HashBackend::shares_memory)) {
        return None;
    }
    match work(&devices[0]) {
        Err(error) if which.shards > 1 && is_out_of_memory(&error) => None,
        done => Some(done),
    }
}

/// The partition of `rows` rows into pieces for these devices.
fn pieces_for<B>(devices: &[B], rows: usize) -> Result<ShardOf> {
    ShardOf::new(pieces_of(devices.len(), rows), SEED)
}

/// A piece's columns.
struct Rows<K, V> {
    /// The keys, and their row numbers if the order requires them.
    of: Columns<K, u64>,
    values: Vec<V>,
}

/// The keys of each piece with their row numbers.
fn partitioned<K: Key>(which: &ShardOf, keys: &[K]) -> Result<Vec<Columns<K, u64>>> {
    let rows = partitioned_shards::<K, u32>(which, keys, &[], IdOrder::FirstSeen)?;
    Ok(rows.into_iter().map(|rows| rows.of).collect())
}

/// The columns of each piece.
fn partitioned_shards<K: Key, V: Word>(
    which: &ShardOf,
    keys: &[K],
    values: &[V],
    order: IdOrder,
) -> Result<Vec<Rows<K, V>>> {
    let expected_rows = expected_rows_per_shard(which, keys.len());
    let empty = |_| {
        let numbers = if order == IdOrder::FirstSeen { expected_rows } else { 0 };
        let of = Columns { keys: memory::reserved(expected_rows)?, values: memory::reserved(numbers)? };
        Ok(Rows { of, values: memory::reserved(if values.is_empty() { 0 } else { expected_rows })? })
    };
    let mut pieces = (0..which.shards).map(empty).collect::<Result<Vec<Rows<K, V>>>>()?;
    for (number, keys) in keys.chunks(MOST_ROWS).enumerate() {
        let (partitioned, first) = (Partitioned::of(which, keys)?, number * MOST_ROWS);
        for (piece, rows) in pieces.iter_mut().enumerate() {
            partitioned.append(piece, keys, &mut rows.of.keys)?;
            if order == IdOrder::FirstSeen {
                partitioned.append_rows(piece, first as u64, &mut rows.of.values)?;
            }
            if !values.is_empty() {
                partitioned.append(piece, &values[first..first + keys.len()], &mut rows.values)?;
            }
        }
    }
    Ok(pieces)
}

/// Converts keys to the places by which groups are sorted.
fn as_places<K: Key>(keys: &[K]) -> Result<Vec<u64>> {
    let mut places = memory::reserved(keys.len())?;
    places.extend(keys.iter().map(|&key| key.into()));
    Ok(places)
}

/// The first row of each of `keys` keys. The ids number the keys in order of first occurrence; `numbers` has the row
/// numbers.
fn first_rows(keys: usize, ids: &[u32], numbers: &[u64]) -> Result<Vec<u64>> {
    let mut first = memory::reserved(keys)?;
    for (&id, &number) in ids.iter().zip(numbers) {
        if id as usize == first.len() {
            first.push(number);
        }
    }
    Ok(first)
}

/// The result of a piece: the place of each key, ascending, and other columns. Groups are sorted by these places.
struct Found<T> {
    places: Vec<u64>,
    columns: T,
}

/// All keys in order: the place of each, its piece, and its position in the piece.
struct Order(Vec<(u64, u32, u32)>);

impl Order {
    fn of<T>(found: &[Found<T>]) -> Result<Order> {
        threads::ready()?;
        let mut all = memory::reserved(found.iter().map(|found| found.places.len()).sum())?;
        for (piece, Found { places, .. }) in (0..).zip(found) {
            append(&mut all, places.len(), KEYS_AT_ONCE, |at| (places[at], piece, at as u32));
        }
        all.par_sort_unstable();
        Ok(Order(all))
    }

    /// A column of all keys; empty if it was not requested.
    fn column<T, C: Copy + Send + Sync>(&self, found: &[Found<T>], of: impl Fn(&T) -> &[C]) -> Result<Vec<C>> {
        let columns: Vec<&[C]> = found.iter().map(|found| of(&found.columns)).collect();
        if columns.iter().all(|column| column.is_empty()) {
            return Ok(Vec::new());
        }
        let mut all = memory::reserved(self.0.len())?;
        append(&mut all, self.0.len(), KEYS_AT_ONCE, |i| {
            let (_, piece, at) = self.0[i];
            columns[piece as usize][at as usize]
        });
        Ok(all)
    }
}
