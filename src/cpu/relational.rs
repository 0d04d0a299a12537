//! [`Relational`] on the CPU: the passes of grouping and joining.
//!
//! ```text
//! ranks, offsets   count each chunk, sum the counts, continue each chunk from the sum before it
//! expand           each chunk of the list finds its first run by binary search, and continues from there
//! accumulate       in cells that threads do not share (`aggregate.rs`)
//! ```

use std::sync::atomic::Ordering::Relaxed;

use bytemuck::{cast_slice, cast_slice_mut};

use super::memory::{atomic, atomic_u32};
use super::{CHUNK, Cpu, Memory};
use crate::backend::{
    Accumulated, DeviceBuffer, Expanded, HashBackend, KeySlots, Numbers, Relational, Spans, Wanted, WideAccumulated,
    Word, bitmap_words,
};
use crate::error::{Error, Result};
use crate::parallel::{Divide, Per, collect, each};
use crate::scheme::Key;
use crate::scheme::shard::ShardOf;

impl Cpu {
    /// A bitmap of the places below `len` for which `is_one` is true.
    fn bits_where(&self, pass: &'static str, len: usize, is_one: impl Fn(usize) -> bool + Sync) -> Result<Memory<u32>> {
        self.ledger().kernel(pass, len);
        let mut bits = Memory::zeroed(bitmap_words(len))?;
        let words = bits.words_mut()?;
        self.run(|| {
            each((0..len, Per(32, words)), CHUNK, |_, (mut places, Per(_, words))| {
                for word in words {
                    let (of_word, behind) = places.cut(32);
                    *word = of_word.fold(0, |bits, i| bits | u32::from(is_one(i)) << (i % 32));
                    places = behind;
                }
            });
        })?;
        Ok(bits)
    }
}

impl Relational for Cpu {
    fn mark(&self, places: &Memory<u32>, len: usize) -> Result<Memory<u32>> {
        self.ledger().kernel("mark", places.len());
        let mut bits = Memory::zeroed(bitmap_words(len))?;
        let words = atomic_u32(bits.words_mut()?);
        self.run(|| {
            each(places.words(), CHUNK, |_, places| {
                for &place in places.iter().filter(|&&place| (place as usize) < len) {
                    let (word, bit) = (&words[place as usize / 32], 1 << (place % 32));
                    // If a place occurs a million times, its bit is written once.
                    if word.load(Relaxed) & bit == 0 {
                        word.fetch_or(bit, Relaxed);
                    }
                }
            });
        })?;
        Ok(bits)
    }

    fn heads<T: Word>(&self, column: &Memory<T>) -> Result<Memory<u32>> {
        let column = column.words();
        self.bits_where("heads", column.len(), |i| i == 0 || column[i] != column[i - 1])
    }

    fn tails<T: Word>(&self, column: &Memory<T>) -> Result<Memory<u32>> {
        let column = column.words();
        self.bits_where("tails", column.len(), |i| i + 1 == column.len() || column[i] != column[i + 1])
    }

    fn shards<K: Key>(&self, keys: &Memory<K>, which: &ShardOf) -> Result<Memory<u32>> {
        self.ledger().kernel("shards", keys.len());
        let mut shards = Memory::zeroed(keys.len())?;
        let words = shards.words_mut()?;
        self.run(|| {
            each((words, keys.words()), CHUNK, |_, (to, keys)| {
                to.iter_mut().zip(keys).for_each(|(to, &key)| *to = which.of(key) as u32);
            });
        })?;
        Ok(shards)
    }

    fn ranks(&self, bits: &Memory<u32>, len: usize) -> Result<Memory<u32>> {
        Error::check_length("the bitmap", bits.len(), bitmap_words(len))?;
        self.ledger().kernel("ranks", len);
        let bits = bits.words();
        let mut ranks = Memory::zeroed(len)?;
        let words = ranks.words_mut()?;
        self.run(|| {
            let ones = |_, words: &[u32]| words.iter().map(|word| word.count_ones()).sum();
            let before = running_sums::<u32>(collect(bits, CHUNK / 32, ones)?);
            let columns = (words, Per(32, bits), Per(CHUNK, &before[..]));
            each(columns, CHUNK, |_, (to, Per(_, bits), Per(_, before))| {
                // Minus one, wrapping: the rank of the first one is 0.
                let mut rank = before[0].wrapping_sub(1);
                for (i, to) in to.iter_mut().enumerate() {
                    rank = rank.wrapping_add(bits[i / 32] >> (i % 32) & 1);
                    *to = rank;
                }
            });
            Ok(())
        })
        .flatten()?;
        Ok(ranks)
    }

    fn scatter<T: Word>(&self, values: &Memory<T>, places: &Memory<u32>, len: usize) -> Result<Memory<T>> {
        Error::check_length("the places", places.len(), values.len())?;
        self.ledger().kernel("scatter", places.len());
        let mut to = Memory::zeroed(len)?;
        let (words, values) = (to.words_mut()?, values.words());
        self.run(|| match T::BITS {
            u32::BITS => {
                let (to, values) = (atomic_u32(cast_slice_mut(words)), cast_slice::<T, u32>(values));
                put_each(places.words(), to, |i, to| to.store(values[i], Relaxed));
            }
            _ => {
                let (to, values) = (atomic(cast_slice_mut(words)), cast_slice::<T, u64>(values));
                put_each(places.words(), to, |i, to| to.store(values[i], Relaxed));
            }
        })?;
        Ok(to)
    }

    /// Slots are numbered from the last one down, by first occurrence.
    fn key_slots<K: Key>(&self, keys: &Memory<K>, bits: u32) -> Result<Option<KeySlots<Memory<u32>>>> {
        let mut of_rows: Memory<u32> = self.unwritten(keys.len())?;
        let groups = self.write_numbered(keys.words(), of_rows.words_mut()?)?.len();
        let last = 1 << bits;
        if groups > last {
            return Ok(None);
        }
        let mut first_rows = self.filled(last + 1, u32::MAX)?;
        let first_occurrences = first_rows.words_mut()?;
        for (row, slot) in (0..).zip(of_rows.words_mut()?) {
            *slot = last as u32 - *slot;
            let first = &mut first_occurrences[*slot as usize];
            *first = row.min(*first);
        }
        Ok(Some(KeySlots { first_rows, of_rows }))
    }

    fn spans(
        &self,
        starts: &Memory<u32>,
        ids: &Memory<u32>,
        found: &Memory<u32>,
        missing: Option<u32>,
    ) -> Result<Spans<Memory<u32>>> {
        Error::check_length("the bitmap", found.len(), bitmap_words(ids.len()))?;
        self.ledger().kernel("spans", ids.len());
        let (runs, ids, found) = (starts.words(), ids.words(), found.words());
        let mut spans = Spans { starts: Memory::zeroed(ids.len())?, counts: Memory::zeroed(ids.len())? };
        let (to_starts, to_counts) = (spans.starts.words_mut()?, spans.counts.words_mut()?);
        let of = |i: usize| {
            let id = ids[i] as usize;
            let known = found[i / 32] >> (i % 32) & 1 == 1 && id + 1 < runs.len();
            if known {
                (runs[id], runs[id + 1].wrapping_sub(runs[id]))
            } else {
                (missing.unwrap_or(0), missing.is_some().into())
            }
        };
        self.run(|| {
            each((0..ids.len(), to_starts, to_counts), CHUNK, |_, (rows, starts, counts)| {
                rows.zip(starts).zip(counts).for_each(|((i, start), count)| (*start, *count) = of(i));
            });
        })?;
        Ok(spans)
    }

    fn offsets(&self, counts: &Memory<u32>) -> Result<Memory<u64>> {
        self.ledger().kernel("offsets", counts.len());
        let counts = counts.words();
        let mut offsets = Memory::zeroed(counts.len() + 1)?;
        let words = offsets.words_mut()?;
        self.run(|| {
            let of_chunk = |_, counts: &[u32]| counts.iter().copied().map(u64::from).sum();
            let before = running_sums::<u64>(collect(counts, CHUNK, of_chunk)?);
            // The first offset is 0; each further one is the sum of the counts so far.
            let columns = (counts, &mut words[1..], Per(CHUNK, &before[..]));
            each(columns, CHUNK, |_, (counts, to, Per(_, before))| {
                let mut sum = before[0];
                for (to, &count) in to.iter_mut().zip(counts) {
                    sum += u64::from(count);
                    *to = sum;
                }
            });
            Ok(())
        })
        .flatten()?;
        Ok(offsets)
    }

    fn expand(
        &self,
        offsets: &Memory<u64>,
        starts: &Memory<u32>,
        first: u64,
        len: usize,
    ) -> Result<Expanded<Memory<u32>>> {
        Error::check_length("the offsets", offsets.len(), starts.len() + 1)?;
        self.ledger().kernel("expand", len);
        let (offsets, starts) = (offsets.words(), starts.words());
        let mut expanded = Expanded { runs: Memory::zeroed(len)?, places: Memory::zeroed(len)? };
        let (runs, places) = (expanded.runs.words_mut()?, expanded.places.words_mut()?);
        self.run(|| {
            each((runs, places), CHUNK, |chunk, (runs, places)| {
                let begin = first.saturating_add((chunk * CHUNK) as u64);
                // The last run that begins at or before this position; empty runs before it begin at the same position.
                let mut run = offsets.partition_point(|&offset| offset <= begin).saturating_sub(1);
                for (at, (to_run, to_place)) in (begin..=u64::MAX).zip(runs.iter_mut().zip(places)) {
                    while run < starts.len() && offsets[run + 1] <= at {
                        run += 1;
                    }
                    if run >= starts.len() {
                        break;
                    }
                    (*to_run, *to_place) = (run as u32, starts[run].wrapping_add(at.wrapping_sub(offsets[run]) as u32));
                }
            });
        })?;
        Ok(expanded)
    }

    fn accumulate(
        &self,
        ids: &Memory<u32>,
        values: &Memory<u32>,
        groups: usize,
        wanted: Wanted,
    ) -> Result<Accumulated<Cpu>> {
        let wanted = Wanted { mean: false, ..wanted };
        let needed = if wanted.values() { ids.len() } else { 0 };
        Error::check_length("the values", values.len(), needed)?;
        let WideAccumulated { counts, sums, least, greatest, .. } =
            self.run_accumulate_wide(ids.words(), values.words(), Numbers::Unsigned, groups, wanted)?;
        Ok(Accumulated { counts, sums, least: self.low(&least)?, greatest: self.low(&greatest)? })
    }

    fn accumulate_wide(
        &self,
        ids: &Memory<u32>,
        values: &Memory<u64>,
        of: Numbers,
        groups: usize,
        wanted: Wanted,
    ) -> Result<WideAccumulated<Cpu>> {
        let needed = if wanted.values() { ids.len() } else { 0 };
        Error::check_length("the values", values.len(), needed)?;
        self.run_accumulate_wide(ids.words(), values.words(), of, groups, wanted)
    }

    fn interleave(
        &self,
        cells: &Memory<u64>,
        lower: &Memory<u32>,
        bits: &Memory<u32>,
        empty: u64,
    ) -> Result<Memory<u64>> {
        Error::check_length("the cells", cells.len(), lower.len().div_ceil(2))?;
        Error::check_length("the bitmap", bits.len(), bitmap_words(lower.len()))?;
        self.ledger().kernel("interleave", lower.len());
        let (cells, lower, bits) = (cells.words(), lower.words(), bits.words());
        let mut words = Memory::zeroed(lower.len())?;
        let to = words.words_mut()?;
        let word = |i: usize| match bits[i / 32] >> (i % 32) & 1 {
            1 => (cells[i / 2] >> (32 * (i % 2))) << 32 | u64::from(lower[i]),
            _ => empty,
        };
        self.run(|| {
            each((0..lower.len(), to), CHUNK, |_, (rows, to)| rows.zip(to).for_each(|(i, to)| *to = word(i)));
        })?;
        Ok(words)
    }
}

/// Calls `put` with each row and the cell at its place, if there is one.
fn put_each<T: Sync>(places: &[u32], to: &[T], put: impl Fn(usize, &T) + Sync) {
    each((places, 0..places.len()), CHUNK, |_, (places, rows)| {
        for (&place, row) in places.iter().zip(rows) {
            if let Some(cell) = to.get(place as usize) {
                put(row, cell);
            }
        }
    });
}

/// Exclusive prefix sums.
pub(super) fn running_sums<T: Copy + Default + std::ops::Add<Output = T>>(mut counts: Vec<T>) -> Vec<T> {
    let mut sum = T::default();
    for count in &mut counts {
        (*count, sum) = (sum, sum + *count);
    }
    counts
}
