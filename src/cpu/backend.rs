//! [`HashBackend`] for [`Cpu`]: checks ranges, enters the thread pool and updates the ledger. Other modules do the
//! work.

use std::ops::Range;

use super::memory::copy;
use super::primitives::Kept;
use super::{Cpu, Memory, primitives, sort};
use crate::backend::{DeviceBuffer, DeviceInfo, HashBackend, Ledger, Word, bitmap_words};
use crate::error::{Error, Result};

/// The range `at..at + len`, if it is within a buffer of `of` words.
fn range(at: usize, len: usize, of: usize) -> Result<Range<usize>> {
    match at.checked_add(len) {
        Some(end) if end <= of => Ok(at..end),
        end => {
            let expected = end.map_or(u64::MAX, |end| end as u64);
            Err(Error::LengthMismatch { what: "the buffer", found: of as u64, expected })
        }
    }
}

impl HashBackend for Cpu {
    type Buffer<T: Word> = Memory<T>;

    fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    fn ledger(&self) -> &Ledger {
        &self.inner.ledger
    }

    fn filled<T: Word>(&self, len: usize, value: T) -> Result<Memory<T>> {
        self.run(|| Memory::filled(len, value)).flatten()
    }

    fn upload<T: Word>(&self, data: &[T]) -> Result<Memory<T>> {
        self.run(|| Memory::of(data)).flatten()
    }

    fn write<T: Word>(&self, buffer: &mut Memory<T>, at: usize, data: &[T]) -> Result<()> {
        let range = range(at, data.len(), buffer.len())?;
        let to = &mut buffer.words_mut()?[range];
        self.run(|| copy(data, to))?;
        Ok(())
    }

    fn read<T: Word>(&self, buffer: &Memory<T>, at: usize, data: &mut [T]) -> Result<()> {
        let from = &buffer.words()[range(at, data.len(), buffer.len())?];
        self.run(|| copy(from, data))?;
        Ok(())
    }

    fn copy<T: Word>(
        &self,
        from: &Memory<T>,
        from_at: usize,
        to: &mut Memory<T>,
        to_at: usize,
        len: usize,
    ) -> Result<()> {
        let from = &from.words()[range(from_at, len, from.len())?];
        let range = range(to_at, len, to.len())?;
        let to = &mut to.words_mut()?[range];
        self.run(|| copy(from, to))?;
        Ok(())
    }

    /// Does nothing: every call here returns when its work is done.
    fn finish(&self) -> Result<()> {
        Ok(())
    }

    fn words<'a, T: Word>(&self, buffer: &'a Memory<T>) -> Option<&'a [T]> {
        Some(buffer.words())
    }

    fn of_host<T: Word>(&self, memory: Memory<T>) -> Result<Memory<T>> {
        Ok(memory)
    }

    fn iota(&self, len: usize) -> Result<Memory<u32>> {
        self.ledger().kernel("iota", len);
        let mut to = Memory::zeroed(len)?;
        let words = to.words_mut()?;
        self.run(|| primitives::iota(words))?;
        Ok(to)
    }

    fn complement(&self, buffer: &mut Memory<u32>) -> Result<()> {
        self.ledger().kernel("complement", buffer.len());
        let words = buffer.words_mut()?;
        self.run(|| primitives::complement(words))?;
        Ok(())
    }

    fn gather<T: Word>(&self, from: &Memory<T>, index: &Memory<u32>) -> Result<Memory<T>> {
        self.ledger().kernel("gather", index.len());
        let mut to = Memory::zeroed(index.len())?;
        let words = to.words_mut()?;
        self.run(|| primitives::gather(from.words(), index.words(), words))?;
        Ok(to)
    }

    fn greatest<T: Word>(&self, buffer: &Memory<T>) -> Result<T> {
        self.ledger().kernel("greatest", buffer.len());
        self.run(|| primitives::greatest(buffer.words()))
    }

    fn select<T: Word>(&self, bits: &Memory<u32>, keep: bool, column: &Memory<T>) -> Result<Memory<T>> {
        Error::check_length("the bitmap", bits.len(), bitmap_words(column.len()))?;
        self.ledger().kernel("select", column.len());
        self.run(|| Kept::new(bits.words(), keep, column.len())?.of(column.words())).flatten()
    }

    fn select_pairs<K: Word, V: Word>(
        &self,
        bits: &Memory<u32>,
        keep: bool,
        keys: &Memory<K>,
        values: &Memory<V>,
    ) -> Result<(Memory<K>, Memory<V>)> {
        Error::check_length("the bitmap", bits.len(), bitmap_words(keys.len()))?;
        Error::check_length("the values", values.len(), keys.len())?;
        self.ledger().kernel("select", keys.len());
        self.run(|| {
            let kept = Kept::new(bits.words(), keep, keys.len())?;
            Ok((kept.of(keys.words())?, kept.of(values.words())?))
        })
        .flatten()
    }

    fn sort<T: Word>(&self, column: &Memory<T>) -> Result<Memory<T>> {
        Ok(self.sort_pairs(column, column)?.0)
    }

    fn sort_pairs<K: Word, V: Word>(&self, keys: &Memory<K>, values: &Memory<V>) -> Result<(Memory<K>, Memory<V>)> {
        Error::check_length("the values", values.len(), keys.len())?;
        self.ledger().kernel("sort_pairs", keys.len());
        self.run(|| sort::sort_pairs(keys.words(), values.words())).flatten()
    }
}
