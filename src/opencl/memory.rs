//! `HashBackend` for OpenCL: memory, and where the primitives are.

use std::time::{Duration, Instant};

use ocl::Event;
use ocl::core::ProfilingInfo;

use super::{Buffer, OpenCl};
use crate::backend::{DeviceBuffer, DeviceInfo, HashBackend, Ledger, Word};
use crate::error::{Error, Result};

/// Refuses a range that is not inside a buffer.
fn check_range<T: Word>(buffer: &Buffer<T>, at: usize, len: usize) -> Result<()> {
    match at.checked_add(len) {
        Some(end) if end <= buffer.len() => Ok(()),
        _ => Err(Error::LengthMismatch {
            what: "the buffer",
            found: buffer.len() as u64,
            expected: (at as u64).saturating_add(len as u64),
        }),
    }
}

impl HashBackend for OpenCl {
    type Buffer<T: Word> = Buffer<T>;

    fn info(&self) -> &DeviceInfo {
        &self.shared.info
    }

    fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    fn filled<T: Word>(&self, len: usize, value: T) -> Result<Buffer<T>> {
        let buffer = self.allocate(len)?;
        if len > 0 {
            let mut event = Event::empty();
            // Drivers may allocate only now, so "no room" can come from here too.
            let bytes = (len * size_of::<T>()) as u64;
            let fill = buffer.memory.cmd().fill(value, Some(len)).enew(&mut event).enq();
            fill.map_err(|error| self.error("filling a buffer", error, bytes))?;
            self.shared.record(event);
        }
        Ok(buffer)
    }

    fn upload<T: Word>(&self, data: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.allocate(data.len())?;
        self.write(&mut buffer, 0, data)?;
        Ok(buffer)
    }

    fn write<T: Word>(&self, buffer: &mut Buffer<T>, at: usize, data: &[T]) -> Result<()> {
        self.check(buffer)?;
        check_range(buffer, at, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        let mut event = Event::empty();
        let write = buffer.memory.write(data).offset(at).enew(&mut event).enq();
        write.map_err(|error| self.error("writing a buffer", error, size_of_val(data) as u64))?;
        self.shared.record(event);
        Ok(())
    }

    fn read<T: Word>(&self, buffer: &Buffer<T>, at: usize, data: &mut [T]) -> Result<()> {
        self.check(buffer)?;
        check_range(buffer, at, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        let mut event = Event::empty();
        let read = buffer.memory.read(data).offset(at).enew(&mut event).enq();
        read.map_err(|error| self.error("reading a buffer", error, 0))?;
        self.shared.record(event);
        Ok(())
    }

    fn copy<T: Word>(
        &self,
        from: &Buffer<T>,
        from_at: usize,
        to: &mut Buffer<T>,
        to_at: usize,
        len: usize,
    ) -> Result<()> {
        self.check(from)?;
        self.check(to)?;
        check_range(from, from_at, len)?;
        check_range(to, to_at, len)?;
        if len == 0 {
            return Ok(());
        }
        let mut event = Event::empty();
        let copy = from.memory.cmd().offset(from_at).copy(&to.memory, Some(to_at), Some(len));
        copy.enew(&mut event).enq().map_err(|error| self.error("copying a buffer", error, 0))?;
        self.shared.record(event);
        Ok(())
    }

    fn finish(&self) -> Result<()> {
        self.shared.queue.finish().map_err(|error| self.error("finishing", error, 0))
    }

    /// The sum over all commands of the time from start to end that the device measured; what other threads enqueue on the
    /// same device meanwhile is counted too. Wall time if the queue does not measure.
    fn timed<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Duration)> {
        self.finish()?;
        *self.shared.timing() = Some(Vec::new());
        let start = Instant::now();
        let worked = work();
        let finished = self.finish();
        let wall = start.elapsed();
        let events = self.shared.timing().take().unwrap_or_default();
        let worked = worked?;
        finished?;
        if !self.shared.profiled {
            return Ok((worked, wall));
        }
        let mut nanoseconds = 0;
        for event in events {
            let at = |what| event.profiling_info(what).and_then(|found| found.time().map_err(ocl::Error::from));
            let failed = |error| self.error("reading a command's times", error, 0);
            nanoseconds +=
                at(ProfilingInfo::End).map_err(failed)?.saturating_sub(at(ProfilingInfo::Start).map_err(failed)?);
        }
        Ok((worked, Duration::from_nanos(nanoseconds)))
    }

    fn iota(&self, len: usize) -> Result<Buffer<u32>> {
        self.run_iota(len)
    }

    fn complement(&self, buffer: &mut Buffer<u32>) -> Result<()> {
        self.run_complement(buffer)
    }

    fn gather(&self, from: &Buffer<u32>, index: &Buffer<u32>) -> Result<Buffer<u32>> {
        self.run_gather(from, index)
    }

    fn select(&self, bits: &Buffer<u32>, keep: bool, columns: &[&Buffer<u32>]) -> Result<Vec<Buffer<u32>>> {
        self.run_select(bits, keep, columns)
    }

    fn random_reads(&self, buffer: &Buffer<u64>, reads: usize) -> Result<u64> {
        self.run_random_reads(buffer, reads)
    }

    fn random_updates(&self, buffer: &mut Buffer<u64>, writes: usize) -> Result<()> {
        self.run_random_updates(buffer, writes)
    }
}
