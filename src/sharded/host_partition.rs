//! Partitions rows by shard on the host; the rows of a shard keep their order.
//!
//! ```text
//! chunks     sort the rows of each chunk by shard, and count the rows of each shard
//! sums       compute where each shard begins in the column, and each chunk in the shard
//! rows       the row of each place;     places   the place of each row
//! ```
//!
//! A column is partitioned by `rows`, and answers return by `places`. Each thread writes to a separate part: the rows
//! of a shard, or the places of a chunk.
//!
//! `exchange.rs` and `device_lookup.rs` partition columns and queries on the devices instead.

use crate::backend::Word;
use crate::error::Result;
use crate::memory;
use crate::multi::Retrieved;
use crate::parallel::{Per, append, collect, each};
use crate::scheme::Key;
use crate::scheme::shard::ShardOf;
use crate::threads;

/// Rows of a chunk.
const CHUNK: usize = if cfg!(test) { 1 << 10 } else { 1 << 16 };

/// The most rows to partition at a time: row numbers have 32 bits, and the scratch space is bounded.
pub(super) const MOST_ROWS: usize = if cfg!(test) { 1 << 12 } else { 1 << 24 };

/// Elements of a column that a thread copies at a time.
const COPIED_AT_ONCE: usize = 1 << 12;

/// Partitioned rows.
pub(super) struct Partitioned {
    /// Where each shard begins, and the end of the last.
    starts: Vec<usize>,
    rows: Vec<u32>,
    chunks: Vec<Chunk>,
}

/// A chunk's rows.
#[derive(Default)]
struct Chunk {
    shards: Vec<u16>,
    /// The rows by shard, until the whole column is partitioned, and where each shard begins in them.
    rows: Vec<u32>,
    starts: Vec<u32>,
    /// Rows of each shard in the chunks before.
    before: Vec<u32>,
}

impl Chunk {
    /// `None` if memory is short.
    fn of<K: Key>(which: &ShardOf, first: usize, keys: &[K]) -> Option<Chunk> {
        let mut shards = memory::reserved(keys.len()).ok()?;
        let (mut rows, mut starts) = (memory::zeroed(keys.len()).ok()?, memory::zeroed(which.shards + 1).ok()?);
        shards.extend(keys.iter().map(|&key| which.of(key) as u16));
        shards.iter().for_each(|&shard| starts[usize::from(shard) + 1] += 1u32);
        (0..which.shards).for_each(|shard| starts[shard + 1] += starts[shard]);
        let mut next = starts.clone();
        for (row, &shard) in (first as u32..).zip(&shards) {
            let at = &mut next[usize::from(shard)];
            rows[*at as usize] = row;
            *at += 1;
        }
        Some(Chunk { shards, rows, starts, before: Vec::new() })
    }

    fn of_shard(&self, shard: usize) -> &[u32] {
        &self.rows[self.starts[shard] as usize..self.starts[shard + 1] as usize]
    }
}

impl Partitioned {
    /// Partitions at most [`MOST_ROWS`] rows.
    pub(super) fn of<K: Key>(which: &ShardOf, keys: &[K]) -> Result<Partitioned> {
        debug_assert!(keys.len() <= MOST_ROWS);
        threads::ready()?;
        let chunks = collect(keys, CHUNK, |number, keys: &[K]| Chunk::of(which, number * CHUNK, keys))?;
        let mut chunks: Vec<Chunk> =
            chunks.into_iter().collect::<Option<_>>().ok_or_else(|| memory::out_of_memory::<u32>(3 * keys.len()))?;
        let mut totals: Vec<u32> = memory::zeroed(which.shards)?;
        for chunk in &mut chunks {
            chunk.before = totals.clone();
            totals.iter_mut().enumerate().for_each(|(shard, total)| *total += chunk.of_shard(shard).len() as u32);
        }
        let mut starts = memory::reserved(which.shards + 1)?;
        starts.push(0);
        for &total in &totals {
            starts.push(starts[starts.len() - 1] + total as usize);
        }
        let mut rows = memory::zeroed(keys.len())?;
        let (mut of_shards, mut rest) = (memory::reserved(which.shards)?, &mut rows[..]);
        for &total in &totals {
            of_shards.extend(rest.split_off_mut(..total as usize));
        }
        each(&mut of_shards[..], 1, |shard, of_shard: &mut [&mut [u32]]| {
            let mut at = 0;
            for rows in chunks.iter().map(|chunk| chunk.of_shard(shard)) {
                of_shard[0][at..at + rows.len()].copy_from_slice(rows);
                at += rows.len();
            }
        });
        chunks.iter_mut().for_each(|chunk| chunk.rows = Vec::new());
        Ok(Partitioned { starts, rows, chunks })
    }

    /// The number of rows of a shard.
    pub(super) fn len(&self, shard: usize) -> usize {
        self.starts[shard + 1] - self.starts[shard]
    }

    /// Appends a shard's part of a column to `to`.
    pub(super) fn append<T: Word>(&self, shard: usize, column: &[T], to: &mut Vec<T>) -> Result<()> {
        let rows = &self.rows[self.starts[shard]..self.starts[shard + 1]];
        memory::reserve(to, rows.len())?;
        append(to, rows.len(), COPIED_AT_ONCE, |i| column[rows[i] as usize]);
        Ok(())
    }

    /// Splits a slice in the order of the shards into one piece per shard.
    pub(super) fn cut<'a, T>(&self, mut partitioned: &'a mut [T]) -> Vec<&'a mut [T]> {
        (0..self.starts.len() - 1)
            .map(|shard| partitioned.split_off_mut(..self.len(shard)).unwrap_or_default())
            .collect()
    }

    /// Writes answers in the order of the rows: bits, and values unless `to` is empty.
    pub(super) fn scatter_answers<T: Word>(&self, partitioned: &[T], hits: &[u8], to: &mut [T], found: &mut [u32]) {
        each((to, Per(32, found), Per(CHUNK, &self.chunks[..])), CHUNK, |_, (to, Per(_, found), Per(_, chunks))| {
            to.iter_mut().zip(self.places(&chunks[0])).for_each(|(to, place)| *to = partitioned[place]);
            self.bits(&chunks[0], hits, found);
        });
    }

    /// As [`scatter_answers`](Self::scatter_answers), for words without bits.
    pub(super) fn scatter_words<T: Word>(&self, partitioned: &[T], to: &mut [T]) {
        each((to, Per(CHUNK, &self.chunks[..])), CHUNK, |_, (to, Per(_, chunks))| {
            to.iter_mut().zip(self.places(&chunks[0])).for_each(|(to, place)| *to = partitioned[place]);
        });
    }

    /// As [`scatter_answers`](Self::scatter_answers), for lists: `partitioned` contains the lists of each shard, and
    /// `offsets` the start of each row's list in `to`, followed by the end of the last.
    pub(super) fn scatter_lists<T: Word>(&self, partitioned: &[Retrieved<T>], offsets: &[u64], mut to: &mut [T]) {
        let rows = offsets.len().saturating_sub(1);
        let ends = (1..=self.chunks.len()).map(|chunk| (chunk * CHUNK).min(rows));
        let lengths = ends.map(|end| (offsets[end] - offsets[end.saturating_sub(1) / CHUNK * CHUNK]) as usize);
        let mut pieces: Vec<&mut [T]> = lengths.map(|len| to.split_off_mut(..len).unwrap_or_default()).collect();
        each((&mut pieces[..], &self.chunks[..]), 1, |_, (pieces, chunks): (&mut [&mut [T]], &[Chunk])| {
            let mut at = 0;
            for (place, &shard) in self.places(&chunks[0]).zip(&chunks[0].shards) {
                let list = partitioned[usize::from(shard)].of(place - self.starts[usize::from(shard)]);
                pieces[0][at..at + list.len()].copy_from_slice(list);
                at += list.len();
            }
        });
    }

    /// As [`scatter_answers`](Self::scatter_answers), for bits without words.
    pub(super) fn scatter_bits(&self, hits: &[u8], found: &mut [u32]) {
        each((Per(32, found), Per(CHUNK, &self.chunks[..])), CHUNK, |_, (Per(_, found), Per(_, chunks))| {
            self.bits(&chunks[0], hits, found);
        });
    }

    fn bits(&self, chunk: &Chunk, hits: &[u8], found: &mut [u32]) {
        found.fill(0);
        for (i, place) in self.places(chunk).enumerate() {
            found[i / 32] |= u32::from(hits[place]) << (i % 32);
        }
    }

    /// The places of a chunk's rows, in order.
    fn places(&self, chunk: &Chunk) -> impl Iterator<Item = usize> {
        let starts = self.starts.iter().zip(&chunk.before);
        let mut next: Vec<usize> = starts.map(|(start, &before)| start + before as usize).collect();
        chunk.shards.iter().map(move |&shard| {
            let place = &mut next[usize::from(shard)];
            *place += 1;
            *place - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitioned_rows_keep_their_order_and_are_restored() -> Result<()> {
        for (rows, shards) in [(0, 3), (1, 1), (1000, 4096), (3 * CHUNK + 77, 5), (2 * CHUNK, 1)] {
            let which = ShardOf::new(shards, 9)?;
            let keys: Vec<u64> = (0..rows as u64).map(|row| row.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 5000).collect();
            let partitioned = Partitioned::of(&which, &keys)?;
            let numbers: Vec<u32> = (0..rows as u32).collect();
            let mut all = Vec::new();
            for shard in 0..shards {
                let before = all.len();
                partitioned.append(shard, &numbers, &mut all)?;
                let expected = numbers.iter().copied().filter(|&row| which.of(keys[row as usize]) == shard);
                assert!(all[before..].iter().copied().eq(expected), "shard {shard} of {shards}");
                assert_eq!(all.len() - before, partitioned.len(shard));
            }
            let hits: Vec<u8> = all.iter().map(|row| u8::from(row % 3 == 0)).collect();
            let (mut back, mut found) = (vec![7; rows], vec![u32::MAX; rows.div_ceil(32)]);
            partitioned.scatter_answers(&all, &hits, &mut back, &mut found);
            assert_eq!(back, numbers);
            assert!((0..32 * found.len()).all(|i| (found[i / 32] >> (i % 32) & 1 == 1) == (i < rows && i % 3 == 0)));
            let mut bits = vec![u32::MAX; found.len()];
            partitioned.scatter_bits(&hits, &mut bits);
            assert_eq!(bits, found);
            let mut words = vec![7; rows];
            partitioned.scatter_words(&all, &mut words);
            assert_eq!(words, numbers);
            // Row i has a list of i % 3 elements, each i.
            let mut rest = &all[..];
            let lists: Vec<Retrieved> = (0..shards)
                .map(|shard| {
                    let mut list = Retrieved { offsets: vec![0], values: Vec::new() };
                    for &row in rest.split_off(..partitioned.len(shard)).unwrap_or_default() {
                        list.values.extend((0..row % 3).map(|_| row));
                        list.offsets.push(list.values.len() as u64);
                    }
                    list
                })
                .collect();
            let (mut offsets, mut expected) = (vec![0], Vec::new());
            for row in numbers {
                expected.extend((0..row % 3).map(|_| row));
                offsets.push(expected.len() as u64);
            }
            let mut to = vec![0; expected.len()];
            partitioned.scatter_lists(&lists, &offsets, &mut to);
            assert_eq!(to, expected);
        }
        Ok(())
    }
}
