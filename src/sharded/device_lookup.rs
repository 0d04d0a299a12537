//! Lookups with an exchange: the devices partition the queries by shard, exchange them, and return the answers.
//!
//! ```text
//! each device    partitions its queries by shard, pads each shard's to whole words of bits, and stores the shards of one
//!                device next to each other
//! each device    gathers the queries for its shards from all devices, in one piece from each, and looks them up
//! each device    gathers the answers to its queries, scatters the values to their rows, and makes a bitmap of the hits
//! ```
//!
//! A column of the second step, on the second of two devices, which has the shards 1 and 3 of 0 to 3:
//!
//! ```text
//! | from device 0: shard 1 ..| shard 3 .....| from device 1: shard 1 ...| shard 3 ...|
//!                         ..              .. padding to whole words, without a row
//! ```
//!
//! This is not used for devices that share the host's memory (host_partition.rs), or for shards that are read from a
//! file.

use std::ops::Range;

use super::devices::{map_shards, on_devices};
use super::exchange::{self, ByShard, by_shard, in_turn};
use crate::backend::{BufferOf, HashBackend, Piece, Relational, Runs, Word, bitmap_words};
use crate::error::Result;
use crate::scheme::shard::ShardOf;
use crate::scheme::{Key, Scheme};
use crate::table::HashTable;

/// The row number of padding.
const PAD: u32 = u32::MAX;

/// The position of each shard's queries in a device's column; shards of one device are adjacent.
struct Layout {
    /// The range of each shard.
    places: Vec<Range<usize>>,
    /// The range of each device: all of its shards, padded to whole words.
    of_devices: Vec<Range<usize>>,
}

impl Layout {
    fn of(starts: &[usize], devices: usize) -> Layout {
        let shards = starts.len() - 1;
        let (mut places, mut of_devices, mut at) = (vec![0..0; shards], Vec::with_capacity(devices), 0_usize);
        for device in 0..devices {
            let first = at;
            for shard in (device..shards).step_by(devices) {
                places[shard] = at..at + (starts[shard + 1] - starts[shard]);
                at = places[shard].end.next_multiple_of(32);
            }
            of_devices.push(first..at);
        }
        Layout { places, of_devices }
    }

    fn len(&self) -> usize {
        self.of_devices.last().map_or(0, |last| last.end)
    }
}

/// A device's queries, without the keys.
struct Queries<B: HashBackend> {
    count: usize,
    layout: Layout,
    /// The row of each place.
    rows: BufferOf<B, u32>,
}

/// Partitions a device's queries; returns them and their keys.
fn partitioned<B: Relational, K: Key>(
    device: &B,
    which: &ShardOf,
    devices: usize,
    queries: &[K],
) -> Result<(Queries<B>, BufferOf<B, K>)> {
    let ByShard { keys: by_shard, rows: of_keys, starts } = by_shard(device, which, &device.upload(queries)?)?;
    let layout = Layout::of(&starts, devices);
    let mut keys = device.filled(layout.len(), K::zeroed())?;
    let mut rows = device.filled(layout.len(), PAD)?;
    for (place, &start) in layout.places.iter().zip(&starts) {
        device.copy(&by_shard, start, &mut keys, place.start, place.len())?;
        device.copy(&of_keys, start, &mut rows, place.start, place.len())?;
    }
    // Other devices read the keys.
    device.finish()?;
    Ok((Queries { count: queries.len(), layout, rows }, keys))
}

/// The answers of a device's shards.
struct Answers<B: HashBackend, V: Word> {
    /// Where the answers to the queries of each device begin.
    places: Vec<usize>,
    /// `None` if only the bits are required.
    values: Option<BufferOf<B, V>>,
    found: BufferOf<B, u32>,
}

/// The destination of the answers to a device's queries: the values, if they are required, and the bits.
type Destination<'a, V> = (Option<&'a mut [V]>, &'a mut [u32]);

/// Shards on devices that partition queries.
pub(super) struct Shards<'a, B: HashBackend, S: Scheme> {
    pub(super) which: &'a ShardOf,
    /// Shard i is on device i mod the number of devices.
    pub(super) devices: &'a [B],
    /// The most queries of a device at a time, a multiple of 32.
    pub(super) at_once: usize,
    pub(super) tables: &'a [HashTable<B, S>],
}

impl<B: Runs<S>, S: Scheme> Shards<'_, B, S> {
    /// Answers the queries if the devices should partition them; returns whether they did. Writes a bit for each query,
    /// and a value if `values` is given.
    pub(super) fn answer_on_devices(
        &self,
        queries: &[S::Key],
        values: Option<&mut [S::Value]>,
        found: &mut [u32],
    ) -> Result<bool> {
        let bytes = size_of::<S::Key>() + size_of::<S::Value>();
        let at_once = self.at_once.min(exchange::most_rows(self.devices, bytes)) / 32 * 32;
        let rows = queries.len().min(at_once.saturating_mul(self.devices.len()));
        let done = exchange::use_device_exchange(self.which, self.devices, rows, bytes, || {
            Shards { at_once, ..*self }.answer(queries, values, found)
        })?;
        Ok(done.is_some())
    }

    /// Answers the queries, in rounds.
    pub(super) fn answer(
        &self,
        queries: &[S::Key],
        mut values: Option<&mut [S::Value]>,
        mut found: &mut [u32],
    ) -> Result<()> {
        for round in queries.chunks(self.at_once.saturating_mul(self.devices.len())) {
            let share = round.len().div_ceil(self.devices.len()).next_multiple_of(32);
            let parts: Vec<&[S::Key]> = round.chunks(share).collect();
            let mut destinations = Vec::with_capacity(parts.len());
            for len in parts.iter().map(|part| part.len()) {
                let values = values.as_mut().map(|values| values.split_off_mut(..len).unwrap_or_default());
                destinations.push((values, found.split_off_mut(..bitmap_words(len)).unwrap_or_default()));
            }
            self.answer_round(parts, destinations)?;
        }
        Ok(())
    }

    /// Answers a round of queries, one part on each device.
    fn answer_round(&self, parts: Vec<&[S::Key]>, destinations: Vec<Destination<'_, S::Value>>) -> Result<()> {
        let (devices, count) = (self.devices, self.devices.len());
        let has_values = destinations.iter().any(|(values, _)| values.is_some());
        let of_devices =
            on_devices(count, parts, &|device, part| partitioned(&devices[device], self.which, count, part))?;
        let (queries, keys): (Vec<_>, Vec<_>) = of_devices.into_iter().unzip();
        let answers = map_shards(count, count, &|device| self.answers(device, &queries, &keys, has_values))?;
        drop(keys);
        on_devices(count, destinations, &|device, destination| {
            scatter_answers(devices, device, &queries[device], &answers, destination)
        })?;
        Ok(())
    }

    /// The answers of a device's shards to the queries of all devices.
    fn answers(
        &self,
        number: usize,
        queries: &[Queries<B>],
        keys: &[BufferOf<B, S::Key>],
        has_values: bool,
    ) -> Result<Answers<B, S::Value>> {
        let device = &self.devices[number];
        let mut places = vec![0];
        queries.iter().for_each(|of| places.push(places[places.len() - 1] + of.layout.of_devices[number].len()));
        let len = places[queries.len()];
        let mut mine = device.unwritten(len)?;
        for from in in_turn(number, queries.len()) {
            let range = queries[from].layout.of_devices[number].clone();
            copy_from(self.devices, number, from, &keys[from], range, &mut mine, places[from])?;
        }
        let mut values = has_values.then(|| device.unwritten(len)).transpose()?;
        let mut found = device.unwritten(len / 32)?;
        for shard in (number..self.which.shards).step_by(self.devices.len()) {
            // The position and number of the queries of each device, padded to whole words.
            let of_each = queries.iter().zip(&places).map(|(of, place)| {
                let there = &of.layout.places[shard];
                (place + there.start - of.layout.of_devices[number].start, there.len().next_multiple_of(32))
            });
            if of_each.clone().any(|(_, len)| len > 0) {
                look_up(&self.tables[shard], &mine, of_each, values.as_mut(), &mut found)?;
            }
        }
        // Other devices read the answers.
        device.finish()?;
        Ok(Answers { places, values, found })
    }
}

/// Looks up a shard's queries, which are at these positions and of these lengths.
fn look_up<B: Runs<S>, S: Scheme>(
    table: &HashTable<B, S>,
    keys: &BufferOf<B, S::Key>,
    of_each: impl Iterator<Item = (usize, usize)> + Clone,
    mut values: Option<&mut BufferOf<B, S::Value>>,
    found: &mut BufferOf<B, u32>,
) -> Result<()> {
    let device = table.backend();
    let (mut mine, mut at) = (device.unwritten(of_each.clone().map(|(_, len)| len).sum())?, 0);
    for (place, len) in of_each.clone() {
        device.copy(keys, place, &mut mine, at, len)?;
        at += len;
    }
    let (words, bits) = match values {
        Some(_) => table.get_on(&mine).map(|(words, bits)| (Some(words), bits))?,
        None => (None, table.contains_on(&mine)?),
    };
    at = 0;
    for (place, len) in of_each {
        if let (Some(words), Some(values)) = (&words, &mut values) {
            device.copy(words, at, values, place, len)?;
        }
        device.copy(&bits, at / 32, found, place / 32, len / 32)?;
        at += len;
    }
    Ok(())
}

/// Gathers the answers to a device's queries, in the order of the queries.
fn scatter_answers<B: Relational, V: Word>(
    devices: &[B],
    number: usize,
    queries: &Queries<B>,
    answers: &[Answers<B, V>],
    (values, found): Destination<'_, V>,
) -> Result<()> {
    let (device, layout) = (&devices[number], &queries.layout);
    let mut bits = device.unwritten(layout.len() / 32)?;
    let mut words = values.is_some().then(|| device.unwritten(layout.len())).transpose()?;
    for from in in_turn(number, devices.len()) {
        let (range, there) = (layout.of_devices[from].clone(), &answers[from]);
        let place = there.places[number];
        if let (Some(words), Some(values)) = (&mut words, &there.values) {
            copy_from(devices, number, from, values, place..place + range.len(), words, range.start)?;
        }
        let of_bits = place / 32..(place + range.len()) / 32;
        copy_from(devices, number, from, &there.found, of_bits, &mut bits, range.start / 32)?;
    }
    let there = device.mark(&device.select(&bits, true, &queries.rows)?, queries.count)?;
    device.read(&there, 0, found)?;
    match values.zip(words) {
        Some((values, words)) => device.read(&device.scatter(&words, &queries.rows, queries.count)?, 0, values),
        None => Ok(()),
    }
}

/// Copies a range of a buffer, of this device or another, into a buffer of this device.
fn copy_from<B: HashBackend, T: Word>(
    devices: &[B],
    number: usize,
    from: usize,
    buffer: &BufferOf<B, T>,
    range: Range<usize>,
    to: &mut BufferOf<B, T>,
    at: usize,
) -> Result<()> {
    match from == number {
        true => devices[number].copy(buffer, range.start, to, at, range.len()),
        false => devices[number].fetch(to, at, &[Piece { device: &devices[from], buffer, range }]),
    }
}
