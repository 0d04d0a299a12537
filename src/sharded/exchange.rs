//! Columns that the devices deal among themselves: each takes a part of the rows, and what belongs elsewhere goes on.
//!
//! ```text
//! each device    a part of the rows, a chunk at a time: their shards, a stable sort by these, both columns in that order
//! each shard     what every device has of it, in the order of the rows: a copy of its own device's part, the rest brought
//! ```
//!
//! Of two devices each bus carries half of the rows in; then a quarter goes out of each while a quarter comes in. With one
//! device one bus carries all rows in. Where the columns are pinned, the host copies nothing. Columns of shards are those that
//! the host's deal (deal.rs) makes.
//!
//! What it is not: the way of devices that share this machine's memory, or of many shards, whose parts are short.

use std::ops::Range;

use super::devices::on_devices;
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
/// as the columns of a shard.
const PART_OF_MEMORY: u64 = 8;

/// Whether so many rows of so many bytes are dealt on these devices.
pub(super) fn is_the_way<B: HashBackend>(which: &ShardOf, devices: &[B], rows: usize, bytes: usize) -> bool {
    let of_each = rows.div_ceil(devices.len());
    let has_room =
        |device: &B| device.info().memory.is_none_or(|memory| of_each as u64 * bytes as u64 <= memory / PART_OF_MEMORY);
    which.shards <= MOST_SHARDS
        && of_each / which.shards >= FEWEST_ROWS
        && devices.iter().all(|device| !device.shares_memory() && has_room(device))
}

/// Rows of a device, by shard.
struct Chunk<B: HashBackend, K: Word, V: Word> {
    keys: BufferOf<B, K>,
    values: BufferOf<B, V>,
    /// Where each shard begins, and the end.
    starts: Vec<usize>,
}

/// All rows, where they were dealt.
pub(super) struct Exchange<'a, B: HashBackend, K: Word, V: Word> {
    devices: &'a [B],
    /// Of each device, in the order of the rows.
    chunks: Vec<Vec<Chunk<B, K, V>>>,
}

impl<'a, B: Relational, K: Key, V: Word> Exchange<'a, B, K, V> {
    /// Deals the rows, each device a part of them.
    pub(super) fn of(which: &ShardOf, devices: &'a [B], keys: &[K], values: &[V]) -> Result<Self> {
        Error::check_length("values", values.len(), keys.len())?;
        let share = keys.len().div_ceil(devices.len()).max(1);
        let parts = keys.chunks(share).zip(values.chunks(share)).collect();
        let chunks = on_devices(devices.len(), parts, |device, (keys, values)| {
            let (device, mut chunks) = (&devices[device], Vec::new());
            device.in_pairs(keys, values, CHUNK, |keys, values| {
                chunks.push(dealt(device, which, &keys, &values)?);
                Ok(())
            })?;
            device.finish()?;
            Ok(chunks)
        })?;
        Ok(Exchange { devices, chunks })
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
        let of_shard = |chunk: &Chunk<B, K, V>| chunk.starts[shard]..chunk.starts[shard + 1];
        let len = self.chunks.iter().flatten().map(|chunk| of_shard(chunk).len()).sum();
        let mut to = here.unwritten(len)?;
        // What one device has of the shard stands together in the column. Each begins with another device, so that they do
        // not all ask the same one.
        let rows = |chunks: &Vec<Chunk<B, K, V>>| chunks.iter().map(|chunk| of_shard(chunk).len()).sum::<usize>();
        let mut starts = vec![0];
        self.chunks.iter().for_each(|chunks| starts.push(starts[starts.len() - 1] + rows(chunks)));
        for number in (device..self.chunks.len()).chain(0..device.min(self.chunks.len())) {
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

/// Rows by shard, those of a shard in their order.
fn dealt<B: Relational, K: Key, V: Word>(
    device: &B,
    which: &ShardOf,
    keys: &BufferOf<B, K>,
    values: &BufferOf<B, V>,
) -> Result<Chunk<B, K, V>> {
    let rows = device.iota(keys.len())?;
    let (shards, order) = device.sort_pairs(&device.shards(keys, which)?, &rows)?;
    let (keys, values) = (device.gather(keys, &order)?, device.gather(values, &order)?);
    let (numbers, firsts) = device.select_pairs(&device.heads(&shards)?, true, &shards, &rows)?;
    let mut starts = vec![rows.len(); which.shards + 1];
    // From behind: a shard without rows begins where the next one does.
    let mut begins = device.download(&numbers)?.into_iter().zip(device.download(&firsts)?).rev().peekable();
    for shard in (0..which.shards).rev() {
        let first = begins.next_if(|&(number, _)| number as usize == shard);
        starts[shard] = first.map_or(starts[shard + 1], |(_, first)| first as usize);
    }
    Ok(Chunk { keys, values, starts })
}
