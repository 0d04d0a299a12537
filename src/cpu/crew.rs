//! How the threads of one pass share its input when each keeps work of its own from chunk to chunk.
//!
//! A thread takes the next chunk from a counter until none is left, then finishes what it has queued, and returns what
//! it counted. Nothing is shared but that counter and one flag. A thread's queues never hold more than a few blocks, so
//! nobody waits long for the last one, and no work needs to be taken over at the end.
//!
//! Chunks are taken in turn from the front and from the end. Of copies of a key the greatest stays, and where values
//! are numbers of rows, or their complements, that is the last or the first of the input: so it comes early, and most
//! others see it and need not write.
//!
//! What it is not: needed by passes without such queues; they go over chunks as `crate::parallel` has it.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crossbeam::utils::CachePadded;

use super::CHUNK;
use crate::parallel::{fold_with, threads};

/// The input `0..len` of one pass, in chunks.
pub(super) struct Crew {
    len: usize,
    /// The number of the next chunk. Written by every thread all the time, so it must not share a line with `stop`,
    /// which every thread reads.
    next: CachePadded<AtomicUsize>,
    stop: CachePadded<AtomicBool>,
}

impl Crew {
    pub(super) fn new(len: usize) -> Self {
        Crew { len, next: CachePadded::default(), stop: CachePadded::default() }
    }

    /// How many threads may take part.
    pub(super) fn threads(&self) -> usize {
        threads().min(self.len.div_ceil(CHUNK))
    }

    /// Runs `job` once on each thread that is free, and joins what they return; none for no input. A job that starts
    /// late finds no chunk left.
    pub(super) fn run<R: Send>(&self, job: impl Fn(&Crew) -> R + Sync, join: impl Fn(R, R) -> R + Sync) -> Option<R> {
        fold_with(0..self.threads(), 1, || (), |(), _, _| job(self), join)
    }

    /// The next chunk that nobody has.
    pub(super) fn take(&self) -> Option<Range<usize>> {
        let (number, chunks) = (self.next.fetch_add(1, Relaxed), self.len.div_ceil(CHUNK));
        let chunk = if number % 2 == 0 { number / 2 } else { chunks.saturating_sub(number / 2 + 1) };
        (number < chunks).then(|| chunk * CHUNK..self.len.min((chunk + 1) * CHUNK))
    }

    /// Tells all that going on is of no use.
    pub(super) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Whether somebody said so.
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}
