//! Numbers the keys of a column with many keys by partitions, on all threads; groups are aggregated by partition, too.
//!
//! ```text
//! spread    each chunk of rows:   its keys, ordered by partition, which is the top bits of their hash
//! number    each partition:       one thread numbers its keys, chunk by chunk (`brief.rs`); a key is replaced by its
//!                                 number in the partition, and marked if it is new
//! order     each chunk:           its marked rows are first rows, so their ranks are the numbers in the column
//! ids       each chunk:           the numbers in the column of its rows
//! groups    each partition:       one thread aggregates its rows by their numbers in it (`groups.rs`), so ids are not
//!                                 written; values are spread with their keys
//! ```
//!
//! Threads share no table. Random accesses are to words of one chunk or of one partition, which fit in a core's cache;
//! between stages, words are read and written in order. In `hashed.rs`, each row waits for a line of one large table.
//! With 16 threads, this takes half the time for 10^6 rows. With one thread, both take the same time.
//!
//! A key with many rows would make its partition long, which one thread numbers. In chunks where one partition has more
//! than 1/[`HEAVY`] of the rows, most rows whose key occurs earlier in the chunk are therefore not spread, but share
//! the word of the earlier row. If a partition is still too long, as with chosen keys, the column is not numbered.
//! Rows that share a word have no values there, so groups with a heavy key are aggregated by ids.
//!
//! Memory: 10 bytes per row and 4 per distinct key, in addition to the result, 4 bytes per chunk and partition, a
//! partition's table per thread, and the size of the values, if there are some.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use crossbeam::utils::CachePadded;

use super::Memory;
use super::brief::{self, Table};
use crate::backend::Word;
use crate::cpu::CHUNK;
use crate::cpu::memory::{atomic, atomic_u32};
use crate::cpu::primitives::{iota, of_rows};
use crate::error::Result;
use crate::memory;
use crate::parallel::{Per, collect, each, fold_with, threads};
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
    let bits = bits_for(expected);
    let Some((mut rows, _)) = Rows::spread::<K, u32>(keys, &[], bits, true)? else { return Ok(None) };
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

/// The base-2 logarithm of the number of partitions.
fn bits_for(expected: usize) -> u32 {
    (expected / KEYS).max(1).ilog2().clamp(BITS[0], BITS[1])
}

/// A column whose keys have a number in their partition, and the values of its rows.
pub(in crate::cpu) struct ByPartition<K: Key, V: Word> {
    /// The distinct keys in order of first occurrence.
    pub(in crate::cpu) unique: Memory<K>,
    /// The code of each of them: the partition, and its number there in the lower `shift` bits.
    pub(in crate::cpu) codes: Memory<u32>,
    pub(in crate::cpu) shift: u32,
    /// The number of distinct keys of each partition.
    counts: Vec<u32>,
    rows: Rows,
    values: Memory<V>,
}

impl<K: Key, V: Word> ByPartition<K, V> {
    /// `values` are those of the rows, or empty. `None` if a key is heavy, or as [`numbered`].
    pub(super) fn of(keys: &[K], values: &[V], expected: usize) -> Result<Option<Self>> {
        let bits = bits_for(expected);
        let Some((mut rows, values)) = Rows::spread(keys, values, bits, false)? else { return Ok(None) };
        let Some(counts) = rows.number::<K>(1 << bits, expected >> bits)? else { return Ok(None) };
        let shift = counts.iter().max().map_or(0, |most| most.next_power_of_two().ilog2());
        if bits + shift > u32::BITS {
            return Ok(None);
        }
        let (_, distinct) = before(&counts)?;
        let mut codes = Memory::zeroed(distinct as usize)?;
        let to = atomic_u32(codes.words_mut()?);
        let unique = rows.order(distinct as usize, |row, number, id| {
            to[id as usize].store((partition(keys[row], bits) << shift | number) as u32, Relaxed);
            keys[row]
        })?;
        Ok(Some(ByPartition { unique, codes, shift, counts, rows, values }))
    }

    /// The results of `begin`, one for each partition, which receives the codes of its keys; and then, by `take`, the
    /// numbers and values of its rows.
    pub(in crate::cpu) fn each_partition<C: Send>(
        &self,
        begin: impl Fn(Range<usize>) -> Result<C> + Sync,
        take: impl Fn(&mut C, &[u32], &[V]) -> Result<()> + Sync,
    ) -> Result<Vec<C>> {
        let Rows { size, chunks, words, .. } = &self.rows;
        let (words, values) = (words.words(), self.values.words());
        let of_partition = |partition: usize, count: u32| -> Result<C> {
            let first = partition << self.shift;
            let (mut found, mut numbers) = (begin(first..first + count as usize)?, [0; CHUNK]);
            for (chunk, start) in chunks.iter().zip((0..).step_by(*size)) {
                let mut rows = start + chunk.starts[partition] as usize..start + chunk.starts[partition + 1] as usize;
                while !rows.is_empty() {
                    let some = rows.start..rows.end.min(rows.start + CHUNK);
                    let numbers = &mut numbers[..some.len()];
                    numbers.iter_mut().zip(&words[some.clone()]).for_each(|(to, &word)| *to = word as u32);
                    take(&mut found, numbers, values.get(some.clone()).unwrap_or(&[]))?;
                    rows.start = some.end;
                }
            }
            Ok(found)
        };
        let found = collect(&self.counts[..], 1, |partition, count| Some(of_partition(partition, count[0])))?;
        let mut all = memory::reserved(found.len())?;
        for found in found.into_iter().flatten() {
            all.push(found?);
        }
        Ok(all)
    }

    /// The group of each code, in the order of partitions, and the first of each partition.
    pub(in crate::cpu) fn groups_of_codes(&self) -> Result<impl Fn(u32) -> u32 + Sync + use<K, V>> {
        let ((bases, distinct), shift) = (before(&self.counts)?, self.shift);
        let mut groups: Vec<u32> = memory::zeroed(distinct as usize)?;
        let place =
            move |code: u32| (bases[(u64::from(code) >> shift) as usize] + (code & ((1 << shift) - 1))) as usize;
        (0..).zip(self.codes.words()).for_each(|(group, &code)| groups[place(code)] = group);
        Ok(move |code| groups[place(code)])
    }
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
    /// The rows, and the values of their words, if there are values. `None` unless rows of a heavy key may share words,
    /// if there is one.
    fn spread<K: Key, V: Word>(
        keys: &[K],
        values: &[V],
        bits: u32,
        may_share: bool,
    ) -> Result<Option<(Self, Memory<V>)>> {
        let size = (keys.len() / (4 * threads())).next_power_of_two().clamp(ROWS[0], ROWS[1]);
        let (mut words, mut places) = (Memory::zeroed(keys.len())?, memory::zeroed(keys.len())?);
        let mut chunks = memory::reserved(keys.len().div_ceil(size))?;
        for _ in 0..keys.len().div_ceil(size) {
            chunks.push(Chunk { starts: memory::zeroed((1 << bits) + 1)?, first_rows: CachePadded::default() });
        }
        let mut spread_values = Memory::zeroed(values.len())?;
        let to = (words.words_mut()?, &mut places[..], spread_values.words_mut()?);
        let is_refused = AtomicBool::new(false);
        let spread = |spread: &mut Spread<K>, _, columns: Columns<'_, K, V>| {
            let ((keys, values), (words, places, to_values), Per(_, chunk)) = columns;
            if is_refused.load(Relaxed) {
                return Ok(());
            }
            if spread.counted(keys, &mut chunk[0].starts)? {
                spread.place(keys, words, places, &chunk[0].starts, (values, to_values));
                return Ok(());
            }
            is_refused.fetch_or(!may_share, Relaxed);
            if may_share { spread.shared(keys, words, places, &mut chunk[0].starts) } else { Ok(()) }
        };
        let columns = ((keys, values), to, Per(size, &mut chunks[..]));
        fold_with(columns, size, Spread::default, spread, Result::and).unwrap_or(Ok(()))?;
        Ok((!is_refused.into_inner()).then_some((Rows { size, chunks, words, places }, spread_values)))
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

/// Keys and values of some chunks, the chunks' words and places with the values of the words, and their partitions.
type Columns<'a, K, V> = ((&'a [K], &'a [V]), (&'a mut [u64], &'a mut [u16], &'a mut [V]), Per<&'a mut [Chunk]>);

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
    /// Sets the partitions of the keys of a chunk. Returns whether none is heavy.
    fn counted(&mut self, keys: &[K], starts: &mut [u32]) -> Result<bool> {
        extended(&mut self.partitions, keys.len())?;
        extended(&mut self.counts, MOST)?;
        self.count(keys, starts);
        Ok(self.counts.iter().all(|&count| count as usize <= keys.len() / HEAVY))
    }

    /// Writes the keys of a chunk to its words, ordered by partition, and the place of each row's word, which most rows
    /// share with an earlier row of the same key.
    fn shared(&mut self, keys: &[K], words: &mut [u64], places: &mut [u16], starts: &mut [u32]) -> Result<()> {
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
        self.place::<u32>(&keys[..len], words, &mut of_keys, starts, (&[], &mut []));
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

    /// Writes keys to their words, the places of these, and the values, if there are some, to the same places.
    fn place<V: Word>(
        &mut self,
        keys: &[K],
        words: &mut [u64],
        places: &mut [u16],
        starts: &[u32],
        (values, to_values): (&[V], &mut [V]),
    ) {
        self.counts.iter_mut().zip(starts).for_each(|(next, &start)| *next = start);
        for ((&key, &partition), place) in keys.iter().zip(&self.partitions).zip(&mut *places) {
            let next = &mut self.counts[usize::from(partition) % MOST];
            *place = *next as u16;
            words[*next as usize] = key.into();
            *next += 1;
        }
        values.iter().zip(places).for_each(|(&value, &mut place)| to_values[usize::from(place)] = value);
    }
}
