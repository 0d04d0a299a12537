//! Numbers the keys of a column with many keys by partitions, on all threads.
//!
//! ```text
//! spread    each chunk of rows:   its keys, ordered by partition, which is the top bits of their hash
//! number    each partition:       one thread numbers its keys, chunk by chunk (`brief.rs`); a key is replaced by its
//!                                 number in the partition, and marked if it is new
//! order     each chunk:           its marked rows are first rows, so their ranks are the numbers in the column
//! ids       each chunk:           the numbers in the column of its rows
//! ```
//!
//! Threads share no table. Random accesses are to words of one chunk or of one partition, which fit in a core's cache;
//! between stages, words are read and written in order. In `hashed.rs`, each row waits for a line of one large table.
//! With 16 threads, this takes half the time for 10^6 rows. With one thread, both take the same time.
//!
//! A key with many rows would make its partition long, which one thread numbers. In chunks where one partition has more
//! than 1/[`HEAVY`] of the rows, most rows whose key occurs earlier in the chunk are therefore not spread, but share
//! the word of the earlier row. If a partition is still too long, as with chosen keys, the column is not numbered.
//!
//! Memory: 10 bytes per row and 4 per distinct key, in addition to the result, 4 bytes per chunk and partition, and a
//! partition's table per thread.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crossbeam::utils::CachePadded;

use super::Memory;
use super::brief::{self, Table};
use crate::backend::Word;
use crate::cpu::memory::{atomic, atomic_u32};
use crate::cpu::primitives::{iota, of_rows};
use crate::error::Result;
use crate::memory;
use crate::parallel::{Per, each, fold_with, threads};
use crate::scheme::Key;

/// The least and the greatest number of rows per chunk. Places in a chunk have 16 bits.
const ROWS: [usize; 2] = [if cfg!(test) { 1 << 9 } else { 1 << 12 }, 1 << 16];
/// The approximate number of keys per partition, and the base-2 logarithms of the least and the greatest number of
/// partitions.
const KEYS: usize = 1 << 12;
const BITS: [u32; 2] = [7, 11];
const MOST: usize = 1 << BITS[1];
/// A partition is heavy if it has more than 1/`HEAVY` of the rows of a chunk.
const HEAVY: usize = 32;
/// Places of a chunk that are remembered by key if there is a heavy partition.
const RECENT: usize = 1 << 8;
/// A partition is too long if it has more words than 1/`TOO_LONG` of all rows, and more than the shortest chunk.
const TOO_LONG: usize = 8;
/// Marks the word of a first row.
const FIRST: u64 = 1 << 63;

/// The distinct keys of a column in order of first occurrence, each as the result of `of_row` for its first row. Writes
/// each row's number to `ids`, which has the length of the column or is empty. `expected` is the approximate number of
/// distinct keys. `None` if too many keys have a similar hash.
pub(super) fn numbered<K: Key, T: Word>(
    keys: &[K],
    ids: &mut [u32],
    expected: usize,
    of_row: impl Fn(usize) -> T + Sync,
) -> Result<Option<Memory<T>>> {
    let bits = (expected / KEYS).max(1).ilog2().clamp(BITS[0], BITS[1]);
    let mut rows = Rows::spread(keys, bits)?;
    let Some(counts) = rows.number::<K>(1 << bits, expected >> bits)? else { return Ok(None) };
    let (bases, distinct) = before(&counts)?;
    if distinct as usize == keys.len() {
        iota(ids);
        return of_rows(keys.len(), of_row).map(Some);
    }
    let mut ranks = Memory::zeroed(if ids.is_empty() { 0 } else { distinct as usize })?;
    let ranks_of = atomic_u32(ranks.words_mut()?);
    let unique = rows.order(distinct as usize, |row, number, id| {
        if !ranks_of.is_empty() {
            ranks_of[bases[partition(keys[row], bits)] as usize + number].store(id, Relaxed);
        }
        of_row(row)
    })?;
    rows.write_ids(&bases, ranks.words(), ids)?;
    Ok(Some(unique))
}

/// The rows of a column, by chunk and partition.
struct Rows {
    /// The number of rows of a chunk.
    size: usize,
    chunks: Vec<Chunk>,
    /// Those of a chunk are ordered by partition: first keys, then numbers.
    words: Memory<u64>,
    /// The place of each row's word in its chunk.
    places: Vec<u16>,
}

struct Chunk {
    /// The first word of each partition, and the number of words.
    starts: Vec<u32>,
    /// The number of first rows.
    first_rows: CachePadded<AtomicU32>,
}

impl Rows {
    fn spread<K: Key>(keys: &[K], bits: u32) -> Result<Self> {
        let size = (keys.len() / (4 * threads())).next_power_of_two().clamp(ROWS[0], ROWS[1]);
        let (mut words, mut places) = (Memory::zeroed(keys.len())?, memory::zeroed(keys.len())?);
        let mut chunks = memory::reserved(keys.len().div_ceil(size))?;
        for _ in 0..keys.len().div_ceil(size) {
            chunks.push(Chunk { starts: memory::zeroed((1 << bits) + 1)?, first_rows: CachePadded::default() });
        }
        let columns = (keys, words.words_mut()?, &mut places[..], Per(size, &mut chunks[..]));
        let spread = |spread: &mut Spread<K>, _, columns: Columns<'_, K>| {
            let (keys, words, places, Per(_, chunk)) = columns;
            spread.chunk(keys, words, places, &mut chunk[0].starts).err()
        };
        if let Some(error) = fold_with(columns, size, Spread::default, spread, Option::or).flatten() {
            return Err(error);
        }
        Ok(Rows { size, chunks, words, places })
    }

    /// Replaces each key by its number in its partition, with [`FIRST`] if it is the first. Returns the number of keys
    /// of each partition; `None` if too many keys share their homes. `expected` is the approximate number of keys per
    /// partition.
    fn number<K: Key>(&mut self, partitions: usize, expected: usize) -> Result<Option<Vec<u32>>> {
        let (words, chunks, size) = (atomic(self.words.words_mut()?), &self.chunks[..], self.size);
        let mut lengths = memory::zeroed::<usize>(partitions)?;
        for chunk in chunks {
            for (length, range) in lengths.iter_mut().zip(chunk.starts.windows(2)) {
                *length += (range[1] - range[0]) as usize;
            }
        }
        let longest = (self.places.len() / TOO_LONG).max(ROWS[0]);
        if lengths.iter().any(|&length| length > longest) {
            return Ok(None);
        }
        let mut counts = memory::zeroed(partitions)?;
        let number_one = |table: &mut Table<K>, partition: usize, count: &mut [u32]| -> Result<bool> {
            let range = |chunk: &Chunk| chunk.starts[partition] as usize..chunk.starts[partition + 1] as usize;
            table.clear(expected)?;
            for (chunk, words) in chunks.iter().zip(words.chunks(size)) {
                let known = table.unique().len();
                for word in &words[range(chunk)] {
                    let Some((number, is_new)) = table.number(K::low(word.load(Relaxed)))? else { return Ok(false) };
                    word.store(u64::from(number) | if is_new { FIRST } else { 0 }, Relaxed);
                }
                chunk.first_rows.fetch_add((table.unique().len() - known) as u32, Relaxed);
            }
            count[0] = table.unique().len() as u32;
            Ok(true)
        };
        let both = |a: Result<bool>, b: Result<bool>| Ok(a? && b?);
        let all = fold_with(&mut counts[..], 1, Table::default, number_one, both).unwrap_or(Ok(true))?;
        Ok(all.then_some(counts))
    }

    /// The results of `of_row` for each first row, its number in its partition, and its rank among `distinct` first
    /// rows. Removes [`FIRST`].
    fn order<T: Word>(&mut self, distinct: usize, of_row: impl Fn(usize, usize, u32) -> T + Sync) -> Result<Memory<T>> {
        let mut counts = memory::reserved(self.chunks.len())?;
        counts.extend(self.chunks.iter().map(|chunk| chunk.first_rows.load(Relaxed)));
        let (ranks, _) = before(&counts)?;
        let mut all = Memory::zeroed(distinct)?;
        let mut rest = all.words_mut()?;
        let mut shares = memory::reserved(counts.len())?;
        for (&rank, &count) in ranks.iter().zip(&counts) {
            shares.push((rank, rest.split_off_mut(..count as usize).unwrap_or_default()));
        }
        let size = self.size;
        let columns = (&self.places[..], self.words.words_mut()?, Per(size, &mut shares[..]));
        each(columns, size, |number, (places, words, Per(_, share))| {
            let (first, to) = &mut share[0];
            let mut to = (*first..).zip(to.iter_mut());
            for (row, &place) in (number * size..).zip(places) {
                let word = &mut words[usize::from(place)];
                if *word & FIRST != 0 {
                    *word ^= FIRST;
                    to.next().into_iter().for_each(|(rank, to)| *to = of_row(row, *word as usize, rank));
                }
            }
        });
        Ok(all)
    }

    /// Writes the rank of each row's key. `ranks` are those of the numbers of all partitions, which begin at `bases`.
    fn write_ids(&mut self, bases: &[u32], ranks: &[u32], ids: &mut [u32]) -> Result<()> {
        let columns = (ids, &self.places[..], self.words.words_mut()?, Per(self.size, &self.chunks[..]));
        each(columns, self.size, |_, (ids, places, words, Per(_, chunk))| {
            for (range, &base) in chunk[0].starts.windows(2).zip(bases) {
                for word in &mut words[range[0] as usize..range[1] as usize] {
                    *word = ranks[base as usize + *word as usize].into();
                }
            }
            ids.iter_mut().zip(places).for_each(|(id, &place)| *id = words[usize::from(place)] as u32);
        });
        Ok(())
    }
}

/// The sum of the numbers before each number, and of all.
fn before(numbers: &[u32]) -> Result<(Vec<u32>, u32)> {
    let mut sums = memory::reserved(numbers.len())?;
    let mut sum = 0;
    for number in numbers {
        sums.push(sum);
        sum += number;
    }
    Ok((sums, sum))
}

#[inline(always)]
fn partition<K: Key>(key: K, bits: u32) -> usize {
    (brief::hash(key) >> (u64::BITS - bits)) as usize % MOST
}

/// Keys of some chunks, and the chunks' words, places and partitions.
type Columns<'a, K> = (&'a [K], &'a mut [u64], &'a mut [u16], Per<&'a mut [Chunk]>);

/// Spreads chunks: what a thread reuses from one to the next.
#[derive(Default)]
struct Spread<K> {
    /// The keys to spread, if rows share words.
    keys: Vec<K>,
    /// The partition of each key.
    partitions: Vec<u16>,
    /// The place of each key's word, if rows share words.
    places: Vec<u16>,
    /// The number of keys of each partition, and then the place of its next one.
    counts: Vec<u32>,
}

/// Extends a vector by zeros to this length.
fn extended<T: Copy + Default>(elements: &mut Vec<T>, len: usize) -> Result<()> {
    memory::reserve(elements, len.saturating_sub(elements.len()))?;
    elements.resize(len.max(elements.len()), T::default());
    Ok(())
}

impl<K: Key> Spread<K> {
    /// Writes the keys of a chunk to its words, ordered by partition, and the place of each row's word.
    fn chunk(&mut self, keys: &[K], words: &mut [u64], places: &mut [u16], starts: &mut [u32]) -> Result<()> {
        extended(&mut self.partitions, keys.len())?;
        extended(&mut self.counts, MOST)?;
        self.count(keys, starts);
        if self.counts.iter().all(|&count| count as usize <= keys.len() / HEAVY) {
            self.place(keys, words, places, starts);
            return Ok(());
        }
        extended(&mut self.keys, keys.len())?;
        extended(&mut self.places, keys.len())?;
        // Without branches, which the processor could not predict.
        let (mut recent, mut len) = ([0_u16; RECENT], 0);
        for (&key, to) in keys.iter().zip(&mut *places) {
            let recent = &mut recent[(brief::hash(key) >> 16) as usize % RECENT];
            let is_new = (usize::from(*recent) >= len) | (self.keys[usize::from(*recent)] != key);
            self.keys[len] = key;
            *recent = if is_new { len as u16 } else { *recent };
            *to = *recent;
            len += usize::from(is_new);
        }
        let (keys, mut of_keys) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.places));
        self.count(&keys[..len], starts);
        self.place(&keys[..len], words, &mut of_keys, starts);
        places.iter_mut().for_each(|place| *place = of_keys[usize::from(*place)]);
        (self.keys, self.places) = (keys, of_keys);
        Ok(())
    }

    /// Sets the partitions of keys, and the first place of each partition.
    fn count(&mut self, keys: &[K], starts: &mut [u32]) {
        let bits = (starts.len() - 1).ilog2();
        self.counts.fill(0);
        for (&key, of) in keys.iter().zip(&mut self.partitions) {
            let partition = partition(key, bits);
            *of = partition as u16;
            self.counts[partition] += 1;
        }
        let mut sum = 0;
        for (start, count) in starts.iter_mut().zip(self.counts.iter().chain([&0])) {
            *start = sum;
            sum += count;
        }
    }

    /// Writes keys to their words, and the places of these.
    fn place(&mut self, keys: &[K], words: &mut [u64], places: &mut [u16], starts: &[u32]) {
        self.counts.iter_mut().zip(starts).for_each(|(next, &start)| *next = start);
        for ((&key, &partition), place) in keys.iter().zip(&self.partitions).zip(places) {
            let next = &mut self.counts[usize::from(partition) % MOST];
            *place = *next as u16;
            words[*next as usize] = key.into();
            *next += 1;
        }
    }
}
