//! The distinct keys of a column in the order of their first rows, and each row's number among them.
//!
//! ```text
//! bits       a bitmap of the rows, with a one at each first row;    unique = the keys there
//! renumber   each key's first row becomes its rank: the ones of the bitmap before it
//! ids        the number found for each row
//! ```
//!
//! The front of a long column with few distinct keys usually contains all of them. So the front is numbered first; if
//! every row then finds its key, the rest of the column is read only once. With many keys and several threads, rows are
//! numbered by partitions instead (`partitioned.rs`).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::partitioned::ByPartition;
use super::{FirstOccurrences, Kind, Memory, alone, brief, estimate, grain, most_addressed, partitioned, range};
use crate::backend::join_rows::NO_ROW;
use crate::backend::{DeviceBuffer, HashBackend, Word, bitmap_words};
use crate::cpu::memory::atomic_u32;
use crate::cpu::primitives::{Kept, of_rows};
use crate::cpu::relational::running_sums;
use crate::cpu::{CHUNK, Cpu};
use crate::error::{Error, Result};
use crate::parallel::{Per, any, collect, each, threads};
use crate::scheme::Key;

/// Rows of a front, and the approximate number of times that each of its keys must occur in it.
const FRONT: usize = 1 << 16;
const COPIES: usize = 16;
/// The most rows of a column that one thread numbers, and about the most keys: their table takes 4 MiB.
const BRIEF_ROWS: usize = 1 << 23;
const BRIEF_KEYS: usize = 1 << 18;
/// The least number of keys that are numbered by partitions.
const MANY: usize = 1 << 13;
/// With more rows per key, on average, one table finds the distinct keys in less time than partitions, because most of
/// its lines that rows need are in caches.
const ROWS_FOR_TABLE: usize = 12;
/// With more rows per key, on average, rows are numbered by one table: partitions are not much faster, and take 10
/// bytes per row for any number of keys.
const ROWS_FOR_NUMBERS: usize = 1 << 10;
/// With fewer rows per key, on average, aggregating by partition takes more time than by ids, because each group is
/// read from another partition. With two threads, it also does in shorter columns.
const ROWS_TO_AGGREGATE: usize = 2;
const LONG: usize = 1 << 22;
/// With fewer rows per key, on average, first rows are found by a lookup of each row.
const ROWS_A_KEY: usize = 4;

/// The distinct keys of a column in order of first occurrence, and an index of their numbers.
pub(crate) struct Numbering<K: Key> {
    pub(crate) unique: Memory<K>,
    /// `None` if all keys are distinct: then the number of a row is the row.
    numbers: Option<FirstOccurrences<K>>,
}

impl<K: Key> Numbering<K> {
    /// Writes the numbers of the keys of consecutive rows, of which `first` is the first.
    ///
    /// Returns whether all keys are known. Only a front's numbering can lack keys.
    #[inline(always)]
    pub(in crate::cpu) fn look(&self, first: usize, keys: &[K], to: &mut [u32]) -> bool {
        match &self.numbers {
            Some(numbers) => {
                numbers.look(keys, to);
                !to.contains(&NO_ROW)
            }
            None => {
                to.iter_mut().zip(first..).for_each(|(to, row)| *to = row as u32);
                true
            }
        }
    }

    /// Writes the numbers of all rows. Returns false if a key is unknown; the contents of `ids` are then unspecified.
    pub(crate) fn write(&self, keys: &[K], ids: &mut [u32]) -> bool {
        let unknown = AtomicBool::new(false);
        let size = grain(keys.len());
        each((keys, ids), size, |number, (keys, ids)| {
            if !unknown.load(Relaxed) && !self.look(number * size, keys, ids) {
                unknown.store(true, Relaxed);
            }
        });
        !unknown.into_inner()
    }

    /// Whether the keys of all rows are known.
    fn knows(&self, keys: &[K]) -> bool {
        !any(keys, CHUNK, |_, keys| !self.look(0, keys, &mut [0; CHUNK][..keys.len()]))
    }
}

/// The distinct keys of a column, and how to get the numbers of its rows.
pub(in crate::cpu) enum Numbered<K: Key> {
    /// The numbers are written.
    ById(Memory<K>),
    ByKey(Numbering<K>),
}

/// Ranks of the ones of a bitmap.
struct Rank {
    bits: Memory<u32>,
    /// The number of ones before each word.
    before: Memory<u32>,
}

impl Rank {
    fn of(bits: Memory<u32>) -> Result<Self> {
        const WORDS: usize = CHUNK / 32;
        let mut before = Memory::zeroed(bits.len())?;
        let words = bits.words();
        let size = grain(words.len() * 32) / 32;
        let ones = |_, words: &[u32]| words.iter().map(|word| word.count_ones()).sum();
        let sums = running_sums::<u32>(collect(words, size.max(WORDS), ones)?);
        each((before.words_mut()?, words, Per(size, &sums[..])), size, |_, (to, words, Per(_, sums))| {
            let mut sum = sums[0];
            for (to, word) in to.iter_mut().zip(words) {
                *to = sum;
                sum += word.count_ones();
            }
        });
        Ok(Rank { bits, before })
    }

    /// The number of ones before a position.
    #[inline(always)]
    fn at(&self, place: u32) -> u32 {
        let word = place as usize / 32;
        let (bits, before) = (self.bits.words().get(word), self.before.words().get(word));
        let bits = bits.copied().unwrap_or(0) & ((1 << (place % 32)) - 1);
        before.copied().unwrap_or(0) + bits.count_ones()
    }
}

impl<K: Key> FirstOccurrences<K> {
    /// A bitmap of the rows of `keys`, which are the column, with a one at each first row.
    ///
    /// The first rows in a table are unordered, so several threads change the same words. If there are many first rows,
    /// it is faster to look up the keys of all rows, because no two threads then write to one word.
    fn bits(&self, keys: &[K]) -> Result<Memory<u32>> {
        let mut bits = Memory::zeroed(bitmap_words(self.rows))?;
        if self.distinct > self.rows / ROWS_A_KEY {
            each((keys, Per(32, bits.words_mut()?)), CHUNK, |number, (keys, Per(_, bits))| {
                let mut rows = [0; CHUNK];
                self.look(keys, &mut rows[..keys.len()]);
                for ((bits, rows), first) in
                    bits.iter_mut().zip(rows[..keys.len()].chunks(32)).zip((number * CHUNK..).step_by(32))
                {
                    *bits = rows
                        .iter()
                        .zip(0..)
                        .fold(0, |bits, (&row, i)| bits | u32::from(row as usize == first + i as usize) << i);
                }
            });
            return Ok(bits);
        }
        let words = atomic_u32(bits.words_mut()?);
        self.each(|row| {
            if let Some(word) = words.get(row as usize / 32) {
                word.fetch_or(1 << (row % 32), Relaxed);
            }
        });
        Ok(bits)
    }

    pub(super) fn numbered(mut self, keys: &[K]) -> Result<Numbering<K>> {
        if self.all_distinct() {
            return Ok(Numbering { unique: of_rows(keys.len(), |row| keys[row])?, numbers: None });
        }
        let bits = self.bits(keys)?;
        let unique = Kept::new(bits.words(), true, keys.len())?.of(keys)?;
        let rank = Rank::of(bits)?;
        self.renumber(|row| rank.at(row))?;
        Ok(Numbering { unique, numbers: Some(self) })
    }
}

impl<K: Key> Kind<K> {
    /// The result of `work` by partitions, which receives about the number of distinct keys, if these are about `least`
    /// or more, and there are several threads. Otherwise, and if there is not enough memory, `None`.
    fn partitioned<T>(
        &self,
        rows: usize,
        least: usize,
        work: impl FnOnce(usize) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        match *self {
            Kind::Keys(expected) if expected >= least.max(MANY) && !alone(rows) && threads() > 1 => {
                match work(expected) {
                    Err(Error::OutOfMemory { .. }) => Ok(None),
                    found => found,
                }
            }
            _ => Ok(None),
        }
    }
}

impl Cpu {
    /// The distinct keys of a column in order of first occurrence.
    pub(crate) fn first_seen<K: Key>(&self, keys: &[K]) -> Result<Memory<K>> {
        if let Some(unique) = self.brief(keys, &mut [])? {
            return Ok(unique);
        }
        if let Some(front) = self.front(keys)?
            && self.run(|| front.knows(keys))?
        {
            return Ok(front.unique);
        }
        self.distinct(keys, |row| keys[row])
    }

    /// As [`first_seen`](Self::first_seen). Also writes the number of each row to `ids`, which has the length of the
    /// column.
    pub(crate) fn write_numbered<K: Key>(&self, keys: &[K], ids: &mut [u32]) -> Result<Memory<K>> {
        if let Some(unique) = self.brief(keys, ids)? {
            return Ok(unique);
        }
        self.ledger().kernel("ids", keys.len());
        if let Some(front) = self.front(keys)?
            && self.run(|| front.write(keys, ids))?
        {
            return Ok(front.unique);
        }
        match self.numbering(keys, ids, &self.run(|| Kind::of(keys))?)? {
            Numbered::ById(unique) => Ok(unique),
            Numbered::ByKey(numbering) => {
                self.run(|| numbering.write(keys, ids))?;
                Ok(numbering.unique)
            }
        }
    }

    /// The first row of each distinct key, in ascending order.
    pub(crate) fn distinct_rows<K: Key>(&self, keys: &[K]) -> Result<Memory<u32>> {
        if self.is_brief(keys)? {
            let mut ids = self.unwritten(keys.len())?;
            if let Some(unique) = self.in_one_pass(keys, ids.words_mut()?)? {
                let mut rows = self.unwritten(unique.len())?;
                let mut to = rows.words_mut()?.iter_mut();
                let mut next = 0;
                for (row, &id) in (0..).zip(ids.words()) {
                    if id == next {
                        next += 1;
                        to.next().into_iter().for_each(|to| *to = row);
                    }
                }
                return Ok(rows);
            }
        }
        if let Some(front) = self.front(keys)?
            && self.run(|| front.knows(keys))?
        {
            return self.distinct_rows(&keys[..FRONT]);
        }
        self.distinct(keys, |row| row as u32)
    }

    /// The results of `of_row` for the first row of each distinct key, in order.
    fn distinct<K: Key, T: Word>(&self, keys: &[K], of_row: impl Fn(usize) -> T + Sync) -> Result<Memory<T>> {
        self.ledger_of("first rows", keys.len());
        let of_row = &of_row;
        self.run(|| {
            let kind = Kind::of(keys);
            let by_partitions = |expected| partitioned::numbered(keys, &mut [], expected, of_row);
            if let Some(all) = kind.partitioned(keys.len(), keys.len() / ROWS_FOR_TABLE, by_partitions)? {
                return Ok(all);
            }
            let first = FirstOccurrences::of(self, keys, &kind)?;
            if first.all_distinct() {
                return of_rows(keys.len(), of_row);
            }
            let bits = first.bits(keys)?;
            drop(first);
            Kept::new(bits.words(), true, keys.len())?.of_rows(of_row)
        })
        .flatten()
    }

    /// Whether one thread probably numbers a column in less time than all threads: if it is short or, with at most two
    /// threads, if the table of its keys fits in a second-level cache. Keys of a short range need no table, and a long
    /// column with few keys is numbered by its front.
    fn is_brief<K: Key>(&self, keys: &[K]) -> Result<bool> {
        let rows = keys.len();
        if alone(rows) {
            return Ok(true);
        }
        let is_brief = || {
            let of_front = estimate::distinct(&keys[..FRONT.min(rows)]);
            // With more keys than `BRIEF_KEYS`, less than an eighth of the rows of a front repeat a key.
            threads() <= 2
                && (rows < 4 * FRONT || of_front * COPIES > FRONT + FRONT / 4)
                && of_front < FRONT - FRONT / 8
                && range(keys, most_addressed(rows)).is_none()
        };
        if rows <= BRIEF_ROWS { self.run(is_brief) } else { Ok(false) }
    }

    /// The distinct keys of a column and, if `ids` has its length, the number of each row; `None` if all threads need
    /// less time, or if too many keys share their homes.
    fn brief<K: Key>(&self, keys: &[K], ids: &mut [u32]) -> Result<Option<Memory<K>>> {
        if self.is_brief(keys)? { self.in_one_pass(keys, ids) } else { Ok(None) }
    }

    /// As [`brief`](Self::brief), for columns that one thread numbers.
    fn in_one_pass<K: Key>(&self, keys: &[K], ids: &mut [u32]) -> Result<Option<Memory<K>>> {
        let most = if alone(keys.len()) { keys.len() } else { 2 * BRIEF_KEYS };
        let unique = brief::numbered(keys, ids, most)?;
        if unique.is_some() {
            self.ledger().host("ids by one thread", keys.len());
        }
        Ok(unique)
    }

    /// The numbering of a column of this kind. Writes the number of each row to `ids`, which has the length of the
    /// column, if there are many keys and several threads.
    pub(in crate::cpu) fn numbering<K: Key>(&self, keys: &[K], ids: &mut [u32], kind: &Kind<K>) -> Result<Numbered<K>> {
        self.ledger_of("first rows", keys.len());
        self.run(|| {
            let by_partitions = |expected| partitioned::numbered(keys, ids, expected, |row| keys[row]);
            match kind.partitioned(keys.len(), keys.len() / ROWS_FOR_NUMBERS, by_partitions)? {
                Some(unique) => Ok(Numbered::ById(unique)),
                None => FirstOccurrences::of(self, keys, kind)?.numbered(keys).map(Numbered::ByKey),
            }
        })
        .flatten()
    }

    /// The rows of a column of this kind by partition, with their values. `None` if aggregating by ids probably takes
    /// less time, or if a key has many rows.
    pub(in crate::cpu) fn by_partition<K: Key, V: Word>(
        &self,
        keys: &[K],
        values: &[V],
        kind: &Kind<K>,
    ) -> Result<Option<ByPartition<K, V>>> {
        let rows = keys.len();
        let of_many = |expected| match rows >= ROWS_TO_AGGREGATE * expected && (threads() > 2 || rows >= LONG) {
            true => ByPartition::of(keys, values, expected),
            false => Ok(None),
        };
        self.run(|| kind.partitioned(rows, rows / ROWS_FOR_NUMBERS, of_many)).flatten()
    }

    /// The numbering of a column's front. `None` unless the front has so few keys, each so often, that the rest of the
    /// column probably contains no others. Callers look up all rows, and use [`numbering`](Self::numbering) if a key is
    /// unknown.
    pub(in crate::cpu) fn front<K: Key>(&self, keys: &[K]) -> Result<Option<Numbering<K>>> {
        if keys.len() < 4 * FRONT {
            return Ok(None);
        }
        let front = &keys[..FRONT];
        self.run(|| {
            // One thread numbers the front, so this is only tried if it will probably succeed.
            if estimate::distinct(front) * COPIES > FRONT + FRONT / 4 {
                return Ok(None);
            }
            let first_occurrences = FirstOccurrences::of(self, front, &Kind::of(front))?;
            if first_occurrences.distinct * COPIES > FRONT {
                Ok(None)
            } else {
                first_occurrences.numbered(front).map(Some)
            }
        })
        .flatten()
    }
}
