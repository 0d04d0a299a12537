//! Columns that the devices deal among themselves: each takes a part of the rows, and what belongs elsewhere goes on.
//!
//! ```text
//! each device    a part of the rows, a chunk at a time: their shards, a stable sort by these, columns in that order
//! each shard     what every device has of it, in the order of the rows: a copy of its own device's part, the rest brought
//! ```
//!
//! Of two devices each bus carries half of the rows in; then a quarter goes out of each while a quarter comes in. With one
//! device one bus carries all rows in. Where the columns are pinned, the host copies nothing. Columns of shards are those that
//! the host's deal (deal.rs) makes.
//!
//! What it is not: the way of devices that share this machine's memory, or of many shards, whose parts are short.

use std::ops::Range;

use super::devices::{lacks_room, map_shards, on_devices};
use crate::backend::{BufferOf, DeviceBuffer, HashBackend, Piece, Relational, Word};
use crate::error::{Error, Result};
use crate::scheme::Key;
use crate::scheme::shard::ShardOf;

/// Rows of a chunk.
const CHUNK: usize = if cfg!(test) { 1 << 8 } else { 1 << 24 };
/// The most shards: the sort is then one pass.
const MOST_SHARDS: usize = 256;
/// The fewest rows of a device for each shard: fewer go by the host.
const FEWEST_ROWS: usize = if cfg!(test) { 1 } else { 1 << 14 };
/// Rows of a device may take one part in so many of its memory: they are there up to three times, as they come, by shard, and
/// as the columns of a shard, and what is made of them is there too. Tables that are there already are not counted.
const PART_OF_MEMORY: u64 = 8;

/// What devices do that deal so many rows of so many bytes; none where this machine is to do it, or they have no room. A
/// table that can nowhere be is refused there too.
pub(super) fn if_the_way<B: HashBackend, T>(
    which: &ShardOf,
    devices: &[B],
    rows: usize,
    bytes: usize,
    work: impl FnOnce() -> Result<T>,
) -> Result<Option<T>> {
    if !is_the_way(which, devices, rows, bytes) {
        return Ok(None);
    }
    match work() {
        Err(error) if lacks_room(&error) => Ok(None),
        done => done.map(Some),
    }
}

/// Whether so many rows of so many bytes are dealt on these devices.
pub(super) fn is_the_way<B: HashBackend>(which: &ShardOf, devices: &[B], rows: usize, bytes: usize) -> bool {
    let of_each = rows.div_ceil(devices.len());
    which.shards <= MOST_SHARDS
        && of_each / which.shards >= FEWEST_ROWS
        && of_each <= most_rows(devices, bytes)
        && devices.iter().all(|device| !device.shares_memory())
}

/// The most rows, of so many bytes each, that every one of the devices may take.
pub(super) fn most_rows<B: HashBackend>(devices: &[B], bytes: usize) -> usize {
    let of_device = |device: &B| device.info().memory.map(|memory| memory / PART_OF_MEMORY / bytes as u64);
    let least = devices.iter().filter_map(of_device).min();
    least.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX))
}

/// Keys of a device by shard, those of a shard in their order.
pub(super) struct ByShard<B: HashBackend, K: Word> {
    pub(super) keys: BufferOf<B, K>,
    /// The row of each.
    pub(super) rows: BufferOf<B, u32>,
    /// Where each shard begins, and the end.
    pub(super) starts: Vec<usize>,
}

/// Rows of a device, by shard.
struct Chunk<B: HashBackend, K: Word, V: Word> {
    keys: BufferOf<B, K>,
    /// Empty where keys are dealt alone.
    values: BufferOf<B, V>,
    starts: Vec<usize>,
}

/// All rows, where they were dealt.
pub(super) struct Exchange<'a, B: HashBackend, K: Word, V: Word> {
    devices: &'a [B],
    /// Of each device, in the order of the rows.
    chunks: Vec<Vec<Chunk<B, K, V>>>,
}

impl<'a, B: Relational, K: Key> Exchange<'a, B, K, u32> {
    /// Deals keys alone.
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
    /// Deals the rows, each device a part of them.
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

    /// Calls `build` with the columns of each shard and its device; shard i is built on device i mod their number.
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

    /// A shard's columns, on this device.
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
        // Where keys are dealt alone, there are no values of any shard.
        let of_shard = |chunk: &Chunk<B, K, V>| match column(chunk).is_empty() {
            true => 0..0,
            false => chunk.starts[shard]..chunk.starts[shard + 1],
        };
        let len = self.chunks.iter().flatten().map(|chunk| of_shard(chunk).len()).sum();
        let mut to = here.unwritten(len)?;
        // What one device has of the shard stands together in the column.
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
                here.bring(&mut to, at, &parts.map(piece).collect::<Vec<_>>())?;
            }
        }
        Ok(to)
    }
}

/// A column's part for each device.
fn parts<'a, B, T>(devices: &[B], column: &'a [T]) -> Vec<&'a [T]> {
    column.chunks(column.len().div_ceil(devices.len()).max(1)).collect()
}

/// All of so many, beginning with this one, so that devices do not all ask the same one.
pub(super) fn in_turn(number: usize, of: usize) -> impl Iterator<Item = usize> {
    (number..of).chain(0..number.min(of))
}

/// Whether all keys are of this shard.
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

/// Deals keys that a device has.
pub(super) fn by_shard<B: Relational, K: Key>(
    device: &B,
    which: &ShardOf,
    keys: &BufferOf<B, K>,
) -> Result<ByShard<B, K>> {
    let all = device.iota(keys.len())?;
    let (shards, rows) = device.sort_pairs(&device.shards(keys, which)?, &all)?;
    let (numbers, firsts) = device.select_pairs(&device.heads(&shards)?, true, &shards, &all)?;
    let mut starts = vec![keys.len(); which.shards + 1];
    // From behind: a shard without rows begins where the next one does.
    let mut begins = device.download(&numbers)?.into_iter().zip(device.download(&firsts)?).rev().peekable();
    for shard in (0..which.shards).rev() {
        let first = begins.next_if(|&(number, _)| number as usize == shard);
        starts[shard] = first.map_or(starts[shard + 1], |(_, first)| first as usize);
    }
    Ok(ByShard { keys: device.gather(keys, &rows)?, rows, starts })
}
