//! Exchange between devices: each device partitions a part of the rows by shard, and moves each partition to its
//! device.
//!
//! ```text
//! each device    a part of the rows, in chunks: compute shards, sort stably by shard, gather the columns in that order
//! each shard     gathers its rows from every device, in the order of the rows; rows on its own device are copied
//! ```
//!
//! With two devices, each bus first transfers half of the rows to its device; then a quarter leaves each device while a
//! quarter arrives. With one device, one bus transfers all rows. If the columns are pinned, the host copies nothing.
//! The columns of the shards equal those of the host's partition (host_partition.rs).
//!
//! This is not used for devices that share the host's memory, or for many shards, whose partitions would be short.

use std::ops::Range;

use super::devices::{is_out_of_memory, map_shards, on_devices};
use crate::backend::{BufferOf, DeviceBuffer, HashBackend, Piece, Relational, Word};
use crate::error::{Error, Result};
use crate::scheme::Key;
use crate::scheme::shard::ShardOf;

/// Rows of a chunk.
const CHUNK: usize = if cfg!(test) { 1 << 8 } else { 1 << 24 };
/// The most shards: up to here, the sort takes one pass.
const MOST_SHARDS: usize = 256;
/// The fewest rows per device and shard: below that, the host partitions the rows.
const FEWEST_ROWS: usize = if cfg!(test) { 1 } else { 1 << 14 };
/// The rows of a device may take at most 1 / `PART_OF_MEMORY` of its memory. The device stores them up to three times
/// (as they arrive, by shard, and as the columns of a shard), and the results too. Tables that it already stores are
/// not counted.
const PART_OF_MEMORY: u64 = 8;

/// Runs `work` if the devices should partition `rows` rows of `bytes` bytes each. Returns `None` if the host should do
/// it, or if a device ran out of memory. If the host cannot store the table either, it reports the error.
pub(super) fn use_device_exchange<B: HashBackend, T>(
    which: &ShardOf,
    devices: &[B],
    rows: usize,
    bytes: usize,
    work: impl FnOnce() -> Result<T>,
) -> Result<Option<T>> {
    if !uses_device_exchange(which, devices, rows, bytes) {
        return Ok(None);
    }
    match work() {
        Err(error) if is_out_of_memory(&error) => Ok(None),
        done => done.map(Some),
    }
}

/// Whether these devices should partition `rows` rows of `bytes` bytes each.
pub(super) fn uses_device_exchange<B: HashBackend>(which: &ShardOf, devices: &[B], rows: usize, bytes: usize) -> bool {
    let of_each = rows.div_ceil(devices.len());
    which.shards <= MOST_SHARDS
        && of_each / which.shards >= FEWEST_ROWS
        && of_each <= most_rows(devices, bytes)
        && devices.iter().all(|device| !device.shares_memory())
}

/// The most rows, of `bytes` bytes each, that each of the devices may take.
pub(super) fn most_rows<B: HashBackend>(devices: &[B], bytes: usize) -> usize {
    let of_device = |device: &B| device.info().memory.map(|memory| memory / PART_OF_MEMORY / bytes as u64);
    let least = devices.iter().filter_map(of_device).min();
    least.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX))
}

/// The keys of a device, sorted by shard; the keys of a shard keep their order.
pub(super) struct ByShard<B: HashBackend, K: Word> {
    pub(super) keys: BufferOf<B, K>,
    /// The row of each key.
    pub(super) rows: BufferOf<B, u32>,
    /// Where each shard begins, and the end of the last.
    pub(super) starts: Vec<usize>,
}

/// Rows of a device, sorted by shard.
struct Chunk<B: HashBackend, K: Word, V: Word> {
    keys: BufferOf<B, K>,
    /// Empty if only keys are partitioned.
    values: BufferOf<B, V>,
    starts: Vec<usize>,
}

/// All rows, partitioned, on the device that partitioned them.
pub(super) struct Exchange<'a, B: HashBackend, K: Word, V: Word> {
    devices: &'a [B],
    /// The chunks of each device, in the order of the rows.
    chunks: Vec<Vec<Chunk<B, K, V>>>,
}

impl<'a, B: Relational, K: Key> Exchange<'a, B, K, u32> {
    /// Partitions keys without values.
    pub(super) fn of_keys(which: &ShardOf, devices: &'a [B], keys: &[K]) -> Result<Self> {
        let chunks = on_devices(devices.len(), parts(devices, keys), &|device, keys: &[K]| {
            let (device, mut chunks) = (&devices[device], Vec::new());
            for keys in keys.chunks(CHUNK) {
                let ByShard { keys, starts, .. } = by_shard(device, which, &device.upload(keys)?)?;
                chunks.push(Chunk { keys, values: device.unwritten(0)?, starts });
            }
            device.finish()?;
            Ok(chunks)
        })?;
        Ok(Exchange { devices, chunks })
    }
}

impl<'a, B: Relational, K: Key, V: Word> Exchange<'a, B, K, V> {
    /// Partitions the rows; each device takes a part of them.
    pub(super) fn of(which: &ShardOf, devices: &'a [B], keys: &[K], values: &[V]) -> Result<Self> {
        Error::check_length("values", values.len(), keys.len())?;
        let parts = parts(devices, keys).into_iter().zip(parts(devices, values)).collect();
        let chunks = on_devices(devices.len(), parts, &|device, (keys, values)| {
            let (device, mut chunks) = (&devices[device], Vec::new());
            device.in_pairs(keys, values, CHUNK, |keys, values| {
                let ByShard { keys, rows, starts } = by_shard(device, which, &keys)?;
                chunks.push(Chunk { keys, values: device.gather(&values, &rows)?, starts });
                Ok(())
            })?;
            device.finish()?;
            Ok(chunks)
        })?;
        Ok(Exchange { devices, chunks })
    }

    /// Calls `build` with the columns of each shard and its device; shard i is built on device i mod the number of
    /// devices.
    pub(super) fn built<T: Send>(
        &self,
        which: &ShardOf,
        build: &(dyn Fn(&B, BufferOf<B, K>, BufferOf<B, V>) -> Result<T> + Sync),
    ) -> Result<Vec<T>> {
        map_shards(self.devices.len(), which.shards, &|shard| {
            let device = shard % self.devices.len();
            let (keys, values) = self.columns(shard, device)?;
            build(&self.devices[device], keys, values)
        })
    }

    /// The columns of a shard, gathered on this device.
    pub(super) fn columns(&self, shard: usize, device: usize) -> Result<(BufferOf<B, K>, BufferOf<B, V>)> {
        Ok((self.column(shard, device, |chunk| &chunk.keys)?, self.column(shard, device, |chunk| &chunk.values)?))
    }

    fn column<T: Word>(
        &self,
        shard: usize,
        device: usize,
        column: impl Fn(&Chunk<B, K, V>) -> &BufferOf<B, T>,
    ) -> Result<BufferOf<B, T>> {
        let here = &self.devices[device];
        // If only keys were partitioned, no shard has values.
        let of_shard = |chunk: &Chunk<B, K, V>| match column(chunk).is_empty() {
            true => 0..0,
            false => chunk.starts[shard]..chunk.starts[shard + 1],
        };
        let len = self.chunks.iter().flatten().map(|chunk| of_shard(chunk).len()).sum();
        let mut to = here.unwritten(len)?;
        // The rows that one device has of a shard are adjacent in the column.
        let rows = |chunks: &Vec<Chunk<B, K, V>>| chunks.iter().map(|chunk| of_shard(chunk).len()).sum::<usize>();
        let mut starts = vec![0];
        self.chunks.iter().for_each(|chunks| starts.push(starts[starts.len() - 1] + rows(chunks)));
        for number in in_turn(device, self.chunks.len()) {
            let (mut at, parts) =
                (starts[number], self.chunks[number].iter().map(|chunk| (column(chunk), of_shard(chunk))));
            if number == device {
                for (from, range) in parts {
                    here.copy(from, range.start, &mut to, at, range.len())?;
                    at += range.len();
                }
            } else {
                let piece = |(buffer, range): (_, Range<usize>)| Piece { device: &self.devices[number], buffer, range };
                here.fetch(&mut to, at, &parts.map(piece).collect::<Vec<_>>())?;
            }
        }
        Ok(to)
    }
}

/// The part of a column for each device.
fn parts<'a, B, T>(devices: &[B], column: &'a [T]) -> Vec<&'a [T]> {
    column.chunks(column.len().div_ceil(devices.len()).max(1)).collect()
}

/// All numbers below `of`, beginning with `number`, so that devices do not all read from the same device at once.
pub(super) fn in_turn(number: usize, of: usize) -> impl Iterator<Item = usize> {
    (number..of).chain(0..number.min(of))
}

/// Whether all keys belong to this shard.
pub(super) fn are_all_of<B: Relational, K: Key>(
    device: &B,
    which: &ShardOf,
    keys: &BufferOf<B, K>,
    shard: usize,
) -> Result<bool> {
    if keys.is_empty() {
        return Ok(true);
    }
    let mut shards = device.shards(keys, which)?;
    let greatest = device.greatest(&shards)?;
    device.complement(&mut shards)?;
    Ok([greatest, !device.greatest(&shards)?] == [shard as u32; 2])
}

/// Sorts keys by shard, on the device that stores them.
pub(super) fn by_shard<B: Relational, K: Key>(
    device: &B,
    which: &ShardOf,
    keys: &BufferOf<B, K>,
) -> Result<ByShard<B, K>> {
    let all = device.iota(keys.len())?;
    let (shards, rows) = device.sort_pairs(&device.shards(keys, which)?, &all)?;
    let (numbers, first_occurrences) = device.select_pairs(&device.heads(&shards)?, true, &shards, &all)?;
    let mut starts = vec![keys.len(); which.shards + 1];
    // In reverse order: a shard without rows begins where the next one does.
    let mut begins = device.download(&numbers)?.into_iter().zip(device.download(&first_occurrences)?).rev().peekable();
    for shard in (0..which.shards).rev() {
        let first = begins.next_if(|&(number, _)| number as usize == shard);
        starts[shard] = first.map_or(starts[shard + 1], |(_, first)| first as usize);
    }
    Ok(ByShard { keys: device.gather(keys, &rows)?, rows, starts })
}
