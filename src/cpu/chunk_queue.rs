//! A chunk queue, for passes whose threads keep queued work from one chunk to the next.
//!
//! Each thread takes the next chunk from a counter until none is left, then finishes its queued work and returns its
//! counts. Threads share only the counter and one flag. The queues of a thread never hold more than a few blocks, so
//! all threads end at about the same time, without work stealing.
//!
//! Chunks are taken alternately from the front and from the end. Of duplicates, the greatest value stays. If values are
//! row numbers or their complements, that is the last or the first row, so it is written early, and most other
//! duplicates see it and need not write.
//!
//! Passes without such queues use `crate::parallel`.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crossbeam::utils::CachePadded;

use super::CHUNK;
use crate::parallel::{fold_with, threads};

/// The input `0..len` of one pass, in chunks.
pub(super) struct ChunkQueue {
    len: usize,
    /// The number of the next chunk. Written by every thread all the time, so it must not share a line with `stop`,
    /// which every thread reads.
    next: CachePadded<AtomicUsize>,
    stop: CachePadded<AtomicBool>,
}

impl ChunkQueue {
    pub(super) fn new(len: usize) -> Self {
        ChunkQueue { len, next: CachePadded::default(), stop: CachePadded::default() }
    }

    /// The number of threads that may take part.
    pub(super) fn threads(&self) -> usize {
        threads().min(self.len.div_ceil(CHUNK))
    }

    /// Runs `job` once on each available thread, and joins the results; `None` if the input is empty. A job that starts
    /// late finds no chunk left.
    pub(super) fn run<R: Send>(
        &self,
        job: impl Fn(&ChunkQueue) -> R + Sync,
        join: impl Fn(R, R) -> R + Sync,
    ) -> Option<R> {
        fold_with(0..self.threads(), 1, || (), |(), _, _| job(self), join)
    }

    /// Takes the next chunk.
    pub(super) fn take(&self) -> Option<Range<usize>> {
        let (number, chunks) = (self.next.fetch_add(1, Relaxed), self.len.div_ceil(CHUNK));
        let chunk = if number % 2 == 0 { number / 2 } else { chunks.saturating_sub(number / 2 + 1) };
        (number < chunks).then(|| chunk * CHUNK..self.len.min((chunk + 1) * CHUNK))
    }

    /// Signals the other threads to stop, because the pass has failed.
    pub(super) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Whether [`stop`](Self::stop) was called.
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}
