//! Times operations on data in a device's memory: builds from its buffers, lookups into its buffers, and the random
//! accesses that its memory allows. Each is repeated, the median counts, and each result is checked.

use std::time::Duration;

use koel::backend::{HashBackend, Probe, Runs, bitmap_words};
use koel::device::Any;
use koel::table::TableBuilder;
use koel::{HashTable, Scheme};

use super::limits;
use super::measure::{median, wall};
use super::wrong;
use koel_cli::answers::{self, POISON};
use koel_cli::failure::Result;

/// A column on a device.
type Column = <Any as HashBackend>::Buffer<u32>;

/// A device, and the number of repeats.
#[derive(Clone, Copy)]
pub(super) struct Timer<'a> {
    pub(super) device: &'a Any,
    pub(super) repeats: u32,
}

impl Timer<'_> {
    /// The median of several runs, each of which returns its own time.
    pub(super) fn median(&self, mut run: impl FnMut() -> Result<Duration>) -> Result<Duration> {
        Ok(median((0..self.repeats).map(|_| run()).collect::<Result<_>>()?))
    }

    /// The time that a build or a removal takes on the device; if the host does it, the time until the device has the
    /// result.
    pub(super) fn timed<S: Scheme<Key = u32, Value = u32>, R>(
        &self,
        scheme: &S,
        work: impl FnOnce() -> koel::Result<R>,
    ) -> Result<(R, Duration)> {
        if !scheme.host_built() {
            return Ok(self.device.timed(work)?);
        }
        self.device.finish()?;
        wall(|| {
            let done = work()?;
            self.device.finish()?;
            Ok(done)
        })
    }

    /// Builds from pairs on the device; returns the last table.
    pub(super) fn build<S: Scheme<Key = u32, Value = u32>>(
        &self,
        builder: &TableBuilder<S>,
        (keys, values): (&Column, &Column),
    ) -> Result<(HashTable<Any, S>, Duration)>
    where
        Any: Runs<S>,
    {
        let mut last = None;
        let time = self.median(|| {
            last = None;
            self.device.finish()?;
            let (table, time) = self.timed(builder.scheme(), || builder.build_on(self.device, keys, values))?;
            last = Some(table);
            Ok(time)
        })?;
        match last {
            Some(table) => Ok((table, time)),
            None => Ok((builder.build_on(self.device, keys, values)?, time)),
        }
    }

    /// Lookups of queries, which are uploaded first; `right(i)` is the expected answer to query i.
    pub(super) fn lookup<S: Scheme<Key = u32, Value = u32>>(
        &self,
        table: &HashTable<Any, S>,
        queries: &[u32],
        right: impl Fn(usize) -> Option<u32> + Sync,
    ) -> Result<Duration>
    where
        Any: Runs<S>,
    {
        let device = self.device;
        let there = device.upload(queries)?;
        self.median(|| {
            let mut values = device.filled(queries.len(), POISON)?;
            let mut found = device.filled(bitmap_words(queries.len()), POISON)?;
            device.finish()?;
            let ((), time) = device.timed(|| table.get_on_into(&there, &mut values, &mut found))?;
            let (values, found) = (device.download(&values)?, device.download(&found)?);
            answers::check(queries, &values, &found, &right).map_err(|reason| wrong("a lookup", reason))?;
            Ok(time)
        })
    }

    /// Random reads of an image.
    pub(super) fn random_reads(&self, image: &<Any as HashBackend>::Buffer<u64>, reads: usize) -> Result<Duration> {
        limits::random_reads(self.device, image, reads, self.repeats)
    }

    /// Random updates of a buffer of `words` words.
    pub(super) fn random_updates(&self, words: usize, updates: usize) -> Result<Duration> {
        limits::random_updates(self.device, words, updates, self.repeats)
    }
}
