//! `HashBackend` on OpenCL: transfers between host and device, fills and copies; the rest is in primitives.rs.
//!
//! Short transfers block and use the caller's memory directly. Long ones use staging.rs, and chunks of queries
//! stream.rs.

use std::ops::Range;

use ocl::core::{self, Event};

use super::passes::primitives::{MOST_FILLED, MOST_FILLERS};
use super::runtime::commands;
use super::{Buffer, OpenCl};
use crate::backend::across::through_host;
use crate::backend::{Answers, ChunkOf, DeviceBuffer, DeviceInfo, HashBackend, Ledger, Piece, Queries, Word};
use crate::cpu::Cpu;
use crate::error::{Error, Result};

impl HashBackend for OpenCl {
    type Buffer<T: Word> = Buffer<T>;

    fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    fn filled<T: Word>(&self, len: usize, value: T) -> Result<Buffer<T>> {
        let buffer = Buffer::allocate(self, len)?;
        if buffer.bytes() > MOST_FILLED {
            self.fill(&buffer, value, MOST_FILLERS)?;
        } else if len > 0 {
            let filled = self
                .with_room(|| self.0.clocks.record("fill", |event| self.fill_by_driver(&buffer, value, len, event)));
            filled.map_err(|error| self.failed_allocating(format!("filling {len} elements"), buffer.bytes(), error))?;
        }
        Ok(buffer)
    }

    fn unwritten<T: Word>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::allocate(self, len)
    }

    fn upload<T: Word>(&self, data: &[T]) -> Result<Buffer<T>> {
        let mut buffer = Buffer::allocate(self, data.len())?;
        self.write(&mut buffer, 0, data)?;
        Ok(buffer)
    }

    fn write<T: Word>(&self, buffer: &mut Buffer<T>, at: usize, data: &[T]) -> Result<()> {
        self.check_owner(buffer)?;
        range(at, data.len(), buffer)?;
        if data.is_empty() {
            return Ok(());
        }
        let written = self.with_room(|| {
            if self.write_staged(buffer, at, data)? {
                return Ok(());
            }
            let mut event = self.event_to_stamp();
            commands::write(&self.0.queue, data, buffer, at, event.as_mut())?;
            self.moving(event);
            Ok::<_, ocl::Error>(())
        });
        let written = written.map(|()| self.ledger().transfer(size_of_val(data), 0));
        written.map_err(|error| self.failed_using(format!("writing {} elements", data.len()), buffer.bytes(), error))
    }

    fn read<T: Word>(&self, buffer: &Buffer<T>, at: usize, data: &mut [T]) -> Result<()> {
        self.check_owner(buffer)?;
        range(at, data.len(), buffer)?;
        if data.is_empty() {
            return Ok(());
        }
        let (len, bytes) = (data.len(), size_of_val(data));
        let read = self.with_room(|| {
            if self.read_staged(buffer, at, data)? {
                return Ok(());
            }
            let mut event = self.event_to_stamp();
            commands::read(&self.0.queue, data, buffer, at, event.as_mut())?;
            self.moving(event);
            Ok::<_, ocl::Error>(())
        });
        let read = read.map(|()| {
            self.ledger().transfer(0, bytes);
            self.moved();
        });
        read.map_err(|error| self.failed_using(format!("reading {len} elements"), buffer.bytes(), error))
    }

    fn copy<T: Word>(
        &self,
        from: &Buffer<T>,
        from_at: usize,
        to: &mut Buffer<T>,
        to_at: usize,
        len: usize,
    ) -> Result<()> {
        self.check_owner(from)?;
        self.check_owner(to)?;
        range(from_at, len, from)?;
        range(to_at, len, to)?;
        if let (Some(from), Some(to)) = (from.place(), to.place())
            && from.aliases(&to)
        {
            return Err(Error::Aliased);
        }
        if len == 0 {
            return Ok(());
        }
        let (queue, from_memory, to_memory) = (self.0.queue.as_core(), from.memory(), to.memory());
        let [from_at, to_at, bytes] = [from_at, to_at, len].map(|elements| elements * size_of::<T>());
        let copied = self.with_room(|| {
            self.0.clocks.record("copy", |event| {
                core::enqueue_copy_buffer::<u8, _, _, _>(
                    queue,
                    from_memory,
                    to_memory,
                    from_at,
                    to_at,
                    bytes,
                    None::<&Event>,
                    event,
                )
            })
        });
        copied.map_err(|error| self.failed_using(format!("copying {len} elements"), from.bytes() + to.bytes(), error))
    }

    fn in_chunks<Q: Word, A: Word>(
        &self,
        queries: Queries<'_, Q>,
        answers: Answers<'_, A>,
        mut pass: impl FnMut(ChunkOf<OpenCl, Q, A>) -> Result<ChunkOf<OpenCl, Q, A>>,
    ) -> Result<()> {
        self.stream(queries, answers, &mut pass)
    }

    fn fetch<T: Word>(&self, to: &mut Buffer<T>, at: usize, pieces: &[Piece<'_, OpenCl, T>]) -> Result<()> {
        if self.pull(to, at, pieces)? { Ok(()) } else { through_host(self, to, at, pieces) }
    }

    fn shares_memory(&self) -> bool {
        !self.0.staging.is_wanted()
    }

    fn in_pairs<K: Word, V: Word>(
        &self,
        keys: &[K],
        values: &[V],
        rows: usize,
        mut pass: impl FnMut(Buffer<K>, Buffer<V>) -> Result<()>,
    ) -> Result<()> {
        self.stream_pairs(keys, values, rows, &mut pass)
    }

    fn clone_buffer<T: Word>(&self, buffer: &Buffer<T>) -> Result<Buffer<T>> {
        let mut copy = Buffer::allocate(self, buffer.len())?;
        self.copy(buffer, 0, &mut copy, 0, buffer.len())?;
        Ok(copy)
    }

    fn concat<T: Word>(&self, first: &Buffer<T>, second: &Buffer<T>) -> Result<Buffer<T>> {
        let mut both = Buffer::allocate(self, first.len() + second.len())?;
        self.copy(first, 0, &mut both, 0, first.len())?;
        self.copy(second, 0, &mut both, first.len(), second.len())?;
        Ok(both)
    }

    fn builder(&self) -> Option<&Cpu> {
        self.0.builder.as_ref()
    }

    fn finish(&self) -> Result<()> {
        self.drain()?;
        self.moved();
        Ok(())
    }

    fn iota(&self, len: usize) -> Result<Buffer<u32>> {
        self.run_iota(len)
    }

    fn complement(&self, buffer: &mut Buffer<u32>) -> Result<()> {
        self.run_complement(buffer)
    }

    fn gather<T: Word>(&self, from: &Buffer<T>, index: &Buffer<u32>) -> Result<Buffer<T>> {
        self.run_gather(from, index)
    }

    fn greatest<T: Word>(&self, buffer: &Buffer<T>) -> Result<T> {
        self.run_greatest(buffer)
    }

    fn select<T: Word>(&self, bits: &Buffer<u32>, keep: bool, column: &Buffer<T>) -> Result<Buffer<T>> {
        self.kept(bits, keep, column.len())?.of(column)
    }

    fn select_pairs<K: Word, V: Word>(
        &self,
        bits: &Buffer<u32>,
        keep: bool,
        keys: &Buffer<K>,
        values: &Buffer<V>,
    ) -> Result<(Buffer<K>, Buffer<V>)> {
        let kept = self.kept(bits, keep, keys.len())?;
        Ok((kept.of(keys)?, kept.of(values)?))
    }

    fn sort_pairs<K: Word, V: Word>(&self, keys: &Buffer<K>, values: &Buffer<V>) -> Result<(Buffer<K>, Buffer<V>)> {
        self.run_sort_pairs(keys, values)
    }
}

impl OpenCl {
    /// Fills the first `len` elements of a buffer's memory by the driver's command.
    pub(super) fn fill_by_driver<T: Word>(
        &self,
        buffer: &Buffer<T>,
        value: T,
        len: usize,
        event: Option<&mut Event>,
    ) -> core::Result<()> {
        let (queue, memory, none) = (self.0.queue.as_core(), buffer.memory(), None::<&Event>);
        match *bytemuck::cast_slice::<T, u32>(std::slice::from_ref(&value)) {
            [low, high] => {
                let word = u64::from(high) << 32 | u64::from(low);
                core::enqueue_fill_buffer(queue, memory, word, 0, len, none, event, None)
            }
            ref words => core::enqueue_fill_buffer(queue, memory, words[0], 0, len, none, event, None),
        }
    }
}

/// Returns an error if `len` elements from `at` on are not within the buffer.
pub(super) fn range<T: Word>(at: usize, len: usize, buffer: &Buffer<T>) -> Result<Range<usize>> {
    match at.checked_add(len) {
        Some(end) if end <= buffer.len() => Ok(at..end),
        _ => Err(Error::LengthMismatch {
            what: "the buffer",
            found: buffer.len() as u64,
            expected: (at as u64).saturating_add(len as u64),
        }),
    }
}
